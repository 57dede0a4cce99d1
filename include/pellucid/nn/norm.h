// Normalisations as modules.
#pragma once

#include "pellucid/nn/options/norm.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

namespace detail {
/// Parameters and running statistics that batch and instance norms keep.
template <class Derived, class Options> class PELLUCID_API NormBase : public Cloneable<Derived> {
 public:
  explicit NormBase(const Options& o);
  void reset() override;
  void reset_parameters();
  void reset_running_stats();
  std::string extra_repr() const override;
  Options options;
  Tensor weight, bias;
  Tensor running_mean, running_var, num_batches_tracked;
};
}  // namespace detail

/// Over the batch and all positions of each channel.
template <class Derived>
class PELLUCID_API BatchNormImplBase : public detail::NormBase<Derived, BatchNormOptions> {
 public:
  using detail::NormBase<Derived, BatchNormOptions>::NormBase;
  Tensor forward(const Tensor& input);

 protected:
  virtual void check_input(const Tensor& input) const = 0;
};

class PELLUCID_API BatchNorm1dImpl : public BatchNormImplBase<BatchNorm1dImpl> {
 public:
  explicit BatchNorm1dImpl(const BatchNorm1dOptions& options);

 protected:
  void check_input(const Tensor& input) const override;
};
using BatchNorm1d = ModuleHolder<BatchNorm1dImpl>;

class PELLUCID_API BatchNorm2dImpl : public BatchNormImplBase<BatchNorm2dImpl> {
 public:
  explicit BatchNorm2dImpl(const BatchNorm2dOptions& options);

 protected:
  void check_input(const Tensor& input) const override;
};
using BatchNorm2d = ModuleHolder<BatchNorm2dImpl>;

class PELLUCID_API BatchNorm3dImpl : public BatchNormImplBase<BatchNorm3dImpl> {
 public:
  explicit BatchNorm3dImpl(const BatchNorm3dOptions& options);

 protected:
  void check_input(const Tensor& input) const override;
};
using BatchNorm3d = ModuleHolder<BatchNorm3dImpl>;

/// Over all positions of each channel of each sample.
template <class Derived>
class PELLUCID_API InstanceNormImplBase : public detail::NormBase<Derived, InstanceNormOptions> {
 public:
  using detail::NormBase<Derived, InstanceNormOptions>::NormBase;
  Tensor forward(const Tensor& input);

 protected:
  /// Dimensions of one sample: 2 for [C, L], 3 for [C, H, W], 4 for [C, D, H, W].
  virtual int64_t sample_dims() const = 0;
};

class PELLUCID_API InstanceNorm1dImpl : public InstanceNormImplBase<InstanceNorm1dImpl> {
 public:
  explicit InstanceNorm1dImpl(const InstanceNorm1dOptions& options);

 protected:
  int64_t sample_dims() const override;
};
using InstanceNorm1d = ModuleHolder<InstanceNorm1dImpl>;

class PELLUCID_API InstanceNorm2dImpl : public InstanceNormImplBase<InstanceNorm2dImpl> {
 public:
  explicit InstanceNorm2dImpl(const InstanceNorm2dOptions& options);

 protected:
  int64_t sample_dims() const override;
};
using InstanceNorm2d = ModuleHolder<InstanceNorm2dImpl>;

class PELLUCID_API InstanceNorm3dImpl : public InstanceNormImplBase<InstanceNorm3dImpl> {
 public:
  explicit InstanceNorm3dImpl(const InstanceNorm3dOptions& options);

 protected:
  int64_t sample_dims() const override;
};
using InstanceNorm3d = ModuleHolder<InstanceNorm3dImpl>;

extern template class detail::NormBase<BatchNorm1dImpl, BatchNormOptions>;
extern template class detail::NormBase<BatchNorm2dImpl, BatchNormOptions>;
extern template class detail::NormBase<BatchNorm3dImpl, BatchNormOptions>;
extern template class detail::NormBase<InstanceNorm1dImpl, InstanceNormOptions>;
extern template class detail::NormBase<InstanceNorm2dImpl, InstanceNormOptions>;
extern template class detail::NormBase<InstanceNorm3dImpl, InstanceNormOptions>;
extern template class BatchNormImplBase<BatchNorm1dImpl>;
extern template class BatchNormImplBase<BatchNorm2dImpl>;
extern template class BatchNormImplBase<BatchNorm3dImpl>;
extern template class InstanceNormImplBase<InstanceNorm1dImpl>;
extern template class InstanceNormImplBase<InstanceNorm2dImpl>;
extern template class InstanceNormImplBase<InstanceNorm3dImpl>;

/// Over the last dimensions, with a weight and a bias for each of their elements.
class PELLUCID_API LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  explicit LayerNormImpl(std::vector<int64_t> normalized_shape)
      : LayerNormImpl(LayerNormOptions(std::move(normalized_shape))) {}
  explicit LayerNormImpl(const LayerNormOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
  LayerNormOptions options;
  Tensor weight, bias;
};
using LayerNorm = ModuleHolder<LayerNormImpl>;

/// x / sqrt(mean(x²) + eps) * weight over the last dimensions.
class PELLUCID_API RMSNormImpl : public Cloneable<RMSNormImpl> {
 public:
  explicit RMSNormImpl(std::vector<int64_t> normalized_shape)
      : RMSNormImpl(RMSNormOptions(std::move(normalized_shape))) {}
  explicit RMSNormImpl(const RMSNormOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
  RMSNormOptions options;
  Tensor weight;
};
using RMSNorm = ModuleHolder<RMSNormImpl>;

/// Over groups of channels of each sample.
class PELLUCID_API GroupNormImpl : public Cloneable<GroupNormImpl> {
 public:
  GroupNormImpl(int64_t num_groups, int64_t num_channels)
      : GroupNormImpl(GroupNormOptions(num_groups, num_channels)) {}
  explicit GroupNormImpl(const GroupNormOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
  GroupNormOptions options;
  Tensor weight, bias;
};
using GroupNorm = ModuleHolder<GroupNormImpl>;

class PELLUCID_API LocalResponseNormImpl
    : public detail::OptionsModule<LocalResponseNormImpl, LocalResponseNormOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using LocalResponseNorm = ModuleHolder<LocalResponseNormImpl>;

}  // namespace pellucid::nn
