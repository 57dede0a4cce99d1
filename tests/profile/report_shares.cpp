// One quantity, one number: shares of the run in tables and advice, the first step, what a step
// leaves behind, and memory by line.
#include <doctest/doctest.h>

#include <map>

#include "pellucid/profile_report.h"
#include "profile/findings.h"
#include "profile/index.h"
#include "profile/overhead.h"
#include "sample_profile.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

const std::vector<Cell>* row_of(const ReportTable& t, const std::string& name) {
  for (const auto& row : t.rows)
    for (const Cell& c : row)
      if (c.text == name) return &row;
  return nullptr;
}

}  // namespace

TEST_CASE("report: the advice's shares are those of the table, with several threads too") {
  ProfileBuilder b(4);
  const int32_t product = b.signature({.name = "matmul", .flops = 1'000, .has_cost = true});
  for (int t = 0; t < 4; ++t) {
    const int32_t e = b.op(product, 100'000, -1, -1, t);
    b.p.stalls.push_back({Stall::Kind::Preempted, 10, 40'000, t, e});
    // More than the op took: the kernel's clock and ours differ. The rest of the op is the limit.
    b.p.stalls.push_back({Stall::Kind::Waiting, 20, 200'000, t, e});
  }
  const Profile p = b.finish();
  const Overhead o(p);
  CHECK(o.whole() == 400'000);
  const auto overview = report(p, "overview");
  const auto* preempted = row_of(overview[0], "ops, preempted");
  const auto* waiting = row_of(overview[0], "ops, waiting");
  REQUIRE(preempted != nullptr);
  REQUIRE(waiting != nullptr);
  CHECK((*preempted)[2].number == doctest::Approx(0.4));
  CHECK(overview[0].footing.find("time: the sum over all threads, 400.000us in a run of "
                                 "100.000us") != std::string::npos);
  const ReportTable advice = report(p, "advice")[0];
  REQUIRE(!advice.rows.empty());
  CHECK(advice.rows[0][0].number == doctest::Approx((*preempted)[2].number + (*waiting)[2].number));
  CHECK(advice.rows[0][3].text.find(
            "preempted for 40 % of the run (4 times) and waited for 60 %") != std::string::npos);
  for (const auto& row : advice.rows) CHECK(row[0].number <= 1);
}

TEST_CASE("report: the first step begins with what the others begin with") {
  ProfileBuilder b;
  const int32_t load = b.scope(EventKind::User, "download"),
                forward = b.scope(EventKind::Module, "Net"),
                make = b.signature({.name = "randn", .has_cost = true}),
                engine = b.scope(EventKind::Engine, "backward"),
                optimizer = b.scope(EventKind::Optimizer, "SGD.step");
  const int32_t line = b.site("a.cpp", 3), other = b.site("a.cpp", 1);
  b.op(load, 9'000'000);
  b.op(make, 500, other);  // the model's weights, at another line
  for (int i = 0; i < 8; ++i) {
    b.op(make, 10, line);
    b.op(make, 10, line);
    b.op(forward, 100, line);
    b.op(engine, 200, line);
    b.op(optimizer, 50, line);
    b.spend(5);
  }
  const Profile p = b.finish();
  const Steps steps(p);
  REQUIRE(steps.spans.size() == 8);
  CHECK(steps.what == "optimiser steps");
  CHECK(steps.spans[0].begin == 9'000'500);
  CHECK(steps.spans[0].end - steps.spans[0].begin == 370);
  CHECK(steps.find(4'000'000) == -1);
  CHECK(to_text(report(p, "advice")).find("exclude the first step") == std::string::npos);
}

TEST_CASE("report: the line of a small leak is found beside large blocks that come and go") {
  ProfileBuilder b;
  const int32_t step = b.scope(EventKind::Step, "step"),
                op = b.signature({.name = "linear", .has_cost = true}),
                loss = b.signature({.name = "mse_loss", .has_cost = true});
  const int32_t large = b.site("a.cpp", 5), small = b.site("a.cpp", 6);
  std::vector<size_t> previous;
  for (int i = 0; i < 20; ++i) {
    b.open(step);
    b.open(op, large);
    const size_t block = b.allocate(1'000'000, MemoryCategory::Activation);
    b.spend(100);
    for (const size_t old : previous) b.release(old);
    previous = {block};  // until the next step has its own
    b.close();
    b.open(loss, small);
    b.allocate(4, MemoryCategory::Activation);
    b.spend(10);
    b.close();
    b.close();
  }
  const Profile p = b.finish();
  std::vector<Finding> retained;
  for (const Finding& f : find_repeated_work(p, Steps(p)))
    if (f.kind == Finding::Kind::Retained) retained.push_back(f);
  REQUIRE(retained.size() == 1);
  CHECK(p.events[static_cast<size_t>(retained[0].event)].site == small);
  CHECK(retained[0].cost == 18 * 4);
  CHECK(retained[0].evidence ==
        "18 of the 18 steps after the second left blocks that are alive at the end: 72 B, 4 B a "
        "step");
}

TEST_CASE(
    "report: frees count for the line that took the block; increments for the line that ran") {
  ProfileBuilder b;
  const int32_t op = b.signature({.name = "linear", .has_cost = true}),
                engine = b.scope(EventKind::Engine, "backward"),
                node = b.scope(EventKind::Backward, "LinearBackward0"),
                grad = b.signature({.name = "mm", .has_cost = true});
  const int32_t forward = b.site("a.cpp", 5), backward = b.site("a.cpp", 6);
  constexpr int64_t kMiB = 1 << 20;
  for (int i = 0; i < 10; ++i) {
    b.open(op, forward);
    const size_t block = b.allocate(kMiB, MemoryCategory::Activation);
    b.spend(100);
    b.close();
    b.open(engine, backward);
    b.open(node, forward);  // backward work has the line of its forward call
    b.open(grad, forward);
    const size_t scratch = b.allocate(kMiB / 2, MemoryCategory::Temporary);
    b.spend(50);
    b.release(scratch);
    b.close();
    b.release(block);
    b.close();
    b.close();
  }
  const auto tables = report(b.finish(), "memory");
  std::map<std::string, std::map<double, double>> by_line;  // key, line
  for (const auto& row : tables[0].rows)
    for (size_t c = 1; c < tables[0].columns.size(); ++c)
      by_line[tables[0].columns[c].key][row[0].number] = row[c].number;
  CHECK(by_line["allocated_bytes"][5] == 15.0 * kMiB);
  CHECK(by_line["freed_bytes"][5] == 15.0 * kMiB);
  CHECK(by_line["net_bytes"][5] == 0);
  CHECK(by_line["at_peak_bytes"][5] == 1.5 * kMiB);
  CHECK(by_line["increment_bytes"][5] == 10.0 * kMiB);  // memory_profiler's: while the line ran
  CHECK(by_line["increment_bytes"][6] == -10.0 * kMiB);
  CHECK(by_line["allocated_bytes"][6] == 0);
  CHECK(by_line["freed_bytes"][6] == 0);
}
