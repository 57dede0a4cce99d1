// Statistics of sorted values: quantiles, the median without NaN, the most frequent value.
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// values, sorted along the last dim, at the ranks.
Tensor at_ranks(const Call& c, const Tensor& values, const Tensor& rank) {
  const std::string_view how = c.text(2);
  Tensor low = rank.floor(), high = rank.ceil();
  if (how == "nearest")
    low = high = rank.round();
  else if (how == "lower")
    high = low;
  else if (how == "higher")
    low = high;
  else
    PELLUCID_CHECK(how == "linear" || how == "midpoint", ValueError,
                   "{}: interpolation must be linear, lower, higher, midpoint or nearest, found "
                   "'{}'.",
                   c.name(), how);
  const Tensor a = values.gather(-1, low.to(kInt64)), b = values.gather(-1, high.to(kInt64));
  if (how == "midpoint") return a.add(b).div(2);
  return a.add(b.sub(a).mul(rank.sub(low)));
}

// The shares as a tensor of self's dtype with at most one dim.
Tensor shares(const Call& c) {
  const Tensor &self = c.in(0), &q = c.in(1);
  PELLUCID_CHECK(q.dim() <= 1, ShapeError, "{}: q must be a number or a vector, found sizes {}.",
                 c.name(), q.sizes());
  PELLUCID_CHECK(q.impl().wrapped_number || q.dtype() == self.dtype(), TypeError,
                 "{}: q must have the dtype of self, found {} and {}.", c.name(), q.dtype(),
                 self.dtype());
  PELLUCID_CHECK(q.ge(0).logical_and(q.le(1)).all().item<bool>(), ValueError,
                 "{}: q must be in the range [0, 1].", c.name());
  return q.to(self.dtype());
}

// Attributes: dim, keepdim, interpolation.
Tensor compose_quantile(const Call& c, bool skip_nan) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "q");
  const Tensor& self = c.in(0);
  PELLUCID_CHECK(self.dtype() == kFloat32 || self.dtype() == kFloat64, TypeError,
                 "{}: self must be float32 or float64, found {}.", c.name(), self.dtype());
  PELLUCID_CHECK(self.numel() > 0, ShapeError, "{}: self must not be empty, found sizes {}.",
                 c.name(), self.sizes());
  const Tensor given = shares(c), q = given.reshape({-1});
  const bool all = !c.has_attr(0) || self.dim() == 0;
  if (c.has_attr(0)) wrap_dim(c.name(), c.integer(0), self.dim());
  const Tensor x = all ? self.reshape({-1}) : self.movedim(c.integer(0), -1);
  const Tensor values = std::get<0>(x.sort(-1));
  Tensor valid;
  {
    const NoGradGuard off;
    valid = skip_nan ? values.isnan().logical_not().sum({-1}, true)
                     : full_like(values.narrow(-1, 0, 1), values.size(-1));
  }
  const Tensor rank = q.mul(valid.to(self.dtype()).clamp_min(1).sub(1));
  const Tensor drop = skip_nan ? valid.eq(0) : values.detach().isnan().any(-1, true);
  Tensor found = at_ranks(c, values, rank).masked_fill(drop, kNaN).movedim(-1, 0);
  if (c.flag(1) && self.dim() > 0) {
    if (all) {
      Dims sizes{q.numel()};
      for (int64_t d = 0; d < self.dim(); ++d) sizes.push_back(1);
      found = found.reshape(sizes);
    } else {
      found = found.unsqueeze(wrap_dim(c.name(), c.integer(0), self.dim()) + 1);
    }
  }
  return given.dim() == 0 ? found.select(0, 0) : found;
}

Tensors compose_nanmedian_dim(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t d = wrap_dim("nanmedian", c.integer(0), self.dim());
  PELLUCID_CHECK(self.dim() == 0 || self.size(d) > 0, IndexError,
                 "nanmedian: dim {} has no entries, so it has no median (self {}).", d,
                 self.sizes());
  if (self.dim() == 0) return {self.clone(), zeros({}, kInt64)};
  const auto [order, places] = self.sort(d);
  const Tensor middle =
      self.isnan().logical_not().sum({d}, true).sub(1).clamp_min(0).floor_divide(2);
  const Tensor values = order.gather(d, middle), indices = places.gather(d, middle);
  if (c.flag(1)) return {values, indices};
  return {values.squeeze(d), indices.squeeze(d)};
}

Tensor compose_nanmedian(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const Tensor kept = masked_select(self, self.isnan().logical_not());
  if (kept.numel() == 0) return full({}, is_floating(self.dtype()) ? kNaN : 0.0, self.dtype());
  return kept.median();
}

