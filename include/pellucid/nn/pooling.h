// Pooling as modules.
#pragma once

#include <tuple>

#include "pellucid/nn/options/pooling.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

class PELLUCID_API AvgPool1dImpl : public detail::OptionsModule<AvgPool1dImpl, AvgPool1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AvgPool1dImpl(ExpandingArray<1> kernel_size)
      : OptionsModule(AvgPool1dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using AvgPool1d = ModuleHolder<AvgPool1dImpl>;

class PELLUCID_API AvgPool2dImpl : public detail::OptionsModule<AvgPool2dImpl, AvgPool2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AvgPool2dImpl(ExpandingArray<2> kernel_size)
      : OptionsModule(AvgPool2dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using AvgPool2d = ModuleHolder<AvgPool2dImpl>;

class PELLUCID_API AvgPool3dImpl : public detail::OptionsModule<AvgPool3dImpl, AvgPool3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AvgPool3dImpl(ExpandingArray<3> kernel_size)
      : OptionsModule(AvgPool3dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using AvgPool3d = ModuleHolder<AvgPool3dImpl>;

class PELLUCID_API AdaptiveAvgPool1dImpl
    : public detail::OptionsModule<AdaptiveAvgPool1dImpl, AdaptiveAvgPool1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AdaptiveAvgPool1dImpl(ExpandingArray<1> output_size)
      : OptionsModule(AdaptiveAvgPool1dOptions(output_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using AdaptiveAvgPool1d = ModuleHolder<AdaptiveAvgPool1dImpl>;

class PELLUCID_API AdaptiveAvgPool2dImpl
    : public detail::OptionsModule<AdaptiveAvgPool2dImpl, AdaptiveAvgPool2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AdaptiveAvgPool2dImpl(ExpandingArrayWithOptionalElem<2> output_size)
      : OptionsModule(AdaptiveAvgPool2dOptions(output_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using AdaptiveAvgPool2d = ModuleHolder<AdaptiveAvgPool2dImpl>;

class PELLUCID_API AdaptiveAvgPool3dImpl
    : public detail::OptionsModule<AdaptiveAvgPool3dImpl, AdaptiveAvgPool3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AdaptiveAvgPool3dImpl(ExpandingArrayWithOptionalElem<3> output_size)
      : OptionsModule(AdaptiveAvgPool3dOptions(output_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using AdaptiveAvgPool3d = ModuleHolder<AdaptiveAvgPool3dImpl>;

class PELLUCID_API LPPool1dImpl : public detail::OptionsModule<LPPool1dImpl, LPPool1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  LPPool1dImpl(double norm_type, ExpandingArray<1> kernel_size)
      : OptionsModule(LPPool1dOptions(norm_type, kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using LPPool1d = ModuleHolder<LPPool1dImpl>;

class PELLUCID_API LPPool2dImpl : public detail::OptionsModule<LPPool2dImpl, LPPool2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  LPPool2dImpl(double norm_type, ExpandingArray<2> kernel_size)
      : OptionsModule(LPPool2dOptions(norm_type, kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using LPPool2d = ModuleHolder<LPPool2dImpl>;

class PELLUCID_API LPPool3dImpl : public detail::OptionsModule<LPPool3dImpl, LPPool3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  LPPool3dImpl(double norm_type, ExpandingArray<3> kernel_size)
      : OptionsModule(LPPool3dOptions(norm_type, kernel_size)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using LPPool3d = ModuleHolder<LPPool3dImpl>;

class PELLUCID_API MaxPool1dImpl : public detail::OptionsModule<MaxPool1dImpl, MaxPool1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit MaxPool1dImpl(ExpandingArray<1> kernel_size)
      : OptionsModule(MaxPool1dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  /// The maxima and where they were.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);
  std::string extra_repr() const override;
};
using MaxPool1d = ModuleHolder<MaxPool1dImpl>;

class PELLUCID_API MaxPool2dImpl : public detail::OptionsModule<MaxPool2dImpl, MaxPool2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit MaxPool2dImpl(ExpandingArray<2> kernel_size)
      : OptionsModule(MaxPool2dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  /// The maxima and where they were.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);
  std::string extra_repr() const override;
};
using MaxPool2d = ModuleHolder<MaxPool2dImpl>;

class PELLUCID_API MaxPool3dImpl : public detail::OptionsModule<MaxPool3dImpl, MaxPool3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit MaxPool3dImpl(ExpandingArray<3> kernel_size)
      : OptionsModule(MaxPool3dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input);
  /// The maxima and where they were.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);
  std::string extra_repr() const override;
};
using MaxPool3d = ModuleHolder<MaxPool3dImpl>;

class PELLUCID_API AdaptiveMaxPool1dImpl
    : public detail::OptionsModule<AdaptiveMaxPool1dImpl, AdaptiveMaxPool1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AdaptiveMaxPool1dImpl(ExpandingArray<1> output_size)
      : OptionsModule(AdaptiveMaxPool1dOptions(output_size)) {}
  Tensor forward(const Tensor& input);
  /// The maxima and where they were.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);
  std::string extra_repr() const override;
};
using AdaptiveMaxPool1d = ModuleHolder<AdaptiveMaxPool1dImpl>;

class PELLUCID_API AdaptiveMaxPool2dImpl
    : public detail::OptionsModule<AdaptiveMaxPool2dImpl, AdaptiveMaxPool2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AdaptiveMaxPool2dImpl(ExpandingArrayWithOptionalElem<2> output_size)
      : OptionsModule(AdaptiveMaxPool2dOptions(output_size)) {}
  Tensor forward(const Tensor& input);
  /// The maxima and where they were.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);
  std::string extra_repr() const override;
};
using AdaptiveMaxPool2d = ModuleHolder<AdaptiveMaxPool2dImpl>;

class PELLUCID_API AdaptiveMaxPool3dImpl
    : public detail::OptionsModule<AdaptiveMaxPool3dImpl, AdaptiveMaxPool3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit AdaptiveMaxPool3dImpl(ExpandingArrayWithOptionalElem<3> output_size)
      : OptionsModule(AdaptiveMaxPool3dOptions(output_size)) {}
  Tensor forward(const Tensor& input);
  /// The maxima and where they were.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);
  std::string extra_repr() const override;
};
using AdaptiveMaxPool3d = ModuleHolder<AdaptiveMaxPool3dImpl>;

/// The values of MaxPool1d back at the places that its indices name, and zeros elsewhere.
class PELLUCID_API MaxUnpool1dImpl
    : public detail::OptionsModule<MaxUnpool1dImpl, MaxUnpool1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit MaxUnpool1dImpl(ExpandingArray<1> kernel_size)
      : OptionsModule(MaxUnpool1dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  std::string extra_repr() const override;
};
using MaxUnpool1d = ModuleHolder<MaxUnpool1dImpl>;

/// The values of MaxPool2d back at the places that its indices name, and zeros elsewhere.
class PELLUCID_API MaxUnpool2dImpl
    : public detail::OptionsModule<MaxUnpool2dImpl, MaxUnpool2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit MaxUnpool2dImpl(ExpandingArray<2> kernel_size)
      : OptionsModule(MaxUnpool2dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  std::string extra_repr() const override;
};
using MaxUnpool2d = ModuleHolder<MaxUnpool2dImpl>;

/// The values of MaxPool3d back at the places that its indices name, and zeros elsewhere.
class PELLUCID_API MaxUnpool3dImpl
    : public detail::OptionsModule<MaxUnpool3dImpl, MaxUnpool3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit MaxUnpool3dImpl(ExpandingArray<3> kernel_size)
      : OptionsModule(MaxUnpool3dOptions(kernel_size)) {}
  Tensor forward(const Tensor& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  std::string extra_repr() const override;
};
using MaxUnpool3d = ModuleHolder<MaxUnpool3dImpl>;

}  // namespace pellucid::nn
