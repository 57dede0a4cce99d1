// What a list of measurements says: its median, and where the true median lies.
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

}  // namespace pellucid
