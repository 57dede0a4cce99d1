// Pooling and normalisation of nn::functional.
#include <cmath>

#include "pellucid/nn/functional/norm.h"
#include "pellucid/nn/functional/pooling.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn::functional {

Tensor avg_pool1d(const Tensor& x, const AvgPool1dFuncOptions& o) {
  return pellucid::avg_pool1d(x, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(),
                              o.count_include_pad());
}
Tensor avg_pool2d(const Tensor& x, const AvgPool2dFuncOptions& o) {
  return pellucid::avg_pool2d(x, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(),
                              o.count_include_pad(), o.divisor_override());
}
Tensor max_pool1d(const Tensor& x, const MaxPool1dFuncOptions& o) {
  return pellucid::max_pool1d(x, o.kernel_size(), o.stride(), o.padding(), o.dilation(),
                              o.ceil_mode());
}
Tensor max_pool2d(const Tensor& x, const MaxPool2dFuncOptions& o) {
  return pellucid::max_pool2d(x, o.kernel_size(), o.stride(), o.padding(), o.dilation(),
                              o.ceil_mode());
}
Tensor avg_pool3d(const Tensor& x, const AvgPool3dFuncOptions& o) {
  return pellucid::avg_pool3d(x, o.kernel_size(), o.stride(), o.padding(), o.ceil_mode(),
                              o.count_include_pad(), o.divisor_override());
}
Tensor max_pool3d(const Tensor& x, const MaxPool3dFuncOptions& o) {
  return pellucid::max_pool3d(x, o.kernel_size(), o.stride(), o.padding(), o.dilation(),
                              o.ceil_mode());
}
std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, const MaxPool1dFuncOptions& o) {
  return pellucid::max_pool1d_with_indices(x, o.kernel_size(), o.stride(), o.padding(),
                                           o.dilation(), o.ceil_mode());
}
std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, const MaxPool2dFuncOptions& o) {
  return pellucid::max_pool2d_with_indices(x, o.kernel_size(), o.stride(), o.padding(),
                                           o.dilation(), o.ceil_mode());
}
std::tuple<Tensor, Tensor> max_pool3d_with_indices(const Tensor& x, const MaxPool3dFuncOptions& o) {
  return pellucid::max_pool3d_with_indices(x, o.kernel_size(), o.stride(), o.padding(),
                                           o.dilation(), o.ceil_mode());
}

namespace {
/// The sizes asked for; an absent one is the input's.
template <size_t D>
std::array<int64_t, D> adaptive_sizes(const Tensor& x,
                                      const ExpandingArrayWithOptionalElem<D>& size) {
  std::array<int64_t, D> out{};
  for (size_t d = 0; d < D; ++d)
    out[d] = size[d] ? *size[d] : x.size(static_cast<int64_t>(d) - static_cast<int64_t>(D));
  return out;
}
}  // namespace

Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptiveAvgPool1dFuncOptions& o) {
  return pellucid::adaptive_avg_pool1d(x, o.output_size());
}
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptiveAvgPool2dFuncOptions& o) {
  return pellucid::adaptive_avg_pool2d(x, adaptive_sizes(x, o.output_size()));
}
Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptiveAvgPool3dFuncOptions& o) {
  return pellucid::adaptive_avg_pool3d(x, adaptive_sizes(x, o.output_size()));
}
std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& x,
                                                            const AdaptiveMaxPool1dFuncOptions& o) {
  return pellucid::adaptive_max_pool1d(x, o.output_size());
}
std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x,
                                                            const AdaptiveMaxPool2dFuncOptions& o) {
  return pellucid::adaptive_max_pool2d(x, adaptive_sizes(x, o.output_size()));
}
std::tuple<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& x,
                                                            const AdaptiveMaxPool3dFuncOptions& o) {
  return pellucid::adaptive_max_pool3d(x, adaptive_sizes(x, o.output_size()));
}
Tensor adaptive_max_pool1d(const Tensor& x, const AdaptiveMaxPool1dFuncOptions& o) {
  return std::get<0>(adaptive_max_pool1d_with_indices(x, o));
}
Tensor adaptive_max_pool2d(const Tensor& x, const AdaptiveMaxPool2dFuncOptions& o) {
  return std::get<0>(adaptive_max_pool2d_with_indices(x, o));
}
Tensor adaptive_max_pool3d(const Tensor& x, const AdaptiveMaxPool3dFuncOptions& o) {
  return std::get<0>(adaptive_max_pool3d_with_indices(x, o));
}

