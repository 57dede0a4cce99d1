// Lane: the value type with which formulas become kernels. It is one scalar; a plain loop over
// Lanes is what the compiler vectorises, so everything here is branch-free and always inlined.
// Floats follow IEEE; integer + - * wrap (they run on unsigned), x / 0 gives 0 and MIN / -1 wraps,
// because errors about data are raised before a kernel runs. No function here calls libm; of those
// in math.h sin, cos, tan and fmod do, beyond the range of their polynomials. kOrdinary is the
// variant for blocks in which no such element is.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/isa.h"

namespace pellucid::kernels {

namespace detail {
template <class T> struct BitsOf { using type = std::make_unsigned_t<T>; };
template <> struct BitsOf<float> { using type = uint32_t; };
template <> struct BitsOf<double> { using type = uint64_t; };
}  // namespace detail

/// What a comparison of lanes gives.
struct LaneMask {
  bool v;
  [[gnu::always_inline]] friend LaneMask operator&(LaneMask a, LaneMask b) {
    return {bool(a.v & b.v)};
  }
  [[gnu::always_inline]] friend LaneMask operator|(LaneMask a, LaneMask b) {
    return {bool(a.v | b.v)};
  }
  [[gnu::always_inline]] friend LaneMask operator^(LaneMask a, LaneMask b) { return {a.v != b.v}; }
  [[gnu::always_inline]] friend LaneMask operator!(LaneMask a) { return {!a.v}; }
};

/// What a loop knows about the arguments of a formula.
enum class LaneMode : uint8_t {
  Usual,    ///< nothing: every value gets its right result
  Ordinary  ///< the formula's `ordinary` holds: special values need no care
};

/// A number of type T in a kernel compiled for level I.
template <class T, Isa I, LaneMode kMode = LaneMode::Usual> struct Lane {
  using Scalar = T;
  using Mask = LaneMask;
  using Bits = Lane<typename detail::BitsOf<T>::type, I, kMode>;
  /// Whether fma() rounds once.
  static constexpr bool kFma = I >= Isa::V3;
  /// Whether the care for special values may be left out.
  static constexpr bool kOrdinary = kMode == LaneMode::Ordinary;

  T v;

  Lane() = default;
  template <class N>
  requires std::is_arithmetic_v<N>
  [[gnu::always_inline]] explicit constexpr Lane(N constant) : v(static_cast<T>(constant)) {}

  [[gnu::always_inline]] friend Lane operator+(Lane a, Lane b) { return Lane(wide(a) + wide(b)); }
  [[gnu::always_inline]] friend Lane operator-(Lane a, Lane b) { return Lane(wide(a) - wide(b)); }
  [[gnu::always_inline]] friend Lane operator*(Lane a, Lane b) { return Lane(wide(a) * wide(b)); }
  [[gnu::always_inline]] friend Lane operator-(Lane a) {
    if constexpr (std::is_floating_point_v<T>)
      return Lane(-a.v);
    else
      return Lane(Unsigned(0) - Unsigned(a.v));
  }
  [[gnu::always_inline]] friend Lane operator/(Lane a, Lane b) {
    if constexpr (std::is_floating_point_v<T>)
      return Lane(a.v / b.v);
    else if constexpr (std::is_unsigned_v<T>)
      return Lane(b.v == 0 ? T(0) : T(a.v / b.v));
    else
      return b.v == 0 ? Lane(0) : b.v == -1 ? -a : Lane(a.v / b.v);
  }
  /// C's remainder, for integers.
  [[gnu::always_inline]] friend Lane operator%(Lane a, Lane b) requires std::is_integral_v<T> {
    return b.v == 0 || b.v == T(-1) ? Lane(0) : Lane(a.v % b.v);
  }

  [[gnu::always_inline]] friend Mask operator<(Lane a, Lane b) { return {a.v < b.v}; }
  [[gnu::always_inline]] friend Mask operator<=(Lane a, Lane b) { return {a.v <= b.v}; }
  [[gnu::always_inline]] friend Mask operator>(Lane a, Lane b) { return {a.v > b.v}; }
  [[gnu::always_inline]] friend Mask operator>=(Lane a, Lane b) { return {a.v >= b.v}; }
  [[gnu::always_inline]] friend Mask operator==(Lane a, Lane b) { return {a.v == b.v}; }
  [[gnu::always_inline]] friend Mask operator!=(Lane a, Lane b) { return {a.v != b.v}; }

  [[gnu::always_inline]] friend Lane operator&(Lane a, Lane b) requires std::is_integral_v<T> {
    return Lane(a.v & b.v);
  }
  [[gnu::always_inline]] friend Lane operator|(Lane a, Lane b) requires std::is_integral_v<T> {
    return Lane(a.v | b.v);
  }
  [[gnu::always_inline]] friend Lane operator^(Lane a, Lane b) requires std::is_integral_v<T> {
    return Lane(a.v ^ b.v);
  }
  [[gnu::always_inline]] friend Lane operator~(Lane a) requires std::is_integral_v<T> {
    return Lane(~a.v);
  }
  /// Shifts by a constant from 0 to the width less one; to the right as T does it.
  [[gnu::always_inline]] friend Lane operator<<(Lane a, int n) requires std::is_integral_v<T> {
    return Lane(Unsigned(a.v) << n);
  }
  [[gnu::always_inline]] friend Lane operator>>(Lane a, int n) requires std::is_integral_v<T> {
    return Lane(a.v >> n);
  }

  [[gnu::always_inline]] friend Lane select(Mask m, Lane a, Lane b) {
    return Lane(m.v ? a.v : b.v);
  }
  [[gnu::always_inline]] friend Lane fma(Lane a, Lane b, Lane c) {
    if constexpr (!kFma || std::is_integral_v<T>)
      return a * b + c;
    else if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_fmaf(a.v, b.v, c.v));
    else
      return Lane(__builtin_fma(a.v, b.v, c.v));
  }
  [[gnu::always_inline]] friend Lane abs(Lane a) {
    if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_fabsf(a.v));
    else if constexpr (std::is_same_v<T, double>)
      return Lane(__builtin_fabs(a.v));
    else
      return a.v < 0 ? -a : a;
  }
  /// min and max as x86 has them: b if either is NaN.
  [[gnu::always_inline]] friend Lane min(Lane a, Lane b) { return Lane(a.v < b.v ? a.v : b.v); }
  [[gnu::always_inline]] friend Lane max(Lane a, Lane b) { return Lane(a.v > b.v ? a.v : b.v); }

  [[gnu::always_inline]] friend Lane sqrt(Lane a) requires std::is_floating_point_v<T> {
    if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_sqrtf(a.v));
    else
      return Lane(__builtin_sqrt(a.v));
  }
  [[gnu::always_inline]] friend Lane copysign(Lane magnitude,
                                              Lane sign) requires std::is_floating_point_v<T> {
    if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_copysignf(magnitude.v, sign.v));
    else
      return Lane(__builtin_copysign(magnitude.v, sign.v));
  }

  /// To the nearest integer, ties to even.
  [[gnu::always_inline]] friend Lane round(Lane a) {
    if constexpr (std::is_integral_v<T>)
      return a;
    else if constexpr (!kFma)
      return round_by_addition(a);
    else if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_nearbyintf(a.v));
    else
      return Lane(__builtin_nearbyint(a.v));
  }
  [[gnu::always_inline]] friend Lane floor(Lane a) {
    if constexpr (std::is_integral_v<T>)
      return a;
    else if constexpr (!kFma) {
      const Lane r = round_by_addition(a);
      return copysign(r - select(r > a, Lane(1), Lane(0)), a);
    } else if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_floorf(a.v));
    else
      return Lane(__builtin_floor(a.v));
  }
  [[gnu::always_inline]] friend Lane ceil(Lane a) {
    if constexpr (std::is_integral_v<T>)
      return a;
    else if constexpr (!kFma) {
      const Lane r = round_by_addition(a);
      return copysign(r + select(r < a, Lane(1), Lane(0)), a);
    } else if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_ceilf(a.v));
    else
      return Lane(__builtin_ceil(a.v));
  }
  [[gnu::always_inline]] friend Lane trunc(Lane a) {
    if constexpr (std::is_integral_v<T>)
      return a;
    else if constexpr (!kFma) {
      const Lane m = abs(a), r = round_by_addition(m);
      return copysign(r - select(r > m, Lane(1), Lane(0)), a);
    } else if constexpr (std::is_same_v<T, float>)
      return Lane(__builtin_truncf(a.v));
    else
      return Lane(__builtin_trunc(a.v));
  }

  /// The representation, and back.
  [[gnu::always_inline]] friend Bits bits(Lane a) {
    return Bits(std::bit_cast<typename Bits::Scalar>(a.v));
  }
  [[gnu::always_inline]] static Lane from_bits(Bits b) { return Lane(std::bit_cast<T>(b.v)); }

 private:
  using Unsigned = typename detail::BitsOf<T>::type;

  /// Arithmetic on integers happens on unsigned, where overflow wraps.
  [[gnu::always_inline]] static auto wide(Lane a) {
    if constexpr (std::is_floating_point_v<T>)
      return a.v;
    else
      return Unsigned(a.v);
  }
  /// SSE2 has no rounding instruction: adding 2^(digits - 1) leaves no room for a fraction.
  [[gnu::always_inline]] static Lane round_by_addition(Lane a) {
    constexpr T big = T(1) / std::numeric_limits<T>::epsilon();
    const Lane m = abs(a);
    return copysign(select(m < Lane(big), (m + Lane(big)) - Lane(big), m), a);
  }
};

}  // namespace pellucid::kernels
