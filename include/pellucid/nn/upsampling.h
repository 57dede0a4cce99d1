// Upsample: a picture resized, as a module.
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

}  // namespace pellucid::nn
