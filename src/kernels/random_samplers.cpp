// Rejection samplers. Poisson and binomial: inversion where the mean is small, else Hörmann's
// transformed rejection ("The transformed rejection method for generating Poisson random
// variables", 1993, PTRS; "The generation of binomial random variates", 1993, BTRS). Gamma:
// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
#include "kernels/random_samplers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/parallel.h"
#include "base/philox.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kGrain = 1024;  // elements
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// The mean from which on rejection is used: below it the proposals do not cover the distribution.
constexpr double kSmallMean = 10;
/// Inversion counts up to here: the probability beyond is below 1e-100 for means below kSmallMean.
constexpr int kMostInversions = 200;

/// The uniforms of one element: two a block, from as many blocks as it asks for.
class ElementStream {
 public:
  ElementStream(PhiloxRange range, int64_t element)
      : seed_(range.seed), counter_(range.offset + static_cast<uint64_t>(element)) {}

  /// In [0, 1).
  double uniform() {
    if (half_) {
      half_ = false;
      return uniform_double(block_[2], block_[3]);
    }
    block_ = philox4x32_10(
        {static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), draw_++, 0},
        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    half_ = true;
    return uniform_double(block_[0], block_[1]);
  }

  /// In (0, 1].
  double positive_uniform() { return 1 - uniform(); }

  double normal() {
    const double u = uniform();
    return normal_pair(u, uniform())[0];
  }

 private:
  uint64_t seed_, counter_;
  uint32_t draw_ = 0;
  PhiloxBlock block_{};
  bool half_ = false;
};

/// log(k!) less Stirling's formula, k log k - k + log(2 pi k) / 2.
double stirling_rest(double k) {
  if (k < 10) {
    // log(k!) of k < 10 is short enough that nothing cancels.
    double factorial = 1;
    for (int i = 2; i <= static_cast<int>(k); ++i) factorial *= i;
    if (k == 0) return 0;
    return std::log(factorial) - (k * std::log(k) - k + 0.5 * std::log(2 * std::numbers::pi * k));
  }
  const double inverse = 1 / k, square = inverse * inverse;
  return inverse *
         (1.0 / 12 -
          square * (1.0 / 360 - square * (1.0 / 1260 - square * (1.0 / 1680 - square / 1188))));
}

/// x log(x / mean) + mean - x, which is small beside its terms where x is near the mean (Loader,
/// "Fast and accurate computation of binomial probabilities", 2000).
double deviance(double x, double mean) {
  if (std::abs(x - mean) < 0.1 * (x + mean)) {
    const double v = (x - mean) / (x + mean), square = v * v;
    double sum = (x - mean) * v, term = 2 * x * v;
    for (int j = 1; j < 100; ++j) {
      term *= square;
      const double next = sum + term / (2 * j + 1);
      if (next == sum) break;
      sum = next;
    }
    return sum;
  }
  return x * std::log(x / mean) + mean - x;
}

/// A variable whose probabilities fall from `first` of 0 by the factor(k) from k - 1 to k.
template <class Factor> double inverted(double u, double first, const Factor& factor) {
  double p = first;
  int k = 0;
  while (u >= p && k < kMostInversions) {
    u -= p;
    p *= factor(++k);
  }
  return k;
}

double poisson(double rate, ElementStream& s) {
  if (rate == 0) return 0;
  if (rate < kSmallMean)
    return inverted(s.uniform(), std::exp(-rate), [&](int k) { return rate / k; });
  const double root = std::sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b,
               inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = s.uniform() - 0.5, v = s.positive_uniform(), edge = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= sure) return k;
    if (!(k >= 0) || (edge < 0.013 && v > edge)) continue;
    if (std::log(v * inverse_alpha / (a / (edge * edge) + b)) <= log_poisson(k, rate)) return k;
  }
}

/// For p from 0 to 0.5 and a whole, positive and finite count.
double binomial(double n, double p, ElementStream& s) {
  if (n * p < kSmallMean) {
    const double odds = p / (1 - p);
    const double k = inverted(s.uniform(), std::exp(n * std::log1p(-p)),
                              [&](int i) { return (n - i + 1) / i * odds; });
    return std::min(k, n);
  }
  const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation,
               a = -0.0873 + 0.0248 * b + 0.01 * p, centre = n * p + 0.5, sure = 0.92 - 4.2 / b,
               alpha = (2.83 + 5.1 / b) * deviation,
               top = log_binomial(std::floor((n + 1) * p), n, p);
  for (;;) {
    const double u = s.uniform() - 0.5, v = s.positive_uniform(), edge = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / edge + b) * u + centre);
    if (!(k >= 0 && k <= n)) continue;
    if (edge >= 0.07 && v <= sure) return k;
    if (std::log(v * alpha / (a / (edge * edge) + b)) <= log_binomial(k, n, p) - top) return k;
  }
}

