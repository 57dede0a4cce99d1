// Initial values of parameters.
#include "pellucid/nn/init.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/estimate.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn::init {

double calculate_gain(NonlinearityType nonlinearity, double param) {
  if (std::holds_alternative<enumtype::kTanh>(nonlinearity)) return 5.0 / 3.0;
  if (std::holds_alternative<enumtype::kReLU>(nonlinearity)) return std::numbers::sqrt2;
  if (std::holds_alternative<enumtype::kLeakyReLU>(nonlinearity))
    return std::sqrt(2.0 / (1.0 + param * param));
  return 1.0;
}

Tensor constant_(Tensor t, Scalar value) {
  const NoGradGuard off;
  return t.fill_(value);
}
Tensor zeros_(Tensor t) { return constant_(std::move(t), 0); }
Tensor ones_(Tensor t) { return constant_(std::move(t), 1); }

Tensor eye_(Tensor matrix) {
  PELLUCID_CHECK(matrix.dim() == 2, ShapeError, "eye_: a matrix is needed, but got {}.",
                 matrix.sizes());
  const NoGradGuard off;
  return matrix.copy_(eye(matrix.size(0), matrix.size(1), matrix.dtype()));
}

Tensor dirac_(Tensor t) {
  PELLUCID_CHECK(t.dim() >= 3 && t.dim() <= 5, ShapeError,
                 "dirac_: 3, 4 or 5 dimensions are needed, but got {}.", t.sizes());
  const NoGradGuard off;
  t.zero_();
  for (int64_t d = 0; d < std::min(t.size(0), t.size(1)); ++d) {
    Tensor entry = t.select(0, d).select(0, d);
    while (entry.dim() > 0) entry = entry.select(0, entry.size(0) / 2);
    entry.fill_(1);
  }
  return t;
}

Tensor normal_(Tensor t, double mean, double std) {
  const NoGradGuard off;
  return t.normal_(mean, std);
}

Tensor trunc_normal_(Tensor t, double mean, double std, double a, double b) {
  PELLUCID_CHECK(std > 0 && a < b, ValueError,
                 "trunc_normal_: std must be positive and a below b, but got std {}, a {}, b {}.",
                 std, a, b);
  const NoGradGuard off;
  const auto cdf = [](double x) { return (1.0 + std::erf(x / std::numbers::sqrt2)) / 2.0; };
  const double low = cdf((a - mean) / std), high = cdf((b - mean) / std);
  const Tensor u = empty(t.sizes(), kFloat64).uniform_(2 * low - 1, 2 * high - 1);
  return t.copy_(u.erfinv().mul(std * std::numbers::sqrt2).add(mean).clamp(a, b));
}

Tensor uniform_(Tensor t, double low, double high) {
  const NoGradGuard off;
  return t.uniform_(low, high);
}

namespace {

/// Makes the columns of a rows x columns matrix orthonormal (rows >= columns), twice for accuracy.
/// A random matrix has full rank with probability 1.
void orthonormalise(std::vector<double>& m, int64_t rows, int64_t columns) {
  const auto at = [&](int64_t r, int64_t c) -> double& {
    return m[static_cast<size_t>(r * columns + c)];
  };
  for (int64_t c = 0; c < columns; ++c) {
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t k = 0; k < c; ++k) {
        double dot = 0;
        for (int64_t r = 0; r < rows; ++r) dot += at(r, k) * at(r, c);
        for (int64_t r = 0; r < rows; ++r) at(r, c) -= dot * at(r, k);
      }
    double length = 0;
    for (int64_t r = 0; r < rows; ++r) length += at(r, c) * at(r, c);
    for (int64_t r = 0; r < rows; ++r) at(r, c) /= std::sqrt(length);
  }
}

}  // namespace

Tensor orthogonal_(Tensor t, double gain) {
  PELLUCID_CHECK(t.dim() >= 2, ShapeError,
                 "orthogonal_: at least 2 dimensions are needed, but got {}.", t.sizes());
  const NoGradGuard off;
  if (t.numel() == 0 || EstimateGuard::is_enabled()) return t;
  const int64_t rows = t.size(0), columns = t.numel() / rows;
  const int64_t tall = std::max(rows, columns), narrow = std::min(rows, columns);
  const Tensor random = randn({tall, narrow}, kFloat64);
  const double* values = random.const_data_ptr<double>();
  std::vector<double> m(values, values + tall * narrow);
  orthonormalise(m, tall, narrow);
  Tensor q = from_blob(m.data(), {tall, narrow}, kFloat64);
  if (rows < columns) q = q.t();
  return t.copy_(q.reshape(t.sizes()) * gain);
}

Tensor sparse_(Tensor t, double sparsity, double std) {
  PELLUCID_CHECK(t.dim() == 2, ShapeError, "sparse_: a matrix is needed, but got {}.", t.sizes());
  const NoGradGuard off;
  const auto zeros = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(t.size(0))));
  t.normal_(0, std);
  for (int64_t c = 0; c < t.size(1); ++c)
    t.select(1, c).index_fill_(0, randperm(t.size(0)).slice(0, 0, zeros), 0);
  return t;
}

std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& t) {
  PELLUCID_CHECK(t.dim() >= 2, ShapeError,
                 "Fan in and fan out need a tensor of at least 2 dimensions, but got {}.",
                 t.sizes());
  int64_t receptive = 1;
  for (int64_t d = 2; d < t.dim(); ++d) receptive *= t.size(d);
  return {t.size(1) * receptive, t.size(0) * receptive};
}

namespace {
double kaiming_std(const Tensor& t, double a, FanModeType mode, NonlinearityType nonlinearity) {
  const auto [in, out] = _calculate_fan_in_and_fan_out(t);
  const int64_t fan = std::holds_alternative<enumtype::kFanIn>(mode) ? in : out;
  return calculate_gain(nonlinearity, a) / std::sqrt(static_cast<double>(fan));
}
double xavier_std(const Tensor& t, double gain) {
  const auto [in, out] = _calculate_fan_in_and_fan_out(t);
  return gain * std::sqrt(2.0 / static_cast<double>(in + out));
}
}  // namespace

Tensor kaiming_normal_(Tensor t, double a, FanModeType mode, NonlinearityType nonlinearity) {
  return t.numel() == 0 ? t : init::normal_(t, 0, kaiming_std(t, a, mode, nonlinearity));
}
Tensor kaiming_uniform_(Tensor t, double a, FanModeType mode, NonlinearityType nonlinearity) {
  if (t.numel() == 0) return t;
  const double bound = std::sqrt(3.0) * kaiming_std(t, a, mode, nonlinearity);
  return init::uniform_(t, -bound, bound);
}
Tensor xavier_normal_(Tensor t, double gain) { return init::normal_(t, 0, xavier_std(t, gain)); }
Tensor xavier_uniform_(Tensor t, double gain) {
  const double bound = std::sqrt(3.0) * xavier_std(t, gain);
  return init::uniform_(t, -bound, bound);
}

}  // namespace pellucid::nn::init
