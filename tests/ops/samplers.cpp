// Samplers whose distribution differs from element to element: frequencies against exact
// probabilities, moments from tiny to huge parameters, the same bits whatever the threads,
// parameters outside their domain.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "kernels/random_samplers.h"
#include "ops/values.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {

constexpr int64_t kDraws = 100000;
constexpr double kSamplerInfinity = std::numeric_limits<double>::infinity();
const double kSamplerNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> sampled(const Tensor& t) {
  const Tensor d = t.to(kFloat64).contiguous();
  return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
}

/// The chi-square statistic of counts against probabilities, over its degrees of freedom, in units
/// of its standard deviation; cells that expect less than 10 are joined.
template <class LogProbability>
double chi_square_excess(const std::vector<double>& values, const LogProbability& log_probability) {
  std::map<double, double> counts;
  for (const double v : values) ++counts[v];
  const auto n = static_cast<double>(values.size());
  double statistic = 0, cells = 0, rest_seen = n, rest_expected = n;
  for (const auto& [k, seen] : counts) {
    const double expected = n * std::exp(log_probability(k));
    if (expected < 10) continue;
    statistic += (seen - expected) * (seen - expected) / expected;
    rest_seen -= seen;
    rest_expected -= expected;
    ++cells;
  }
  if (rest_expected > 1) {
    statistic += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++cells;
  }
  const double freedom = std::max(cells - 1, 1.0);
  return (statistic - freedom) / std::sqrt(2 * freedom);
}

/// `excess` is the distribution's excess kurtosis: it decides how far a sample's variance scatters.
void check_moments(const Tensor& x, double mean, double variance, double excess = 0) {
  const Tensor values = x.to(kFloat64);
  const auto n = static_cast<double>(values.numel());
  const double deviation = std::sqrt(variance);
  CHECK(std::fabs(only(values.mean()) - mean) <= 5 * deviation / std::sqrt(n) + 1e-12 * mean);
  if (deviation < 1e-15 * mean) return;  // below what a double resolves
  CHECK(std::fabs(only(values.sub(mean).square().mean()) / variance - 1) <
        std::max(0.05, 5 * std::sqrt((2 + excess) / n)));
}

}  // namespace

TEST_CASE("poisson: frequencies and moments from tiny to huge rates") {
  manual_seed(1);
  for (const double rate : {0.1, 1.0, 5.0, 9.99, 10.0, 30.0, 300.0, 1000.0}) {
    CAPTURE(rate);
    const auto values = sampled(poisson(full({kDraws}, rate, kFloat64)));
    CHECK(chi_square_excess(values, [&](double k) { return kernels::log_poisson(k, rate); }) < 5);
  }
  for (const double rate : {1e-3, 0.5, 20.0, 1e4, 1e6, 1e9, 1e15, 1e30, 1e300}) {
    CAPTURE(rate);
    check_moments(poisson(full({kDraws}, rate, kFloat64)).div(std::sqrt(rate)), std::sqrt(rate), 1,
                  1 / rate);
  }
  CHECK(equal(poisson(zeros({5})), zeros({5})));
}

TEST_CASE("binomial: frequencies and moments from tiny to huge counts") {
  manual_seed(2);
  for (const double n : {1.0, 7.0, 40.0, 1000.0})
    for (const double p : {0.01, 0.3, 0.5, 0.8, 0.999}) {
      CAPTURE(n);
      CAPTURE(p);
      const auto values = sampled(binomial(full({kDraws}, n, kFloat64), full({}, p, kFloat64)));
      CHECK(chi_square_excess(values, [&](double k) { return kernels::log_binomial(k, n, p); }) <
            5);
    }
  for (const double n : {100.0, 1e6, 1e9, 1e15})
    for (const double p : {0.05, 0.5, 0.9}) {
      CAPTURE(n);
      CAPTURE(p);
      const double deviation = std::sqrt(n * p * (1 - p));
      check_moments(binomial(full({kDraws}, n, kFloat64), full({}, p, kFloat64)).div(deviation),
                    n * p / deviation, 1);
    }
  // A tiny probability of many tries is a Poisson variable.
  check_moments(binomial(full({kDraws}, 1e9, kFloat64), full({}, 3e-9, kFloat64)), 3, 3);
}

TEST_CASE("gamma and Dirichlet: moments from small to huge concentrations") {
  manual_seed(3);
  for (const double a : {0.05, 0.5, 1.0, 2.5, 100.0, 1e6, 1e12, 1e30}) {
    CAPTURE(a);
    const double scale = std::sqrt(a);
    check_moments(_standard_gamma(full({2 * kDraws}, a, kFloat64)).div(scale), scale, 1);
  }
  const Tensor shares = _sample_dirichlet(tensor({1.0, 2.0, 5.0}, kFloat64).expand({kDraws, 3}));
  CHECK(allclose(shares.sum(-1), ones({kDraws}, kFloat64)));
  CHECK(allclose(shares.mean(0), tensor({0.125, 0.25, 0.625}, kFloat64), 0.02, 0.002));
}

