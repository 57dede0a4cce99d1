// log_gamma, digamma and polygamma at arguments whose values are known in closed form, and at the
// poles.
#include "kernels/gamma.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace pellucid;

namespace {
constexpr double kEuler = 0.57721566490153286061, kPi = std::numbers::pi;

// The share of gamma variables of concentration a below x: the integral of the density, by
// Simpson's rule in log t.
long double share_below(long double a, long double x) {
  const long double low = std::log(x) - 60 / a - 12 / std::sqrt(a),
                    step = (std::log(x) - low) / 40'000;
  long double sum = 0;
  for (int i = 0; i <= 40'000; ++i) {
    const long double t = low + step * i;
    const int weight = i == 0 || i == 40'000 ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * std::exp(a * t - std::exp(t) - std::lgamma(a));
  }
  return sum * step / 3;
}
}  // namespace

TEST_CASE("gamma: values that are known") {
  CHECK(kernels::log_gamma(5) == doctest::Approx(std::log(24.0)).epsilon(1e-14));
  CHECK(kernels::log_gamma(0.5) == doctest::Approx(std::log(kPi) / 2).epsilon(1e-14));
  CHECK(kernels::digamma(1) == doctest::Approx(-kEuler).epsilon(1e-14));
  CHECK(kernels::digamma(0.5) == doctest::Approx(-kEuler - 2 * std::log(2.0)).epsilon(1e-14));
  CHECK(kernels::digamma(-0.5) == doctest::Approx(kernels::digamma(0.5) + 2).epsilon(1e-13));
  CHECK(kernels::digamma(1e8) == doctest::Approx(std::log(1e8)).epsilon(1e-9));
  CHECK(kernels::polygamma(1, 1) == doctest::Approx(kPi * kPi / 6).epsilon(1e-14));
  CHECK(kernels::polygamma(1, -0.5) == doctest::Approx(kPi * kPi / 2 + 4).epsilon(1e-13));
  CHECK(kernels::polygamma(2, 1) == doctest::Approx(-2 * 1.2020569031595942854).epsilon(1e-14));
  CHECK(kernels::polygamma(3, 1) == doctest::Approx(std::pow(kPi, 4) / 15).epsilon(1e-14));
}

TEST_CASE("gamma: poles and infinities") {
  CHECK(kernels::log_gamma(0) == INFINITY);
  CHECK(kernels::log_gamma(-3) == INFINITY);
  CHECK(kernels::digamma(0.0) == -INFINITY);
  CHECK(kernels::digamma(-0.0) == INFINITY);
  CHECK(std::isnan(kernels::digamma(-2)));
  CHECK(std::isnan(kernels::digamma(-INFINITY)));
  CHECK(kernels::digamma(INFINITY) == INFINITY);
  CHECK(kernels::polygamma(1, 0) == INFINITY);
  CHECK(std::isnan(kernels::digamma(NAN)));
}

TEST_CASE("gamma: a sample moves with its concentration so that its share stays") {
  for (const double a : {0.3, 1.0, 2.5, 30.0, 400.0})
    for (const double z : {-1.5, -0.2, 0.0, 1.0, 2.5}) {
      const double x = a * std::pow(std::max(0.2, 1 - 1 / (9 * a) + z / (3 * std::sqrt(a))), 3);
      CAPTURE(a);
      CAPTURE(x);
      const long double h = a * 1e-4L;
      const long double slope = (share_below(a + h, x) - share_below(a - h, x)) / (2 * h);
      const long double density = std::exp((a - 1) * std::log(x) - x - std::lgamma(a));
      CHECK(kernels::gamma_sample_slope(a, x) ==
            doctest::Approx(static_cast<double>(-slope / density)).epsilon(1e-5));
    }
  // Both ways of computing meet where one hands over to the other.
  CHECK(kernels::gamma_sample_slope(99'999, 100'500) ==
        doctest::Approx(kernels::gamma_sample_slope(100'001, 100'502)).epsilon(1e-5));
  CHECK(kernels::gamma_sample_slope(2, 0) == 0);
  CHECK(std::isnan(kernels::gamma_sample_slope(-1, 2)));
  CHECK(std::isnan(kernels::gamma_sample_slope(2, NAN)));
}
