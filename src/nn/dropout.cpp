// Dropout modules.
#include "pellucid/nn/dropout.h"

#include "nn/repr.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace detail {

template <class Derived> DropoutBase<Derived>::DropoutBase(const DropoutOptions& o) : options(o) {
  reset();
}

template <class Derived> void DropoutBase<Derived>::reset() {
  PELLUCID_CHECK(options.p() >= 0 && options.p() <= 1, ValueError,
                 "Dropout: the probability must be between 0 and 1, but is {}.", options.p());
}

template <class Derived> std::string DropoutBase<Derived>::extra_repr() const {
  return fmt::format("p={}, inplace={}", repr::text(options.p()), repr::text(options.inplace()));
}

}  // namespace detail

template class detail::DropoutBase<DropoutImpl>;
template class detail::DropoutBase<Dropout1dImpl>;
template class detail::DropoutBase<Dropout2dImpl>;
template class detail::DropoutBase<Dropout3dImpl>;
template class detail::DropoutBase<AlphaDropoutImpl>;
template class detail::DropoutBase<FeatureAlphaDropoutImpl>;

Tensor DropoutImpl::forward(Tensor input) {
  const ModuleScope scope(*this);
  if (options.inplace()) return input.dropout_(options.p(), is_training());
  return dropout(input, options.p(), is_training());
}

namespace {
/// Zeroes whole channels; an input of `unbatched` dims has no batch.
Tensor drop_channels(const Tensor& input, const DropoutOptions& o, bool training,
                     int64_t unbatched) {
  if (input.dim() == unbatched)
    return drop_channels(input.unsqueeze(0), o, training, unbatched).squeeze(0);
  if (o.inplace()) return input.feature_dropout_(o.p(), training);
  return feature_dropout(input, o.p(), training);
}
}  // namespace

Tensor Dropout1dImpl::forward(Tensor input) {
  const ModuleScope scope(*this);
  return drop_channels(input, options, is_training(), 2);
}

Tensor Dropout2dImpl::forward(Tensor input) {
  const ModuleScope scope(*this);
  if (options.inplace()) return input.feature_dropout_(options.p(), is_training());
  return feature_dropout(input, options.p(), is_training());
}

Tensor Dropout3dImpl::forward(Tensor input) {
  const ModuleScope scope(*this);
  return drop_channels(input, options, is_training(), 4);
}

Tensor AlphaDropoutImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  if (options.inplace()) return input.alpha_dropout_(options.p(), is_training());
  return alpha_dropout(input, options.p(), is_training());
}

Tensor FeatureAlphaDropoutImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  if (options.inplace()) return input.feature_alpha_dropout_(options.p(), is_training());
  return feature_alpha_dropout(input, options.p(), is_training());
}

}  // namespace pellucid::nn
