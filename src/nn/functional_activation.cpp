// Activations of nn::functional.
#include <cmath>

#include "pellucid/nn/functional/activation.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn::functional {

Tensor elu(Tensor x, const ELUFuncOptions& o) {
  return o.inplace() ? x.elu_(o.alpha()) : pellucid::elu(x, o.alpha());
}
Tensor celu(Tensor x, const CELUFuncOptions& o) {
  return o.inplace() ? x.celu_(o.alpha()) : pellucid::celu(x, o.alpha());
}
Tensor selu(Tensor x, const SELUFuncOptions& o) {
  return o.inplace() ? x.selu_() : pellucid::selu(x);
}
Tensor gelu(Tensor x, const GELUFuncOptions& o) { return pellucid::gelu(x, o.approximate()); }
Tensor hardshrink(Tensor x, const HardshrinkFuncOptions& o) {
  return pellucid::hardshrink(x, o.lambda());
}
Tensor hardtanh(Tensor x, const HardtanhFuncOptions& o) {
  return o.inplace() ? x.hardtanh_(o.min_val(), o.max_val())
                     : pellucid::hardtanh(x, o.min_val(), o.max_val());
}
Tensor leaky_relu(Tensor x, const LeakyReLUFuncOptions& o) {
  return o.inplace() ? x.leaky_relu_(o.negative_slope())
                     : pellucid::leaky_relu(x, o.negative_slope());
}
Tensor relu(Tensor x, const ReLUFuncOptions& o) {
  return o.inplace() ? x.relu_() : pellucid::relu(x);
}
Tensor relu6(Tensor x, const ReLU6FuncOptions& o) {
  return o.inplace() ? x.relu6_() : pellucid::relu6(x);
}
Tensor softplus(Tensor x, const SoftplusFuncOptions& o) {
  return pellucid::softplus(x, o.beta(), o.threshold());
}
Tensor softshrink(Tensor x, const SoftshrinkFuncOptions& o) {
  return pellucid::softshrink(x, o.lambda());
}
Tensor threshold(Tensor x, const ThresholdFuncOptions& o) {
  return o.inplace() ? x.threshold_(o.threshold(), o.value())
                     : pellucid::threshold(x, o.threshold(), o.value());
}

Tensor rrelu(Tensor x, const RReLUFuncOptions& o) {
  PELLUCID_CHECK(o.lower() <= o.upper(), ValueError,
                 "rrelu: lower must not be greater than upper, found {} and {}.", o.lower(),
                 o.upper());
  Tensor y;
  if (o.training()) {
    const Tensor slope = empty_like(x.detach()).uniform_(o.lower(), o.upper());
    y = where(x >= 0, x, x * slope);
  } else {
    y = pellucid::leaky_relu(x, (o.lower() + o.upper()) / 2);
  }
  return o.inplace() ? x.copy_(y) : y;
}

Tensor glu(Tensor x, const GLUFuncOptions& o) {
  PELLUCID_CHECK(x.dim() > 0, ShapeError, "glu: the input must have at least one dimension.");
  PELLUCID_CHECK(x.size(o.dim()) % 2 == 0, ShapeError,
                 "glu: dimension {} must be even, but the input is {}.", o.dim(), x.sizes());
  const std::vector<Tensor> halves = x.chunk(2, o.dim());
  return halves[0] * pellucid::sigmoid(halves[1]);
}

Tensor softmax(const Tensor& x, const SoftmaxFuncOptions& o) {
  return pellucid::softmax(x, o.dim(), o.dtype());
}
Tensor softmin(const Tensor& x, const SoftminFuncOptions& o) {
  return pellucid::softmin(x, o.dim(), o.dtype());
}
Tensor log_softmax(const Tensor& x, const LogSoftmaxFuncOptions& o) {
  return pellucid::log_softmax(x, o.dim(), o.dtype());
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& o) {
  // -log(-log(u)) with u kept away from 0 and 1, where it would be infinite.
  const Tensor u = rand_like(logits.detach()).clamp(1e-20, 1.0 - 6e-8);
  const Tensor soft = pellucid::softmax((logits - (-u.log()).log()) / o.tau(), o.dim());
  if (!o.hard()) return soft;
  const Tensor index = soft.argmax(o.dim(), true);
  const Tensor hard = zeros_like(soft.detach()).scatter_(o.dim(), index, 1.0);
  return hard - soft.detach() + soft;  // the value of hard, the gradient of soft
}

Tensor silu(const Tensor& x) { return pellucid::silu(x); }
Tensor mish(const Tensor& x) { return pellucid::mish(x); }
Tensor logsigmoid(const Tensor& x) { return pellucid::logsigmoid(x); }
Tensor prelu(const Tensor& x, const Tensor& weight) { return pellucid::prelu(x, weight); }
Tensor softsign(const Tensor& x) { return pellucid::softsign(x); }
Tensor tanhshrink(const Tensor& x) { return pellucid::tanhshrink(x); }
Tensor hardswish(const Tensor& x) { return pellucid::hardswish(x); }
Tensor hardsigmoid(const Tensor& x) { return pellucid::hardsigmoid(x); }
Tensor sigmoid(const Tensor& x) { return pellucid::sigmoid(x); }
Tensor tanh(const Tensor& x) { return pellucid::tanh(x); }

}  // namespace pellucid::nn::functional
