// Losses of nn::functional.
#include "pellucid/nn/functional/loss.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn::functional {

namespace {

/// The ops' numbers: 0 none, 1 mean, 2 sum; the variant has the same order.
int64_t number(const detail::reduction_t& reduction) {
  return static_cast<int64_t>(reduction.index());
}

}  // namespace

Tensor l1_loss(const Tensor& x, const Tensor& y, const L1LossFuncOptions& o) {
  return pellucid::l1_loss(x, y, number(o.reduction()));
}
Tensor mse_loss(const Tensor& x, const Tensor& y, const MSELossFuncOptions& o) {
  return pellucid::mse_loss(x, y, number(o.reduction()));
}
Tensor soft_margin_loss(const Tensor& x, const Tensor& y, const SoftMarginLossFuncOptions& o) {
  return pellucid::soft_margin_loss(x, y, number(o.reduction()));
}
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y,
                            const HingeEmbeddingLossFuncOptions& o) {
  return pellucid::hinge_embedding_loss(x, y, o.margin(), number(o.reduction()));
}
Tensor binary_cross_entropy(const Tensor& x, const Tensor& y,
                            const BinaryCrossEntropyFuncOptions& o) {
  return pellucid::binary_cross_entropy(x, y, o.weight(), number(o.reduction()));
}
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        const BinaryCrossEntropyWithLogitsFuncOptions& o) {
  return pellucid::binary_cross_entropy_with_logits(x, y, o.weight(), o.pos_weight(),
                                                    number(o.reduction()));
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y,
                                   const MultilabelSoftMarginLossFuncOptions& o) {
  return pellucid::multilabel_soft_margin_loss(x, y, o.weight(), number(o.reduction()));
}

Tensor kl_div(const Tensor& x, const Tensor& y, const KLDivFuncOptions& o) {
  // none, batchmean, sum, mean
  switch (o.reduction().index()) {
    case 0:
      return pellucid::kl_div(x, y, 0, o.log_target());
    case 1:
      return x.dim() == 0 ? pellucid::kl_div(x, y, 2, o.log_target())
                          : pellucid::kl_div(x, y, 2, o.log_target()) / x.size(0);
    case 2:
      return pellucid::kl_div(x, y, 2, o.log_target());
    default:
      return pellucid::kl_div(x, y, 1, o.log_target());
  }
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& y, const MultiMarginLossFuncOptions& o) {
  return pellucid::multi_margin_loss(x, y, o.p(), o.margin(), o.weight(), number(o.reduction()));
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y,
                              const MultilabelMarginLossFuncOptions& o) {
  return pellucid::multilabel_margin_loss(x, y, number(o.reduction()));
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, const SmoothL1LossFuncOptions& o) {
  return pellucid::smooth_l1_loss(x, y, number(o.reduction()), o.beta().value_or(1.0));
}
Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberLossFuncOptions& o) {
  return pellucid::huber_loss(x, y, number(o.reduction()), o.delta());
}
Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNLLLossFuncOptions& o) {
  return pellucid::poisson_nll_loss(x, y, o.log_input(), o.full(), o.eps(), number(o.reduction()));
}
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& var,
                         const GaussianNLLLossFuncOptions& o) {
  return pellucid::gaussian_nll_loss(x, y, var, o.full(), o.eps(), number(o.reduction()));
}
namespace {
std::vector<int64_t> lengths_of(const Tensor& t) {
  const Tensor flat = t.to(kInt64).reshape({-1}).contiguous();
  const int64_t* const from = flat.const_data_ptr<int64_t>();
  return {from, from + flat.numel()};
}
}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& o) {
  return pellucid::ctc_loss(log_probs, targets, lengths_of(input_lengths),
                            lengths_of(target_lengths), o.blank(), number(o.reduction()),
                            o.zero_infinity());
}

Tensor nll_loss(const Tensor& x, const Tensor& y, const NLLLossFuncOptions& o) {
  return pellucid::nll_loss_nd(x, y, o.weight(), number(o.reduction()), o.ignore_index());
}
Tensor cross_entropy(const Tensor& x, const Tensor& y, const CrossEntropyFuncOptions& o) {
  return pellucid::cross_entropy_loss(x, y, o.weight(), number(o.reduction()), o.ignore_index(),
                                      o.label_smoothing());
}
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const CosineEmbeddingLossFuncOptions& o) {
  return pellucid::cosine_embedding_loss(a, b, y, o.margin(), number(o.reduction()));
}
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                           const MarginRankingLossFuncOptions& o) {
  return pellucid::margin_ranking_loss(a, b, y, o.margin(), number(o.reduction()));
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& o) {
  PELLUCID_CHECK(o.margin() > 0, ValueError,
                 "triplet_margin_loss: margin must be greater than 0, found {}.", o.margin());
  return pellucid::triplet_margin_loss(anchor, positive, negative, o.margin(), o.p(), o.eps(),
                                       o.swap(), number(o.reduction()));
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceLossFuncOptions& o) {
  PELLUCID_CHECK(o.margin() > 0, ValueError,
                 "triplet_margin_with_distance_loss: margin must be greater than 0, found {}.",
                 o.margin());
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return o.distance_function() ? (*o.distance_function())(a, b)
                                 : pellucid::pairwise_distance(a, b);
  };
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (o.swap()) far = minimum(far, distance(positive, negative));
  // max(0, near - far + margin) is the ranking loss of a pair in this order.
  return pellucid::margin_ranking_loss(far, near, ones({}, far.dtype()), o.margin(),
                                       number(o.reduction()));
}

}  // namespace pellucid::nn::functional