// Runs of equal values in sorted order: where each begins, how long it is.
Tensors compose_mode(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const int64_t d = wrap_dim("mode", c.integer(0), self.dim());
  if (self.dim() == 0) return {self.clone(), zeros({}, kInt64)};
  const int64_t n = self.size(d);
  PELLUCID_CHECK(n > 0, IndexError, "mode: dim {} has no entries, so it has no mode (self {}).", d,
                 self.sizes());
  Tensor indices;
  {
    const NoGradGuard off;
    const auto [order, places] = sort(self.movedim(d, -1), true, -1, false);
    const Tensor numbers = arange(n, kInt64).expand(order.sizes());
    Tensor begins = numbers;
    if (n > 1) {
      const Tensor same = order.narrow(-1, 1, n - 1).eq(order.narrow(-1, 0, n - 1));
      begins = cat(
          {zeros_like(numbers.narrow(-1, 0, 1)), numbers.narrow(-1, 1, n - 1).masked_fill(same, 0)},
          -1);
      begins = std::get<0>(begins.cummax(-1));
    }
    // The end of the first longest run: of equal values the last in a stable order.
    const Tensor end = numbers.sub(begins).argmax(-1, true);
    indices = places.gather(-1, end).movedim(-1, d);
  }
  const Tensor values = self.gather(d, indices);
  if (c.flag(1)) return {values, indices};
  return {values.squeeze(d), indices.squeeze(d)};
}

void quantile_samples(Samples& s) {
  const Tensor q = sample_uniform({3}, 0.1, 0.9);
  const auto shares_of = [](std::initializer_list<double> list) {
    return tensor(std::vector<double>(list), kFloat64);
  };
  s.add({sample_randn({4, 5}), q});
  s.add({sample_randn({4, 5}), q, 1, true});
  s.add({sample_randn({4, 5}), 0.3, 0});
  s.add({sample_randn({6}), 0.5, -1, true});
  for (const char* how : {"lower", "higher", "midpoint", "nearest"})
    s.add({sample_randn({4, 5}), 0.3, 1, true}, {{"interpolation", how}});
  s.error({sample_randn({4}), 1.5}, "in the range [0, 1]");
  s.error({sample_randn({4}), shares_of({-0.1})}, "in the range [0, 1]");
  s.error({sample_randn({4}), sample_uniform({2, 2}, 0, 1)}, "a number or a vector");
  s.error({sample_ints({4}, 0, 3), 0.5}, "must be float32 or float64");
  s.error({sample_randn({0, 3}), 0.5}, "must not be empty");
  s.error({sample_randn({3}), 0.5, 4}, "out of range");
  s.error({sample_randn({3}), 0.5}, "interpolation must be", {{"interpolation", "cubic"}});
}

}  // namespace

extern constinit const OpDef quantile_op = {
    .schema =
        "quantile(Tensor self, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str "
        "interpolation='linear') -> Tensor",
    .doc = "The values below which the shares q of a dim (or of all elements) lie.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_quantile(c, false)}; },
    .samples = quantile_samples,
};

extern constinit const OpDef nanquantile_op = {
    .schema =
        "nanquantile(Tensor self, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str "
        "interpolation='linear') -> Tensor",
    .doc = "quantile without the NaNs.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_quantile(c, true)}; },
    .samples =
        [](Samples& s) {
          quantile_samples(s);
          s.add_no_grad({sample_randn({3, 4}) / sample_ints({3, 4}, 0, 2) * 0, 0.5, 1});
        },
};

extern constinit const OpDef nanmedian_op = {
    .schema = "nanmedian(Tensor self) -> Tensor",
    .doc = "The lower median of all elements that are not NaN.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_nanmedian(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4})});
          s.add_no_grad({sample_randn({5}) / sample_ints({5}, 0, 2) * 0});
          s.add_no_grad({sample_ints({5}, 0, 9)});
        },
};

extern constinit const OpDef nanmedian_dim_op = {
    .schema =
        "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor "
        "indices)",
    .doc = "The lower median of each line of a dim without its NaNs, and where it was.",
    .kind = OpKind::Reduction,
    .compose = compose_nanmedian_dim,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), 1});
          s.add({sample_randn({3, 4}), 0, true});
          s.error({sample_randn({0, 3}), 0}, "has no entries");
          s.error({sample_randn({3}), 2}, "out of range");
        },
};

extern constinit const OpDef mode_op = {
    .schema =
        "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    .doc = "The most frequent value along dim, the least of several, and its last place.",
    .kind = OpKind::Reduction,
    .compose = compose_mode,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({4, 5}, 0, 3)});
          s.add({sample_randn({3, 4}), 0, true});
          s.add({sample_randn({})});
          s.error({sample_randn({0, 3}), 0}, "has no entries");
          s.error({sample_randn({3}), 2}, "out of range");
        },
};

}  // namespace pellucid
