// Asymptotic series beyond 10, reached by the recurrences; reflection for negative arguments.
#include "kernels/gamma.h"

#include <math.h>  // lgamma_r, which unlike std::lgamma writes no global variable

#include <cmath>
#include <limits>
#include <numbers>

namespace pellucid::kernels {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Bernoulli numbers B2, B4, …, B20.
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30,      1.0 / 42, -1.0 / 30,
                                 5.0 / 66,      -691.0 / 2730,  7.0 / 6,  -3617.0 / 510,
                                 43867.0 / 798, -174611.0 / 330};

/// The sum over k >= 0 of (q + k)^-s, s an integer above 1: the first terms, then the formula of
/// Euler and Maclaurin for the rest.
double hurwitz_zeta(int s, double q) {
  if (q <= 0 && q == std::floor(q)) return kInfinity;
  if (q < 0) {
    // The terms below 0, mirrored, are the difference of two sums above it: their number does not
    // matter.
    const double terms = std::ceil(-q), rest = q + terms;
    const double below = hurwitz_zeta(s, 1 - rest) - hurwitz_zeta(s, 1 - rest + terms);
    return hurwitz_zeta(s, rest) + (s % 2 ? -below : below);
  }
  double sum = 0;
  for (; q < 10; q += 1) sum += std::pow(q, -s);
  const double power = std::pow(q, -s);
  sum += power * q / (s - 1) + power / 2;
  double factor = s * power / q;  // s (s + 1) … (s + 2j - 2) q^(-s - 2j + 1) / (2j)!, times (2j)!
  double factorial = 2;
  for (int j = 1; j <= 10; ++j) {
    sum += kBernoulli[j - 1] / factorial * factor;
    factor *= (s + 2.0 * j - 1) * (s + 2.0 * j) / (q * q);
    factorial *= (2.0 * j + 1) * (2.0 * j + 2);
  }
  return sum;
}

/// What gradients of digamma take; the general sum below is ten times as slow.
double trigamma(double x) {
  if (x <= 0 && x == std::floor(x)) return kInfinity;
  if (x < 0) {
    const double sine = std::sin(kPi * (x - std::trunc(x)));
    return kPi * kPi / (sine * sine) - trigamma(1 - x);
  }
  double sum = 0;
  for (; x < 10; x += 1) sum += 1 / (x * x);
  const double inverse = 1 / x, step = inverse * inverse;
  double power = step * inverse, series = 0;
  for (int k = 1; k <= 8; ++k, power *= step) series += kBernoulli[k - 1] * power;
  return sum + (series + step / 2 + inverse);
}

}  // namespace

double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x == -kInfinity || (x < 0 && x == std::floor(x)))
    return std::numeric_limits<double>::quiet_NaN();
  if (x < 0) {
    // tan of the fraction alone: the argument's whole part would cost digits.
    return digamma(1 - x) - kPi / std::tan(kPi * (x - std::trunc(x)));
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  double power = 1 / (x * x);
  const double step = power;
  for (int k = 1; k <= 8; ++k, power *= step) sum -= kBernoulli[k - 1] / (2 * k) * power;
  return sum + std::log(x) - 0.5 / x;
}

double polygamma(int n, double x) {
  if (n == 1) return trigamma(x);
  const double size = std::tgamma(n + 1.0) * hurwitz_zeta(n + 1, x);
  return n % 2 ? size : -size;
}

double gamma_sample_slope(double a, double x) {
  if (!(a > 0) || !(x >= 0) || !std::isfinite(a) || !std::isfinite(x))
    return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return 0;
  if (a > 1e5) {
    // x = a (1 - 1 / 9a + z / 3 sqrt(a))^3 with a normal z (Wilson and Hilferty), derived for the
    // same z.
    const double root = std::cbrt(x / a), shift = 1 - 1 / (9 * a);
    return x / a + 3 * a * root * root * (1 / (9 * a * a) - (root - shift) / (2 * a));
  }
  // P(a, x) is the sum over n of x^(a + n) e^-x / gamma(a + n + 1); each term, divided by the
  // density, derives to term * (log x - digamma(a + n + 1)).
  const double log_x = std::log(x);
  double term = x / a, psi = digamma(a + 1), sum = 0;
  for (int n = 1; n < 100'000; ++n) {
    const double part = term * (psi - log_x);
    sum += part;
    if (x < a + n && term <= 1e-17 * std::abs(sum)) break;
    term *= x / (a + n);
    psi += 1 / (a + n);
  }
  return sum;
}

}  // namespace pellucid::kernels
