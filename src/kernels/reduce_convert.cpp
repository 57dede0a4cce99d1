// Contiguous runs go straight to the block converters; a strided side passes through a small
// buffer.
#include "kernels/reduce_convert.h"

#include <algorithm>
#include <cstddef>

#include "kernels/convert.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 512;

template <class T>
void copy_strided(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t n) {
  const T* s = static_cast<const T*>(src);
  T* d = static_cast<T*>(dst);
  if (dst_stride == 1)
    for (int64_t i = 0; i < n; ++i) d[i] = s[i * src_stride];
  else
    for (int64_t i = 0; i < n; ++i) d[i * dst_stride] = s[i * src_stride];
}

/// Moves elements of `size` bytes unchanged.
void move(int64_t size, const void* src, int64_t src_stride, void* dst, int64_t dst_stride,
          int64_t n) {
  switch (size) {
    case 1:
      return copy_strided<uint8_t>(src, src_stride, dst, dst_stride, n);
    case 2:
      return copy_strided<uint16_t>(src, src_stride, dst, dst_stride, n);
    case 4:
      return copy_strided<uint32_t>(src, src_stride, dst, dst_stride, n);
    default:
      return copy_strided<uint64_t>(src, src_stride, dst, dst_stride, n);
  }
}

}  // namespace

void convert(DType src_type, const void* src, int64_t src_stride, DType dst_type, void* dst,
             int64_t dst_stride, int64_t n) {
  const int64_t src_size = element_size(src_type), dst_size = element_size(dst_type);
  if (src_type == dst_type) return move(src_size, src, src_stride, dst, dst_stride, n);
  const ConvertBlock block = block_converter(dst_type, src_type);
  if (src_stride == 1 && dst_stride == 1) return block(dst, src, n);
  alignas(64) std::byte in[kBlock * 8], out[kBlock * 8];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    const std::byte* s = static_cast<const std::byte*>(src) + first * src_stride * src_size;
    std::byte* d = static_cast<std::byte*>(dst) + first * dst_stride * dst_size;
    if (src_stride != 1) {
      move(src_size, s, src_stride, in, 1, count);
      s = in;
    }
    block(dst_stride == 1 ? d : out, s, count);
    if (dst_stride != 1) move(dst_size, out, 1, d, dst_stride, count);
  }
}

}  // namespace pellucid::kernels
