// Comparing two recordings: sure differences are told from noise, and only they are regressions.
#include <doctest/doctest.h>

#include <random>

#include "pellucid/error.h"
#include "pellucid/profile_report.h"
#include "sample_profile.h"

using namespace pellucid;
using namespace pellucid::test;
using Verdict = DiffRow::Verdict;

namespace {

// Steps with an op whose time scatters by a tenth around `mean`, and a small one that is steady.
Profile noisy(uint32_t seed, double mean, int steps = 40, int64_t bytes = 1000,
              bool extra = false) {
  std::mt19937 random(seed);
  ProfileBuilder b;
  const int32_t step = b.scope(EventKind::Step, "step"), line = b.site("a.cpp", 3);
  const int32_t big = b.signature({.name = "matmul", .has_cost = true}),
                small = b.signature({.name = "relu", .has_cost = true}),
                more = b.signature({.name = "clone", .has_cost = true});
  b.p.modules = {{.name = "Net", .type = "Net"}};
  for (int i = 0; i < steps; ++i) {
    b.open(step);
    b.open(big, line, 0);
    const size_t block = b.allocate(bytes, MemoryCategory::Activation);
    b.spend(static_cast<int64_t>(mean *
                                 (0.95 + 0.1 * std::uniform_real_distribution<double>()(random))));
    b.close();
    b.op(small, 10 + i % 2, line, 0);
    if (extra) b.op(more, 50, line, 0);
    b.release(block);
    b.close();
  }
  return b.finish();
}

const DiffRow& row(const Diff& d, const std::string& name) {
  for (const DiffRow& r : d.rows)
    if (r.name == name) return r;
  FAIL("no row " << name);
  return d.rows[0];
}

}  // namespace

TEST_CASE("diff: the same program twice is noise") {
  int regressions = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Diff d = diff(noisy(seed, 10'000), noisy(seed + 100, 10'000), {.threshold = 0.01});
    regressions += d.regression ? 1 : 0;
    CHECK(d.rows[0].name == "total");
    CHECK(d.rows[0].has_interval);
  }
  CHECK(regressions <= 2);
}

TEST_CASE(
    "diff: what is slower by more than the threshold is a regression, by op, line and module") {
  const Profile before = noisy(1, 10'000), after = noisy(2, 12'000);
  const Diff d = diff(before, after);
  CHECK(d.what == "median seconds of 40 and 40 steps marked by the program");
  CHECK(d.regression);
  const DiffRow& r = row(d, "matmul");
  CHECK(r.verdict == Verdict::Worse);
  CHECK(r.change == doctest::Approx(0.2).epsilon(0.2));
  CHECK(r.low > 0.1);
  CHECK(r.high < 0.3);
  CHECK(r.regression);
  CHECK_FALSE(row(d, "relu").regression);
  CHECK(row(diff(before, after, {.by = "line"}), "a.cpp:3").regression);
  CHECK(row(diff(before, after, {.by = "module"}), "Net").regression);
  CHECK_FALSE(diff(before, after, {.threshold = 0.5}).regression);
  CHECK(row(diff(after, before), "matmul").verdict == Verdict::Better);
  CHECK_FALSE(diff(after, before).regression);
  CHECK_THROWS_AS(diff(before, after, {.by = "colour"}), ValueError);
}

TEST_CASE("diff: a small op that doubles is shown but is no regression; new ops are named") {
  Profile before = noisy(1, 100'000), after = noisy(1, 100'000, 40, 1000, true);
  for (Event& e : after.events)
    if (after.signatures[static_cast<size_t>(e.signature)].name == "relu") e.self *= 2;
  const Diff d = diff(before, after);
  CHECK(row(d, "relu").verdict == Verdict::Worse);
  CHECK_FALSE(row(d, "relu").regression);
  CHECK(row(d, "clone").verdict == Verdict::Added);
  CHECK(row(diff(after, before), "clone").verdict == Verdict::Removed);
}

