// Convolutions straight from the images, without unfolding and without oneDNN, for shapes where
// that is faster. Float at ISA level v4 alone. Bits do not depend on the threads: each element is
// summed by one task in a fixed order. Used by conv.cpp.
#pragma once

#include "kernels/conv.h"

namespace pellucid::kernels::conv_direct {

/// Whether `forward` is the faster way for the shape, on this machine.
bool forward_is_faster(const ConvShape& shape);
/// As conv_forward; the epilogue, which may be null, is called for each image.
void forward(const ConvShape& shape, const float* x, const Weights& w, const float* bias, float* y,
             const Epilogue* then = nullptr);
/// Bytes that `forward` takes for itself: the packed filter.
inline int64_t forward_scratch(const ConvShape& shape) {
  return shape.weight_count() * static_cast<int64_t>(sizeof(float));
}

/// Whether `backward_weights` is the faster way.
bool weights_are_faster(const ConvShape& shape);
/// dw and, unless null, dbias.
void backward_weights(const ConvShape& shape, const float* x, const float* dy, float* dw,
                      float* dbias);
/// Bytes that `backward_weights` takes for itself.
int64_t weights_scratch(const ConvShape& shape);

}  // namespace pellucid::kernels::conv_direct
