// The timed loops: independent multiply-adds in registers, and plain loads, stores and copies with
// vectors of 64 bytes. Each is compiled for every ISA level by target attributes.
#include <immintrin.h>

#include "profile/ceilings.h"

namespace pellucid::profile {
namespace {

// GCC splits it into what the level has: one zmm, two ymm or four xmm registers.
using Block = uint64_t __attribute__((vector_size(64), may_alias));
constexpr int64_t kStep = 4 * sizeof(Block);

#define PELLUCID_INLINE [[gnu::always_inline]] inline

// Keeps the compiler from recognising memcpy and memset, and from merging passes.
PELLUCID_INLINE void barrier() { asm volatile("" ::: "memory"); }

PELLUCID_INLINE uint64_t read_loop(const void* from, int64_t bytes, int64_t passes) {
  Block a{}, b{}, c{}, d{};
  for (int64_t pass = 0; pass < passes; ++pass) {
    const auto* p = static_cast<const Block*>(from);
    for (int64_t i = 0; i < bytes; i += kStep, p += 4) {
      a ^= p[0];
      b ^= p[1];
      c ^= p[2];
      d ^= p[3];
    }
    barrier();
  }
  a ^= b ^ c ^ d;
  return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

PELLUCID_INLINE void write_loop(void* to, int64_t bytes, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    const Block value = Block{} + static_cast<uint64_t>(pass);
    auto* p = static_cast<Block*>(to);
    for (int64_t i = 0; i < bytes; i += kStep, p += 4) {
      p[0] = value;
      p[1] = value;
      p[2] = value;
      p[3] = value;
      barrier();
    }
  }
}

PELLUCID_INLINE void copy_loop(void* to, const void* from, int64_t bytes, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    auto* p = static_cast<Block*>(to);
    const auto* q = static_cast<const Block*>(from);
    for (int64_t i = 0; i < bytes; i += kStep, p += 4, q += 4) {
      const Block a = q[0], b = q[1], c = q[2], d = q[3];
      p[0] = a;
      p[1] = b;
      p[2] = c;
      p[3] = d;
      barrier();
    }
  }
}

// Twelve chains hide a latency of four cycles on two or three units.
constexpr int kChains = 12;

double multiply_add_baseline(int64_t passes) {
  __m128 sum[kChains], factor = _mm_set1_ps(0.999f), addend = _mm_set1_ps(0.001f);
  for (int k = 0; k < kChains; ++k) sum[k] = _mm_set1_ps(static_cast<float>(k));
  for (int64_t i = 0; i < passes; ++i)
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sum[k] = _mm_add_ps(_mm_mul_ps(sum[k], factor), addend);
  for (int k = 1; k < kChains; ++k) sum[0] = _mm_add_ps(sum[0], sum[k]);
  return _mm_cvtss_f32(sum[0]);
}
uint64_t read_baseline(const void* from, int64_t bytes, int64_t passes) {
  return read_loop(from, bytes, passes);
}
void write_baseline(void* to, int64_t bytes, int64_t passes) { write_loop(to, bytes, passes); }
void copy_baseline(void* to, const void* from, int64_t bytes, int64_t passes) {
  copy_loop(to, from, bytes, passes);
}
constexpr CeilingLoops kBaseline{multiply_add_baseline, 2.0 * 4 * kChains, read_baseline,
                                 write_baseline, copy_baseline};

#ifndef PELLUCID_ONE_ISA
#define PELLUCID_V3 __attribute__((target("arch=x86-64-v3")))
#define PELLUCID_V4 __attribute__((target("arch=x86-64-v4,prefer-vector-width=512")))

PELLUCID_V3 double multiply_add_v3(int64_t passes) {
  __m256 sum[kChains], factor = _mm256_set1_ps(0.999f), addend = _mm256_set1_ps(0.001f);
  for (int k = 0; k < kChains; ++k) sum[k] = _mm256_set1_ps(static_cast<float>(k));
  for (int64_t i = 0; i < passes; ++i)
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sum[k] = _mm256_fmadd_ps(sum[k], factor, addend);
  for (int k = 1; k < kChains; ++k) sum[0] = _mm256_add_ps(sum[0], sum[k]);
  return _mm256_cvtss_f32(sum[0]);
}
PELLUCID_V3 uint64_t read_v3(const void* from, int64_t bytes, int64_t passes) {
  return read_loop(from, bytes, passes);
}
PELLUCID_V3 void write_v3(void* to, int64_t bytes, int64_t passes) {
  write_loop(to, bytes, passes);
}
PELLUCID_V3 void copy_v3(void* to, const void* from, int64_t bytes, int64_t passes) {
  copy_loop(to, from, bytes, passes);
}
constexpr CeilingLoops kV3{multiply_add_v3, 2.0 * 8 * kChains, read_v3, write_v3, copy_v3};

PELLUCID_V4 double multiply_add_v4(int64_t passes) {
  __m512 sum[kChains], factor = _mm512_set1_ps(0.999f), addend = _mm512_set1_ps(0.001f);
  for (int k = 0; k < kChains; ++k) sum[k] = _mm512_set1_ps(static_cast<float>(k));
  for (int64_t i = 0; i < passes; ++i)
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sum[k] = _mm512_fmadd_ps(sum[k], factor, addend);
  for (int k = 1; k < kChains; ++k) sum[0] = _mm512_add_ps(sum[0], sum[k]);
  return _mm512_cvtss_f32(sum[0]);
}
PELLUCID_V4 uint64_t read_v4(const void* from, int64_t bytes, int64_t passes) {
  return read_loop(from, bytes, passes);
}
PELLUCID_V4 void write_v4(void* to, int64_t bytes, int64_t passes) {
  write_loop(to, bytes, passes);
}
PELLUCID_V4 void copy_v4(void* to, const void* from, int64_t bytes, int64_t passes) {
  copy_loop(to, from, bytes, passes);
}
constexpr CeilingLoops kV4{multiply_add_v4, 2.0 * 16 * kChains, read_v4, write_v4, copy_v4};
#endif

}  // namespace

const CeilingLoops& ceiling_loops([[maybe_unused]] Isa level) {
#ifndef PELLUCID_ONE_ISA
  if (level == Isa::V4) return kV4;
  if (level == Isa::V3) return kV3;
#endif
  return kBaseline;
}

}  // namespace pellucid::profile
