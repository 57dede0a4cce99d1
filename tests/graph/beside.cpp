// Independent steps side by side: what depends on what, what pays, and that the verifier sees a
// schedule that is wrong.
#include "graph/beside.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "pellucid/error.h"

namespace pellucid::graph {
namespace {

Step step(std::vector<uint32_t> reads, std::vector<uint32_t> writes, double seconds = 20e-6) {
  return {.reads = std::move(reads), .writes = std::move(writes), .seconds = seconds};
}

TEST_CASE("beside: two branches run on two threads, and what joins them waits") {
  const std::vector<Step> steps = {step({0, 1}, {3}), step({0, 2}, {4}), step({3, 4}, {5}, 1e-6)};
  const std::vector<Section> found = side_by_side(steps, 2, false);
  REQUIRE(found.size() == 1);
  CHECK(found[0].refused.empty());
  CHECK(found[0].threads == 2);
  CHECK(found[0].thread[0] != found[0].thread[1]);
  CHECK(found[0].waits[2].size() == 1);
  CHECK(found[0].serial_seconds == doctest::Approx(41e-6));
  CHECK(found[0].beside_seconds < 26e-6);
  CHECK(side_by_side(steps, 1, false).empty());
}

TEST_CASE("beside: a chain has no section, and short steps do not pay") {
  std::vector<Step> chain;
  for (uint32_t i = 0; i < 10; ++i) chain.push_back(step({i}, {i + 1}));
  CHECK(side_by_side(chain, 4, false).empty());
  const std::vector<Step> small = {step({0}, {1}, 1e-6), step({0}, {2}, 1e-6)};
  const std::vector<Section> found = side_by_side(small, 2, false);
  REQUIRE(found.size() == 1);
  CHECK(found[0].refused == "2.0 us one after the other, 4.0 us side by side");
  CHECK(side_by_side(small, 2, true)[0].refused.empty());
}

TEST_CASE("beside: a step that must run alone ends a section") {
  std::vector<Step> steps = {step({0}, {1}), step({0}, {2}), step({0}, {3}), step({0}, {4}),
                             step({0}, {5})};
  steps[2].alone = "it runs on all threads";
  const std::vector<Section> found = side_by_side(steps, 2, false);
  REQUIRE(found.size() == 2);
  CHECK(found[0].first == 0);
  CHECK(found[0].size() == 2);
  CHECK(found[1].first == 3);
}

TEST_CASE("beside: random schedules are right, and one wait less is found out") {
  std::mt19937 generator(3);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  int found_out = 0;
  for (int round = 0; round < 300; ++round) {
    const uint32_t storages = 4 + random() % 12;
    std::vector<Step> steps;
    for (size_t i = 0; i < 3 + random() % 30; ++i)
      steps.push_back(step({random() % storages, random() % storages}, {random() % storages},
                           1e-6 * (1 + random() % 50)));
    for (Section& s : side_by_side(steps, 2 + random() % 4, true)) {
      CHECK_NOTHROW(verify(s, steps));
      for (auto& waits : s.waits) {
        if (waits.empty()) continue;
        const std::vector<uint32_t> all = std::exchange(waits, {});
        try {
          verify(s, steps);  // an earlier wait of the same thread may have been enough
        } catch (const Error&) { ++found_out; }
        waits = all;
      }
    }
  }
  CHECK(found_out > 300);
}

}  // namespace
}  // namespace pellucid::graph
