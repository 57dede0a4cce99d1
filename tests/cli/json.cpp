// What commands write with --json: it parses, counts are integers, nothing is NaN or infinite.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/commands/commands.h"
#include "pellucid/ops.h"
#include "pellucid/profiler.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::cli;
using Json = nlohmann::json;

namespace {

std::string json_of(const std::vector<std::string>& words, int expected = 0) {
  char *out = nullptr, *err = nullptr;
  size_t out_size = 0, err_size = 0;
  std::FILE* out_file = open_memstream(&out, &out_size);
  std::FILE* err_file = open_memstream(&err, &err_size);
  const AppInfo app{.name = "pellucid",
                    .version = "1.2.3",
                    .summary = "a test",
                    .examples = "pellucid version",
                    .commands = command_table()};
  const int code = run_app(app, words, out_file, err_file);
  std::fclose(out_file);
  std::fclose(err_file);
  const std::string text(out, out_size), message(err, err_size);
  std::free(out);
  std::free(err);
  INFO(words[0] << ": " << message);
  CHECK(code == expected);
  return text;
}

// Names of what is counted, and not measured.
bool is_count(const std::string& key) {
  static const std::regex names(
      R"((.*_)?(flops|macs|bytes|calls|parameters|elements|threads|cores|number|repeat|iterations|runs|line|samples|page_faults|switches|self|total|bytes_moved|bytes/element|blocks))");
  return std::regex_match(key, names);
}

void check_json(const Json& j, const std::string& key, const std::string& path) {
  INFO(path);
  if (j.is_object())
    for (const auto& [name, value] : j.items()) check_json(value, name, path + "." + name);
  if (j.is_array())
    for (size_t i = 0; i < j.size(); ++i) check_json(j[i], key, path + "[]");
  if (j.is_number_float()) {
    CHECK(std::isfinite(j.get<double>()));
    if (is_count(key)) CHECK_MESSAGE(j.is_number_integer(), "a count is written as ", j.dump());
  }
}

}  // namespace

TEST_CASE("json: every command's output parses, with integers for counts") {
  const test::TemporaryFolder folder;
  const std::string profile = folder / "run.pellucid";
  {
    const ProfilerSession session(profile);
    for (int i = 0; i < 3; ++i) {
      const Tensor x = randn({16, 16});
      x.mm(x).relu().sum();
    }
  }
  const std::vector<std::vector<std::string>> commands = {
      {"version", "--json"},
      {"graph", "x*y", "x=2", "y=3", "--json"},
      {"step", "x*y", "x=2", "y=3", "--json"},
      {"time", "x+1", "-s", "x = ones(3)", "-n", "10", "-r", "2", "--json"},
      {"time", "x+1", "-s", "x = ones(3)", "--against", "x*1", "-n", "10", "-r", "8", "--json"},
      {"data", "--json"},
      {"estimate", "mnist-cnn", "--batch", "2", "--modules", "2", "--machine", "100GFLOP/s,50GB/s",
       "--json"},
      {"estimate", "gpt2", "--sequence", "8", "--machine", "100GFLOP/s,50GB/s", "--json"},
      {"profile", "Sequential(Linear(8,4),ReLU())", "--input", "2,8", "--machine",
       "100GFLOP/s,50GB/s", "--json"},
      {"analyze", "dtype", "--sizes", "32", "--quick", "--out", folder / "out", "--json"},
      {"analyze", "ops", "--sizes", "64", "--quick", "--machine", "100GFLOP/s,50GB/s", "--out",
       folder / "out", "--json"},
      {"anatomy", "x + y", "--sizes", "1", "--quick", "--json"},
      {"ops", "--json"},
      {"ops", "softmax", "--json"},
      {"report", profile, "--json"},
      {"diff", profile, profile, "--json"}};
  for (const auto& words : commands) {
    const std::string text = json_of(words);
    std::string line;
    for (const std::string& w : words) line += w + " ";
    INFO(line);
    const Json j = Json::parse(text, nullptr, false);
    REQUIRE_FALSE(j.is_discarded());  // NaN and infinities are no JSON
    check_json(j, "", words[0]);
  }
  for (const char* table : {"overview", "cprofile", "torch", "modules", "summary", "memory", "peak",
                            "timeline", "roofline", "steps", "advice", "counts"}) {
    INFO(table);
    const Json j =
        Json::parse(json_of({"report", profile, "--table", table, "--json"}), nullptr, false);
    REQUIRE_FALSE(j.is_discarded());
    check_json(j, "", table);
  }
}
