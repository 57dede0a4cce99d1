// Convolution as matrix products over unfolded images, for any floating type. Used by conv.cpp.
#pragma once

#include "kernels/conv.h"

namespace pellucid::kernels::conv_gemm {

template <class T>
void forward(const ConvShape& shape, const T* x, const Weights& w, const T* bias, T* y);
template <class T>
void backward_data(const ConvShape& shape, const T* dy, const Weights& w, const T* bias, T* dx);
template <class T>
void backward_weights(const ConvShape& shape, const T* x, const T* dy, T* dw, T* dbias);
/// The most bytes that one of these three takes for itself.
template <class T> int64_t scratch(const ConvShape& shape, bool of_weights);
/// Writes the sum of dy over all but the channels, in a fixed order.
template <class T> void bias_gradient(const ConvShape& shape, const T* dy, T* dbias);

}  // namespace pellucid::kernels::conv_gemm
