// Transposes of two-dimensional tiles of elements of 1, 2, 4 or 8 bytes, through 16-byte vectors
// that every x86-64 has, and for 4 bytes through wider ones where there are (copy_transpose.cpp).
// Internal to copies and to the pointwise driver; batches and threads are theirs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace pellucid::kernels {

/// Calls f with an unsigned integer as wide as an element of so many bytes.
template <class F> void by_element_size(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

/// 16 bytes as elements; interleaving pairs of such vectors log2(N) times transposes N x N
/// elements.
template <class E> struct Square {
  static constexpr int N = 16 / sizeof(E);
  typedef E Vector __attribute__((vector_size(16)));
  typedef E Unaligned __attribute__((vector_size(16), aligned(sizeof(E)), may_alias));

  template <bool kHigh> [[gnu::always_inline]] static Vector interleave(Vector a, Vector b) {
    constexpr int h = kHigh ? N / 2 : 0;
    if constexpr (N == 2)
      return __builtin_shufflevector(a, b, h, h + 2);
    else if constexpr (N == 4)
      return __builtin_shufflevector(a, b, h, h + 4, h + 1, h + 5);
    else if constexpr (N == 8)
      return __builtin_shufflevector(a, b, h, h + 8, h + 1, h + 9, h + 2, h + 10, h + 3, h + 11);
    else
      return __builtin_shufflevector(a, b, h, h + 16, h + 1, h + 17, h + 2, h + 18, h + 3, h + 19,
                                     h + 4, h + 20, h + 5, h + 21, h + 6, h + 22, h + 7, h + 23);
  }

  /// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < N.
  [[gnu::always_inline]] static void transpose(E* dst, int64_t dst_stride, const E* src,
                                               int64_t src_stride) {
    Vector v[N], w[N];
#pragma GCC unroll 16
    for (int j = 0; j < N; ++j) v[j] = *reinterpret_cast<const Unaligned*>(src + j * src_stride);
#pragma GCC unroll 4
    for (int stage = 1; stage < N; stage *= 2) {
#pragma GCC unroll 8
      for (int k = 0; k < N / 2; ++k) {
        w[2 * k] = interleave<false>(v[k], v[k + N / 2]);
        w[2 * k + 1] = interleave<true>(v[k], v[k + N / 2]);
      }
#pragma GCC unroll 16
      for (int k = 0; k < N; ++k) v[k] = w[k];
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) *reinterpret_cast<Unaligned*>(dst + i * dst_stride) = v[i];
  }
};

/// dst[i * dst_stride + j] = src[j * src_stride + i] for i, j < 16. Fetches the lines of dst that
/// are `ahead` rows further, unless that is 0.
using TransposeWords = void (*)(uint32_t* dst, int64_t dst_stride, const uint32_t* src,
                                int64_t src_stride, int64_t ahead);
/// The widest that the ISA level in use has; null where squares of 16 bytes are all.
TransposeWords transpose_words();

/// dst[i * dst_stride + j] = src[j * src_stride + i] for i < rows, j < columns.
/// A tile is a cache line square and passes through a dense buffer: with strides that are powers of
/// two, its lines in src or dst would compete for the same few places of the first-level cache.
/// Four tiles side by side come one after the other, because they write neighbouring lines of dst.
template <class E>
void transpose_panel(E* dst, int64_t dst_stride, const E* src, int64_t src_stride, int64_t rows,
                     int64_t columns) {
  constexpr int N = Square<E>::N;
  constexpr int64_t line = 64 / sizeof(E);
  alignas(64) E tile[line * line];
  [[maybe_unused]] TransposeWords words = nullptr;
  if constexpr (sizeof(E) == 4) words = transpose_words();
  const auto transpose_tile = [&](int64_t i0, int64_t j0) {
    const int64_t width = std::min(columns - j0, line), height = std::min(rows - i0, line);
    const E* from = src + j0 * src_stride + i0;
    E* to = dst + i0 * dst_stride + j0;
    if (width < line || height < line) {
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = 0; i < height; ++i) to[i * dst_stride + j] = from[j * src_stride + i];
      return;
    }
    if constexpr (sizeof(E) == 4) {
      // Where all columns are done before the next rows, those can be fetched.
      if (words) return words(to, dst_stride, from, src_stride, columns <= 4 * line ? 2 * line : 0);
    }
    for (int64_t j = 0; j < line; j += N) {
      for (int64_t i = 0; i < line; i += N)
        Square<E>::transpose(tile + i * line + j, line, from + j * src_stride + i, src_stride);
    }
    for (int64_t i = 0; i < line; ++i) std::memcpy(to + i * dst_stride, tile + i * line, 64);
  };
  for (int64_t first = 0; first < columns; first += 4 * line)
    for (int64_t i0 = 0; i0 < rows; i0 += line)
      for (int64_t j0 = first; j0 < std::min(columns, first + 4 * line); j0 += line)
        transpose_tile(i0, j0);
}

}  // namespace pellucid::kernels
