// Windows of pictures as columns, and pictures sampled at a grid: functions and modules.
#include "pellucid/nn/fold.h"

#include "nn/repr.h"
#include "pellucid/nn/functional/vision.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace functional {

Tensor unfold(const Tensor& x, const UnfoldFuncOptions& o) {
  return im2col(x, o.kernel_size(), o.dilation(), o.padding(), o.stride());
}

Tensor fold(const Tensor& x, const FoldFuncOptions& o) {
  return col2im(x, o.output_size(), o.kernel_size(), o.dilation(), o.padding(), o.stride());
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleFuncOptions& o) {
  return grid_sampler(x, grid, static_cast<int64_t>(o.mode().index()),
                      static_cast<int64_t>(o.padding_mode().index()),
                      o.align_corners().value_or(false));
}

Tensor affine_grid(const Tensor& theta, IntArrayRef size, bool align_corners) {
  return affine_grid_generator(theta, size, align_corners);
}

}  // namespace functional

namespace {
template <class Options> std::string windows_text(const Options& o) {
  return fmt::format("kernel_size={}, dilation={}, padding={}, stride={}",
                     repr::one_or_tuple(o.kernel_size()), repr::one_or_tuple(o.dilation()),
                     repr::one_or_tuple(o.padding()), repr::one_or_tuple(o.stride()));
}
}  // namespace

Tensor FoldImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return functional::fold(input, options);
}
std::string FoldImpl::extra_repr() const {
  return "output_size=" + repr::one_or_tuple(options.output_size()) + ", " + windows_text(options);
}

Tensor UnfoldImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return functional::unfold(input, options);
}
std::string UnfoldImpl::extra_repr() const { return windows_text(options); }

}  // namespace pellucid::nn
