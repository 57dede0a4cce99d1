// Memory tables, the roofline, modules, steps and advice: figures that can be worked out by hand.
#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "pellucid/profile_report.h"
#include "profile/findings.h"
#include "profile/memory_use.h"
#include "profile/overhead.h"
#include "sample_profile.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

const ReportTable& table_of(const std::vector<ReportTable>& tables, const std::string& name) {
  for (const ReportTable& t : tables)
    if (t.name == name) return t;
  FAIL("no table " << name);
  return tables[0];
}

// The numbers of a column by the text of the first column.
std::map<std::string, double> column(const ReportTable& t, const std::string& key) {
  std::map<std::string, double> out;
  for (size_t c = 0; c < t.columns.size(); ++c)
    if (t.columns[c].key == key)
      for (const auto& row : t.rows) out[row[0].text] = row[c].number;
  return out;
}

}  // namespace

TEST_CASE("report: bytes at the peak sum to the allocator's peak, by each grouping") {
  const Profile p = two_layer_profile();
  const MemoryPeak peak(p);
  CHECK(peak.total == 458'200);
  CHECK(peak.recorded == 453'760);
  CHECK(peak.unrecorded == 0);
  const auto tables = report(p, "peak");
  for (const char* name : {"peak-by-category", "peak-by-line", "peak-by-op", "peak-by-saving op"}) {
    INFO(name);
    auto bytes = column(table_of(tables, name), "bytes");
    CHECK(bytes["sum"] == 458'200);
    CHECK(bytes["(before the recording)"] == 4'440);
    double sum = -bytes["sum"];
    for (const auto& entry : bytes) sum += entry.second;
    CHECK(sum == 458'200);
  }
  CHECK(column(table_of(tables, "peak-by-category"), "bytes")["gradient"] == 400'000);
  // The hidden layer and its rectified copy were freed by the backward of `linear`.
  CHECK(column(table_of(tables, "peak-by-saving op"), "bytes")["linear"] == 51'200);
  const auto cut = report(p, "peak", {.limit = 1});
  CHECK(table_of(cut, "peak-by-op").rows.size() == 3);  // one row, the rest, the sum
}

TEST_CASE("report: random allocations: the peak is the greatest sum, and rows sum to it") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Profile p = random_profile(seed, 800);
    const MemoryPeak peak(p);
    int64_t alive = 0, now = 0, most = 0;
    for (const size_t i : peak.alive) alive += p.allocations[i].bytes;
    for (const MemoryChange& c : memory_changes(p)) most = std::max(most, now += c.bytes);
    CHECK(alive == most);
    CHECK(peak.total == p.run.memory_at_start + most);
    for (const ReportTable& t : report(p, "peak", {.limit = 2}))
      if (!t.columns.empty()) CHECK(column(t, "bytes")["sum"] == static_cast<double>(peak.total));
  }
}

TEST_CASE("report: memory by line has memory_profiler's columns and the line's text") {
  TemporaryFolder folder;
  const std::string file = folder / "net.cpp";
  write_bytes(file, "one\ntwo\n  auto y = net(x);\n");
  ProfileBuilder b;
  const int32_t op = b.scope(EventKind::User, "f"), line = b.site(file, 3);
  for (int i = 0; i < 3; ++i) {
    b.open(op, line);
    b.allocate(1 << 20, MemoryCategory::Activation);
    b.spend(10);
    b.close();
  }
  const auto tables = report(b.finish(1 << 20), "memory");
  const ReportTable& t = tables[0];
  CHECK(t.heading == "Filename: " + file + "\n\n");
  REQUIRE(t.rows.size() == 1);
  CHECK(to_text({t}).find("     3  4.000 MiB  3.000 MiB            3  3.000 MiB  0.000 MiB  3.000 "
                          "MiB  3.000 MiB    "
                          "auto y = net(x);\n") != std::string::npos);
  CHECK(tables[1].footing.starts_with(
      "1.000 MiB at the start + increments (0.000 MiB of them without a line) = 4.000 MiB at the "
      "end\nallocated 3.000 MiB - freed 0.000 MiB = 3.000 MiB net (0.000 MiB of it without a "
      "line)\n"));
}

TEST_CASE("report: the timeline's highest point is the peak") {
  const Profile p = two_layer_profile();
  const auto t = report(p, "timeline", {.limit = 50})[0];
  CHECK(t.rows.size() == 50);
  double most = 0;
  for (const auto& row : t.rows) most = std::max(most, row[1].number);
  CHECK(most == 458'200);
  CHECK(t.heading.find("█") != std::string::npos);
}

TEST_CASE("report: roofline by hand") {
  // 100 GFLOP/s; 200 GB/s up to 32 KiB, 10 GB/s beyond.
  ProfileBuilder b;
  const int32_t product = b.signature(
      {.name = "matmul", .op_kind = "contraction", .flops = 1e6, .bytes = 1'000, .has_cost = true});
  const int32_t copy =
      b.signature({.name = "clone", .op_kind = "pointwise", .bytes = 1e6, .has_cost = true});
  for (int i = 0; i < 2; ++i) {
    b.op(product, 20'000);  // 10 us at the ceiling: 50 %
    b.op(copy, 125'000);    // 100 us at the ceiling: 80 %
  }
  const auto t = report(b.finish(), "roofline")[0];
  auto share = column(t, "ceiling_share"), rate = column(t, "gflops_per_second"),
       bytes = column(t, "gigabytes_per_second");
  CHECK(share["matmul"] == doctest::Approx(0.5));
  CHECK(share["clone"] == doctest::Approx(0.8));
  CHECK(rate["matmul"] == doctest::Approx(50));
  CHECK(bytes["clone"] == doctest::Approx(8));
  CHECK(t.rows[0][10].text == "memory");
  CHECK(t.rows[1][10].text == "compute");
  CHECK(t.footing.find(
            "dispatch: 0.000us per call (not measured: the run has fewer than 10 views)") !=
        std::string::npos);
  CHECK(t.footing.find("coverage: 100 % of 4 ops have a cost") != std::string::npos);
  CHECK(t.footing.find("recording: 4 events x 40 ns = 0.160us, 0.1 % of the time") !=
        std::string::npos);
}

TEST_CASE("report: rates leave the first call of a kind out, and its excess is a part of its own") {
  ProfileBuilder b;
  const int32_t product = b.signature({.name = "matmul", .flops = 1e6, .has_cost = true}),
                other = b.signature({.name = "matmul", .flops = 2e6, .has_cost = true}),
                once = b.signature({.name = "conv", .flops = 1e6, .has_cost = true});
  b.op(product, 500'000);                             // the first of its kind
  for (int i = 0; i < 4; ++i) b.op(product, 20'000);  // 10 us at the ceiling
  b.op(other, 300'000);                               // another kind: its first
  for (int i = 0; i < 4; ++i) b.op(other, 40'000);    // 20 us
  b.op(once, 100'000);
  const Profile p = b.finish();
  const auto t = report(p, "roofline")[0];
  auto share = column(t, "ceiling_share"), rate = column(t, "gflops_per_second"),
       time = column(t, "seconds");
  CHECK(share["matmul"] == doctest::Approx(0.5));
  CHECK(rate["matmul"] == doctest::Approx(50));
  CHECK(time["matmul"] == doctest::Approx(1'040e-6));  // times are of all calls
  CHECK(share["conv"] == doctest::Approx(0.1));        // there is nothing but a first call
  CHECK(t.rows[1][9].text == "10.00%*");
  CHECK(t.footing.find("* only first calls") != std::string::npos);
  const auto overview = report(p, "overview");
  auto parts = column(overview[0], "seconds");
  CHECK(parts["ops, first calls of a kind"] == doctest::Approx(480e-6 + 260e-6));
  CHECK(parts["sum"] == doctest::Approx(1'140e-6));
  CHECK(column(overview[1], "ceiling_share")["matmul"] == doctest::Approx(0.5));
  CHECK(column(overview[1], "percall_seconds")["matmul"] == doctest::Approx(30e-6));
}

TEST_CASE("report: what the system took of an op's time") {
  ProfileBuilder b(2);
  const int32_t product = b.signature(
      {.name = "matmul", .op_kind = "contraction", .flops = 1e6, .bytes = 1'000, .has_cost = true});
  const int32_t e = b.op(product, 100'000);  // 10 us at the ceiling
  b.p.stalls = {{Stall::Kind::PageFault, 10, 20'000, 0, e},
                {Stall::Kind::PageFault, 10, 90'000, 1, e},  // beside it, on a thread of the pool
                {Stall::Kind::Preempted, 40'000, 30'000, 0, e},
                {Stall::Kind::Waiting, 80'000, 5'000, 0, -1}};
  const Profile p = b.finish();
  const auto t = report(p, "roofline")[0];
  CHECK(column(t, "page_faults")["matmul"] == 2);
  CHECK(column(t, "fault_share")["matmul"] == doctest::Approx(0.2));
  CHECK(column(t, "switches")["matmul"] == 1);
  CHECK(column(t, "preempted_share")["matmul"] == doctest::Approx(0.3));
  CHECK(column(t, "waiting_share")["matmul"] == 0);
  CHECK(column(t, "unexplained_share")["matmul"] == doctest::Approx(0.4));
  CHECK(t.footing.find("inside events: 2 page faults took 20.000us, 0 waits 0.000us; preempted 1 "
                       "times for 30.000us") != std::string::npos);
  const std::string overview = to_text(report(p, "overview"));
  CHECK(overview.find("ops, in page faults") != std::string::npos);
  CHECK(overview.find("ops, preempted") != std::string::npos);

  const std::string advice = to_text(report(p, "advice"));
  CHECK(advice.find("record it on a quiet machine") != std::string::npos);
  CHECK(advice.find("ops were preempted for 30 % of the run (1 times) and waited for 0 % (0 "
                    "times)") != std::string::npos);

  Profile unknown = p;
  unknown.stalls.clear();
  unknown.run.stalls_missing = "not permitted";
  CHECK(report(unknown, "roofline")[0].footing.find(
            "page faults and switches by op: none (not permitted)") != std::string::npos);
}

TEST_CASE("report: calls that read the same inputs again are found, also without steps") {
  ProfileBuilder b;
  const int32_t product = b.signature({.name = "matmul",
                                       .op_kind = "contraction",
                                       .inputs = {tensor_info({64, 64})},
                                       .has_cost = true});
  const int32_t line = b.site("net.cpp", 7), other = b.site("net.cpp", 9);
  for (const uint32_t inputs : {5u, 5u, 5u, 7u})
    b.p.events[static_cast<size_t>(b.op(product, 1'000, line))].inputs = inputs;
  for (uint32_t inputs = 11; inputs < 15; ++inputs)  // always others: nothing is repeated
    b.p.events[static_cast<size_t>(b.op(product, 1'000, other))].inputs = inputs;
  const Profile p = b.finish();
  const auto found = find_repeated_work(p, Steps(p));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Finding::Kind::Same);
  CHECK(found[0].cost == doctest::Approx(2'000));
  CHECK(found[0].evidence == "2 of 4 calls read the same inputs as one before");
  CHECK(to_text(report(p, "advice")).find("keep the result of net.cpp:7(matmul)") !=
        std::string::npos);
}

TEST_CASE("report: one op without a cost is not rounded away") {
  ProfileBuilder b;
  const int32_t known = b.signature({.name = "a", .has_cost = true}),
                unknown = b.signature({.name = "b"});
  for (int i = 0; i < 999; ++i) b.op(known, 10);
  b.op(unknown, 10);
  CHECK(coverage_lines(b.p, Overhead(b.finish())).find("99 % of 1,000 ops") != std::string::npos);
}

TEST_CASE("report: modules as print(model) shows them, backward with its module") {
  const auto t = report(two_layer_profile(), "modules")[0];
  CHECK(t.rows[0][0].text == "TwoLayer");
  CHECK(t.rows[1][0].text == "  (own ops)");
  CHECK(t.rows[2][0].text == "  (linear1): Linear");
  auto parameters = column(t, "parameters"), calls = column(t, "calls"),
       backward = column(t, "backward_seconds");
  CHECK(parameters["TwoLayer"] == 101'110);
  CHECK(calls["  (linear1): Linear"] == 4);
  CHECK(backward["  (linear1): Linear"] == doctest::Approx(4 * 170e-6));
  auto shares = column(t, "time_share");
  CHECK(shares["sum"] == doctest::Approx(1));
  CHECK(shares["TwoLayer"] + shares["(outside modules)"] + shares["(outside every op and scope)"] ==
        doctest::Approx(1));
}

TEST_CASE("report: torchinfo's summary") {
  const auto t = report(two_layer_profile(), "summary")[0];
  REQUIRE(t.rows.size() == 4);
  CHECK(t.rows[1][0].text == "├─Linear: 1-1");
  CHECK(t.rows[3][0].text == "├─Linear: 1-3");
  CHECK(t.rows[3][1].text == "[64, 100]");
  CHECK(t.rows[3][2].text == "[64, 10]");
  CHECK(t.rows[1][4].text == "6,400,000");
  CHECK(t.footing.starts_with("Total params: 101,110\nTotal mult-adds (M): 6.46\n"));
}

TEST_CASE("report: work that repeats, never changes, grows or stays is found") {
  ProfileBuilder b;
  const int32_t step = b.scope(EventKind::Step, "step");
  const int32_t range = b.signature({.name = "arange",
                                     .op_kind = "pointwise",
                                     .outputs = {tensor_info({100})},
                                     .attributes = "end=100",
                                     .has_cost = true});
  const int32_t twice = b.signature({.name = "softmax",
                                     .op_kind = "reduction",
                                     .inputs = {tensor_info({8, 8})},
                                     .outputs = {tensor_info({8, 8})},
                                     .flops = 320,
                                     .has_cost = true});
  const int32_t line = b.site("net.cpp", 7), other = b.site("net.cpp", 9);
  for (int s = 0; s < 12; ++s) {
    const int32_t grows = b.signature({.name = "cat",
                                       .op_kind = "index",
                                       .inputs = {tensor_info({s + 1, 8})},
                                       .outputs = {tensor_info({s + 2, 8})},
                                       .flops = 100.0 * (s + 1),
                                       .has_cost = true});
    b.open(step);
    b.op(range, 500, line);
    b.op(twice, 1'000, other);
    b.op(twice, 1'000, other);
    b.open(grows, line);
    b.allocate(1'000, MemoryCategory::Activation);
    b.spend(300 * (s + 1));
    b.close();
    b.close();
  }
  const Profile p = b.finish();
  const Steps steps(p);
  CHECK(steps.spans.size() == 12);
  CHECK(steps.what == "steps marked by the program");
  std::map<std::string, double> cost;
  for (const Finding& f : find_repeated_work(p, steps))
    cost[fmt::format(
        "{} {}", name_of(f.kind),
        p.signatures[static_cast<size_t>(p.events[static_cast<size_t>(f.event)].signature)].name)] =
        f.cost;
  CHECK(cost.size() == 4);
  CHECK(cost["constant arange"] == doctest::Approx(11 * 500));
  CHECK(cost["repeated softmax"] == doctest::Approx(12 * 1'000));
  CHECK(cost["growing cat"] == doctest::Approx(300 * (12 * 13 / 2 - 12)));
  CHECK(cost["retained cat"] == doctest::Approx(10 * 1'000));
  const std::string advice = to_text(report(p, "advice"));
  CHECK(advice.find("make the tensor of net.cpp:7(arange) once") != std::string::npos);
}

TEST_CASE("report: without a reason there is no advice, and steps are found by what ends them") {
  ProfileBuilder b;
  const int32_t op = b.signature({.name = "a", .flops = 100, .has_cost = true});
  b.op(op, 1'000);
  CHECK(to_text(report(b.finish(), "advice")) ==
        "No advice: no measurement of this run supports any.\n");
  CHECK(Steps(two_layer_profile(5)).what == "optimiser steps");
  CHECK(Steps(two_layer_profile(5)).spans.size() == 5);
  CHECK(Steps(two_layer_profile(1)).spans.empty());
  ProfileBuilder calls;
  const int32_t other = calls.scope(EventKind::User, "other"),
                net = calls.scope(EventKind::Module, "Net");
  for (int i = 0; i < 5; ++i) {
    calls.op(other, 10);
    calls.op(net, 100);
  }
  const Steps steps(calls.finish());
  CHECK(steps.what == "calls of Net");
  REQUIRE(steps.spans.size() == 5);
  CHECK(steps.find(5) == -1);
  CHECK(steps.find(10) == 0);
  CHECK(steps.find(119) == 0);
  CHECK(steps.find(120) == 1);
}

TEST_CASE("report: the overview's parts sum to the whole, and endings are told") {
  Profile p = two_layer_profile(6);
  p.run.signal = 11;
  p.run.complete = false;
  p.run.dropped = 1'000;
  const std::string text = to_text(report(p, "overview"));
  for (const char* part :
       {"(linear) takes 37 % of the time", "two_layer.cpp:24(", "linear takes 37 % of the run",
        "killed by signal 11 (Segmentation fault)", "1,000 events beyond the limit were dropped",
        "coverage: 100 %", "recording: ", "page-faults: 1,234",
        "cycles: none (the kernel gives none)", "the peak of 458.20 kB is 87 % gradients"}) {
    INFO(std::string(part));
    CHECK(text.find(part) != std::string::npos);
  }
  const auto head = report(p, "overview")[0];
  double sum = 0;
  for (size_t i = 0; i + 1 < head.rows.size(); ++i) sum += head.rows[i][1].number;
  CHECK(sum == doctest::Approx(head.rows.back()[1].number));
}

TEST_CASE("report: samples by line count recursion once") {
  ProfileBuilder b;
  const int32_t a = b.site("a.cpp", 1, "f"), c = b.site("a.cpp", 2, "g");
  b.p.frames = {{.parent = -1, .site = a}, {.parent = 0, .site = a}, {.parent = 1, .site = c}};
  b.p.samples = {{.at = 1, .stack = 2}, {.at = 2, .stack = 2}, {.at = 3, .stack = 1}};
  b.p.run.mode = "sample";
  b.p.run.sample_rate = 1000;
  CHECK(report(b.p, "samples")[0].heading ==
        "3 samples; 1000 per second of CPU time were requested\n");
  b.p.counters.push_back({"task-clock", 12e6, {}});
  const Profile p = b.finish();
  const auto t = report(p, "samples")[0];
  CHECK(t.heading == "3 samples in 12.000ms of CPU time: 250 per second of 1000 requested\n");
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0][4].text == "a.cpp:2(g)");
  CHECK(t.rows[0][0].number == 2);
  CHECK(t.rows[1][0].number == 1);
  CHECK(t.rows[1][2].number == 3);
  CHECK(report(p, "samples", {.by = "function"})[0].rows.size() == 2);
}
