// What a list of measurements says: its median, where the true median lies, and how much greater
// the values of another list are.
#pragma once

#include <vector>

#include "pellucid/api.h"

namespace pellucid {

/// 0 for no values.
PELLUCID_API double median(std::vector<double> values);

/// An interval that holds the median of the population, whatever its distribution (sign test).
struct Interval {
  double low = 0, high = 0;
  double confidence = 0;  // reached; 0 where there are too few values for the one asked for
};
PELLUCID_API Interval median_interval(std::vector<double> values, double confidence);

/// The value that Student's t with `freedom` degrees (any positive number) stays below with
/// probability q, 0.5 <= q < 1.
PELLUCID_API double student_quantile(double q, double freedom);

/// Where the second population's typical value divided by the first's lies: Welch's test on
/// logarithms. All values must be positive. Where one side has a single value, the scatter of the
/// other is taken for both; where both have, there is no interval (confidence 0).
PELLUCID_API Interval ratio_interval(const std::vector<double>& first,
                                     const std::vector<double>& second, double confidence);

}  // namespace pellucid
