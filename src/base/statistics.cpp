// See statistics.h.
#include "base/statistics.h"

#include <algorithm>
#include <cmath>

namespace pellucid {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Interval median_interval(std::vector<double> values, double confidence) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<int>(values.size());
  // The k-th smallest and the k-th largest value enclose the median unless fewer than k of n coin
  // tosses fall on one side; the largest k that keeps the confidence gives the shortest interval.
  Interval best;
  double tail = 0, term = std::pow(0.5, n);
  for (int k = 1; 2 * k <= n; ++k) {
    tail += term;
    term *= static_cast<double>(n - k + 1) / k;
    const double reached = 1 - 2 * tail;
    if (reached < confidence) break;
    best = {values[static_cast<size_t>(k - 1)], values[static_cast<size_t>(n - k)], reached};
  }
  return best;
}

}  // namespace pellucid