TEST_CASE("geometric and cauchy: frequencies and quartiles") {
  manual_seed(4);
  for (const double p : {0.01, 0.3, 0.9}) {
    CAPTURE(p);
    const auto values = sampled(empty({kDraws}, kInt64).geometric_(p));
    CHECK(chi_square_excess(values,
                            [&](double k) { return std::log(p) + (k - 1) * std::log1p(-p); }) < 5);
  }
  const Tensor x = empty({kDraws}).cauchy_(3, 2);
  CHECK(std::fabs(only(x.lt(1).to(kFloat64).mean()) - 0.25) < 0.01);
  CHECK(std::fabs(only(x.lt(5).to(kFloat64).mean()) - 0.75) < 0.01);
}

TEST_CASE("samplers give the same bits whatever the threads") {
  const int before = get_num_threads();
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    manual_seed(5);
    const Tensor rates = rand({40000}).mul(100);
    const std::vector<Tensor> now{poisson(rates),
                                  binomial(rates.floor(), rand({40000})),
                                  _standard_gamma(rates),
                                  empty({40000}).geometric_(0.1),
                                  poisson(rates.view({200, 200}).t()),
                                  rand({3})};
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i) CHECK(equal(now[i], first[i]));
  }
  set_num_threads(before);
}

TEST_CASE("samplers end whatever their parameters are") {
  CHECK_THROWS_AS(poisson(tensor({1.0, -1.0})), ValueError);
  CHECK_THROWS_AS(poisson(tensor({1.0, kSamplerNan})), ValueError);
  CHECK_THROWS_AS(poisson(tensor({1.0, kSamplerInfinity})), ValueError);
  CHECK_THROWS_AS(empty({3}).geometric_(kSamplerNan), ValueError);
  CHECK_THROWS_AS(empty({3}).cauchy_(0, kSamplerNan), ValueError);
  const Tensor counts =
                   tensor({5.0, -5.0, 5.0, 5.0, 5.0, kSamplerNan, kSamplerInfinity, 0.0}, kFloat64),
               shares = tensor({2.0, 0.5, -1.0, 1.0, kSamplerNan, 0.5, 0.5, 0.5}, kFloat64);
  const auto drawn = sampled(binomial(counts, shares));
  CHECK(drawn[0] == 5);
  CHECK(drawn[1] == 0);
  CHECK(drawn[2] == 0);
  CHECK(drawn[3] == 5);
  CHECK(std::isnan(drawn[4]));
  CHECK(std::isnan(drawn[5]));
  CHECK(drawn[6] == kSamplerInfinity);
  CHECK(drawn[7] == 0);
  const auto made = sampled(_standard_gamma(
      tensor({0.0, -1.0, kSamplerNan, kSamplerInfinity, 5e-324, 1e-300, 1e308}, kFloat64)));
  CHECK(made[0] == std::numeric_limits<double>::min());
  CHECK(std::isnan(made[1]));
  CHECK(std::isnan(made[2]));
  CHECK(made[3] == kSamplerInfinity);
  CHECK(made[4] == std::numeric_limits<double>::min());
  CHECK(made[6] > 0.99e308);
}

TEST_CASE("gradients of gamma samples reach the concentration") {
  manual_seed(6);
  const Tensor a = full({kDraws}, 3.0, kFloat64).requires_grad_();
  _standard_gamma(a).mean().backward();
  // The mean is the concentration, so its slope is 1.
  CHECK(std::fabs(only(a.grad().sum()) - 1) < 0.02);
}

TEST_CASE("gcd and lcm of integers, the least one included") {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const Tensor a = tensor({int64_t{12}, int64_t{-12}, int64_t{0}, int64_t{0}, least, int64_t{7}}),
               b = tensor({int64_t{18}, int64_t{18}, int64_t{5}, int64_t{0}, int64_t{6}, least});
  CHECK(equal(gcd(a, b),
              tensor({int64_t{6}, int64_t{6}, int64_t{5}, int64_t{0}, int64_t{2}, int64_t{1}})));
  CHECK(equal(lcm(a.slice(0, 0, 4), b.slice(0, 0, 4)),
              tensor({int64_t{36}, int64_t{36}, int64_t{0}, int64_t{0}})));
  CHECK_THROWS_AS(gcd(tensor({kSamplerNan}), tensor({2.0})), TypeError);
  CHECK_THROWS_AS(gcd(tensor({true}), tensor({true})), TypeError);
}

TEST_CASE("quantiles of the normal distribution invert its share, in both tails") {
  for (const double p : {5e-324, 1e-300, 1e-20, 1e-5, 0.1, 0.3, 0.5, 0.7, 0.9, 1 - 1e-9}) {
    CAPTURE(p);
    const Tensor x = special_ndtri(full({}, p, kFloat64));
    CHECK(std::fabs(special_log_ndtr(x).item<double>() - std::log(p)) <=
          1e-14 * std::max(1.0, std::fabs(std::log(p))));
  }
  CHECK(special_ndtri(zeros({})).item<double>() == -kSamplerInfinity);
  CHECK(special_ndtri(ones({})).item<double>() == kSamplerInfinity);
  CHECK(std::isnan(special_ndtri(full({}, 1.5)).item<double>()));
  CHECK(allclose(special_ndtr(tensor({0, 1, 2}).to(kUInt8)),
                 tensor({0.5, 0.841344746068543, 0.977249868051821}), 1e-6));
}

TEST_CASE("bytes are resized with rounding") {
  const Tensor x = tensor({0, 1, 2, 255}).to(kUInt8).view({1, 4});
  CHECK(equal(resample(x, 1, 2, "linear"), tensor({1, 129}).to(kUInt8).view({1, 2})));
}
