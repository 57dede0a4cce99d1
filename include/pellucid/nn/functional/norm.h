// Normalisations as functions.
#pragma once

#include "pellucid/nn/options/norm.h"

namespace pellucid::nn::functional {

PELLUCID_API Tensor batch_norm(const Tensor& input, const Tensor& running_mean,
                               const Tensor& running_var, const BatchNormFuncOptions& options = {});
PELLUCID_API Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options = {});
PELLUCID_API Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options);
PELLUCID_API Tensor rms_norm(const Tensor& input, const RMSNormFuncOptions& options);
PELLUCID_API Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options);
PELLUCID_API Tensor local_response_norm(const Tensor& input,
                                        const LocalResponseNormFuncOptions& options);
/// input / max(norm of input along dim, eps).
PELLUCID_API Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options = {});

}  // namespace pellucid::nn::functional
