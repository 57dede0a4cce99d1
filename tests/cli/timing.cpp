// The statistics of `pellucid time`, on given times: nothing here measures.
#include "cli/timing.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace pellucid::cli;

TEST_CASE("timing: autorange tries 1, 2, 5, 10… until a block is long enough") {
  std::vector<int64_t> tried;
  const int64_t number = autorange([](int64_t n) { return 0.001 * static_cast<double>(n); }, 0.2,
                                   [&](int64_t n, double) { tried.push_back(n); });
  CHECK(number == 200);
  CHECK(tried == std::vector<int64_t>{1, 2, 5, 10, 20, 50, 100, 200});
}

TEST_CASE("timing: the interval of a median comes from the binomial distribution") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  std::vector<double> values;
  for (int i = 1; i <= 15; ++i) values.push_back(i);
  const Interval i = median_interval(values, 0.99);
  CHECK(i.low == 3);  // P(X <= 2) of 15 coins is 0.0037
  CHECK(i.high == 13);
  CHECK(i.confidence == doctest::Approx(1 - 2 * (1 + 15 + 105) / 32768.0));
  CHECK(median_interval({1, 2, 3, 4, 5, 6, 7}, 0.99).confidence == 0);
  CHECK(median_interval({1, 2, 3, 4, 5, 6, 7, 8}, 0.99).high == 8);
}

TEST_CASE("timing: the verdict follows the interval, and blocks alternate their order") {
  std::vector<char> order;
  const auto side = [&](char name, double seconds) {
    return [&order, name, seconds](int64_t n) {
      order.push_back(name);
      const double noise = 1 + 0.01 * static_cast<double>(order.size() % 5);
      return seconds * noise * static_cast<double>(n);
    };
  };
  using Verdict = Comparison::Verdict;
  const Comparison faster = compare_loops(side('a', 1e-3), side('b', 2e-3), 10, 20, 15);
  CHECK(faster.verdict == Verdict::Faster);
  CHECK(faster.ratio == doctest::Approx(0.5).epsilon(0.05));
  CHECK(std::vector<char>(order.begin(), order.begin() + 4) ==
        std::vector<char>{'a', 'b', 'b', 'a'});
  CHECK(compare_loops(side('a', 2e-3), side('b', 1e-3), 1, 1, 15).verdict == Verdict::Slower);
  CHECK(compare_loops(side('a', 1e-3), side('b', 1e-3), 1, 1, 15).verdict == Verdict::CannotTell);
  CHECK(compare_loops(side('a', 1e-3), side('b', 9e-3), 1, 1, 5).verdict == Verdict::CannotTell);
}
