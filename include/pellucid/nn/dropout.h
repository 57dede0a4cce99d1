// Dropout: in training, values are zeroed at random and the rest scaled up; otherwise nothing.
#pragma once

#include "pellucid/nn/options/layers.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

namespace detail {
template <class Derived> class PELLUCID_API DropoutBase : public Cloneable<Derived> {
 public:
  explicit DropoutBase(const DropoutOptions& options = {});
  void reset() override;
  std::string extra_repr() const override;
  DropoutOptions options;
};
}  // namespace detail

/// Zeroes single values with probability p.
class PELLUCID_API DropoutImpl : public detail::DropoutBase<DropoutImpl> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(Tensor input);
};
using Dropout = ModuleHolder<DropoutImpl>;

/// Zeroes whole channels of [N, C, L] or [C, L].
class PELLUCID_API Dropout1dImpl : public detail::DropoutBase<Dropout1dImpl> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(Tensor input);
};
using Dropout1d = ModuleHolder<Dropout1dImpl>;

/// Zeroes whole channels of [N, C, …].
class PELLUCID_API Dropout2dImpl : public detail::DropoutBase<Dropout2dImpl> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(Tensor input);
};
using Dropout2d = ModuleHolder<Dropout2dImpl>;

/// Zeroes whole channels of [N, C, D, H, W] or [C, D, H, W].
class PELLUCID_API Dropout3dImpl : public detail::DropoutBase<Dropout3dImpl> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(Tensor input);
};
using Dropout3d = ModuleHolder<Dropout3dImpl>;

/// Keeps mean and variance of inputs that were self-normalised (SELU).
class PELLUCID_API AlphaDropoutImpl : public detail::DropoutBase<AlphaDropoutImpl> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input);
};
using AlphaDropout = ModuleHolder<AlphaDropoutImpl>;

/// AlphaDropout of whole channels.
class PELLUCID_API FeatureAlphaDropoutImpl : public detail::DropoutBase<FeatureAlphaDropoutImpl> {
 public:
  using DropoutBase::DropoutBase;
  Tensor forward(const Tensor& input);
};
using FeatureAlphaDropout = ModuleHolder<FeatureAlphaDropoutImpl>;

extern template class detail::DropoutBase<DropoutImpl>;
extern template class detail::DropoutBase<Dropout1dImpl>;
extern template class detail::DropoutBase<Dropout2dImpl>;
extern template class detail::DropoutBase<Dropout3dImpl>;
extern template class detail::DropoutBase<AlphaDropoutImpl>;
extern template class detail::DropoutBase<FeatureAlphaDropoutImpl>;

}  // namespace pellucid::nn
