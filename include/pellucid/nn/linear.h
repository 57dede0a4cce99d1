// Linear, Bilinear, Identity, Flatten and Unflatten.
#pragma once

#include "pellucid/nn/options/layers.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

/// y = x Wᵀ + b, with the weight stored [out_features, in_features].
class PELLUCID_API LinearImpl : public Cloneable<LinearImpl> {
 public:
  LinearImpl(int64_t in_features, int64_t out_features)
      : LinearImpl(LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const LinearOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
  LinearOptions options;
  Tensor weight, bias;
};
using Linear = ModuleHolder<LinearImpl>;

/// y = x1ᵀ W x2 + b for each output feature.
class PELLUCID_API BilinearImpl : public Cloneable<BilinearImpl> {
 public:
  BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features)
      : BilinearImpl(BilinearOptions(in1_features, in2_features, out_features)) {}
  explicit BilinearImpl(const BilinearOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& input1, const Tensor& input2);
  std::string extra_repr() const override;
  BilinearOptions options;
  Tensor weight, bias;
};
using Bilinear = ModuleHolder<BilinearImpl>;

/// Returns what it is given.
class PELLUCID_API IdentityImpl : public detail::PlainModule<IdentityImpl> {
 public:
  Tensor forward(const Tensor& input);
};
using Identity = ModuleHolder<IdentityImpl>;

/// Makes dimensions start_dim to end_dim one; by default all but the batch.
class PELLUCID_API FlattenImpl : public detail::OptionsModule<FlattenImpl, FlattenOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using Flatten = ModuleHolder<FlattenImpl>;

/// Makes one dimension several.
class PELLUCID_API UnflattenImpl : public detail::OptionsModule<UnflattenImpl, UnflattenOptions> {
 public:
  using OptionsModule::OptionsModule;
  UnflattenImpl(int64_t dim, std::vector<int64_t> sizes)
      : OptionsModule(UnflattenOptions(dim, std::move(sizes))) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using Unflatten = ModuleHolder<UnflattenImpl>;

}  // namespace pellucid::nn
