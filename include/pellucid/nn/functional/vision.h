// Resizing pictures, as a function.
#pragma once

#include "pellucid/nn/options/vision.h"
#include "pellucid/tensor.h"

namespace pellucid::nn::functional {

/// [N, C, …] resized along the dims after the second, to `size` or by `scale_factor`.
PELLUCID_API Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options = {});

}  // namespace pellucid::nn::functional
