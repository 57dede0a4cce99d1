// Times of repeated runs: warm-up until they settle, order statistics, and whether to trust them.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "pellucid/analyze.h"
#include "pellucid/lazy.h"

namespace pellucid {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_of(const std::function<void()>& work) {
  const auto begun = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
}

// Settled: the medians of the last runs and of as many before them differ by at most 5 %.
bool settled(const std::vector<double>& times) {
  constexpr size_t kWindow = 5;
  if (times.size() < 2 * kWindow) return false;
  const auto end = times.end();
  const double late = quantile({end - kWindow, end}, 0.5);
  const double early = quantile({end - 2 * kWindow, end - kWindow}, 0.5);
  return std::abs(late - early) <= 0.05 * std::max(late, early);
}

// How often a thread of this process lost its core to somebody else.
int64_t preemptions() {
  rusage used{};
  return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_nivcsw : 0;
}

// Where others hold the cores all the time, every run is slow alike and the times scatter little. A
// turn of the system's scheduler is some milliseconds.
bool starved(const Latency& l) {
  constexpr double kTurnMs = 3;
  const double all_ms = l.mean_ms * static_cast<double>(l.iterations);
  return l.preempted >= 3 && static_cast<double>(l.preempted) * kTurnMs > 0.2 * all_ms;
}

std::string warning_of(const Latency& l) {
  if (l.iqr_ms > 0.2 * l.median_ms)
    return fmt::format(
        "the machine is too noisy: half of the times lie {:.0f} % apart; close other programs and "
        "measure again",
        100 * l.iqr_ms / l.median_ms);
  if (starved(l))
    return fmt::format(
        "the machine is too noisy: other programs took the core away {} times in {:.0f} ms; close "
        "them and measure again",
        l.preempted, l.mean_ms * static_cast<double>(l.iterations));
  if (l.noisy)
    return fmt::format(
        "the machine is too noisy: the median is {:.1f} times the fastest run; close other "
        "programs "
        "and measure again",
        l.median_ms / l.min_ms);
  if (!l.stable)
    return fmt::format("times had not settled after {} warm-up runs; use more", l.warmup_runs);
  return {};
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

Latency measure_latency_of(const std::function<void()>& work, int64_t warmup, int64_t iterations) {
  PELLUCID_CHECK(warmup >= 0 && iterations > 0, ValueError,
                 "measure_latency: warmup must not be negative and iterations must be positive, "
                 "found {} and {}.",
                 warmup, iterations);
  const LazyGuard eager(false);  // what is measured runs while it is measured
  constexpr double kMostWarmupMs = 1000;
  Latency out;
  std::vector<double> times;
  double spent = 0;
  while (out.warmup_runs < warmup || (warmup > 0 && !settled(times) &&
                                      out.warmup_runs < 10 * warmup && spent < kMostWarmupMs)) {
    times.push_back(milliseconds_of(work));
    spent += times.back();
    ++out.warmup_runs;
  }
  out.stable = warmup == 0 || settled(times) || out.warmup_runs < 10 * warmup;
  times.clear();
  const int64_t before = preemptions();
  for (int64_t i = 0; i < iterations; ++i) times.push_back(milliseconds_of(work));
  out.preempted = preemptions() - before;
  out.iterations = iterations;
  out.median_ms = quantile(times, 0.5);
  out.iqr_ms = quantile(times, 0.75) - quantile(times, 0.25);
  out.mean_ms = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(iterations);
  out.min_ms = *std::min_element(times.begin(), times.end());
  out.max_ms = *std::max_element(times.begin(), times.end());
  out.p95_ms = quantile(times, 0.95);
  out.p99_ms = quantile(times, 0.99);
  out.noisy = out.iqr_ms > 0.2 * out.median_ms || out.median_ms > 2 * out.min_ms || starved(out);
  out.warning = warning_of(out);
  return out;
}

Figures Latency::figures() const {
  Figures out({{"latency_ms", median_ms},
               {"iqr_ms", iqr_ms},
               {"mean_ms", mean_ms},
               {"min_ms", min_ms},
               {"max_ms", max_ms},
               {"p95_ms", p95_ms},
               {"p99_ms", p99_ms},
               {"warmup_runs", warmup_runs},
               {"iterations", iterations}});
  if (!warning.empty()) out.add("warning", warning);
  return out;
}

}  // namespace pellucid
