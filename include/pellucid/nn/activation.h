// Activations as modules.
#pragma once

#include "pellucid/nn/options/activation.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

class PELLUCID_API ELUImpl : public detail::OptionsModule<ELUImpl, ELUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using ELU = ModuleHolder<ELUImpl>;

class PELLUCID_API CELUImpl : public detail::OptionsModule<CELUImpl, CELUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using CELU = ModuleHolder<CELUImpl>;

class PELLUCID_API SELUImpl : public detail::OptionsModule<SELUImpl, SELUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using SELU = ModuleHolder<SELUImpl>;

class PELLUCID_API GLUImpl : public detail::OptionsModule<GLUImpl, GLUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using GLU = ModuleHolder<GLUImpl>;

class PELLUCID_API GELUImpl : public detail::OptionsModule<GELUImpl, GELUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using GELU = ModuleHolder<GELUImpl>;

class PELLUCID_API HardshrinkImpl
    : public detail::OptionsModule<HardshrinkImpl, HardshrinkOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Hardshrink = ModuleHolder<HardshrinkImpl>;

class PELLUCID_API HardtanhImpl : public detail::OptionsModule<HardtanhImpl, HardtanhOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Hardtanh = ModuleHolder<HardtanhImpl>;

class PELLUCID_API LeakyReLUImpl : public detail::OptionsModule<LeakyReLUImpl, LeakyReLUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using LeakyReLU = ModuleHolder<LeakyReLUImpl>;

class PELLUCID_API ReLUImpl : public detail::OptionsModule<ReLUImpl, ReLUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using ReLU = ModuleHolder<ReLUImpl>;

class PELLUCID_API ReLU6Impl : public detail::OptionsModule<ReLU6Impl, ReLU6Options> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using ReLU6 = ModuleHolder<ReLU6Impl>;

class PELLUCID_API RReLUImpl : public detail::OptionsModule<RReLUImpl, RReLUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using RReLU = ModuleHolder<RReLUImpl>;

class PELLUCID_API SiLUImpl : public detail::OptionsModule<SiLUImpl, SiLUOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using SiLU = ModuleHolder<SiLUImpl>;

class PELLUCID_API MishImpl : public detail::OptionsModule<MishImpl, MishOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Mish = ModuleHolder<MishImpl>;

class PELLUCID_API HardswishImpl : public detail::OptionsModule<HardswishImpl, HardswishOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Hardswish = ModuleHolder<HardswishImpl>;

class PELLUCID_API HardsigmoidImpl
    : public detail::OptionsModule<HardsigmoidImpl, HardsigmoidOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Hardsigmoid = ModuleHolder<HardsigmoidImpl>;

class PELLUCID_API SoftplusImpl : public detail::OptionsModule<SoftplusImpl, SoftplusOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Softplus = ModuleHolder<SoftplusImpl>;

class PELLUCID_API SoftshrinkImpl
    : public detail::OptionsModule<SoftshrinkImpl, SoftshrinkOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Softshrink = ModuleHolder<SoftshrinkImpl>;

class PELLUCID_API ThresholdImpl : public detail::OptionsModule<ThresholdImpl, ThresholdOptions> {
 public:
  using OptionsModule::OptionsModule;
  ThresholdImpl(double threshold, double value)
      : OptionsModule(ThresholdOptions(threshold, value)) {}
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Threshold = ModuleHolder<ThresholdImpl>;

class PELLUCID_API SoftmaxImpl : public detail::OptionsModule<SoftmaxImpl, SoftmaxOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Softmax = ModuleHolder<SoftmaxImpl>;

class PELLUCID_API SoftminImpl : public detail::OptionsModule<SoftminImpl, SoftminOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using Softmin = ModuleHolder<SoftminImpl>;

class PELLUCID_API LogSoftmaxImpl
    : public detail::OptionsModule<LogSoftmaxImpl, LogSoftmaxOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(Tensor input);
  std::string extra_repr() const override;
};
using LogSoftmax = ModuleHolder<LogSoftmaxImpl>;

class PELLUCID_API LogSigmoidImpl : public detail::FunctionModule<LogSigmoidImpl, logsigmoid> {};
using LogSigmoid = ModuleHolder<LogSigmoidImpl>;

class PELLUCID_API SigmoidImpl : public detail::FunctionModule<SigmoidImpl, sigmoid> {};
using Sigmoid = ModuleHolder<SigmoidImpl>;

class PELLUCID_API SoftsignImpl : public detail::FunctionModule<SoftsignImpl, softsign> {};
using Softsign = ModuleHolder<SoftsignImpl>;

class PELLUCID_API TanhImpl : public detail::FunctionModule<TanhImpl, tanh> {};
using Tanh = ModuleHolder<TanhImpl>;

class PELLUCID_API TanhshrinkImpl : public detail::FunctionModule<TanhshrinkImpl, tanhshrink> {};
using Tanhshrink = ModuleHolder<TanhshrinkImpl>;

class PELLUCID_API Softmax2dImpl : public detail::PlainModule<Softmax2dImpl> {
 public:
  Tensor forward(const Tensor& input);
};
using Softmax2d = ModuleHolder<Softmax2dImpl>;

/// max(0, x) + weight * min(0, x) with a learned weight, one for all channels or one for each.
class PELLUCID_API PReLUImpl : public Cloneable<PReLUImpl> {
 public:
  explicit PReLUImpl(const PReLUOptions& options = {});
  void reset() override;
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
  PReLUOptions options;
  Tensor weight;
};
using PReLU = ModuleHolder<PReLUImpl>;

}  // namespace pellucid::nn
