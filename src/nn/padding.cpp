// Padding, pixel shuffles and distances as modules.
#include "pellucid/nn/padding.h"

#include "nn/repr.h"
#include "pellucid/nn/functional/layers.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

Tensor ReflectionPad1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "reflect");
}
std::string ReflectionPad1dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ReflectionPad2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "reflect");
}
std::string ReflectionPad2dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ReplicationPad1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "replicate");
}
std::string ReplicationPad1dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ReplicationPad2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "replicate");
}
std::string ReplicationPad2dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ZeroPad1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "constant");
}
std::string ZeroPad1dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ZeroPad2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "constant");
}
std::string ZeroPad2dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ConstantPad1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return constant_pad_nd(input, options.padding(), options.value());
}
std::string ConstantPad1dImpl::extra_repr() const {
  return "padding=" + repr::tuple(*options.padding()) + ", value=" + repr::text(options.value());
}

Tensor ConstantPad2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return constant_pad_nd(input, options.padding(), options.value());
}
std::string ConstantPad2dImpl::extra_repr() const {
  return "padding=" + repr::tuple(*options.padding()) + ", value=" + repr::text(options.value());
}

Tensor ReflectionPad3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "reflect");
}
std::string ReflectionPad3dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ReplicationPad3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "replicate");
}
std::string ReplicationPad3dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor CircularPad1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "circular");
}
std::string CircularPad1dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor CircularPad2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "circular");
}
std::string CircularPad2dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor CircularPad3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "circular");
}
std::string CircularPad3dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ZeroPad3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return pad(input, options.padding(), "constant");
}
std::string ZeroPad3dImpl::extra_repr() const { return repr::tuple(*options.padding()); }

Tensor ConstantPad3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return constant_pad_nd(input, options.padding(), options.value());
}
std::string ConstantPad3dImpl::extra_repr() const {
  return "padding=" + repr::tuple(*options.padding()) + ", value=" + repr::text(options.value());
}

Tensor ChannelShuffleImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return functional::channel_shuffle(input, options);
}
std::string ChannelShuffleImpl::extra_repr() const {
  return fmt::format("groups={}", options.groups());
}

Tensor PixelShuffleImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return functional::pixel_shuffle(input, options);
}
std::string PixelShuffleImpl::extra_repr() const {
  return fmt::format("upscale_factor={}", options.upscale_factor());
}

Tensor PixelUnshuffleImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return functional::pixel_unshuffle(input, options);
}
std::string PixelUnshuffleImpl::extra_repr() const {
  return fmt::format("downscale_factor={}", options.downscale_factor());
}

Tensor CosineSimilarityImpl::forward(const Tensor& x1, const Tensor& x2) {
  const ModuleScope scope(*this);
  return functional::cosine_similarity(x1, x2, options);
}

Tensor PairwiseDistanceImpl::forward(const Tensor& x1, const Tensor& x2) {
  const ModuleScope scope(*this);
  return functional::pairwise_distance(x1, x2, options);
}

}  // namespace pellucid::nn
