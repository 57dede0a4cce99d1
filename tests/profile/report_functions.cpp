// cProfile's and torch.profiler's tables, and the property that every grouping of events keeps:
// what the children take and what the parent takes itself is all that the parent takes.
#include <doctest/doctest.h>

#include <map>

#include "pellucid/error.h"
#include "pellucid/profile_report.h"
#include "profile/averages.h"
#include "profile/functions.h"
#include "profile/module_use.h"
#include "profile/overhead.h"
#include "sample_profile.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

std::string text_of(const Profile& p, const std::string& name, const ReportOptions& o = {}) {
  return to_text(report(p, name, o));
}

// f calls itself twice, then g: 3 calls, one of them primitive.
Profile recursion() {
  ProfileBuilder b;
  const int32_t f = b.scope(EventKind::User, "f"), g = b.scope(EventKind::User, "g");
  const int32_t line = b.site("/src/deep/two_layer.cpp", 5);
  b.open(f, line);
  b.spend(1'000'000);
  b.open(f, line);
  b.spend(2'000'000);
  b.open(f, line);
  b.spend(3'000'000);
  b.op(g, 4'000'000);
  b.close();
  b.close();
  b.close();
  return b.finish();
}

}  // namespace

TEST_CASE("report: cProfile's table, to the letter, with recursion") {
  CHECK(text_of(recursion(), "cprofile") ==
        "         4 function calls (2 primitive calls) in 0.010 seconds\n"
        "\n"
        "   Ordered by: internal time\n"
        "\n"
        "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"
        "      3/1    0.006    0.002    0.010    0.010 two_layer.cpp:5(f)\n"
        "        1    0.004    0.004    0.004    0.004 {g}\n"
        "\n");
}

TEST_CASE("report: cProfile's sort keys, unit, limit and paths") {
  const Profile p = recursion();
  CHECK(text_of(p, "cprofile", {.sort = "stdname", .unit = "msec"})
            .find("Ordered by: standard name\n   Times in msec") != std::string::npos);
  CHECK(text_of(p, "cprofile", {.unit = "msec"})
            .find("      3/1    6.000    2.000   10.000   10.000 two_layer") != std::string::npos);
  CHECK(text_of(p, "cprofile", {.limit = 1})
            .find("List reduced from 2 to 1 due to restriction <1>") != std::string::npos);
  CHECK(text_of(p, "cprofile", {.full_paths = true}).find("/src/deep/two_layer.cpp:5(f)") !=
        std::string::npos);
  for (const auto& [key, first] : std::map<std::string, std::string>{{"calls", "f"},
                                                                     {"cumulative", "f"},
                                                                     {"filename", "f"},
                                                                     {"line", "g"},
                                                                     {"name", "f"},
                                                                     {"nfl", "f"},
                                                                     {"pcalls", "f"},
                                                                     {"time", "f"},
                                                                     {"tottime", "f"},
                                                                     {"ncalls", "f"},
                                                                     {"cumtime", "f"},
                                                                     {"tot", "f"}}) {
    INFO(key);
    const auto tables = report(p, "cprofile", {.sort = key});
    CHECK(tables[0].rows[0].back().text == (first == "f" ? "two_layer.cpp:5(f)" : "{g}"));
  }
  CHECK_THROWS_WITH_AS(report(p, "cprofile", {.sort = "size"}),
                       doctest::Contains("'size' is none of the sort keys: calls, ncalls"),
                       ValueError);
  CHECK_THROWS_AS(report(p, "cprofile", {.sort = "cum"}), ValueError);  // ambiguous, as in pstats
  CHECK_THROWS_AS(report(p, "nothing"), ValueError);
}

TEST_CASE("report: callers and callees") {
  const Profile p = recursion();
  const auto callers = report(p, "cprofile", {.callers = "g"})[0];
  REQUIRE(callers.rows.size() == 1);
  CHECK(callers.rows[0].back().text == "two_layer.cpp:5(f)");
  const auto callees = report(p, "cprofile", {.callees = "(f)"})[0];
  REQUIRE(callees.rows.size() == 2);
  CHECK(callees.rows[0].back().text == "{g}");
  CHECK(callees.rows[1][2].text == "2/0");  // f by f: both recursive
  CHECK_THROWS_WITH_AS(report(p, "cprofile", {.callers = "nobody"}),
                       doctest::Contains("no function's name contains 'nobody'"), ValueError);
}

TEST_CASE("report: torch.profiler's table") {
  const Profile p = two_layer_profile();
  const auto t = report(p, "torch")[0];
  CHECK(t.columns[1].title == "Self CPU %");
  CHECK(t.columns.back().title == "Total KFLOPs");
  const std::string text = to_text({t});
  CHECK(text.find("        Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time "
                  "avg       CPU Mem  Self CPU Mem    # of Calls  Total KFLOPs\n") !=
        std::string::npos);
  CHECK(text.find("Self CPU time total: ") != std::string::npos);
  std::map<std::string, double> calls;
  for (const auto& row : t.rows) calls[row[0].text] = row[8].number;
  CHECK(calls["linear"] == 9);  // one was interrupted
  CHECK(calls["sgd_step"] == 4);
  const auto shapes = report(p, "torch", {.sort = "count", .by = "shape"})[0];
  size_t linears = 0;
  for (const auto& row : shapes.rows) linears += row[0].text == "linear" ? 1 : 0;
  CHECK(linears == 2);
  CHECK(report(p, "torch", {.sort = "cpu_time_total"})[0].rows[0][0].text == "TwoLayer");
  CHECK_THROWS_AS(report(p, "torch", {.by = "colour"}), ValueError);
  const auto lines = report(p, "torch", {.by = "line"})[0];
  CHECK(lines.rows[0][0].text == "two_layer.cpp:24");
}