double binomial_of(double count, double p, ElementStream& s) {
  if (std::isnan(count) || std::isnan(p)) return kNan;
  const double n = std::floor(count);
  if (!(n > 0) || p <= 0) return 0;
  if (p >= 1 || n == kInfinity) return n;
  return p <= 0.5 ? binomial(n, p, s) : n - binomial(n, 1 - p, s);
}

/// 3 log(1 + t) - 3 t + 3/2 t^2 - t^3: the logarithm of the ratio of gamma's density to the
/// proposal's, whose squares cancel, divided by d. The series where its terms would cancel.
double gamma_excess(double t) {
  if (std::abs(t) < 1e-2) {
    const double fourth = t * t * t * t;
    return -3 * fourth *
           (1.0 / 4 - t * (1.0 / 5 - t * (1.0 / 6 - t * (1.0 / 7 - t * (1.0 / 8 - t / 9)))));
  }
  return 3 * (std::log1p(t) - t + t * t / 2) - t * t * t;
}

double gamma(double concentration, ElementStream& s) {
  if (!(concentration > 0)) return concentration == 0 ? 0 : kNan;
  if (concentration == kInfinity) return kInfinity;
  // A variable of concentration + 1 times u^(1 / concentration) is one of concentration.
  double scale = 1;
  if (concentration < 1) {
    scale = std::pow(s.positive_uniform(), 1 / concentration);
    concentration += 1;
  }
  const double d = concentration - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = s.normal(), t = c * x, u = s.positive_uniform();
    if (t <= -1) continue;
    const double v = (1 + t) * (1 + t) * (1 + t), square = x * x;
    if (u < 1 - 0.0331 * square * square || std::log(u) < d * gamma_excess(t)) return scale * d * v;
  }
}

/// Calls make(i, stream of element i) for all elements.
template <class Make> void each(double* out, int64_t n, PhiloxRange range, const Make& make) {
  parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ElementStream s(range, i);
      out[i] = make(i, s);
    }
  });
}

}  // namespace

double log_poisson(double k, double rate) {
  if (k == 0) return -rate;
  return -stirling_rest(k) - deviance(k, rate) - 0.5 * std::log(2 * std::numbers::pi * k);
}

double log_binomial(double k, double n, double p) {
  if (k == 0) return n * std::log1p(-p);
  if (k == n) return n * std::log(p);
  const double rest = n - k;
  return stirling_rest(n) - stirling_rest(k) - stirling_rest(rest) - deviance(k, n * p) -
         deviance(rest, n * (1 - p)) - 0.5 * std::log(2 * std::numbers::pi * k * (rest / n));
}

void random_poisson(const double* rate, double* out, int64_t n, PhiloxRange range) {
  each(out, n, range, [=](int64_t i, ElementStream& s) { return poisson(rate[i], s); });
}

void random_binomial(const double* count, const double* p, double* out, int64_t n,
                     PhiloxRange range) {
  each(out, n, range, [=](int64_t i, ElementStream& s) { return binomial_of(count[i], p[i], s); });
}

void random_gamma(const double* concentration, double* out, int64_t n, PhiloxRange range) {
  each(out, n, range, [=](int64_t i, ElementStream& s) { return gamma(concentration[i], s); });
}

void random_geometric(double p, double* out, int64_t n, PhiloxRange range) {
  const double scale = 1 / std::log1p(-p);
  each(out, n, range, [=](int64_t, ElementStream& s) {
    return std::max(1.0, std::ceil(std::log(s.positive_uniform()) * scale));
  });
}

void random_cauchy(double median, double sigma, double* out, int64_t n, PhiloxRange range) {
  each(out, n, range, [=](int64_t, ElementStream& s) {
    return median + sigma * std::tan(std::numbers::pi * (s.uniform() - 0.5));
  });
}

}  // namespace pellucid::kernels
