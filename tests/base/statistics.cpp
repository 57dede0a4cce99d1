// Student's t and Welch's interval against tabulated values.
#include "base/statistics.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace pellucid;

TEST_CASE("statistics: Student's t") {
  CHECK(student_quantile(0.5, 3) == doctest::Approx(0).epsilon(1e-6));
  CHECK(student_quantile(0.975, 1) == doctest::Approx(12.7062).epsilon(1e-5));
  CHECK(student_quantile(0.995, 2) == doctest::Approx(9.92484).epsilon(1e-5));
  CHECK(student_quantile(0.995, 4) == doctest::Approx(4.60409).epsilon(1e-5));
  CHECK(student_quantile(0.95, 30) == doctest::Approx(1.69726).epsilon(1e-5));
  CHECK(student_quantile(0.975, 1e6) == doctest::Approx(1.95997).epsilon(1e-4));
  CHECK(student_quantile(0.975, 2.5) > student_quantile(0.975, 3));
}

TEST_CASE("statistics: the interval of a ratio") {
  // Logarithms 0, 1, 2 and 3, 5: means 1 and 4, variances 1 and 2.
  const std::vector<double> a = {1, std::exp(1.0), std::exp(2.0)},
                            b = {std::exp(3.0), std::exp(5.0)};
  const Interval i = ratio_interval(a, b, 0.95);
  const double freedom = std::pow(1.0 / 3 + 1, 2) / (1.0 / 9 / 2 + 1);
  const double half = student_quantile(0.975, freedom) * std::sqrt(4.0 / 3);
  CHECK(std::log(i.low) == doctest::Approx(3 - half));
  CHECK(std::log(i.high) == doctest::Approx(3 + half));
  CHECK(i.confidence == 0.95);
  // One value on a side: the other's scatter and degrees of freedom.
  const Interval one = ratio_interval(a, {std::exp(4.0)}, 0.99);
  CHECK(std::log(one.high) ==
        doctest::Approx(3 + student_quantile(0.995, 2) * std::sqrt(1 + 1.0 / 3)));
  CHECK(ratio_interval({1}, {2}, 0.99).confidence == 0);
  CHECK(ratio_interval({2, 2}, {4, 4}, 0.99).low == doctest::Approx(2));
  CHECK(ratio_interval({2, 2}, {4, 4}, 0.99).high == doctest::Approx(2));
}
