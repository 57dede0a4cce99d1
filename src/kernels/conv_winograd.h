// Convolutions of 3x3 with stride 1 by Winograd's F(2x2, 3x3): an output tile of 2x2 takes 16
// multiplications in the place of 36, for each pair of channels, and some additions besides. Float
// at ISA level v4 alone, and only where it was measured to be faster; PELLUCID_WINOGRAD=0 turns it
// off. Results differ from a direct sum as sums in another order do. An inf or NaN would spread to
// outputs whose windows do not hold it: where one is read, the functions return false, and the
// caller must convolve in another way, over what was written. Bits do not depend on the threads.
// Used by conv.cpp.
#pragma once

#include "kernels/conv.h"

namespace pellucid::kernels::conv_winograd {

/// Whether `forward` is the faster way for the shape, on this machine; likewise below.
bool forward_is_faster(const ConvShape& shape);
/// As conv_forward, or false. An epilogue, which may be null, is called for blocks of y while the
/// result may still turn out to be false; only where forward_has_blocks.
bool forward(const ConvShape& shape, const float* x, const Weights& w, const float* bias, float* y,
             const Epilogue* then = nullptr);
bool forward_has_blocks(const ConvShape& shape);
/// The most bytes that `forward` takes for itself; likewise below.
int64_t forward_scratch(const ConvShape& shape);

bool data_is_faster(const ConvShape& shape);
/// As conv_backward_data, or false.
bool backward_data(const ConvShape& shape, const float* dy, const Weights& w, const float* bias,
                   float* dx);
int64_t data_scratch(const ConvShape& shape);

bool weights_are_faster(const ConvShape& shape);
/// dw and, unless null, dbias; or false.
bool backward_weights(const ConvShape& shape, const float* x, const float* dy, float* dw,
                      float* dbias);
int64_t weights_scratch(const ConvShape& shape);

}  // namespace pellucid::kernels::conv_winograd
