// Compositions on vectors and values: distances between rows, cross products, counts in bins.
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

using Values = std::vector<Value>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// sqrt with the gradient 0 at 0, as PyTorch's distances have it.
Tensor safe_sqrt(const Tensor& t) {
  const Tensor zero = t.eq(0);
  return t.masked_fill(zero, 1).sqrt().masked_fill(zero, 0);
}

// |x - y|^2 = |x|^2 + |y|^2 - 2 x y: one product in the place of all differences.
Tensor distances_by_product(const Tensor& x, const Tensor& y) {
  const Tensor squares = x.square().sum(-1, true).add(y.square().sum(-1, true).mT());
  return safe_sqrt(squares.sub(matmul(x, y.mT()).mul(2)).clamp_min(0));
}

// The greatest absolute difference of each row. Its gradient is, as PyTorch's, the sign of every
// difference that is as great, where linalg_vector_norm shares one among them.
struct GreatestDifference : autograd::Function<GreatestDifference> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& difference) {
    const Tensor greatest = linalg_vector_norm(difference, kInfinity, {-1});
    ctx->save_for_backward({difference, greatest});
    return greatest;
  }
  static Tensors backward(autograd::AutogradContext* ctx, Tensors grads) {
    const Tensors saved = ctx->get_saved_variables();
    const Tensor difference = saved[0].detach(), greatest = saved[1].detach().unsqueeze(-1);
    return {grads[0].unsqueeze(-1).mul(
        difference.sign().mul(difference.abs().eq(greatest).to(difference.dtype())))};
  }
};

Tensor compose_cdist(const Call& c) {
  check_defined(c, 0, "x1");
  check_defined(c, 1, "x2");
  const Tensor &x = c.in(0), &y = c.in(1);
  check_floating(c, x, "x1");
  check_same_dtype(c, x, y);
  PELLUCID_CHECK(x.dim() >= 2 && y.dim() >= 2, ShapeError,
                 "cdist: both tensors need at least 2 dimensions, found sizes {} and {}.",
                 x.sizes(), y.sizes());
  PELLUCID_CHECK(x.size(-1) == y.size(-1), ShapeError,
                 "cdist: x1.size(-1) is {} but x2.size(-1) is {} (x1 {}, x2 {}).", x.size(-1),
                 y.size(-1), x.sizes(), y.sizes());
  const double p = c.number(0);
  PELLUCID_CHECK(p >= 0, ValueError, "cdist: p must not be negative, found {}.", p);
  const int64_t mode = c.has_attr(1) ? c.integer(1) : 0;
  PELLUCID_CHECK(mode >= 0 && mode <= 2, ValueError,
                 "cdist: compute_mode must be 0, 1 or 2, found {}.", mode);
  // PyTorch's rule: products from 25 rows on (0), always (1) or never (2).
  const bool many = x.size(-2) > 25 || y.size(-2) > 25;
  if (p == 2 && x.size(-1) > 0 && (mode == 1 || (mode == 0 && many)))
    return distances_by_product(x, y);
  const Tensor difference = x.unsqueeze(-2).sub(y.unsqueeze(-3));
  if (p == kInfinity && x.size(-1) > 0) return GreatestDifference::apply(difference);
  return linalg_vector_norm(difference, p, {-1});
}

Tensor cross_along(const Call& c, int64_t dim) {
  const Tensors both = broadcast_tensors({c.in(0), c.in(1)});
  const Tensor &a = both[0], &b = both[1];
  const int64_t d = wrap_dim(c.name(), dim, a.dim());
  PELLUCID_CHECK(a.dim() > 0 && a.size(d) == 3, ShapeError,
                 "{}: vectors of 3 are needed, but dimension {} has {} (sizes {} and {}).",
                 c.name(), dim, a.dim() == 0 ? 1 : a.size(d), c.in(0).sizes(), c.in(1).sizes());
  return a.roll({-1}, {d}).mul(b.roll({1}, {d})).sub(a.roll({1}, {d}).mul(b.roll({-1}, {d})));
}

Tensor compose_cross(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  if (c.has_attr(0)) return cross_along(c, c.integer(0));
  const IntArrayRef sizes = c.in(0).sizes();
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] == 3) return cross_along(c, static_cast<int64_t>(d));
  PELLUCID_CHECK(false, ShapeError, "cross: no dimension of 'self' has size 3 (sizes {}).", sizes);
  __builtin_unreachable();
}

