// Activations as modules.
#include "pellucid/nn/activation.h"

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/nn/functional/activation.h"
#include "pellucid/nn/init.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace F = functional;
using repr::text;

namespace {
std::string inplace(bool on) { return on ? "inplace=True" : ""; }
std::string and_inplace(bool on) { return on ? ", inplace=True" : ""; }
}  // namespace

#define PELLUCID_FORWARD(Name, expression)   \
  Tensor Name##Impl::forward(Tensor input) { \
    const ModuleScope scope(*this);          \
    return expression;                       \
  }
#define PELLUCID_REPR(Name, expression) \
  std::string Name##Impl::extra_repr() const { return expression; }

PELLUCID_FORWARD(ELU, F::elu(std::move(input), options))
PELLUCID_FORWARD(CELU, F::celu(std::move(input), options))
PELLUCID_FORWARD(SELU, F::selu(std::move(input), options))
PELLUCID_FORWARD(GLU, F::glu(std::move(input), options))
PELLUCID_FORWARD(GELU, F::gelu(std::move(input), options))
PELLUCID_FORWARD(Hardshrink, F::hardshrink(std::move(input), options))
PELLUCID_FORWARD(Hardtanh, F::hardtanh(std::move(input), options))
PELLUCID_FORWARD(LeakyReLU, F::leaky_relu(std::move(input), options))
PELLUCID_FORWARD(ReLU, F::relu(std::move(input), options))
PELLUCID_FORWARD(ReLU6, F::relu6(std::move(input), options))
PELLUCID_FORWARD(RReLU, F::rrelu(std::move(input), F::RReLUFuncOptions()
                                                       .lower(options.lower())
                                                       .upper(options.upper())
                                                       .training(is_training())
                                                       .inplace(options.inplace())))
PELLUCID_FORWARD(SiLU, options.inplace() ? input.silu_() : silu(input))
PELLUCID_FORWARD(Mish, options.inplace() ? input.mish_() : mish(input))
PELLUCID_FORWARD(Hardswish, options.inplace() ? input.hardswish_() : hardswish(input))
PELLUCID_FORWARD(Hardsigmoid, options.inplace() ? input.hardsigmoid_() : hardsigmoid(input))
PELLUCID_FORWARD(Softplus, F::softplus(std::move(input), options))
PELLUCID_FORWARD(Softshrink, F::softshrink(std::move(input), options))
PELLUCID_FORWARD(Threshold, F::threshold(std::move(input), options))
PELLUCID_FORWARD(Softmax, softmax(input, options.dim()))
PELLUCID_FORWARD(Softmin, softmin(input, options.dim()))
PELLUCID_FORWARD(LogSoftmax, log_softmax(input, options.dim()))

Tensor Softmax2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  PELLUCID_CHECK(input.dim() == 3 || input.dim() == 4, ShapeError,
                 "Softmax2d: the input must have 3 or 4 dimensions, but is {}.", input.sizes());
  return softmax(input, -3);
}

PELLUCID_REPR(ELU, "alpha=" + text(options.alpha()) + and_inplace(options.inplace()))
PELLUCID_REPR(CELU, "alpha=" + text(options.alpha()) + and_inplace(options.inplace()))
PELLUCID_REPR(SELU, inplace(options.inplace()))
PELLUCID_REPR(GLU, "dim=" + text(options.dim()))
PELLUCID_REPR(GELU, "approximate='" + options.approximate() + "'")
PELLUCID_REPR(Hardshrink, text(options.lambda()))
PELLUCID_REPR(Hardtanh, "min_val=" + text(options.min_val()) +
                            ", max_val=" + text(options.max_val()) + and_inplace(options.inplace()))
PELLUCID_REPR(LeakyReLU,
              "negative_slope=" + text(options.negative_slope()) + and_inplace(options.inplace()))
PELLUCID_REPR(ReLU, inplace(options.inplace()))
PELLUCID_REPR(ReLU6, inplace(options.inplace()))
PELLUCID_REPR(RReLU, "lower=" + text(options.lower()) + ", upper=" + text(options.upper()) +
                         and_inplace(options.inplace()))
PELLUCID_REPR(SiLU, inplace(options.inplace()))
PELLUCID_REPR(Mish, inplace(options.inplace()))
PELLUCID_REPR(Hardswish, "")
PELLUCID_REPR(Hardsigmoid, "")
PELLUCID_REPR(Softplus, "beta=" + text(options.beta()) + ", threshold=" + text(options.threshold()))
PELLUCID_REPR(Softshrink, text(options.lambda()))
PELLUCID_REPR(Threshold, "threshold=" + text(options.threshold()) +
                             ", value=" + text(options.value()) + and_inplace(options.inplace()))
PELLUCID_REPR(Softmax, "dim=" + text(options.dim()))
PELLUCID_REPR(Softmin, "dim=" + text(options.dim()))
PELLUCID_REPR(LogSoftmax, "dim=" + text(options.dim()))
PELLUCID_REPR(PReLU, "num_parameters=" + text(options.num_parameters()))

#undef PELLUCID_FORWARD
#undef PELLUCID_REPR

PReLUImpl::PReLUImpl(const PReLUOptions& o) : options(o) { reset(); }

void PReLUImpl::reset() {
  weight = register_parameter("weight", new_parameter({options.num_parameters()}));
  init::constant_(weight, options.init());
}

Tensor PReLUImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return prelu(input, weight);
}

}  // namespace pellucid::nn
