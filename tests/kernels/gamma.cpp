// log_gamma, digamma and polygamma at arguments whose values are known in closed form, and at the
// poles.
#include "kernels/gamma.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

using namespace pellucid;

namespace {
constexpr double kEuler = 0.57721566490153286061, kPi = std::numbers::pi;
}

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
