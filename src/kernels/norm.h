// Normalisation: layer, root-mean-square, batch and group norm, forward and backward. Arrays are
// contiguous in the layout each function names; `type` is that of x, y, weight, bias and the
// gradients. Saved statistics (mean, rstd) are of the compute type: float64 for float64, else
// float32. Pointers said to be optional may be null. Bits depend on shapes alone: gradients of
// weights are summed over fixed parts of the rows in a fixed order.
#pragma once

#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

class Epilogue;  // kernels/tiles.h

/// Layer norm over rows [rows, n]. mean and rstd get one value a row; weight and bias [n] are
/// optional.
struct LayerNorm {
  DType type = kFloat32;
  int64_t rows = 0, n = 0;
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  double eps = 1e-5;
};
void layer_norm(const LayerNorm& l, void* y, void* mean, void* rstd);
/// Gradients; dx, dweight and dbias are optional each.
void layer_norm_backward(const LayerNorm& l, const void* dy, const void* mean, const void* rstd,
                         void* dx, void* dweight, void* dbias);
/// y = x rsqrt(mean(x²) + eps) weight; bias is not used.
void rms_norm(const LayerNorm& l, void* y, void* rstd);
void rms_norm_backward(const LayerNorm& l, const void* dy, const void* rstd, void* dx,
                       void* dweight);

/// Batch norm of [batch, channels, spatial], or of [batch, spatial, channels] when channels_last.
struct BatchNorm {
  DType type = kFloat32;
  int64_t batch = 0, channels = 0, spatial = 1;
  bool channels_last = false;
  const void* x = nullptr;
  const void* weight = nullptr;  ///< [channels], optional, as bias
  const void* bias = nullptr;
};
/// The batch's mean and biased variance per channel, of the compute type.
void batch_norm_stats(const BatchNorm& b, void* mean, void* variance);
/// y = (x - mean) rstd weight + bias with given statistics of the compute type. The epilogue, which
/// may be null, runs on each block of y; only float and double have one.
void batch_norm_apply(const BatchNorm& b, const void* mean, const void* rstd, void* y,
                      const Epilogue* then = nullptr);
/// Gradients. `training`: mean and rstd came from this batch and are differentiated too. All
/// outputs are optional.
void batch_norm_backward(const BatchNorm& b, const void* dy, const void* mean, const void* rstd,
                         bool training, void* dx, void* dweight, void* dbias);

/// Group norm of contiguous [batch, channels, spatial]; mean and rstd are [batch, groups].
struct GroupNorm {
  DType type = kFloat32;
  int64_t batch = 0, channels = 0, spatial = 1, groups = 1;
  const void* x = nullptr;
  const void* weight = nullptr;  ///< [channels], optional, as bias
  const void* bias = nullptr;
  double eps = 1e-5;
};
void group_norm(const GroupNorm& g, void* y, void* mean, void* rstd);
void group_norm_backward(const GroupNorm& g, const void* dy, const void* mean, const void* rstd,
                         void* dx, void* dweight, void* dbias);

}  // namespace pellucid::kernels
