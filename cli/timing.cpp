// See timing.h.
#include "cli/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "pellucid/lazy.h"

namespace pellucid::cli {

double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const LazyGuard eager(false);  // what is measured runs while it is measured
  const auto begun = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

int64_t autorange(const TimedLoop& loop, double least,
                  const std::function<void(int64_t, double)>& tried) {
  for (int64_t decade = 1;; decade *= 10)
    for (const int64_t step : {1, 2, 5}) {
      const int64_t number = decade * step;
      const double seconds = loop(number);
      if (tried) tried(number, seconds);
      if (seconds >= least || number >= 1'000'000'000'000) return number;
    }
}

Comparison compare_loops(const TimedLoop& first, const TimedLoop& second, int64_t first_number,
                         int64_t second_number, int pairs, double confidence) {
  Comparison c;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    double a = 0, b = 0;
    if (i % 2 == 0) a = first(first_number);
    b = second(second_number);
    if (i % 2 == 1) a = first(first_number);
    c.first.push_back(a / static_cast<double>(first_number));
    c.second.push_back(b / static_cast<double>(second_number));
    ratios.push_back(c.first.back() / std::max(c.second.back(), 1e-12));
  }
  c.ratio = median(ratios);
  c.interval = median_interval(ratios, confidence);
  using Verdict = Comparison::Verdict;
  if (c.interval.confidence > 0)
    c.verdict = c.interval.high < 1  ? Verdict::Faster
                : c.interval.low > 1 ? Verdict::Slower
                                     : Verdict::CannotTell;
  return c;
}

}  // namespace pellucid::cli
