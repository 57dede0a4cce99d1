// Normalisations as modules.
#include "pellucid/nn/norm.h"

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/autograd.h"
#include "pellucid/nn/functional/norm.h"
#include "pellucid/nn/init.h"

namespace pellucid::nn {

namespace detail {

template <class Derived, class Options>
NormBase<Derived, Options>::NormBase(const Options& o) : options(o) {}

template <class Derived, class Options> void NormBase<Derived, Options>::reset() {
  const int64_t features = options.num_features();
  PELLUCID_CHECK(features > 0, ValueError, "{}: num_features must be positive, but is {}.",
                 this->name(), features);
  const bool affine = options.affine(), track = options.track_running_stats();
  weight =
      this->register_parameter("weight", affine ? new_parameter({features}) : Tensor(), affine);
  bias = this->register_parameter("bias", affine ? new_parameter({features}) : Tensor(), affine);
  running_mean = this->register_buffer("running_mean", track ? zeros({features}) : Tensor());
  running_var = this->register_buffer("running_var", track ? ones({features}) : Tensor());
  num_batches_tracked =
      this->register_buffer("num_batches_tracked", track ? zeros({}, kInt64) : Tensor());
  reset_parameters();
}

template <class Derived, class Options> void NormBase<Derived, Options>::reset_running_stats() {
  if (!options.track_running_stats()) return;
  const NoGradGuard off;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

template <class Derived, class Options> void NormBase<Derived, Options>::reset_parameters() {
  reset_running_stats();
  if (!options.affine()) return;
  init::ones_(weight);
  init::zeros_(bias);
}

namespace {
std::string momentum_text(double m) { return repr::text(m); }
std::string momentum_text(const std::optional<double>& m) { return m ? repr::text(*m) : "None"; }
}  // namespace

template <class Derived, class Options> std::string NormBase<Derived, Options>::extra_repr() const {
  return fmt::format("{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                     options.num_features(), repr::text(options.eps()),
                     momentum_text(options.momentum()), repr::text(options.affine()),
                     repr::text(options.affine()), repr::text(options.track_running_stats()));
}

}  // namespace detail

template <class Derived> Tensor BatchNormImplBase<Derived>::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  check_input(input);
  const auto& o = this->options;
  const bool track = o.track_running_stats();
  double momentum = o.momentum().value_or(0.0);
  if (this->is_training() && track) {
    const NoGradGuard off;
    this->num_batches_tracked.add_(1);
    if (!o.momentum())  // a plain average over all batches
      momentum = 1.0 / this->num_batches_tracked.template item<double>();
  }
  return batch_norm(input, this->weight, this->bias, this->running_mean, this->running_var,
                    this->is_training() || !track, momentum, o.eps());
}

template <class Derived> Tensor InstanceNormImplBase<Derived>::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  const int64_t dims = sample_dims();
  PELLUCID_CHECK(input.dim() == dims || input.dim() == dims + 1, ShapeError,
                 "{}: the input must have {} or {} dimensions, but is {}.", this->name(), dims,
                 dims + 1, input.sizes());
  const auto& o = this->options;
  const Tensor batch = input.dim() == dims ? input.unsqueeze(0) : input;
  const Tensor y =
      instance_norm(batch, this->weight, this->bias, this->running_mean, this->running_var,
                    this->is_training() || !o.track_running_stats(), o.momentum(), o.eps());
  return input.dim() == dims ? y.squeeze(0) : y;
}

BatchNorm1dImpl::BatchNorm1dImpl(const BatchNorm1dOptions& o) : BatchNormImplBase(o) { reset(); }
BatchNorm2dImpl::BatchNorm2dImpl(const BatchNorm2dOptions& o) : BatchNormImplBase(o) { reset(); }
BatchNorm3dImpl::BatchNorm3dImpl(const BatchNorm3dOptions& o) : BatchNormImplBase(o) { reset(); }

void BatchNorm1dImpl::check_input(const Tensor& input) const {
  PELLUCID_CHECK(input.dim() == 2 || input.dim() == 3, ShapeError,
                 "BatchNorm1d: the input must have 2 or 3 dimensions, but is {}.", input.sizes());
}
void BatchNorm2dImpl::check_input(const Tensor& input) const {
  PELLUCID_CHECK(input.dim() == 4, ShapeError,
                 "BatchNorm2d: the input must have 4 dimensions, but is {}.", input.sizes());
}
void BatchNorm3dImpl::check_input(const Tensor& input) const {
  PELLUCID_CHECK(input.dim() == 5, ShapeError,
                 "BatchNorm3d: the input must have 5 dimensions, but is {}.", input.sizes());
}

