// Linear maps, convolutions, dropout, embedding, padding and distances of nn::functional.
#include "pellucid/autograd.h"
#include "pellucid/nn/functional/layers.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn::functional {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return pellucid::linear(x, weight, bias);
}
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  return pellucid::bilinear(x1, x2, weight, bias);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Conv1dFuncOptions& o) {
  if (const auto* p = std::get_if<ExpandingArray<1>>(&o.padding()))
    return pellucid::conv1d(x, weight, o.bias(), o.stride(), *p, o.dilation(), o.groups());
  return pellucid::conv1d(x, weight, o.bias(), o.stride(),
                          TextArg(o.padding().index() == 1 ? "valid" : "same"), o.dilation(),
                          o.groups());
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dFuncOptions& o) {
  if (const auto* p = std::get_if<ExpandingArray<2>>(&o.padding()))
    return pellucid::conv2d(x, weight, o.bias(), o.stride(), *p, o.dilation(), o.groups());
  return pellucid::conv2d(x, weight, o.bias(), o.stride(),
                          TextArg(o.padding().index() == 1 ? "valid" : "same"), o.dilation(),
                          o.groups());
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Conv3dFuncOptions& o) {
  if (const auto* p = std::get_if<ExpandingArray<3>>(&o.padding()))
    return pellucid::conv3d(x, weight, o.bias(), o.stride(), *p, o.dilation(), o.groups());
  return pellucid::conv3d(x, weight, o.bias(), o.stride(),
                          TextArg(o.padding().index() == 1 ? "valid" : "same"), o.dilation(),
                          o.groups());
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose1dFuncOptions& o) {
  return pellucid::conv_transpose1d(x, weight, o.bias(), o.stride(), o.padding(),
                                    o.output_padding(), o.groups(), o.dilation());
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose2dFuncOptions& o) {
  return pellucid::conv_transpose2d(x, weight, o.bias(), o.stride(), o.padding(),
                                    o.output_padding(), o.groups(), o.dilation());
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight,
                        const ConvTranspose3dFuncOptions& o) {
  return pellucid::conv_transpose3d(x, weight, o.bias(), o.stride(), o.padding(),
                                    o.output_padding(), o.groups(), o.dilation());
}

namespace {
/// Scales the rows that are looked up down to max_norm, in place.
void limit_norms(const Tensor& weight, const Tensor& input, double max_norm, double norm_type) {
  const NoGradGuard off;
  const Tensor rows = std::get<0>(input.flatten().unique());
  const Tensor values = weight.index_select(0, rows);
  const Tensor norms = values.norm(Scalar(norm_type), {1}, true);
  const Tensor scale = where(norms > max_norm, max_norm / (norms + 1e-7), ones_like(norms));
  weight.index_copy_(0, rows, values * scale);
}

void check_probability(std::string_view name, double p) {
  PELLUCID_CHECK(p >= 0 && p <= 1, ValueError,
                 "{}: the probability must be between 0 and 1, but got {}.", name, p);
}
}  // namespace

Tensor dropout(Tensor x, const DropoutFuncOptions& o) {
  check_probability("dropout", o.p());
  return o.inplace() ? x.dropout_(o.p(), o.training()) : pellucid::dropout(x, o.p(), o.training());
}
Tensor dropout2d(Tensor x, const Dropout2dFuncOptions& o) {
  check_probability("dropout2d", o.p());
  return o.inplace() ? x.feature_dropout_(o.p(), o.training())
                     : pellucid::feature_dropout(x, o.p(), o.training());
}
Tensor alpha_dropout(Tensor x, const AlphaDropoutFuncOptions& o) {
  check_probability("alpha_dropout", o.p());
  return o.inplace() ? x.alpha_dropout_(o.p(), o.training())
                     : pellucid::alpha_dropout(x, o.p(), o.training());
}
Tensor feature_alpha_dropout(Tensor x, const FeatureAlphaDropoutFuncOptions& o) {
  check_probability("feature_alpha_dropout", o.p());
  return o.inplace() ? x.feature_alpha_dropout_(o.p(), o.training())
                     : pellucid::feature_alpha_dropout(x, o.p(), o.training());
}

Tensor one_hot(const Tensor& tensor, int64_t num_classes) {
  return pellucid::one_hot(tensor, num_classes);
}

Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& o) {
  int64_t padding = o.padding_idx().value_or(-1);
  if (o.padding_idx()) {
    PELLUCID_CHECK(padding < weight.size(0) && padding >= -weight.size(0), IndexError,
                   "embedding: padding_idx {} is out of range for {} rows.", padding,
                   weight.size(0));
    if (padding < 0) padding += weight.size(0);
  }
  if (o.max_norm()) limit_norms(weight, input, *o.max_norm(), o.norm_type());
  return pellucid::embedding(weight, input, padding, o.scale_grad_by_freq(), o.sparse());
}