TEST_CASE("diff: without steps the calls are compared, and too few of them tell nothing") {
  ProfileBuilder a, b;
  for (ProfileBuilder* x : {&a, &b}) {
    const int32_t many = x->signature({.name = "many", .has_cost = true}),
                  few = x->signature({.name = "few", .has_cost = true});
    for (int i = 0; i < 30; ++i) x->op(many, (x == &a ? 1'000 : 2'000) + i);
    x->op(few, x == &a ? 1'000 : 9'000);
  }
  const Diff d = diff(a.finish(), b.finish());
  CHECK(d.what == "seconds in all, intervals from the calls");
  CHECK(row(d, "many").verdict == Verdict::Worse);
  CHECK(row(d, "few").verdict == Verdict::Noise);
  CHECK_FALSE(row(d, "few").has_interval);
}

TEST_CASE("diff: memory is exact") {
  const Diff d = diff(noisy(1, 1'000), noisy(2, 1'000, 40, 1'200), {.by = "memory"});
  CHECK(d.rows[0].name == "peak");
  CHECK(d.rows[0].second - d.rows[0].first == 200);
  CHECK(d.regression);
  CHECK(row(d, "activation of a.cpp:3").verdict == Verdict::Worse);
  CHECK_FALSE(diff(noisy(1, 1'000), noisy(2, 5'000), {.by = "memory"}).regression);
}

namespace {

// Runs of one program whose speed differs from run to run by up to a tenth either way.
std::vector<Profile> drifting(uint32_t seed, double mean, int runs) {
  std::mt19937 random(seed);
  std::vector<Profile> out;
  for (int i = 0; i < runs; ++i)
    out.push_back(noisy(seed * 100 + static_cast<uint32_t>(i),
                        mean * (0.9 + 0.2 * std::uniform_real_distribution<double>()(random)), 20));
  return out;
}

}  // namespace

TEST_CASE("diff: of several runs the interval knows what differs from run to run") {
  int within = 0, between = 0, missed = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<Profile> a = drifting(seed, 10'000, 5), b = drifting(seed + 50, 10'000, 5);
    within += row(diff(a[0], b[0]), "matmul").verdict != Verdict::Noise ? 1 : 0;
    const Diff d = diff(a, b);
    between += row(d, "matmul").verdict != Verdict::Noise ? 1 : 0;
    CHECK(d.between_runs);
    CHECK(d.scatter == "between 5 and 5 runs");
    missed += diff(a, drifting(seed + 90, 16'000, 5)).regression ? 0 : 1;
  }
  CHECK(within >= 10);  // one run of each takes drift for a difference
  CHECK(between <= 1);
  CHECK(missed <= 1);
}

TEST_CASE("diff: several runs against one take the scatter of the several for both") {
  const std::vector<Profile> a = drifting(1, 10'000, 6), b = drifting(2, 10'000, 1);
  const Diff d = diff(a, b);
  CHECK(d.what ==
        "seconds of 6 and 1 runs (geometric mean), each the median of its steps marked by the "
        "program");
  CHECK(d.scatter == "between the 6 runs of the first side, taken for both");
  CHECK(row(d, "matmul").verdict == Verdict::Noise);
  CHECK(row(d, "matmul").high - row(d, "matmul").low > 0.1);
  CHECK(row(d, "matmul").first_calls == 20);
  CHECK(diff(a, drifting(2, 30'000, 1)).regression);
  CHECK_FALSE(diff(a[0], b[0]).between_runs);
  CHECK_THROWS_AS(diff(a, std::vector<Profile>()), ValueError);
}

TEST_CASE("diff: memory of several runs, and an op that not every run has") {
  const std::vector<Profile> a = {noisy(1, 1'000, 40, 1'000), noisy(2, 1'000, 40, 1'400)},
                             b = {noisy(3, 1'000, 40, 1'200), noisy(4, 1'000, 40, 1'300)},
                             c = {noisy(5, 1'000, 40, 2'000), noisy(6, 1'000, 40, 2'000, true)};
  CHECK(diff(a, b, {.by = "memory"}).rows[0].verdict == Verdict::Noise);
  const Diff d = diff(a, c, {.by = "memory"});
  CHECK(d.rows[0].verdict == Verdict::Worse);
  CHECK(d.rows[0].low == doctest::Approx(2'000.0 / 1'400 - 1));
  CHECK(d.rows[0].high == doctest::Approx(1));
  const Diff times = diff(c, c);
  CHECK(row(times, "clone").verdict == Verdict::Noise);
  CHECK_FALSE(row(times, "clone").has_interval);
  CHECK(row(diff(a, c), "clone").verdict == Verdict::Added);
}

TEST_CASE("diff: one side is the mirror of the other, and the rows sum to the total") {
  const Profile before = noisy(1, 10'000), after = noisy(2, 12'000, 40, 1'200, true);
  for (const char* by : {"op", "line", "module", "memory"}) {
    INFO(by);
    const Diff d = diff(before, after, {.by = by}), m = diff(after, before, {.by = by});
    REQUIRE(d.rows.size() == m.rows.size());
    double first = 0, second = 0;
    for (const DiffRow& r : d.rows) {
      INFO(r.name);
      const DiffRow& other = row(m, r.name);
      CHECK(other.first == r.second);
      CHECK(other.second == r.first);
      CHECK(other.has_interval == r.has_interval);
      const Verdict mirrored = r.verdict == Verdict::Worse     ? Verdict::Better
                               : r.verdict == Verdict::Better  ? Verdict::Worse
                               : r.verdict == Verdict::Added   ? Verdict::Removed
                               : r.verdict == Verdict::Removed ? Verdict::Added
                                                               : r.verdict;
      CHECK(other.verdict == mirrored);
      if (r.has_interval) {
        CHECK(1 + other.low == doctest::Approx(1 / (1 + r.high)));
        CHECK(1 + other.high == doctest::Approx(1 / (1 + r.low)));
        CHECK(r.low <= r.change);
        CHECK(r.change <= r.high);
      }
      if (&r == &d.rows[0]) continue;
      first += r.first;
      second += r.second;
    }
    CHECK(first == doctest::Approx(d.rows[0].first));
    CHECK(second == doctest::Approx(d.rows[0].second));
  }
}

TEST_CASE("diff: what only some steps have is new or gone, not unchanged") {
  const auto with_rare = [](int every) {
    ProfileBuilder b;
    const int32_t step = b.scope(EventKind::Step, "step"),
                  often = b.signature({.name = "often", .has_cost = true}),
                  rare = b.signature({.name = "rare", .has_cost = true});
    for (int i = 0; i < 30; ++i) {
      b.open(step);
      b.op(often, 1'000 + i);
      if (i % every == 0) b.op(rare, 16'000);
      b.close();
    }
    return b.finish();
  };
  const DiffRow r = row(diff(with_rare(10), with_rare(1)), "rare");
  CHECK(r.first == 0);
  CHECK(r.second > 0);
  CHECK(r.verdict == Verdict::Added);
  CHECK(std::isinf(r.change));
  CHECK(row(diff(with_rare(1), with_rare(10)), "rare").verdict == Verdict::Removed);
  CHECK(name_of(Verdict::Added) == "new");
  CHECK(name_of(Verdict::Removed) == "gone");
}

TEST_CASE("diff: a few bytes more are known exactly, and no worse") {
  const Diff d =
      diff(noisy(1, 1'000, 40, 10'000'000), noisy(1, 1'000, 40, 10'000'016), {.by = "memory"});
  CHECK(d.rows[0].second - d.rows[0].first == 16);
  CHECK(d.rows[0].verdict == Verdict::Same);
}

TEST_CASE("diff: recordings of other modes are refused, other programs are pointed out") {
  const Profile a = noisy(1, 1'000);
  Profile b = noisy(2, 1'000);
  CHECK(diff(a, b).warnings.empty());
  b.run.program = "./other";
  b.machine.threads = 1;
  b.machine.cpu = "another";
  b.run.complete = false;
  const Diff d = diff(a, b);
  REQUIRE(d.warnings.size() == 4);
  CHECK(d.warnings[0] == "the programs differ: ./two_layer --steps 4 and ./other");
  CHECK(diff(a, b, {.by = "memory"}).warnings.size() == 4);
  b.run.mode = "sample";
  CHECK_THROWS_AS(diff(a, b), ValueError);
  CHECK_THROWS_AS(diff(b, b), ValueError);
  CHECK_THROWS_AS(diff(b, a, {.by = "memory"}), ValueError);
}
