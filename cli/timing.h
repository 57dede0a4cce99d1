// Timing as Python's timeit does it, and the comparison of two. Knows no command and no tensor: it
// times a function that runs its work n times.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/statistics.h"

namespace pellucid::cli {

/// Runs the work `number` times and returns the seconds it took.
using TimedLoop = std::function<double(int64_t number)>;

/// The seconds that `work` takes.
double seconds_of(const std::function<void()>& work);

/// timeit's choice: the first of 1, 2, 5, 10, 20, 50… loops that takes at least `least` seconds.
/// `tried` is called after each trial.
int64_t autorange(const TimedLoop& loop, double least = 0.2,
                  const std::function<void(int64_t number, double seconds)>& tried = {});

using pellucid::Interval;
using pellucid::median;
using pellucid::median_interval;

/// Seconds per loop of both sides, block by block: blocks alternate and the pairs change their
/// order (A B, B A, …), so that a drift of the machine hits both alike.
struct Comparison {
  std::vector<double> first, second;
  double ratio = 0;  // median of first / second in each pair
  Interval interval;
  enum class Verdict { Faster, Slower, CannotTell } verdict = Verdict::CannotTell;
};
Comparison compare_loops(const TimedLoop& first, const TimedLoop& second, int64_t first_number,
                         int64_t second_number, int pairs, double confidence = 0.99);

}  // namespace pellucid::cli
