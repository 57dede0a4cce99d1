// Linear, Bilinear, Identity, Flatten and Unflatten.
#include "pellucid/nn/linear.h"

#include <cmath>

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/nn/init.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

LinearImpl::LinearImpl(const LinearOptions& o) : options(o) { reset(); }

void LinearImpl::reset() {
  PELLUCID_CHECK(options.in_features() >= 0 && options.out_features() >= 0, ValueError,
                 "Linear: in_features and out_features must not be negative, but are {} and {}.",
                 options.in_features(), options.out_features());
  weight =
      register_parameter("weight", new_parameter({options.out_features(), options.in_features()}));
  bias = options.bias() ? register_parameter("bias", new_parameter({options.out_features()}))
                        : register_parameter("bias", {}, false);
  reset_parameters();
}

void LinearImpl::reset_parameters() {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double fan_in = static_cast<double>(options.in_features());
  const double bound = fan_in > 0 ? 1.0 / std::sqrt(fan_in) : 0.0;
  init::uniform_(bias, -bound, bound);
}

Tensor LinearImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return linear(input, weight, bias);
}

std::string LinearImpl::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}", options.in_features(),
                     options.out_features(), repr::text(options.bias()));
}

BilinearImpl::BilinearImpl(const BilinearOptions& o) : options(o) { reset(); }

void BilinearImpl::reset() {
  PELLUCID_CHECK(options.in1_features() > 0, ValueError,
                 "Bilinear: in1_features must be positive, but is {}.", options.in1_features());
  weight = register_parameter(
      "weight",
      new_parameter({options.out_features(), options.in1_features(), options.in2_features()}));
  bias = options.bias() ? register_parameter("bias", new_parameter({options.out_features()}))
                        : register_parameter("bias", {}, false);
  reset_parameters();
}

void BilinearImpl::reset_parameters() {
  const double bound = 1.0 / std::sqrt(static_cast<double>(options.in1_features()));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

Tensor BilinearImpl::forward(const Tensor& input1, const Tensor& input2) {
  const ModuleScope scope(*this);
  return bilinear(input1, input2, weight, bias);
}

std::string BilinearImpl::extra_repr() const {
  return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}",
                     options.in1_features(), options.in2_features(), options.out_features(),
                     repr::text(options.bias()));
}

Tensor IdentityImpl::forward(const Tensor& input) { return input; }

Tensor FlattenImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return flatten(input, options.start_dim(), options.end_dim());
}

std::string FlattenImpl::extra_repr() const {
  return fmt::format("start_dim={}, end_dim={}", options.start_dim(), options.end_dim());
}

Tensor UnflattenImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return unflatten(input, options.dim(), options.sizes());
}

std::string UnflattenImpl::extra_repr() const {
  return fmt::format("dim={}, unflattened_size={}", options.dim(), repr::tuple(options.sizes()));
}

}  // namespace pellucid::nn
