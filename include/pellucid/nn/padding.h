// Padding, pixel shuffles and distances as modules.
#pragma once

#include "pellucid/nn/options/layers.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

class PELLUCID_API ReflectionPad1dImpl
    : public detail::OptionsModule<ReflectionPad1dImpl, ReflectionPad1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ReflectionPad1dImpl(ExpandingArray<2> padding)
      : OptionsModule(ReflectionPad1dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ReflectionPad1d = ModuleHolder<ReflectionPad1dImpl>;

class PELLUCID_API ReflectionPad2dImpl
    : public detail::OptionsModule<ReflectionPad2dImpl, ReflectionPad2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ReflectionPad2dImpl(ExpandingArray<4> padding)
      : OptionsModule(ReflectionPad2dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ReflectionPad2d = ModuleHolder<ReflectionPad2dImpl>;

class PELLUCID_API ReplicationPad1dImpl
    : public detail::OptionsModule<ReplicationPad1dImpl, ReplicationPad1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ReplicationPad1dImpl(ExpandingArray<2> padding)
      : OptionsModule(ReplicationPad1dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ReplicationPad1d = ModuleHolder<ReplicationPad1dImpl>;

class PELLUCID_API ReplicationPad2dImpl
    : public detail::OptionsModule<ReplicationPad2dImpl, ReplicationPad2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ReplicationPad2dImpl(ExpandingArray<4> padding)
      : OptionsModule(ReplicationPad2dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ReplicationPad2d = ModuleHolder<ReplicationPad2dImpl>;

class PELLUCID_API ZeroPad1dImpl : public detail::OptionsModule<ZeroPad1dImpl, ZeroPad1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ZeroPad1dImpl(ExpandingArray<2> padding) : OptionsModule(ZeroPad1dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ZeroPad1d = ModuleHolder<ZeroPad1dImpl>;

class PELLUCID_API ZeroPad2dImpl : public detail::OptionsModule<ZeroPad2dImpl, ZeroPad2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ZeroPad2dImpl(ExpandingArray<4> padding) : OptionsModule(ZeroPad2dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ZeroPad2d = ModuleHolder<ZeroPad2dImpl>;

class PELLUCID_API ConstantPad1dImpl
    : public detail::OptionsModule<ConstantPad1dImpl, ConstantPad1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  ConstantPad1dImpl(ExpandingArray<2> padding, double value)
      : OptionsModule(ConstantPad1dOptions(padding, value)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ConstantPad1d = ModuleHolder<ConstantPad1dImpl>;

class PELLUCID_API ConstantPad2dImpl
    : public detail::OptionsModule<ConstantPad2dImpl, ConstantPad2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  ConstantPad2dImpl(ExpandingArray<4> padding, double value)
      : OptionsModule(ConstantPad2dOptions(padding, value)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ConstantPad2d = ModuleHolder<ConstantPad2dImpl>;

class PELLUCID_API ReflectionPad3dImpl
    : public detail::OptionsModule<ReflectionPad3dImpl, ReflectionPad3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ReflectionPad3dImpl(ExpandingArray<6> padding)
      : OptionsModule(ReflectionPad3dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ReflectionPad3d = ModuleHolder<ReflectionPad3dImpl>;

class PELLUCID_API ReplicationPad3dImpl
    : public detail::OptionsModule<ReplicationPad3dImpl, ReplicationPad3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ReplicationPad3dImpl(ExpandingArray<6> padding)
      : OptionsModule(ReplicationPad3dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ReplicationPad3d = ModuleHolder<ReplicationPad3dImpl>;

class PELLUCID_API CircularPad1dImpl
    : public detail::OptionsModule<CircularPad1dImpl, CircularPad1dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit CircularPad1dImpl(ExpandingArray<2> padding)
      : OptionsModule(CircularPad1dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using CircularPad1d = ModuleHolder<CircularPad1dImpl>;

class PELLUCID_API CircularPad2dImpl
    : public detail::OptionsModule<CircularPad2dImpl, CircularPad2dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit CircularPad2dImpl(ExpandingArray<4> padding)
      : OptionsModule(CircularPad2dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using CircularPad2d = ModuleHolder<CircularPad2dImpl>;

class PELLUCID_API CircularPad3dImpl
    : public detail::OptionsModule<CircularPad3dImpl, CircularPad3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit CircularPad3dImpl(ExpandingArray<6> padding)
      : OptionsModule(CircularPad3dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using CircularPad3d = ModuleHolder<CircularPad3dImpl>;

class PELLUCID_API ZeroPad3dImpl : public detail::OptionsModule<ZeroPad3dImpl, ZeroPad3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  explicit ZeroPad3dImpl(ExpandingArray<6> padding) : OptionsModule(ZeroPad3dOptions(padding)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ZeroPad3d = ModuleHolder<ZeroPad3dImpl>;

class PELLUCID_API ConstantPad3dImpl
    : public detail::OptionsModule<ConstantPad3dImpl, ConstantPad3dOptions> {
 public:
  using OptionsModule::OptionsModule;
  ConstantPad3dImpl(ExpandingArray<6> padding, double value)
      : OptionsModule(ConstantPad3dOptions(padding, value)) {}
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ConstantPad3d = ModuleHolder<ConstantPad3dImpl>;

/// Mixes the channels of groups: channel j of group i goes to place j * groups + i.
class PELLUCID_API ChannelShuffleImpl
    : public detail::OptionsModule<ChannelShuffleImpl, ChannelShuffleOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using ChannelShuffle = ModuleHolder<ChannelShuffleImpl>;

class PELLUCID_API PixelShuffleImpl
    : public detail::OptionsModule<PixelShuffleImpl, PixelShuffleOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using PixelShuffle = ModuleHolder<PixelShuffleImpl>;

class PELLUCID_API PixelUnshuffleImpl
    : public detail::OptionsModule<PixelUnshuffleImpl, PixelUnshuffleOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
};
using PixelUnshuffle = ModuleHolder<PixelUnshuffleImpl>;

class PELLUCID_API CosineSimilarityImpl
    : public detail::OptionsModule<CosineSimilarityImpl, CosineSimilarityOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& x1, const Tensor& x2);
};
using CosineSimilarity = ModuleHolder<CosineSimilarityImpl>;

class PELLUCID_API PairwiseDistanceImpl
    : public detail::OptionsModule<PairwiseDistanceImpl, PairwiseDistanceOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& x1, const Tensor& x2);
};
using PairwiseDistance = ModuleHolder<PairwiseDistanceImpl>;

}  // namespace pellucid::nn
