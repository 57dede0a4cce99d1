#include "kernels/convert.h"

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#include "kernels/isa.h"

namespace pellucid::kernels {
namespace {

/// A bool in memory: any byte but 0 is true.
struct Flag {
  uint8_t byte;
};

template <class T> using Stored = std::conditional_t<std::is_same_v<T, bool>, Flag, T>;

[[gnu::always_inline]] inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;  // right for denormals too
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;       // infinity and NaN
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special |
                              (uint32_t(h & 0x8000u) << 16));
}

[[gnu::always_inline]] inline uint16_t float_to_half(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), magnitude = u & 0x7fffffffu;
  const float a = std::bit_cast<float>(magnitude);
  const uint32_t capped = std::bit_cast<uint32_t>(a < 65536.0f ? a : 65536.0f);
  const uint32_t normal = (capped + 0xfffu + ((capped >> 13) & 1u) - (112u << 23)) >> 13;
  // adding 1/2 leaves 2^-24, the unit of float16's denormals, in the last place
  const uint32_t denormal = std::bit_cast<uint32_t>(a + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7e00u | ((u >> 13) & 0x3ffu);
  const uint32_t finite = a < 0x1p-14f ? denormal : normal;
  return static_cast<uint16_t>((a != a ? nan : finite) | ((u >> 16) & 0x8000u));
}

/// The value in a type that arithmetic conversions start from.
template <class S> [[gnu::always_inline]] inline auto widen(S x) {
  if constexpr (std::is_same_v<S, Flag>)
    return static_cast<uint8_t>(x.byte != 0);
  else if constexpr (std::is_same_v<S, BFloat16>)
    return static_cast<float>(x);
  else
    return x;
}

template <class I, class X> [[gnu::always_inline]] inline I truncate(X x) {
  constexpr X least = static_cast<X>(std::numeric_limits<I>::min());  // a power of two: exact
  return static_cast<I>((x >= least) & (x < -least) ? x : least);
}

template <class D, class S> [[gnu::always_inline]] inline D cast(S stored) {
  const auto x = widen(stored);
  using X = std::remove_const_t<decltype(x)>;
  if constexpr (std::is_same_v<D, Flag>)
    return {static_cast<uint8_t>(x != 0)};
  else if constexpr (std::is_same_v<D, BFloat16>)
    return BFloat16(static_cast<float>(x));
  else if constexpr (std::is_integral_v<D> && std::is_floating_point_v<X>) {
    if constexpr (sizeof(D) == 8)
      return truncate<D>(x);
    else
      return static_cast<D>(truncate<int32_t>(x));
  } else
    return static_cast<D>(x);
}

template <class D, class S> struct Convert {
  template <Isa> [[gnu::always_inline]] static void run(void* dst, const void* src, int64_t n) {
    Stored<D>* d = static_cast<Stored<D>*>(dst);
    const Stored<S>* s = static_cast<const Stored<S>*>(src);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) d[i] = cast<Stored<D>>(s[i]);
  }
};

/// float16 to and from float32 without F16C.
struct HalfToFloat {
  template <Isa> [[gnu::always_inline]] static void run(void* dst, const void* src, int64_t n) {
    float* d = static_cast<float*>(dst);
    const uint16_t* s = static_cast<const uint16_t*>(src);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) d[i] = half_to_float(s[i]);
  }
};
struct FloatToHalf {
  template <Isa> [[gnu::always_inline]] static void run(void* dst, const void* src, int64_t n) {
    uint16_t* d = static_cast<uint16_t*>(dst);
    const float* s = static_cast<const float*>(src);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) d[i] = float_to_half(s[i]);
  }
};

#ifndef PELLUCID_ONE_ISA
PELLUCID_TARGET_V3 void half_to_float_v3(void* dst, const void* src, int64_t n) {
  float* d = static_cast<float*>(dst);
  const uint16_t* s = static_cast<const uint16_t*>(src);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(d + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
  }
  for (; i < n; ++i) d[i] = _cvtsh_ss(s[i]);
}
PELLUCID_TARGET_V3 void float_to_half_v3(void* dst, const void* src, int64_t n) {
  uint16_t* d = static_cast<uint16_t*>(dst);
  const float* s = static_cast<const float*>(src);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) d[i] = _cvtss_sh(s[i], _MM_FROUND_TO_NEAREST_INT);
}
#endif

template <class T> void copy_block(void* dst, const void* src, int64_t n) {
  std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
}

/// Two steps through float32 for the pairs of float16 and another type.
template <class D, class S> void convert_by_float(void* dst, const void* src, int64_t n) {
  constexpr int64_t block = 512;
  alignas(64) float buffer[block];
  const ConvertBlock load = block_converter(kFloat32, dtype_of<S>),
                     store = block_converter(dtype_of<D>, kFloat32);
  for (int64_t i = 0; i < n; i += block) {
    const int64_t count = n - i < block ? n - i : block;
    load(buffer, static_cast<const S*>(src) + i, count);
    store(static_cast<D*>(dst) + i, buffer, count);
  }
}

/// The C++ types in the order of DType.
template <int k>
using TypeAt = std::tuple_element_t<
    k, std::tuple<uint8_t, int8_t, int16_t, int32_t, int64_t, Half, float, double, bool, BFloat16>>;

template <class Body> constexpr ConvertBlock entry(Isa level) {
  return IsaLoops<Body, void*, const void*, int64_t>::at(level);
}

template <class D, class S> constexpr ConvertBlock choose([[maybe_unused]] Isa level) {
  constexpr bool half_out = std::is_same_v<D, Half>, half_in = std::is_same_v<S, Half>;
  if constexpr (std::is_same_v<D, S>) return copy_block<D>;
#ifndef PELLUCID_ONE_ISA
  else if constexpr (half_in && std::is_same_v<D, float>)
    return level == Isa::Baseline ? entry<HalfToFloat>(Isa::Baseline) : half_to_float_v3;
  else if constexpr (half_out && std::is_same_v<S, float>)
    return level == Isa::Baseline ? entry<FloatToHalf>(Isa::Baseline) : float_to_half_v3;
#else
  else if constexpr (half_in && std::is_same_v<D, float>)
    return entry<HalfToFloat>(level);
  else if constexpr (half_out && std::is_same_v<S, float>)
    return entry<FloatToHalf>(level);
#endif
  else if constexpr (half_in || half_out)
    return convert_by_float<D, S>;
  else
    return entry<Convert<D, S>>(level);
}

using Table = std::array<std::array<ConvertBlock, kDTypeCount>, kDTypeCount>;

template <int d, int... s> constexpr auto row(Isa level, std::integer_sequence<int, s...>) {
  return std::array<ConvertBlock, kDTypeCount>{choose<TypeAt<d>, TypeAt<s>>(level)...};
}
template <int... d> constexpr Table table(Isa level, std::integer_sequence<int, d...> all) {
  return {row<d>(level, all)...};
}

constexpr auto kAll = std::make_integer_sequence<int, kDTypeCount>();
constexpr Table kTables[] = {table(Isa::Baseline, kAll), table(Isa::V3, kAll),
                             table(Isa::V4, kAll)};

}  // namespace

ConvertBlock block_converter(DType dst, DType src) {
  return kTables[static_cast<int>(isa())][static_cast<size_t>(dst)][static_cast<size_t>(src)];
}

}  // namespace pellucid::kernels
