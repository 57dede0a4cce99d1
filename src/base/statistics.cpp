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

namespace {

// The regularised incomplete beta function I_x(a, b) by its continued fraction (Lentz's method),
// which converges fast for x < (a + 1) / (a + b + 2).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double v) { return std::fabs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), sum = d;
  for (int m = 1; m < 300; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    sum *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    sum *= c * d;
    if (std::fabs(c * d - 1) < 1e-14) break;
  }
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return front * sum / a;
}

// Mean and variance of the logarithms.
struct Logs {
  double mean = 0, variance = 0, count = 0;
  explicit Logs(const std::vector<double>& values) : count(static_cast<double>(values.size())) {
    for (const double v : values) mean += std::log(v) / count;
    if (values.size() < 2) return;
    for (const double v : values)
      variance += (std::log(v) - mean) * (std::log(v) - mean) / (count - 1);
  }
};

}  // namespace

double student_quantile(double q, double freedom) {
  const auto above = [&](double t) {
    return 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
  };
  double low = 0, high = 1;
  while (above(high) > 1 - q && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (above(middle) > 1 - q ? low : high) = middle;
  }
  return high;
}

Interval ratio_interval(const std::vector<double>& first, const std::vector<double>& second,
                        double confidence) {
  if (first.empty() || second.empty() || first.size() + second.size() < 3) return {};
  Logs a(first), b(second);
  if (first.size() == 1) a.variance = b.variance;
  if (second.size() == 1) b.variance = a.variance;
  const double part_a = a.variance / a.count, part_b = b.variance / b.count;
  double freedom = std::max(a.count, b.count) - 1;  // of the side whose scatter is known
  if (first.size() > 1 && second.size() > 1 && part_a + part_b > 0)
    freedom = (part_a + part_b) * (part_a + part_b) /
              (part_a * part_a / (a.count - 1) + part_b * part_b / (b.count - 1));
  const double change = b.mean - a.mean;
  const double half =
      student_quantile(1 - (1 - confidence) / 2, freedom) * std::sqrt(part_a + part_b);
  return {std::exp(change - half), std::exp(change + half), confidence};
}

}  // namespace pellucid
