// See run_data.h.
#include "serve/run_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "pellucid/error.h"
#include "serve/columns.h"

namespace pellucid::serve {
namespace {

using Json = nlohmann::ordered_json;

// More than a run of a million steps writes; what follows comes with the next question.
constexpr uint64_t kMost = uint64_t{256} << 20;

std::string file_of(const std::string& folder, size_t which) {
  return fmt::format("{}/{}.jsonl", folder, kRunFiles[which]);
}

// Whole lines from a position on. False, and the position 0, where the file is shorter than it.
bool read_lines(const std::string& file, uint64_t& position, std::string& lines) {
  const int opened = io::open_regular(file, O_RDONLY, io::Links::Refuse);
  if (opened < 0) return true;
  struct stat facts {};
  fstat(opened, &facts);
  const auto size = static_cast<uint64_t>(facts.st_size);
  const bool goes_on = position <= size;
  if (!goes_on) position = 0;
  lines.resize(std::min(kMost, size - position));
  size_t got = 0;
  while (got < lines.size()) {
    const ssize_t part =
        pread(opened, lines.data() + got, lines.size() - got, static_cast<off_t>(position + got));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    got += static_cast<size_t>(part);
  }
  close(opened);
  lines.resize(got);
  lines.resize(lines.rfind('\n') == std::string::npos ? 0 : lines.rfind('\n') + 1);
  position += lines.size();
  return goes_on;
}

// The objects of the lines; what is none is left out.
std::vector<Json> objects_of(std::string_view lines) {
  std::vector<Json> objects;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    Json j = Json::parse(lines.substr(0, end), nullptr, false);
    if (j.is_object()) objects.push_back(std::move(j));
    if (end == std::string_view::npos) break;
    lines.remove_prefix(end + 1);
  }
  return objects;
}

// Each number by its name as a curve over the steps. What JSON has no number for is the text "nan",
// "inf" or "-inf", as in the file.
Json series_of(const std::vector<Json>& lines, std::string_view run) {
  std::map<std::string, Json> curves;
  std::vector<std::string> order;
  for (const Json& line : lines) {
    if (!line.contains("step") || !line["step"].is_number()) continue;
    for (const auto& [name, value] : line.items()) {
      if (name == "step" || (!value.is_number() && !value.is_string() && !value.is_null()))
        continue;
      const auto [it, is_new] = curves.try_emplace(name);
      if (is_new) {
        order.push_back(name);
        it->second = {{"run", run}, {"name", name}};
        it->second["steps"] = it->second["values"] = Json::array();
      }
      it->second["steps"].push_back(line["step"]);
      it->second["values"].push_back(value);
    }
  }
  Json list = Json::array();
  for (const std::string& name : order) list.push_back(std::move(curves[name]));
  return list;
}

Json position_json(const RunPosition& position) {
  Json j = Json::object();
  for (size_t i = 0; i < kRunFiles.size(); ++i) j[std::string(kRunFiles[i])] = position[i];
  return j;
}

}  // namespace

bool is_run_folder(const std::string& path) { return io::is_regular(file_of(path, 0)); }

std::string run_data(const std::string& folder, std::string_view name) {
  PELLUCID_CHECK(is_run_folder(folder), IoError,
                 "view: '{}' is no folder of a run: it has no metrics.jsonl.", folder);
  RunPosition position{};
  std::array<std::vector<Json>, kRunFiles.size()> lines;
  for (size_t i = 0; i < kRunFiles.size(); ++i) {
    std::string text;
    read_lines(file_of(folder, i), position[i], text);
    lines[i] = objects_of(text);
  }
  Json header = {{"kind", "run"}, {"name", name}};
  header["metrics"] = {{"series", series_of(lines[0], name)}};
  header["layers"] = std::move(lines[1]);
  header["live"] = std::move(lines[2]);
  header["position"] = position_json(position);
  return container(header.dump(-1, ' ', false, Json::error_handler_t::replace), Columns());
}

std::string run_news(const std::string& folder, RunPosition& position) {
  Json news = Json::object();
  bool restarted = false;
  for (size_t i = 0; i < kRunFiles.size(); ++i) {
    std::string text;
    restarted = !read_lines(file_of(folder, i), position[i], text) || restarted;
    if (std::vector<Json> objects = objects_of(text); !objects.empty())
      news[std::string(kRunFiles[i])] = std::move(objects);
  }
  if (news.empty() && !restarted) return "";
  news["type"] = "lines";
  news["restarted"] = restarted;
  news["position"] = position_json(position);
  return news.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pellucid::serve