namespace {
/// The sizes that the pool's input had: what is asked for, or the least possible.
template <size_t D>
std::array<int64_t, D> unpooled_sizes(const Tensor& x, const MaxUnpoolFuncOptions<D>& o) {
  std::array<int64_t, D> out{};
  const auto& asked = o.output_size();
  PELLUCID_CHECK(x.dim() >= static_cast<int64_t>(D), ShapeError,
                 "max_unpool{}d: at least {} dims are needed, found sizes {}.", D, D, x.sizes());
  PELLUCID_CHECK(!asked || asked->size() == D || asked->size() == D + 2, ValueError,
                 "max_unpool{}d: output_size needs {} or {} sizes, found {}.", D, D, D + 2,
                 asked->size());
  for (size_t d = 0; d < D; ++d) {
    const int64_t stride = o.stride()[d];
    PELLUCID_CHECK(stride > 0, ValueError, "max_unpool{}d: strides must be positive, found {}.", D,
                   stride);
    const int64_t pooled = x.size(static_cast<int64_t>(d) - static_cast<int64_t>(D));
    const int64_t least = (pooled - 1) * stride - 2 * o.padding()[d] + o.kernel_size()[d];
    out[d] = asked ? (*asked)[asked->size() - D + d] : least;
    PELLUCID_CHECK(out[d] > least - stride && out[d] < least + stride, ValueError,
                   "max_unpool{}d: output_size must be between {} and {} in dim {}, found {}.", D,
                   least - stride, least + stride, d, out[d]);
  }
  return out;
}
}  // namespace

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const MaxUnpool1dFuncOptions& o) {
  const std::array<int64_t, 1> size = unpooled_sizes(x, o);
  return pellucid::max_unpool2d(x.unsqueeze(-1), indices.unsqueeze(-1), {size[0], 1}).squeeze(-1);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const MaxUnpool2dFuncOptions& o) {
  return pellucid::max_unpool2d(x, indices, unpooled_sizes(x, o));
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const MaxUnpool3dFuncOptions& o) {
  return pellucid::max_unpool3d(x, indices, unpooled_sizes(x, o), o.stride(), o.padding());
}

namespace {
/// (sum over the window of x^p)^(1/p), from the window's average.
Tensor lp_root(const Tensor& average, double count, double p) {
  return (average.sign() * pellucid::relu(average.abs())).mul(count).pow(1.0 / p);
}
}  // namespace

Tensor lp_pool1d(const Tensor& x, const LPPool1dFuncOptions& o) {
  const double p = o.norm_type();
  const Tensor average =
      pellucid::avg_pool1d(x.pow(p), o.kernel_size(), o.stride(), IntArrayRef{0}, o.ceil_mode());
  return lp_root(average, static_cast<double>(o.kernel_size()[0]), p);
}
Tensor lp_pool2d(const Tensor& x, const LPPool2dFuncOptions& o) {
  const double p = o.norm_type();
  const Tensor average =
      pellucid::avg_pool2d(x.pow(p), o.kernel_size(), o.stride(), IntArrayRef{0}, o.ceil_mode());
  return lp_root(average, static_cast<double>(o.kernel_size()[0] * o.kernel_size()[1]), p);
}
Tensor lp_pool3d(const Tensor& x, const LPPool3dFuncOptions& o) {
  const double p = o.norm_type();
  const Tensor average =
      pellucid::avg_pool3d(x.pow(p), o.kernel_size(), o.stride(), IntArrayRef{0}, o.ceil_mode());
  const auto& k = o.kernel_size();
  return lp_root(average, static_cast<double>(k[0] * k[1] * k[2]), p);
}

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var,
                  const BatchNormFuncOptions& o) {
  return pellucid::batch_norm(x, o.weight(), o.bias(), mean, var, o.training(), o.momentum(),
                              o.eps());
}
Tensor instance_norm(const Tensor& x, const InstanceNormFuncOptions& o) {
  return pellucid::instance_norm(x, o.weight(), o.bias(), o.running_mean(), o.running_var(),
                                 o.use_input_stats(), o.momentum(), o.eps());
}
Tensor layer_norm(const Tensor& x, const LayerNormFuncOptions& o) {
  return pellucid::layer_norm(x, o.normalized_shape(), o.weight(), o.bias(), o.eps());
}
Tensor rms_norm(const Tensor& x, const RMSNormFuncOptions& o) {
  return pellucid::rms_norm(x, o.normalized_shape(), o.weight(), o.eps());
}
Tensor group_norm(const Tensor& x, const GroupNormFuncOptions& o) {
  return pellucid::group_norm(x, o.num_groups(), o.weight(), o.bias(), o.eps());
}

Tensor local_response_norm(const Tensor& x, const LocalResponseNormFuncOptions& o) {
  PELLUCID_CHECK(x.dim() >= 3, ShapeError,
                 "local_response_norm: the input needs at least 3 dimensions, but is {}.",
                 x.sizes());
  // A window over the channels is a 1-d pool of [N * rest, 1, C].
  const Tensor flat = x.square().movedim(1, -1);
  const Tensor rows = flat.reshape({-1, 1, x.size(1)});
  const Tensor padded = pellucid::constant_pad_nd(rows, {o.size() / 2, (o.size() - 1) / 2});
  const Tensor mean = pellucid::avg_pool1d(padded, {o.size()}, {1});
  const Tensor divisor =
      mean.reshape(flat.sizes()).movedim(-1, 1).mul(o.alpha()).add(o.k()).pow(o.beta());
  return x / divisor;
}

Tensor normalize(const Tensor& x, const NormalizeFuncOptions& o) {
  return x / x.norm(Scalar(o.p()), {o.dim()}, true).clamp_min(o.eps());
}

}  // namespace pellucid::nn::functional
