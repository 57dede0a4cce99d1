// Upsample and its two-dimensional forms: a picture resized, as modules.
#pragma once

#include "pellucid/nn/options/vision.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

class PELLUCID_API UpsampleImpl : public detail::OptionsModule<UpsampleImpl, UpsampleOptions> {
 public:
  explicit UpsampleImpl(const UpsampleOptions& options = {}) : OptionsModule(options) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using Upsample = ModuleHolder<UpsampleImpl>;

/// Images resized by the nearest pixel.
class PELLUCID_API UpsamplingNearest2dImpl
    : public detail::OptionsModule<UpsamplingNearest2dImpl, Upsampling2dOptions> {
 public:
  explicit UpsamplingNearest2dImpl(const Upsampling2dOptions& options = {})
      : OptionsModule(options) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using UpsamplingNearest2d = ModuleHolder<UpsamplingNearest2dImpl>;

/// Images resized by lines between the pixels; corners stay corners.
class PELLUCID_API UpsamplingBilinear2dImpl
    : public detail::OptionsModule<UpsamplingBilinear2dImpl, Upsampling2dOptions> {
 public:
  explicit UpsamplingBilinear2dImpl(const Upsampling2dOptions& options = {})
      : OptionsModule(options) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using UpsamplingBilinear2d = ModuleHolder<UpsamplingBilinear2dImpl>;

}  // namespace pellucid::nn
