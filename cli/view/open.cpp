// See open.h.
#include "cli/view/open.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "cli/step_rows.h"
#include "pellucid/memory.h"
#include "pellucid/profile.h"
#include "serve/columns.h"
#include "serve/run_data.h"
#include "serve/step_graph.h"
#include "serve/view_data.h"

namespace pellucid::cli::view {
namespace {

using profile::Profile;

std::string name_of(const std::string& file) {
  const std::filesystem::path path(file);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Adds what the files of a side hold; returns the profiles among them.
std::vector<Profile> add_side(Opened& out, const std::vector<std::string>& files, const char* side,
                              serve::Sources sources) {
  std::vector<Profile> profiles;
  for (const std::string& file : files) {
    std::error_code unknown;
    const bool run = std::filesystem::is_directory(file, unknown);
    out.items.push_back({name_of(file), run ? "run" : "profile", side});
    out.folders.push_back(run ? file : "");
    out.graphs.emplace_back();
    if (run) {
      out.data.push_back(serve::run_data(file, out.items.back().name));
      continue;
    }
    profiles.push_back(Profile::load(file));
    out.data.push_back(serve::view_data(profiles.back(), out.items.back().name, sources));
    out.graphs.back().push_back(serve::step_graph(profiles.back()));
  }
  return profiles;
}

}  // namespace

Opened open_files(const std::vector<std::string>& first, const std::vector<std::string>& second,
                  serve::Sources sources) {
  Opened out;
  const std::vector<Profile> before = add_side(out, first, "A", sources),
                             after = add_side(out, second, "B", sources);
  if (!before.empty() && !after.empty()) {
    out.items.push_back({"comparison", "compare", ""});
    out.folders.emplace_back();
    out.data.push_back(serve::compare_data(before, after, out.items.back().name));
  }
  return out;
}

std::string answer_layout(const Opened& opened, const std::string& body) {
  using Json = nlohmann::ordered_json;
  const Json request = Json::parse(body, nullptr, false);
  const auto number = [&](const char* key, size_t below) {
    PELLUCID_CHECK(request.is_object() && request.contains(key) &&
                       request[key].is_number_unsigned() && request[key].get<size_t>() < below,
                   ValueError, "The request names no {} that is there.", key);
    return request[key].get<size_t>();
  };
  const auto& graphs = opened.graphs[number("item", opened.graphs.size())];
  const serve::GraphView& graph = graphs[number("graph", graphs.size())];
  PELLUCID_CHECK(request.contains("open") && request["open"].is_array(), ValueError,
                 "The request has no list of open boxes.");
  std::set<int32_t> open;
  for (size_t b = 0; b < graph.boxes.size(); ++b)
    for (const Json& id : request["open"])
      if (id.is_string() && id.get<std::string>() == fmt::format("b{}", b))
        open.insert(static_cast<int32_t>(b));
  return graph.laid_out(open).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Opened open_expression(const std::string& expression, const std::vector<std::string>& bindings) {
  using Json = nlohmann::ordered_json;
  Evaluation evaluation(expression, bindings);
  const StepRows rows = run_in_steps(evaluation, memory_stats().allocated);
  Json inputs = Json::object();
  for (const std::string& binding : bindings) {
    const size_t equals = binding.find('=');
    inputs[binding.substr(0, equals)] = binding.substr(equals + 1);
  }
  Json header = {{"kind", "graph"}, {"name", expression}, {"inputs", inputs}};
  header["playground"] = steps_json(evaluation, rows, expression);
  header["graphs"] = Json::array({graph_view_json(evaluation, rows)});
  Opened out;
  out.items.push_back({expression, "graph", "A"});
  out.data.push_back(serve::container(header.dump(-1, ' ', false, Json::error_handler_t::replace),
                                      serve::Columns()));
  return out;
}

}  // namespace pellucid::cli::view
