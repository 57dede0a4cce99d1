// Activations as functions. With inplace the input is overwritten and returned.
#pragma once

#include "pellucid/nn/options/activation.h"
#include "pellucid/tensor.h"

namespace pellucid::nn::functional {

PELLUCID_API Tensor elu(Tensor input, const ELUFuncOptions& options = {});
PELLUCID_API Tensor celu(Tensor input, const CELUFuncOptions& options = {});
PELLUCID_API Tensor selu(Tensor input, const SELUFuncOptions& options = {});
PELLUCID_API Tensor gelu(Tensor input, const GELUFuncOptions& options = {});
PELLUCID_API Tensor hardshrink(Tensor input, const HardshrinkFuncOptions& options = {});
PELLUCID_API Tensor hardtanh(Tensor input, const HardtanhFuncOptions& options = {});
PELLUCID_API Tensor leaky_relu(Tensor input, const LeakyReLUFuncOptions& options = {});
PELLUCID_API Tensor relu(Tensor input, const ReLUFuncOptions& options = {});
PELLUCID_API Tensor relu6(Tensor input, const ReLU6FuncOptions& options = {});
PELLUCID_API Tensor softplus(Tensor input, const SoftplusFuncOptions& options = {});
PELLUCID_API Tensor softshrink(Tensor input, const SoftshrinkFuncOptions& options = {});
PELLUCID_API Tensor rrelu(Tensor input, const RReLUFuncOptions& options = {});
PELLUCID_API Tensor glu(Tensor input, const GLUFuncOptions& options = {});
PELLUCID_API Tensor threshold(Tensor input, const ThresholdFuncOptions& options);
PELLUCID_API Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options);
PELLUCID_API Tensor softmin(const Tensor& input, const SoftminFuncOptions& options);
PELLUCID_API Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options);
PELLUCID_API Tensor gumbel_softmax(const Tensor& logits,
                                   const GumbelSoftmaxFuncOptions& options = {});
PELLUCID_API Tensor silu(const Tensor& input);
PELLUCID_API Tensor mish(const Tensor& input);
PELLUCID_API Tensor logsigmoid(const Tensor& input);
PELLUCID_API Tensor prelu(const Tensor& input, const Tensor& weight);
PELLUCID_API Tensor softsign(const Tensor& input);
PELLUCID_API Tensor tanhshrink(const Tensor& input);
PELLUCID_API Tensor hardswish(const Tensor& input);
PELLUCID_API Tensor hardsigmoid(const Tensor& input);
PELLUCID_API Tensor sigmoid(const Tensor& input);
PELLUCID_API Tensor tanh(const Tensor& input);

}  // namespace pellucid::nn::functional
