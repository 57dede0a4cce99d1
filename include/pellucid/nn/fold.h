// Fold and Unfold: windows of pictures as columns and back, as modules.
#pragma once

#include "pellucid/nn/options/vision.h"
#include "pellucid/nn/options_module.h"
#include "pellucid/tensor.h"

namespace pellucid::nn {

/// Columns [N, C * kernel, windows] added up to pictures [N, C, H, W].
class PELLUCID_API FoldImpl : public detail::OptionsModule<FoldImpl, FoldOptions> {
 public:
  explicit FoldImpl(const FoldOptions& options) : OptionsModule(options) {}
  FoldImpl(ExpandingArray<2> output_size, ExpandingArray<2> kernel_size)
      : OptionsModule(FoldOptions(output_size, kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using Fold = ModuleHolder<FoldImpl>;

/// The windows of [N, C, H, W] as columns [N, C * kernel, windows].
class PELLUCID_API UnfoldImpl : public detail::OptionsModule<UnfoldImpl, UnfoldOptions> {
 public:
  explicit UnfoldImpl(const UnfoldOptions& options) : OptionsModule(options) {}
  explicit UnfoldImpl(ExpandingArray<2> kernel_size) : OptionsModule(UnfoldOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using Unfold = ModuleHolder<UnfoldImpl>;

}  // namespace pellucid::nn
