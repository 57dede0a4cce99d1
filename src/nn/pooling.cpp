// Pooling as modules: each calls its function in nn::functional.
#include "pellucid/nn/pooling.h"

#include "nn/repr.h"
#include "pellucid/nn/functional/pooling.h"

namespace pellucid::nn {

namespace F = functional;

namespace {

template <size_t D> std::string describe_max(const MaxPoolOptions<D>& o) {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     repr::one_or_tuple(o.kernel_size()), repr::one_or_tuple(o.stride()),
                     repr::one_or_tuple(o.padding()), repr::one_or_tuple(o.dilation()),
                     repr::text(o.ceil_mode()));
}

/// Python keeps AvgPool1d's numbers as tuples.
std::string describe_avg(const AvgPool1dOptions& o) {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr::tuple(*o.kernel_size()),
                     repr::tuple(*o.stride()), repr::tuple(*o.padding()));
}
template <size_t D> std::string describe_avg(const AvgPoolOptions<D>& o) {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr::one_or_tuple(o.kernel_size()),
                     repr::one_or_tuple(o.stride()), repr::one_or_tuple(o.padding()));
}

template <size_t D> std::string describe_lp(const LPPoolOptions<D>& o) {
  return fmt::format("norm_type={}, kernel_size={}, stride={}, ceil_mode={}",
                     repr::text(o.norm_type()), repr::one_or_tuple(o.kernel_size()),
                     repr::one_or_tuple(o.stride()), repr::text(o.ceil_mode()));
}

template <size_t D> std::string describe_unpool(const MaxUnpoolOptions<D>& o) {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr::one_or_tuple(o.kernel_size()),
                     repr::one_or_tuple(o.stride()), repr::one_or_tuple(o.padding()));
}

template <size_t D>
F::MaxUnpoolFuncOptions<D> unpool_call(const MaxUnpoolOptions<D>& o,
                                       const std::optional<std::vector<int64_t>>& output_size) {
  return F::MaxUnpoolFuncOptions<D>(o.kernel_size())
      .stride(o.stride())
      .padding(o.padding())
      .output_size(output_size);
}

std::string describe_adaptive(const AdaptiveAvgPool1dOptions& o) {
  return fmt::format("output_size={}", o.output_size()[0]);
}
template <size_t D>
std::string describe_adaptive(const AdaptivePoolOptions<ExpandingArrayWithOptionalElem<D>>& o) {
  const auto text = [](std::optional<int64_t> v) { return v ? std::to_string(*v) : "None"; };
  const auto& s = o.output_size();
  if (s.from_one()) return "output_size=" + text(s[0]);
  std::string sizes = text(s[0]);
  for (size_t d = 1; d < D; ++d) sizes += ", " + text(s[d]);
  return fmt::format("output_size=({})", sizes);
}

}  // namespace

Tensor AvgPool1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::avg_pool1d(input, options);
}
std::string AvgPool1dImpl::extra_repr() const { return describe_avg(options); }

Tensor AvgPool2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::avg_pool2d(input, options);
}
std::string AvgPool2dImpl::extra_repr() const { return describe_avg(options); }

Tensor AvgPool3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::avg_pool3d(input, options);
}
std::string AvgPool3dImpl::extra_repr() const { return describe_avg(options); }

Tensor AdaptiveAvgPool1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_avg_pool1d(input, options);
}
std::string AdaptiveAvgPool1dImpl::extra_repr() const { return describe_adaptive(options); }

Tensor AdaptiveAvgPool2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_avg_pool2d(input, options);
}
std::string AdaptiveAvgPool2dImpl::extra_repr() const { return describe_adaptive(options); }

Tensor AdaptiveAvgPool3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_avg_pool3d(input, options);
}
std::string AdaptiveAvgPool3dImpl::extra_repr() const { return describe_adaptive(options); }

Tensor LPPool1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::lp_pool1d(input, options);
}
std::string LPPool1dImpl::extra_repr() const { return describe_lp(options); }

Tensor LPPool2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::lp_pool2d(input, options);
}
std::string LPPool2dImpl::extra_repr() const { return describe_lp(options); }

Tensor LPPool3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::lp_pool3d(input, options);
}
std::string LPPool3dImpl::extra_repr() const { return describe_lp(options); }

Tensor MaxPool1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::max_pool1d(input, options);
}
std::tuple<Tensor, Tensor> MaxPool1dImpl::forward_with_indices(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::max_pool1d_with_indices(input, options);
}
std::string MaxPool1dImpl::extra_repr() const { return describe_max(options); }

Tensor MaxPool2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::max_pool2d(input, options);
}
std::tuple<Tensor, Tensor> MaxPool2dImpl::forward_with_indices(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::max_pool2d_with_indices(input, options);
}
std::string MaxPool2dImpl::extra_repr() const { return describe_max(options); }

Tensor MaxPool3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::max_pool3d(input, options);
}
std::tuple<Tensor, Tensor> MaxPool3dImpl::forward_with_indices(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::max_pool3d_with_indices(input, options);
}
std::string MaxPool3dImpl::extra_repr() const { return describe_max(options); }

Tensor AdaptiveMaxPool1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_max_pool1d(input, options);
}
std::tuple<Tensor, Tensor> AdaptiveMaxPool1dImpl::forward_with_indices(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_max_pool1d_with_indices(input, options);
}
std::string AdaptiveMaxPool1dImpl::extra_repr() const { return describe_adaptive(options); }

Tensor AdaptiveMaxPool2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_max_pool2d(input, options);
}
std::tuple<Tensor, Tensor> AdaptiveMaxPool2dImpl::forward_with_indices(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_max_pool2d_with_indices(input, options);
}
std::string AdaptiveMaxPool2dImpl::extra_repr() const { return describe_adaptive(options); }

Tensor AdaptiveMaxPool3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_max_pool3d(input, options);
}
std::tuple<Tensor, Tensor> AdaptiveMaxPool3dImpl::forward_with_indices(const Tensor& input) {
  const ModuleScope scope(*this);
  return F::adaptive_max_pool3d_with_indices(input, options);
}
std::string AdaptiveMaxPool3dImpl::extra_repr() const { return describe_adaptive(options); }

Tensor MaxUnpool1dImpl::forward(const Tensor& input, const Tensor& indices,
                                const std::optional<std::vector<int64_t>>& output_size) {
  const ModuleScope scope(*this);
  return F::max_unpool1d(input, indices, unpool_call(options, output_size));
}
std::string MaxUnpool1dImpl::extra_repr() const { return describe_unpool(options); }

Tensor MaxUnpool2dImpl::forward(const Tensor& input, const Tensor& indices,
                                const std::optional<std::vector<int64_t>>& output_size) {
  const ModuleScope scope(*this);
  return F::max_unpool2d(input, indices, unpool_call(options, output_size));
}
std::string MaxUnpool2dImpl::extra_repr() const { return describe_unpool(options); }

Tensor MaxUnpool3dImpl::forward(const Tensor& input, const Tensor& indices,
                                const std::optional<std::vector<int64_t>>& output_size) {
  const ModuleScope scope(*this);
  return F::max_unpool3d(input, indices, unpool_call(options, output_size));
}
std::string MaxUnpool3dImpl::extra_repr() const { return describe_unpool(options); }

}  // namespace pellucid::nn
