// The transpose of sixteen by sixteen words with AVX-512: a cache line each way. Lines pass through
// a dense tile, for the reason that copy_transpose.h gives; quarters of them are gathered by loads,
// so that half of the usual shuffles do.
#include "kernels/copy_transpose.h"

#include <immintrin.h>

#include "kernels/isa.h"

// GCC 12 takes the undefined operand inside its own AVX-512 intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace pellucid::kernels {

#ifndef PELLUCID_ONE_ISA
namespace {

PELLUCID_TARGET_V4 void transpose_words_v4(uint32_t* dst, int64_t dst_stride, const uint32_t* src,
                                           int64_t src_stride, int64_t ahead) {
  alignas(64) uint32_t tile[16][16];
  for (int64_t j = 0; j < 16; ++j) {
    const uint32_t* const row = src + j * src_stride;
    _mm_prefetch(row + 32, _MM_HINT_T0);  // too many rows for the machine's own prefetching
    if (ahead != 0) __builtin_prefetch(dst + (j + ahead) * dst_stride, 1);
    _mm512_store_si512(tile[j], _mm512_loadu_si512(row));
  }
  for (int64_t c = 0; c < 16; c += 4) {
    const auto quarter = [&](int64_t j) __attribute__((always_inline)) {
      return _mm_load_si128(reinterpret_cast<const __m128i*>(tile[j] + c));
    };
    __m512i v[4];  // lane m of v[k]: columns c … c + 3 of row 4 m + k
#pragma GCC unroll 4
    for (int64_t k = 0; k < 4; ++k) {
      v[k] = _mm512_castsi128_si512(quarter(k));
      v[k] = _mm512_inserti32x4(v[k], quarter(k + 4), 1);
      v[k] = _mm512_inserti32x4(v[k], quarter(k + 8), 2);
      v[k] = _mm512_inserti32x4(v[k], quarter(k + 12), 3);
    }
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]),
                  d = _mm512_unpacklo_epi32(v[2], v[3]), e = _mm512_unpackhi_epi32(v[2], v[3]);
    uint32_t* const to = dst + c * dst_stride;
    _mm512_storeu_si512(to, _mm512_unpacklo_epi64(a, d));
    _mm512_storeu_si512(to + dst_stride, _mm512_unpackhi_epi64(a, d));
    _mm512_storeu_si512(to + 2 * dst_stride, _mm512_unpacklo_epi64(b, e));
    _mm512_storeu_si512(to + 3 * dst_stride, _mm512_unpackhi_epi64(b, e));
  }
}

}  // namespace
#endif

TransposeWords transpose_words() {
#ifndef PELLUCID_ONE_ISA
  if (isa() == Isa::V4) return transpose_words_v4;
#endif
  return nullptr;
}

}  // namespace pellucid::kernels