Tensor embedding_bag(const Tensor& input, const Tensor& weight, const EmbeddingBagFuncOptions& o) {
  PELLUCID_CHECK(input.dim() == 1 || input.dim() == 2, ShapeError,
                 "embedding_bag: the input must have 1 or 2 dimensions, but is {}.", input.sizes());
  PELLUCID_CHECK((input.dim() == 1) == o.offsets().defined(), ValueError,
                 "embedding_bag: offsets are needed for an input of 1 dimension, and only there "
                 "(input {}).",
                 input.sizes());
  const Tensor& each = o.per_sample_weights();
  PELLUCID_CHECK(!each.defined() || each.sizes() == input.sizes(), ShapeError,
                 "embedding_bag: per_sample_weights must have the input's sizes, but are {} for "
                 "{}.",
                 each.defined() ? each.sizes() : IntArrayRef(), input.sizes());
  if (o.max_norm()) limit_norms(weight, input, *o.max_norm(), o.norm_type());
  const Tensor offsets = input.dim() == 1
                             ? o.offsets()
                             : arange(0, input.size(0), TensorOptions(kInt64)) * input.size(1);
  const bool end_too = input.dim() == 1 && o.include_last_offset();
  return std::get<0>(
      pellucid::embedding_bag(weight, input.flatten(), offsets, o.scale_grad_by_freq(),
                              static_cast<int64_t>(o.mode().index()), o.sparse(),
                              each.defined() ? each.flatten() : each, end_too, o.padding_idx()));
}

Tensor pad(const Tensor& x, const PadFuncOptions& o) {
  static constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
  const char* mode = kModes[o.mode().index()];
  if (o.mode().index() == 0) return pellucid::constant_pad_nd(x, o.pad(), o.value());
  return pellucid::pad(x, o.pad(), mode);
}

Tensor pixel_shuffle(const Tensor& x, const PixelShuffleFuncOptions& o) {
  const int64_t r = o.upscale_factor(), d = x.dim();
  PELLUCID_CHECK(d >= 3 && r > 0 && x.size(-3) % (r * r) == 0, ShapeError,
                 "pixel_shuffle: the channels must be divisible by {}^2 (input {}).", r, x.sizes());
  const int64_t c = x.size(-3) / (r * r), h = x.size(-2), w = x.size(-1);
  return x.reshape({-1, c, r, r, h, w})
      .permute({0, 1, 4, 2, 5, 3})
      .reshape(d == 3 ? std::vector<int64_t>{c, h * r, w * r} : [&] {
        std::vector<int64_t> s = x.sizes().slice(0, static_cast<size_t>(d - 3)).vec();
        s.insert(s.end(), {c, h * r, w * r});
        return s;
      }());
}

Tensor channel_shuffle(const Tensor& x, const ChannelShuffleFuncOptions& o) {
  PELLUCID_CHECK(x.dim() >= 3 && o.groups() > 0 && x.size(1) % o.groups() == 0, ShapeError,
                 "channel_shuffle: the channels must be divisible by {} groups (input {}).",
                 o.groups(), x.sizes());
  return x.unflatten(1, {o.groups(), x.size(1) / o.groups()}).transpose(1, 2).reshape(x.sizes());
}

Tensor pixel_unshuffle(const Tensor& x, const PixelUnshuffleFuncOptions& o) {
  const int64_t r = o.downscale_factor(), d = x.dim();
  PELLUCID_CHECK(d >= 3 && r > 0 && x.size(-1) % r == 0 && x.size(-2) % r == 0, ShapeError,
                 "pixel_unshuffle: height and width must be divisible by {} (input {}).", r,
                 x.sizes());
  const int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  std::vector<int64_t> sizes = x.sizes().slice(0, static_cast<size_t>(d - 3)).vec();
  sizes.insert(sizes.end(), {c * r * r, h, w});
  return x.reshape({-1, c, h, r, w, r}).permute({0, 1, 3, 5, 2, 4}).reshape(sizes);
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, const CosineSimilarityFuncOptions& o) {
  return pellucid::cosine_similarity(x1, x2, o.dim(), o.eps());
}
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, const PairwiseDistanceFuncOptions& o) {
  return pellucid::pairwise_distance(x1, x2, o.p(), o.eps(), o.keepdim());
}
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  return pellucid::scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                                scale, enable_gqa);
}

}  // namespace pellucid::nn::functional
