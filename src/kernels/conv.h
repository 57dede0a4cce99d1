// Convolution over raw pointers: forward and both gradients. Activations are N[D]HWC without gaps,
// weights PyTorch's [O, C / groups, [KD,] KH, KW] without gaps. A 1-D convolution is one with
// H = KH = 1, and one of images has D = KD = 1.
// A transposed convolution is backward_data of the convolution that it transposes, with a bias.
// float runs on oneDNN and on loops of our own, double on matrix products. Bits do not depend on
// the number of threads.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/weights.h"

namespace pellucid::kernels {

class Epilogue;  // kernels/tiles.h

/// The sizes of a convolution from [N, D, H, W, C] to [N, OD, OH, OW, O].
struct ConvShape {
  int64_t N = 1, C = 1, H = 1, W = 1, O = 1, KH = 1, KW = 1;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  int64_t D = 1, KD = 1, stride_d = 1, pad_d = 0, dilation_d = 1;  // of volumes

  int64_t OD() const { return (D + 2 * pad_d - dilation_d * (KD - 1) - 1) / stride_d + 1; }
  int64_t OH() const { return (H + 2 * pad_h - dilation_h * (KH - 1) - 1) / stride_h + 1; }
  int64_t OW() const { return (W + 2 * pad_w - dilation_w * (KW - 1) - 1) / stride_w + 1; }
  bool is_volume() const { return D != 1 || KD != 1 || pad_d != 0; }
  int64_t taps() const { return KD * KH * KW; }
  int64_t in_pixels() const { return D * H * W; }
  int64_t out_pixels() const { return OD() * OH() * OW(); }
  int64_t weight_count() const { return O * (C / groups) * taps(); }
  bool operator==(const ConvShape&) const = default;
};

/// The primitive that a call used, kept by whoever makes the same call again, one at a time. Null
/// looks it up each time.
using PrimitiveSlot = std::shared_ptr<void>;

/// y = conv(x, w) + bias; bias may be null. Only floats have an epilogue.
template <class T>
void conv_forward(const ConvShape& shape, const T* x, const Weights& w, const T* bias, T* y,
                  const Epilogue* then = nullptr, PrimitiveSlot* slot = nullptr);
/// Whether the epilogue, which may be null, gets blocks of y while they are in a cache; it may get
/// a block again after y was computed anew.
bool conv_forward_has_blocks(const ConvShape& shape);

/// dx, the gradient of x, from that of y. With a bias (of C channels) added: a transposed
/// convolution.
template <class T>
void conv_backward_data(const ConvShape& shape, const T* dy, const Weights& w, const T* bias, T* dx,
                        PrimitiveSlot* slot = nullptr);

/// dw and, unless null, dbias (the sum of dy over all but its channels).
template <class T>
void conv_backward_weights(const ConvShape& shape, const T* x, const T* dy, T* dw, T* dbias,
                           PrimitiveSlot* slot = nullptr);

/// The most bytes that such a call takes for itself while it runs, with weights that are not kept.
template <class T> int64_t conv_forward_scratch(const ConvShape& shape, bool bias);
template <class T> int64_t conv_backward_data_scratch(const ConvShape& shape);
template <class T> int64_t conv_backward_weights_scratch(const ConvShape& shape, bool bias);

/// How many primitives the process keeps, and for tests: how many it built so far.
inline constexpr int kConvPrimitives = 512;
int64_t conv_primitives_built();

}  // namespace pellucid::kernels
