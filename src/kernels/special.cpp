// The quantile: a rational start (Abramowitz and Stegun, 26.2.23, to 4.5e-4) and Halley's steps on
// the logarithm of the share, whose slope stays near 1 where the share itself underflows.
#include "kernels/special.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace pellucid::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLogRoot2Pi = 0.91893853320467274178;  // log(2 pi) / 2

}  // namespace

double log_normal_share(double x) {
  if (x > 0) return std::log1p(-0.5 * std::erfc(x / std::numbers::sqrt2));
  if (x > -20) return std::log(0.5 * std::erfc(-x / std::numbers::sqrt2));
  // The asymptotic series of erfc, whose terms fall to below 1e-17 here.
  const double step = 1 / (x * x);
  double term = 1, sum = 1;
  for (int k = 1; k <= 10; ++k) {
    term *= -(2 * k - 1) * step;
    sum += term;
  }
  return -x * x / 2 - std::log(-x) - kLogRoot2Pi + std::log(sum);
}

double normal_quantile(double p) {
  if (p == 0) return -kInfinity;
  if (p == 1) return kInfinity;
  if (!(p > 0 && p < 1)) return std::numeric_limits<double>::quiet_NaN();
  if (p > 0.5) return -normal_quantile(1 - p);  // exact: 1 - p needs no more digits than p
  const double wanted = std::log(p), t = std::sqrt(-2 * wanted);
  double x = (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
             t;
  for (int i = 0; i < 3; ++i) {  // cubic: 1e-4, 1e-12, rounding
    const double share = log_normal_share(x);
    const double slope = std::exp(-x * x / 2 - kLogRoot2Pi - share);
    const double step = (share - wanted) / slope;  // the second derivative is -slope (x + slope)
    x -= step / (1 + step * (x + slope) / 2);
  }
  return x;
}

namespace {

// I_order(x) for x >= 0: the power series, whose terms are all positive, and for large x Hankel's
// asymptotic one, whose least term is of the order of exp(-2 x).
double bessel_i(int order, double x) {
  if (std::isinf(x)) return x;
  constexpr double kLarge = 30;
  double term = 1, sum = 1;
  if (!(x > kLarge)) {
    if (order == 1) term = sum = x / 2;
    const double quarter = x * x / 4;
    for (int k = 1; term > sum * 1e-17; ++k) sum += term *= quarter / (k * (k + order));
    return sum;
  }
  const double mu = 4.0 * order * order;
  for (int k = 1; k <= 30 && std::fabs(term) > 1e-17; ++k)
    sum += term *= -(mu - (2.0 * k - 1) * (2 * k - 1)) / (k * 8 * x);
  const double half = std::exp(x / 2);  // exp(x) alone overflows before the result does
  return half / std::sqrt(2 * std::numbers::pi * x) * sum * half;
}

}  // namespace

double bessel_i0(double x) { return std::isnan(x) ? x : bessel_i(0, std::fabs(x)); }
double bessel_i1(double x) {
  return std::isnan(x) ? x : std::copysign(bessel_i(1, std::fabs(x)), x);
}

}  // namespace pellucid::kernels
