// What the generic maths is built from: which types it takes, polynomials, error-free sums.
//
// A value type V (Lane, or a JIT value) has V::Scalar (float or double), V::Bits, V::kFma,
// V::kOrdinary (arguments fulfil the function's …_ordinary below) and V::from_bits;
// explicit construction from a constant; + - * / and unary -; comparisons that give a mask with & |
// !; and, found by argument-dependent lookup, select fma abs min max sqrt copysign floor ceil round
// trunc bits. V::Bits has + - & | ^ << >> == != with its own kind.
//
// Polynomial coefficients in these headers are minimax fits (weighted least squares at Chebyshev
// nodes with Lawson's reweighting, 70 digits) of the function and interval that each comment names.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace pellucid::kernels {

/// A floating value type of the generic maths.
template <class V>
concept Real = requires {
  typename V::Scalar;
  typename V::Bits;
}
&&std::is_floating_point_v<typename V::Scalar>;

namespace detail {

template <class V> inline constexpr bool is_float = std::is_same_v<typename V::Scalar, float>;
template <class V> using Limits = std::numeric_limits<typename V::Scalar>;

/// 1.5 * 2^(digits - 1): x + magic has round(x) in its low bits, for |x| < 2^(digits - 3).
template <class V> inline constexpr double kMagic = is_float<V> ? 12582912.0 : 6755399441055744.0;
/// Bits below the exponent.
template <class V> inline constexpr int kMantissa = is_float<V> ? 23 : 52;

template <class V> [[gnu::always_inline]] inline V constant(double single, double full) {
  return V(is_float<V> ? single : full);
}
template <class V> [[gnu::always_inline]] inline V infinity() { return V(Limits<V>::infinity()); }
template <class V> [[gnu::always_inline]] inline V nan() { return V(Limits<V>::quiet_NaN()); }
template <class V> [[gnu::always_inline]] inline auto one_bits() {
  return typename V::Bits(is_float<V> ? 0x3f800000ull : 0x3ff0000000000000ull);
}
template <class V> [[gnu::always_inline]] inline auto sign_bit() {
  return typename V::Bits(is_float<V> ? 0x80000000ull : 0x8000000000000000ull);
}
/// x with its sign changed where `sign` has the sign bit.
template <class V> [[gnu::always_inline]] inline V flip_sign(V x, typename V::Bits sign) {
  return V::from_bits(bits(x) ^ (sign & sign_bit<V>()));
}

/// r where it is `known`, else what libm answers: a function with a bounded range is right for
/// every argument. Loops ask for such elements alone (pointwise_loops.h).
template <class M, class V, class F>
[[gnu::always_inline]] inline V or_libm(M known, V r, const F& libm) {
  if constexpr (V::kOrdinary)
    return r;
  else
    return known.v ? r : libm();
}

/// c0 + c1 x + c2 x² + …, by Horner's rule.
template <class V> [[gnu::always_inline]] inline V poly(V, double c0) { return V(c0); }
template <class V, class... C> [[gnu::always_inline]] inline V poly(V x, double c0, C... rest) {
  return fma(poly(x, rest...), x, V(c0));
}

/// hi + lo, where lo is at most half a unit in the last place of hi.
template <class V> struct Pair { V hi, lo; };

/// a + b without error.
template <class V> [[gnu::always_inline]] inline Pair<V> two_sum(V a, V b) {
  const V s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
/// The same where |a| >= |b| or a is 0.
template <class V> [[gnu::always_inline]] inline Pair<V> fast_two_sum(V a, V b) {
  const V s = a + b;
  return {s, b - (s - a)};
}
/// a * b without error, unless it under- or overflows; splits the factors where there is no fma.
template <class V> [[gnu::always_inline]] inline Pair<V> two_product(V a, V b) {
  const V p = a * b;
  if constexpr (V::kFma) {
    return {p, fma(a, b, -p)};
  } else {
    const V split = constant<V>(4097.0, 134217729.0);
    const V ta = a * split, ah = ta - (ta - a), al = a - ah;
    const V tb = b * split, bh = tb - (tb - b), bl = b - bh;
    return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
  }
}

}  // namespace detail
}  // namespace pellucid::kernels
