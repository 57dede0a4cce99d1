// Conversion of contiguous blocks between the ten element types, with PyTorch's meaning:
//   any to bool      is x != 0, so NaN is true;
//   float to integer truncates; beyond int32 (int64 for int64) it gives the least integer, NaN too,
//   as
//                    x86 does; uint8, int8 and int16 take the low bits of the int32;
//   integer to a narrower integer keeps the low bits;
//   to float16 and bfloat16 rounds to nearest even, through float32 for every source.
// It knows nothing of strides; see copy.h.
#pragma once

#include <cstdint>

#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// dst[i] = src[i] for i < n, both contiguous.
using ConvertBlock = void (*)(void* dst, const void* src, int64_t n);

/// The converter for the ISA level in use; for equal types a plain copy.
ConvertBlock block_converter(DType dst, DType src);

}  // namespace pellucid::kernels
