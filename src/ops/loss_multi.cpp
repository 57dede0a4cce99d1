// Margin losses of several classes or labels, composed of other ops.
#include "ops/loss.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

void check_given(const Call& c) {
  for (size_t i = 0; i < 2; ++i)
    PELLUCID_CHECK(c.has_in(i), ValueError, "{}: input {} is an undefined tensor.", c.name(), i);
}

/// The reduction of [N] losses, of which a single input [C] has one without dimensions.
Tensor reduced(const Tensor& losses, bool single, int64_t how) {
  return apply_reduction(single ? losses.squeeze(0) : losses, how);
}

// Attributes: p, margin, reduction.
Tensors compose_multi_margin(const Call& c) {
  check_given(c);
  const int64_t how = reduction_attr(c, 2);
  const double p = c.number(0);
  PELLUCID_CHECK(p == 1 || p == 2, ValueError, "multi_margin_loss: p must be 1 or 2, but is {}.",
                 p);
  const Tensor &x = c.in(0), &y = c.in(1);
  const bool single = x.dim() == 1;
  PELLUCID_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError,
                 "multi_margin_loss: the input must be [C] or [N, C], but is {}.", x.sizes());
  PELLUCID_CHECK(single ? y.numel() == 1 && y.dim() <= 1 : y.dim() == 1 && y.size(0) == x.size(0),
                 ShapeError,
                 "multi_margin_loss: an input {} takes a target {}, found one of sizes {}.",
                 x.sizes(), single ? "of one class" : "[N]", y.sizes());
  const Tensor rows = single ? x.unsqueeze(0) : x, target = y.reshape({-1, 1});
  Tensor terms = rows.sub(rows.gather(1, target)).add(c.number(1)).clamp_min(0.0);
  if (p == 2) terms = terms.square();
  if (c.has_in(2)) terms = terms.mul(c.in(2).index_select(0, target.flatten()).unsqueeze(1));
  const Tensor losses = terms.scatter(1, target, 0.0).sum(1).div(static_cast<double>(rows.size(1)));
  return {reduced(losses, single, how)};
}

// Attributes: reduction.
Tensors compose_multilabel_margin(const Call& c) {
  check_given(c);
  const int64_t how = reduction_attr(c, 0);
  const Tensor &x = c.in(0), &y = c.in(1);
  PELLUCID_CHECK(x.is_floating_point() && y.dtype() == kInt64, TypeError,
                 "multilabel_margin_loss: expects a floating input and an int64 target, found {} "
                 "and {}.",
                 x.dtype(), y.dtype());
  PELLUCID_CHECK(x.sizes() == y.sizes() && (x.dim() == 1 || x.dim() == 2) && x.size(-1) > 0,
                 ShapeError,
                 "multilabel_margin_loss: input and target must both be [C] or [N, C], found {} "
                 "and {}.",
                 x.sizes(), y.sizes());
  PELLUCID_CHECK(
      y.numel() == 0 || (y.min().item<int64_t>() >= -1 && y.max().item<int64_t>() < x.size(-1)),
      ValueError, "multilabel_margin_loss: the target is out of range for {} classes.", x.size(-1));
  const bool single = x.dim() == 1;
  const Tensor rows = single ? x.unsqueeze(0) : x, labels = single ? y.unsqueeze(0) : y;
  const Tensor used = labels.lt(0).cumsum(1).eq(0);  // the labels before the first -1
  const Tensor index = labels.clamp_min(0);
  const Tensor right = zeros_like(labels).scatter_add(1, index, used.to(kInt64)).gt(0);
  const Tensor margins =
      rsub(rows.gather(1, index).unsqueeze(2).sub(rows.unsqueeze(1)), 1.0).clamp_min(0.0);
  const Tensor counted = used.unsqueeze(2).logical_and(right.logical_not().unsqueeze(1));
  const Tensor losses =
      margins.mul(counted).sum(IntArrayRef{1, 2}).div(static_cast<double>(rows.size(1)));
  return {reduced(losses, single, how)};
}

// Attributes: reduction.
Tensors compose_multilabel_soft_margin(const Call& c) {
  check_given(c);
  const int64_t how = reduction_attr(c, 0);
  const Tensor &x = c.in(0), &y = c.in(1);
  Tensor loss = y.mul(logsigmoid(x)).add(rsub(y, 1).mul(logsigmoid(x.neg()))).neg();
  if (c.has_in(2)) loss = loss.mul(c.in(2));
  return {apply_reduction(loss.mean(-1), how)};
}

Tensor classes(IntArrayRef sizes) { return sample_ints(sizes, 0, 4); }

}  // namespace

extern constinit const OpDef multi_margin_loss_op = {
    .schema =
        "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? "
        "weight=None, int reduction=1) -> Tensor",
    .doc = "The mean over classes i other than the target t of max(0, margin - x[t] + x[i])^p.",
    .kind = OpKind::Reduction,
    .compose = compose_multi_margin,
    .samples = [](Samples& s) {
      s.add({sample_randn({3, 4}), classes({3})});
      s.add({sample_randn({3, 4}), classes({3}), 2, 0.7, sample_uniform({4}, 0.1, 1), 0});
      s.add({sample_randn({4}), classes({}), 1, 1, Value(), 2});
      s.error({sample_randn({3, 4}), classes({3}), 3}, "p must be 1 or 2, but is 3");
      s.error({sample_randn({3, 4}), classes({2})}, "takes a target [N], found one of sizes [2]");
    }};

extern constinit const OpDef multilabel_margin_loss_op = {
    .schema = "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    .doc =
        "The sum over right labels j and wrong ones i of max(0, 1 - (x[j] - x[i])), over the "
        "number "
        "of classes; right labels are those before the first -1.",
    .kind = OpKind::Reduction,
    .compose = compose_multilabel_margin,
    .samples = [](Samples& s) {
      const auto labels = [](IntArrayRef sizes) {
        const Tensor t = classes(sizes);
        t.select(-1, sizes[sizes.size() - 1] - 2).fill_(-1);
        return t;
      };
      s.add({sample_randn({3, 4}), labels({3, 4})});
      s.add({sample_randn({3, 4}), labels({3, 4}), 0});
      s.add({sample_randn({4}), labels({4}), 2});
      s.error({sample_randn({3, 4}), labels({2, 4})}, "must both be [C] or [N, C]");
      s.error({sample_randn({3, 4}), classes({3, 4}).add(4)}, "out of range for 4 classes");
    }};

extern constinit const OpDef multilabel_soft_margin_loss_op = {
    .schema =
        "multilabel_soft_margin_loss(Tensor self, Tensor target, Tensor? weight=None, int "
        "reduction=1) -> Tensor",
    .doc =
        "The mean over classes of -(target log(sigmoid(self)) + (1 - target) log(sigmoid(-self))).",
    .kind = OpKind::Reduction,
    .compose = compose_multilabel_soft_margin,
    .samples = [](Samples& s) {
      s.add({sample_randn({3, 4}), sample_uniform({3, 4}, 0, 1)});
      s.add({sample_randn({3, 4}), sample_uniform({3, 4}, 0, 1), sample_uniform({4}, 0.1, 1), 0});
      s.error({sample_randn({3, 4}), sample_uniform({3, 4}, 0, 1), Value(), 5}, "reduction");
    }};

}  // namespace pellucid
