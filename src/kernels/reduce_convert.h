// Strided runs converted between dtypes: what reductions and their relatives read and write
// through.
#pragma once

#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// dst[i * dst_stride] = src[i * src_stride] for i < n; strides in elements. The runs must not
/// overlap.
void convert(DType src_type, const void* src, int64_t src_stride, DType dst_type, void* dst,
             int64_t dst_stride, int64_t n);

}  // namespace pellucid::kernels
