// A block lives in four 64-bit lanes of which the lower halves count: the multiplication 32 x 32 ->
// 64 reads just those, so that garbage above needs no masking until the words are stored. Written
// with intrinsics, because g++ spends three multiplications on each of these where one is enough.
#include "kernels/random_words.h"

#include <immintrin.h>

#include "base/philox.h"
#include "kernels/isa.h"

// GCC 12 takes the undefined operand inside its own AVX-512 intrinsics for a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace pellucid::kernels {
namespace {

constexpr uint32_t kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u;  // as in base/philox.h
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

void words_plain(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words) {
  for (int64_t b = 0; b < blocks; ++b) {
    const PhiloxBlock block = philox4x32(seed, first + static_cast<uint64_t>(b));
    for (size_t k = 0; k < 4; ++k) words[4 * b + static_cast<int64_t>(k)] = block[k];
  }
}

#ifndef PELLUCID_ONE_ISA

PELLUCID_TARGET_V3 void words_v3(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words) {
  const __m256i factor0 = _mm256_set1_epi64x(kFactor0), factor1 = _mm256_set1_epi64x(kFactor1);
  const __m256i steps = _mm256_setr_epi64x(0, 1, 2, 3);
  int64_t b = 0;
  for (; b + 4 <= blocks; b += 4) {
    const __m256i counter = _mm256_add_epi64(
        _mm256_set1_epi64x(static_cast<long long>(first + static_cast<uint64_t>(b))), steps);
    __m256i c0 = counter, c1 = _mm256_srli_epi64(counter, 32), c2 = _mm256_setzero_si256(), c3 = c2;
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m256i p0 = _mm256_mul_epu32(c0, factor0), p1 = _mm256_mul_epu32(c2, factor1);
      c0 =
          _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), _mm256_set1_epi64x(k0));
      c2 =
          _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), _mm256_set1_epi64x(k1));
      c1 = p1;
      c3 = p0;
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    // Words 0 and 1, and 2 and 3, of a block side by side; then the halves of two blocks.
    const __m256i low = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA),
                  high = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    __m256i* const to = reinterpret_cast<__m256i*>(words + 4 * b);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
  words_plain(seed, first + static_cast<uint64_t>(b), blocks - b, words + 4 * b);
}

/// Sixteen blocks at a time, as two halves: the multiplications of one fill the latency of the
/// other.
PELLUCID_TARGET_V4 void words_v4(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words) {
  const __m512i factor0 = _mm512_set1_epi64(kFactor0), factor1 = _mm512_set1_epi64(kFactor1);
  const __m512i steps = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i lower = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                upper = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  int64_t b = 0;
  for (; b + 16 <= blocks; b += 16) {
    __m512i c0[2], c1[2], c2[2], c3[2];
    for (int h = 0; h < 2; ++h) {
      const uint64_t start = first + static_cast<uint64_t>(b + 8 * h);
      c0[h] = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(start)), steps);
      c1[h] = _mm512_srli_epi64(c0[h], 32);
      c2[h] = c3[h] = _mm512_setzero_si512();
    }
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
      for (int h = 0; h < 2; ++h) {
        const __m512i p0 = _mm512_mul_epu32(c0[h], factor0), p1 = _mm512_mul_epu32(c2[h], factor1);
        c0[h] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[h], key0, 0x96);  // a^b^c
        c2[h] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[h], key1, 0x96);
        c1[h] = p1;
        c3[h] = p0;
      }
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    for (int h = 0; h < 2; ++h) {
      const __m512i low = _mm512_mask_blend_epi32(0xAAAA, c0[h], _mm512_slli_epi64(c1[h], 32)),
                    high = _mm512_mask_blend_epi32(0xAAAA, c2[h], _mm512_slli_epi64(c3[h], 32));
      uint32_t* const to = words + 4 * (b + 8 * h);
      _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, lower, high));
      _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(low, upper, high));
    }
  }
  words_plain(seed, first + static_cast<uint64_t>(b), blocks - b, words + 4 * b);
}

#endif

}  // namespace

void philox_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words) {
#ifndef PELLUCID_ONE_ISA
  if (isa() == Isa::V4) return words_v4(seed, first, blocks, words);
  if (isa() == Isa::V3) return words_v3(seed, first, blocks, words);
#endif
  words_plain(seed, first, blocks, words);
}

}  // namespace pellucid::kernels