InstanceNorm1dImpl::InstanceNorm1dImpl(const InstanceNorm1dOptions& o) : InstanceNormImplBase(o) {
  reset();
}
InstanceNorm2dImpl::InstanceNorm2dImpl(const InstanceNorm2dOptions& o) : InstanceNormImplBase(o) {
  reset();
}
InstanceNorm3dImpl::InstanceNorm3dImpl(const InstanceNorm3dOptions& o) : InstanceNormImplBase(o) {
  reset();
}
int64_t InstanceNorm1dImpl::sample_dims() const { return 2; }
int64_t InstanceNorm2dImpl::sample_dims() const { return 3; }
int64_t InstanceNorm3dImpl::sample_dims() const { return 4; }

template class detail::NormBase<BatchNorm1dImpl, BatchNormOptions>;
template class detail::NormBase<BatchNorm2dImpl, BatchNormOptions>;
template class detail::NormBase<BatchNorm3dImpl, BatchNormOptions>;
template class detail::NormBase<InstanceNorm1dImpl, InstanceNormOptions>;
template class detail::NormBase<InstanceNorm2dImpl, InstanceNormOptions>;
template class detail::NormBase<InstanceNorm3dImpl, InstanceNormOptions>;
template class BatchNormImplBase<BatchNorm1dImpl>;
template class BatchNormImplBase<BatchNorm2dImpl>;
template class BatchNormImplBase<BatchNorm3dImpl>;
template class InstanceNormImplBase<InstanceNorm1dImpl>;
template class InstanceNormImplBase<InstanceNorm2dImpl>;
template class InstanceNormImplBase<InstanceNorm3dImpl>;

LayerNormImpl::LayerNormImpl(const LayerNormOptions& o) : options(o) { reset(); }

void LayerNormImpl::reset() {
  const bool affine = options.elementwise_affine(), with_bias = affine && options.bias();
  const auto& shape = options.normalized_shape();
  PELLUCID_CHECK(!shape.empty(), ValueError, "LayerNorm: normalized_shape must not be empty.");
  weight = register_parameter("weight", affine ? new_parameter(shape) : Tensor(), affine);
  bias = register_parameter("bias", with_bias ? new_parameter(shape) : Tensor(), with_bias);
  reset_parameters();
}

void LayerNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor LayerNormImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return layer_norm(input, options.normalized_shape(), weight, bias, options.eps());
}

std::string LayerNormImpl::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}, bias={}",
                     repr::tuple(options.normalized_shape()), repr::text(options.eps()),
                     repr::text(options.elementwise_affine()), repr::text(bias.defined()));
}

RMSNormImpl::RMSNormImpl(const RMSNormOptions& o) : options(o) { reset(); }

void RMSNormImpl::reset() {
  const auto& shape = options.normalized_shape();
  PELLUCID_CHECK(!shape.empty(), ValueError, "RMSNorm: normalized_shape must not be empty.");
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", affine ? new_parameter(shape) : Tensor(), affine);
  reset_parameters();
}

void RMSNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
}

Tensor RMSNormImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return rms_norm(input, options.normalized_shape(), weight, options.eps());
}

std::string RMSNormImpl::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}", repr::tuple(options.normalized_shape()),
                     options.eps() ? repr::text(*options.eps()) : "None",
                     repr::text(options.elementwise_affine()));
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& o) : options(o) { reset(); }

void GroupNormImpl::reset() {
  PELLUCID_CHECK(options.num_groups() > 0 && options.num_channels() % options.num_groups() == 0,
                 ValueError, "GroupNorm: num_channels {} must be divisible by num_groups {}.",
                 options.num_channels(), options.num_groups());
  const bool affine = options.affine();
  const int64_t n = options.num_channels();
  weight = register_parameter("weight", affine ? new_parameter({n}) : Tensor(), affine);
  bias = register_parameter("bias", affine ? new_parameter({n}) : Tensor(), affine);
  reset_parameters();
}

void GroupNormImpl::reset_parameters() {
  if (!options.affine()) return;
  init::ones_(weight);
  init::zeros_(bias);
}

Tensor GroupNormImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return group_norm(input, options.num_groups(), weight, bias, options.eps());
}

std::string GroupNormImpl::extra_repr() const {
  return fmt::format("{}, {}, eps={}, affine={}, bias={}", options.num_groups(),
                     options.num_channels(), repr::text(options.eps()),
                     repr::text(options.affine()), repr::text(options.affine()));
}

Tensor LocalResponseNormImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return functional::local_response_norm(input, options);
}

std::string LocalResponseNormImpl::extra_repr() const {
  return fmt::format("{}, alpha={}, beta={}, k={}", options.size(), repr::text(options.alpha()),
                     repr::text(options.beta()), repr::text(options.k()));
}

}  // namespace pellucid::nn
