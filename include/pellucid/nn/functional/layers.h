// Linear maps, convolutions, dropout, embedding, padding and distances as functions.
#pragma once

#include "pellucid/nn/options/layers.h"

namespace pellucid::nn::functional {

PELLUCID_API Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});
PELLUCID_API Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                             const Tensor& bias = {});
PELLUCID_API Tensor conv1d(const Tensor& input, const Tensor& weight,
                           const Conv1dFuncOptions& options = {});
PELLUCID_API Tensor conv2d(const Tensor& input, const Tensor& weight,
                           const Conv2dFuncOptions& options = {});
PELLUCID_API Tensor conv3d(const Tensor& input, const Tensor& weight,
                           const Conv3dFuncOptions& options = {});
PELLUCID_API Tensor conv_transpose1d(const Tensor& input, const Tensor& weight,
                                     const ConvTranspose1dFuncOptions& options = {});
PELLUCID_API Tensor conv_transpose2d(const Tensor& input, const Tensor& weight,
                                     const ConvTranspose2dFuncOptions& options = {});
PELLUCID_API Tensor conv_transpose3d(const Tensor& input, const Tensor& weight,
                                     const ConvTranspose3dFuncOptions& options = {});
PELLUCID_API Tensor dropout(Tensor input, const DropoutFuncOptions& options = {});
PELLUCID_API Tensor dropout2d(Tensor input, const Dropout2dFuncOptions& options = {});
PELLUCID_API Tensor alpha_dropout(Tensor input, const AlphaDropoutFuncOptions& options = {});
PELLUCID_API Tensor feature_alpha_dropout(Tensor input,
                                          const FeatureAlphaDropoutFuncOptions& options = {});
PELLUCID_API Tensor one_hot(const Tensor& tensor, int64_t num_classes = -1);
/// With max_norm, the rows that are looked up are first scaled down in place to that norm.
PELLUCID_API Tensor embedding(const Tensor& input, const Tensor& weight,
                              const EmbeddingFuncOptions& options = {});
/// Sums, means or maxima of the rows of each bag: input [bags, size], or a list with offsets.
PELLUCID_API Tensor embedding_bag(const Tensor& input, const Tensor& weight,
                                  const EmbeddingBagFuncOptions& options = {});
PELLUCID_API Tensor pad(const Tensor& input, const PadFuncOptions& options);
PELLUCID_API Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& options);
PELLUCID_API Tensor channel_shuffle(const Tensor& input, const ChannelShuffleFuncOptions& options);
PELLUCID_API Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& options);
PELLUCID_API Tensor cosine_similarity(const Tensor& x1, const Tensor& x2,
                                      const CosineSimilarityFuncOptions& options = {});
PELLUCID_API Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                                      const PairwiseDistanceFuncOptions& options = {});
PELLUCID_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                                 const Tensor& value, const Tensor& attn_mask = {},
                                                 double dropout_p = 0.0, bool is_causal = false,
                                                 std::optional<double> scale = std::nullopt,
                                                 bool enable_gqa = false);

}  // namespace pellucid::nn::functional