Tensor compose_histc(const Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  const Tensor& x = c.in(0);
  const int64_t bins = c.integer(0);
  double low = c.number(1), high = c.number(2);
  PELLUCID_CHECK(bins > 0, ValueError, "histc: bins must be positive, found {}.", bins);
  if (low == 0 && high == 0 && x.numel() > 0)
    low = x.min().item<double>(), high = x.max().item<double>();
  if (low == high) low -= 1, high += 1;
  PELLUCID_CHECK(std::isfinite(low) && std::isfinite(high), ValueError,
                 "histc: the range from {} to {} is not finite.", low, high);
  PELLUCID_CHECK(low < high, ValueError, "histc: max must be larger than min, found {} and {}.",
                 high, low);
  const Tensor inside = masked_select(x, x.ge(low).logical_and(x.le(high))).to(kFloat64);
  const Tensor places =
      inside.sub(low).mul(static_cast<double>(bins) / (high - low)).to(kInt64).clamp_max(bins - 1);
  return bincount(places, {}, bins).to(x.dtype());
}

void cross_samples(Samples& s) {
  s.add({sample_randn({2, 3}), sample_randn({2, 3})}, {{"dim", 1}});
  s.add({sample_randn({3, 2}), sample_randn({3, 1})}, {{"dim", 0}});
  s.error({sample_randn({2, 4}), sample_randn({2, 4})}, "vectors of 3 are needed", {{"dim", 1}});
}

}  // namespace

extern constinit const OpDef cdist_op = {
    .schema = "cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor",
    .doc = "The p-norm of the difference of each row of x1 from each of x2.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_cdist(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2}), sample_randn({4, 2})});
          s.add({sample_randn({2, 3, 2}), sample_randn({4, 2}), 1.0});
          s.add({sample_randn({3, 2}), sample_randn({2, 2}), 2.0, 1});
          s.add({sample_randn({3, 2}), sample_randn({2, 2}), 3.0});
          s.add({sample_randn({3, 2}), sample_randn({2, 2}), kInfinity});
          s.add({sample_randn({3, 0}), sample_randn({2, 0})});
          s.error({sample_randn({3, 2}), sample_randn({2, 3})}, "x1.size(-1) is 2");
          s.error({sample_randn({3}), sample_randn({2, 3})}, "at least 2 dimensions");
          s.error({sample_randn({3, 2}), sample_randn({2, 2}), -1.0}, "p must not be negative");
        },
};

extern constinit const OpDef cross_op = {
    .schema = "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
    .doc = "The cross product of vectors of 3, by default along the first dim of that size.",
    .kind = OpKind::Opaque,
    .compose = [](const Call& c) -> Tensors { return {compose_cross(c)}; },
    .samples =
        [](Samples& s) {
          cross_samples(s);
          s.add({sample_randn({2, 3, 3}), sample_randn({2, 3, 3})});
          s.error({sample_randn({2, 4}), sample_randn({2, 4})},
                  "no dimension of 'self' has size 3");
        },
};

extern constinit const OpDef linalg_cross_op = {
    .schema = "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    .doc = "The cross product of vectors of 3 along a dim.",
    .kind = OpKind::Opaque,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 1, "other");
      check_same_dtype(c, c.in(0), c.in(1));
      PELLUCID_CHECK(c.in(0).dtype() != kBool, TypeError,
                     "linalg_cross: takes numbers, found bool tensors.");
      PELLUCID_CHECK(c.in(0).dim() == c.in(1).dim(), ShapeError,
                     "linalg_cross: both must have the same number of dimensions, found sizes {} "
                     "and {}.",
                     c.in(0).sizes(), c.in(1).sizes());
      const int64_t d = wrap_dim("linalg_cross", c.integer(0), c.in(0).dim());
      PELLUCID_CHECK(c.in(0).dim() == 0 || c.in(0).size(d) == c.in(1).size(d), ShapeError,
                     "linalg_cross: dim {} must have 3 entries in both, found sizes {} and {}.", d,
                     c.in(0).sizes(), c.in(1).sizes());
      return {cross_along(c, c.integer(0))};
    },
    .samples =
        [](Samples& s) {
          cross_samples(s);
          s.error({sample_randn({2, 3}), sample_randn({3})}, "the same number of dimensions");
          s.error({sample_randn({2, 3}), sample_randn({2, 1})}, "3 entries in both");
        },
};

extern constinit const OpDef histc_op = {
    .schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    .doc = "How many values fall into each of equal bins from min to max, or over all of self.",
    .kind = OpKind::Opaque,
    .compose = [](const Call& c) -> Tensors { return {compose_histc(c)}; },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({20}), 5, -2, 2});
          s.add_no_grad({sample_randn({4, 5}), 3});
          s.error({sample_randn({3}), 0}, "bins must be positive");
          s.error({sample_randn({3}), 4, 2, 1}, "max must be larger than min");
        },
};

}  // namespace pellucid
