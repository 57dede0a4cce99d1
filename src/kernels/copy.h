// Copies and fills between strided tensors of any element types. Shapes are the caller's business.
// Source and destination must not overlap, unless they are one and the same layout.
#pragma once

#include <cstdint>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// dst[i] = src[i] for every index of `shape`, converted as convert.h says; strides count elements,
/// and a source stride of 0 repeats. Transposes move square tiles, so both sides are read and
/// written by lines.
void copy_strided(IntArrayRef shape, void* dst, DType dst_dtype, const int64_t* dst_strides,
                  const void* src, DType src_dtype, const int64_t* src_strides);

/// Sets every element of a strided tensor to the one at `value`, which has the same dtype.
void fill_strided(IntArrayRef shape, void* dst, DType dtype, const int64_t* strides,
                  const void* value);

}  // namespace pellucid::kernels
