// Losses as modules: each calls its function in nn::functional. Weights are buffers, so that they
// convert with the module.
#include "pellucid/nn/loss.h"

#include "pellucid/nn/functional/loss.h"

namespace pellucid::nn {

namespace F = functional;

Tensor L1LossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::l1_loss(input, target, options);
}

Tensor MSELossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::mse_loss(input, target, options);
}

Tensor SoftMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::soft_margin_loss(input, target, options);
}

Tensor MultiLabelMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::multilabel_margin_loss(input, target, options);
}

Tensor HingeEmbeddingLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::hinge_embedding_loss(input, target, options);
}

BCELossImpl::BCELossImpl(BCELossOptions o) : options(std::move(o)) { reset(); }
void BCELossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor BCELossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::binary_cross_entropy(input, target, options);
}

BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(BCEWithLogitsLossOptions o) : options(std::move(o)) {
  reset();
}
void BCEWithLogitsLossImpl::reset() {
  weight = register_buffer("weight", options.weight());
  pos_weight = register_buffer("pos_weight", options.pos_weight());
}
Tensor BCEWithLogitsLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::binary_cross_entropy_with_logits(input, target, options);
}

MultiLabelSoftMarginLossImpl::MultiLabelSoftMarginLossImpl(MultiLabelSoftMarginLossOptions o)
    : options(std::move(o)) {
  reset();
}
void MultiLabelSoftMarginLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor MultiLabelSoftMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::multilabel_soft_margin_loss(input, target, options);
}

Tensor KLDivLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::kl_div(input, target, options);
}

MultiMarginLossImpl::MultiMarginLossImpl(MultiMarginLossOptions o) : options(std::move(o)) {
  reset();
}
void MultiMarginLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor MultiMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::multi_margin_loss(input, target, options);
}

Tensor SmoothL1LossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::smooth_l1_loss(input, target, options);
}

Tensor HuberLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::huber_loss(input, target, options);
}

Tensor PoissonNLLLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::poisson_nll_loss(input, target, options);
}

Tensor CTCLossImpl::forward(const Tensor& log_probs, const Tensor& targets,
                            const Tensor& input_lengths, const Tensor& target_lengths) {
  const ModuleScope scope(*this);
  return F::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
}

NLLLossImpl::NLLLossImpl(NLLLossOptions o) : options(std::move(o)) { reset(); }
void NLLLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor NLLLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::nll_loss(input, target, options);
}

CrossEntropyLossImpl::CrossEntropyLossImpl(CrossEntropyLossOptions o) : options(std::move(o)) {
  reset();
}
void CrossEntropyLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor CrossEntropyLossImpl::forward(const Tensor& input, const Tensor& target) {
  const ModuleScope scope(*this);
  return F::cross_entropy(input, target, options);
}

Tensor GaussianNLLLossImpl::forward(const Tensor& input, const Tensor& target, const Tensor& var) {
  const ModuleScope scope(*this);
  return F::gaussian_nll_loss(input, target, var, options);
}

Tensor CosineEmbeddingLossImpl::forward(const Tensor& input1, const Tensor& input2,
                                        const Tensor& target) {
  const ModuleScope scope(*this);
  return F::cosine_embedding_loss(input1, input2, target, options);
}

Tensor MarginRankingLossImpl::forward(const Tensor& input1, const Tensor& input2,
                                      const Tensor& target) {
  const ModuleScope scope(*this);
  return F::margin_ranking_loss(input1, input2, target, options);
}

Tensor TripletMarginLossImpl::forward(const Tensor& anchor, const Tensor& positive,
                                      const Tensor& negative) {
  const ModuleScope scope(*this);
  return F::triplet_margin_loss(anchor, positive, negative, options);
}

Tensor TripletMarginWithDistanceLossImpl::forward(const Tensor& anchor, const Tensor& positive,
                                                  const Tensor& negative) {
  const ModuleScope scope(*this);
  return F::triplet_margin_with_distance_loss(anchor, positive, negative, options);
}

}  // namespace pellucid::nn
