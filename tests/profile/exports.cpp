// What the exports write, as far as our own eyes can tell; their real readers are in readers/.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "pellucid/error.h"
#include "pellucid/profile_report.h"
#include "sample_profile.h"

using namespace pellucid;
using namespace pellucid::test;
using Json = nlohmann::json;

namespace {

std::string exported(const Profile& p, const std::string& format) {
  std::ostringstream out;
  export_profile(p, format, out);
  return out.str();
}

// Every text of the profile is hostile.
Profile hostile() {
  const std::string evil = "</script><img src=x onerror=alert(1)>\x1b]0;owned\a\xff\",=1+1;\n'&";
  Profile p = two_layer_profile();
  p.run.program = evil;
  for (Signature& s : p.signatures) s.name += evil;
  for (Site& s : p.sites) s.file = s.function = evil;
  for (ModuleInfo& m : p.modules) m.name = m.path = m.type = evil;
  for (Thread& t : p.threads) t.name = evil;
  for (Counter& c : p.counters) c.name = c.missing = evil;
  p.signatures[0].attributes = evil;
  return p;
}

}  // namespace

TEST_CASE("export: Chrome's trace has every event, its shapes, the arrows and the memory") {
  const Profile p = two_layer_profile();
  const Json j = Json::parse(exported(p, "chrome"));
  std::map<std::string, int> phases, names;
  double highest = 0;
  for (const Json& e : j["traceEvents"]) {
    ++phases[e["ph"]];
    if (e["ph"] == "X") ++names[e["name"]];
    if (e["ph"] == "C") {
      double sum = 0;
      for (const auto& item : e["args"].items()) sum += item.value().get<double>();
      highest = std::max(highest, sum);
    }
    if (e["ph"] == "X" && e["name"] == "relu") {
      CHECK(e["cat"] == "cpu_op");
      CHECK(e["args"]["Input Dims"] == Json::parse("[[64,100]]"));
      CHECK(e["args"]["Input type"] == Json::parse("[\"float\"]"));
      CHECK(e["args"]["flops"] == 6400);
    }
  }
  CHECK(phases["X"] == static_cast<int>(p.events.size()));
  CHECK(phases["s"] == 4);
  CHECK(phases["f"] == 4);
  CHECK(phases["M"] == 3);
  CHECK(names["linear"] == 9);
  CHECK(highest == 453'760);
}

TEST_CASE("export: speedscope's times never fall and every opening is closed, in random trees") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Json j = Json::parse(exported(random_profile(seed, 500), "speedscope"));
    size_t opened = 0;
    for (const Json& profile : j["profiles"]) {
      std::vector<int> stack;
      double last = 0;
      for (const Json& e : profile["events"]) {
        CHECK(e["at"].get<double>() >= last);
        last = e["at"];
        if (e["type"] == "O") {
          stack.push_back(e["frame"]);
          ++opened;
        } else {
          REQUIRE_FALSE(stack.empty());
          CHECK(stack.back() == e["frame"].get<int>());
          stack.pop_back();
        }
      }
      CHECK(stack.empty());
      CHECK(last <= profile["endValue"].get<double>());
    }
    CHECK(opened == 500);
  }
}

TEST_CASE("export: collapsed stacks sum to the time of all events") {
  const Profile p = random_profile(4, 1000);
  std::istringstream lines(exported(p, "collapsed"));
  int64_t sum = 0, self = 0;
  for (std::string line; std::getline(lines, line);)
    sum += std::stoll(line.substr(line.rfind(' ')));
  for (const Event& e : p.events) self += e.self;
  CHECK(sum == self);
}

TEST_CASE("export: CSV has a line for each event, JSON has everything") {
  const Profile p = two_layer_profile();
  const std::string csv = exported(p, "csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') ==
        static_cast<std::ptrdiff_t>(p.events.size()) + 1);
  const Json j = Json::parse(exported(p, "json"));
  CHECK(j["events"].size() == p.events.size());
  CHECK(j["events"][0].size() == j["event_columns"].size());
  CHECK(j["allocations"][0].size() == j["allocation_columns"].size());
  CHECK(j["run"]["peak_memory_bytes"] == 458'200);
  CHECK(j["signatures"][0]["inputs"][0]["sizes"] == Json::parse("[64,1000]"));
}

TEST_CASE("export: pstats begins a dict and ends it") {
  const std::string bytes = exported(two_layer_profile(), "pstats");
  CHECK(bytes.front() == '{');
  CHECK(bytes.substr(bytes.size() - 2) == "00");
}

TEST_CASE("export: the page says where the time went, what to do, and draws calls and memory") {
  const std::string html = exported(two_layer_profile(), "html");
  const auto has = [&](std::string_view text) { return html.find(text) != std::string::npos; };
  CHECK(has("<p class=\"lead\">two_layer.cpp:24("));
  CHECK(html.find("<h2>Advice</h2>") < html.find("<h2>Ops</h2>"));
  CHECK(has("class=\"shares\""));
  CHECK(has("<title>ops, below both ceilings "));
  CHECK(has("data-bar"));
  CHECK(has("<polygon class=\"c0\" points=\"0.0,"));
  CHECK(has("<title>activation</title></polygon>"));
  CHECK(has(fmt::format(">{}</text>", text::format_bytes(458'200))));  // the peak
  for (const char* tag : {"table", "svg", "details", "div", "p", "pre", "tr"}) {
    size_t opened = 0, closed = 0;
    const std::string open = std::string("<") + tag, close = std::string("</") + tag + ">";
    for (size_t at = html.find(open); at != std::string::npos; at = html.find(open, at + 1)) {
      const char next = html[at + open.size()];
      opened += next == '>' || next == ' ' ? 1 : 0;
    }
    for (size_t at = html.find(close); at != std::string::npos; at = html.find(close, at + 1))
      ++closed;
    CHECK_MESSAGE(opened == closed, tag);
  }
}

TEST_CASE("export: hostile names stay text in every format and report") {
  const Profile p = hostile();
  const std::string html = exported(p, "html");
  CHECK(html.find("<img") == std::string::npos);
  CHECK(html.find("default-src 'none'") != std::string::npos);
  CHECK(html.find("src=\"") == std::string::npos);
  size_t scripts = 0;
  for (size_t at = html.find("</script"); at != std::string::npos;
       at = html.find("</script", at + 1))
    ++scripts;
  CHECK(scripts == 2);  // the data and the code
  for (const char* format : {"chrome", "speedscope", "json"}) {
    INFO(format);
    const std::string text = exported(p, format);
    CHECK_NOTHROW(Json::parse(text));
    CHECK(text.find("</script") == std::string::npos);
  }
  for (const std::string& text :
       {exported(p, "collapsed"), to_text(report(p, "overview")), to_text(report(p, "torch")),
        to_text(report(p, "cprofile")), to_text(report(p, "memory")), to_text(report(p, "peak")),
        to_text(report(p, "summary")), to_text(report(p, "roofline"))})
    for (const char c : text) REQUIRE((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
  CHECK_NOTHROW(Json::parse(to_json(report(p, "overview"))));
  CHECK(to_csv(report(p, "torch")).find("\n=") == std::string::npos);
}

TEST_CASE("export: an empty recording and an unknown format") {
  Profile p;
  for (const ReportName& f : export_formats()) CHECK_NOTHROW(exported(p, std::string(f.name)));
  CHECK_THROWS_WITH_AS(exported(p, "xls"), doctest::Contains("chrome, speedscope, pstats"),
                       ValueError);
}