TEST_CASE("report: children and self are the parent, in random trees") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    const Profile p = random_profile(seed, 2000);
    int64_t self = 0, roots = 0;
    for (const Event& e : p.events) {
      self += e.self;
      if (e.parent < 0) roots += e.end - e.begin;
    }
    REQUIRE(self == roots);
    const FunctionStats stats(p);
    CHECK(stats.total.own == self);
    CHECK(stats.total.calls == 2000);
    const CallTree tree(p, stats.functions);
    std::vector<int64_t> below(tree.nodes.size());
    int64_t top = 0;
    for (const CallNode& n : tree.nodes)
      (n.parent < 0 ? top : below[static_cast<size_t>(n.parent)]) += n.total;
    CHECK(top == roots);
    for (size_t i = 0; i < below.size(); ++i)
      REQUIRE(tree.nodes[i].self + below[i] == tree.nodes[i].total);
    for (const GroupBy by :
         {GroupBy::Op, GroupBy::Shape, GroupBy::Line, GroupBy::Module, GroupBy::Stack}) {
      const Averages averages(p, by);
      int64_t sum = 0;
      for (const Average& a : averages.rows) {
        sum += a.self;
        CHECK(a.total >= a.self);
        CHECK(a.total <= roots);
      }
      CHECK(sum == self);
    }
    const ModuleUses uses(p);
    int64_t modules = 0;
    const auto all = [](const ModuleUse& u) { return u.time[0] + u.time[1] + u.time[2]; };
    for (const int32_t root : uses.roots) modules += all(uses.whole[static_cast<size_t>(root)]);
    CHECK(modules + all(uses.own.back()) == self);
    for (size_t m = 0; m < p.modules.size(); ++m) {
      int64_t sum = all(uses.own[m]);
      for (const int32_t c : uses.children[m]) sum += all(uses.whole[static_cast<size_t>(c)]);
      CHECK(sum == all(uses.whole[m]));
    }
  }
}

TEST_CASE("report: callers' figures sum to the function's, except what is at the top") {
  const Profile p = random_profile(3, 3000);
  const FunctionStats stats(p);
  std::vector<int64_t> calls(stats.figures.size()), cumulative(stats.figures.size());
  for (const CallEdge& e : stats.edges) {
    calls[static_cast<size_t>(e.callee)] += e.figures.calls;
    cumulative[static_cast<size_t>(e.callee)] += e.figures.cumulative;
  }
  for (size_t i = 0; i < p.events.size(); ++i)
    if (p.events[i].parent < 0) {
      const auto f = static_cast<size_t>(stats.functions.group.key[i]);
      ++calls[f];
      cumulative[f] += p.events[i].end - p.events[i].begin;
    }
  for (size_t f = 0; f < calls.size(); ++f) {
    CHECK(calls[f] == stats.figures[f].calls);
    CHECK(cumulative[f] == stats.figures[f].cumulative);
  }
}

TEST_CASE("report: a damaged profile is refused with the place of the damage") {
  Profile p = two_layer_profile();
  p.events[3].signature = 99;
  CHECK_THROWS_WITH_AS(report(p, "overview"),
                       doctest::Contains("event 3 refers to signature 99 of"), IoError);
  p = two_layer_profile();
  p.events[3].parent = 5;
  CHECK_THROWS_WITH_AS(report(p, "torch"),
                       doctest::Contains("event 3 has the parent 5, which does not come before it"),
                       IoError);
  p = two_layer_profile();
  p.allocations[0].event = -7;
  CHECK_THROWS_AS(report(p, "peak"), IoError);
}

TEST_CASE("report: every table of every kind of profile has rows as long as its columns") {
  Profile empty;
  empty.run.mode = "trace";
  for (const Profile& p : {two_layer_profile(), random_profile(1, 500), recursion(), empty})
    for (const ReportName& name : report_names()) {
      if (name.name == "samples") continue;
      INFO(name.name);
      const auto tables = report(p, std::string(name.name));
      for (const ReportTable& t : tables)
        for (const auto& row : t.rows) REQUIRE(row.size() == t.columns.size());
      CHECK_NOTHROW(to_text(tables));
    }
  Profile counted = two_layer_profile();
  counted.events.clear();
  counted.allocations.clear();
  counted.run.mode = "count";
  counted.counts = {{.signature = 0, .site = 0, .calls = 500}};
  CHECK(text_of(counted, "overview").find("500") != std::string::npos);
  CHECK_THROWS_WITH_AS(report(counted, "torch"), doctest::Contains("record with --trace"),
                       ValueError);
  CHECK_THROWS_WITH_AS(report(counted, "samples"), doctest::Contains("no samples"), ValueError);
}
