// Rows of an array gathered by index, scaled and normalised by channel, in one pass: what makes a
// batch out of a data set that is kept in memory.
#pragma once

#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// out[i, c, k] = (in[index[i], c, k] / scale - mean[c]) / stddev[c] in float32, of `in` with rows
/// of [channels, inner] in uint8 or float32. With mean null the value is only divided by scale.
/// Indices must have been checked.
void gather_normalize(DType type, const void* in, const int64_t* index, int64_t n, int64_t channels,
                      int64_t inner, float scale, const float* mean, const float* stddev,
                      float* out);

}  // namespace pellucid::kernels
