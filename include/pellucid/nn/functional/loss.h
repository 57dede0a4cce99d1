// Losses as functions.
#pragma once

#include "pellucid/nn/options/loss.h"

namespace pellucid::nn::functional {

PELLUCID_API Tensor l1_loss(const Tensor& input, const Tensor& target,
                            const L1LossFuncOptions& options = {});
PELLUCID_API Tensor mse_loss(const Tensor& input, const Tensor& target,
                             const MSELossFuncOptions& options = {});
PELLUCID_API Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                                     const SoftMarginLossFuncOptions& options = {});
PELLUCID_API Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                                           const MultilabelMarginLossFuncOptions& options = {});
PELLUCID_API Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                                         const HingeEmbeddingLossFuncOptions& options = {});
PELLUCID_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                         const BinaryCrossEntropyFuncOptions& options = {});
PELLUCID_API Tensor
multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                            const MultilabelSoftMarginLossFuncOptions& options = {});
PELLUCID_API Tensor kl_div(const Tensor& input, const Tensor& target,
                           const KLDivFuncOptions& options = {});
PELLUCID_API Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                                      const MultiMarginLossFuncOptions& options = {});
PELLUCID_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                                   const SmoothL1LossFuncOptions& options = {});
PELLUCID_API Tensor huber_loss(const Tensor& input, const Tensor& target,
                               const HuberLossFuncOptions& options = {});
PELLUCID_API Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                                     const PoissonNLLLossFuncOptions& options = {});
/// log_probs [T, N, C], targets [N, S] or one after another, and the lengths of both.
PELLUCID_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                             const Tensor& input_lengths, const Tensor& target_lengths,
                             const CTCLossFuncOptions& options = {});
PELLUCID_API Tensor nll_loss(const Tensor& input, const Tensor& target,
                             const NLLLossFuncOptions& options = {});
PELLUCID_API Tensor cross_entropy(const Tensor& input, const Tensor& target,
                                  const CrossEntropyFuncOptions& options = {});
PELLUCID_API Tensor
binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                 const BinaryCrossEntropyWithLogitsFuncOptions& options = {});
PELLUCID_API Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                                      const GaussianNLLLossFuncOptions& options = {});
PELLUCID_API Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2,
                                          const Tensor& target,
                                          const CosineEmbeddingLossFuncOptions& options = {});
PELLUCID_API Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2,
                                        const Tensor& target,
                                        const MarginRankingLossFuncOptions& options = {});
PELLUCID_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                        const Tensor& negative,
                                        const TripletMarginLossFuncOptions& options = {});
PELLUCID_API Tensor triplet_margin_with_distance_loss(
    const Tensor& anchor, const Tensor& positive, const Tensor& negative,
    const TripletMarginWithDistanceLossFuncOptions& options = {});

}  // namespace pellucid::nn::functional
