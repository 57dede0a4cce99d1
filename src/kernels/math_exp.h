// exp and its family: exp2, expm1, sigmoid, tanh, sinh, cosh. Within 2 units in the last place;
// overflow, underflow into denormals, NaN and signed zeros are as in C.
#pragma once

#include "kernels/math_core.h"

namespace pellucid::kernels {
namespace detail {

/// exp(r) - 1 on |r| <= ln(2) / 2, as r + r² * (fit of (exp(r) - 1 - r) / r²).
template <class V> [[gnu::always_inline]] inline V expm1_poly(V r) {
  V q;
  if constexpr (is_float<V>) {
    q = poly(r, 0.500000009823, 0.166665187927, 0.041666196252, 0.00836888943922, 0.0013951086805);
  } else {
    q = poly(r, 0.50000000000000129626, 0.16666666666666691903, 0.041666666666513850928,
             0.0083333333333113662548, 0.001388888894738872296, 0.00019841269908985502761,
             0.000024801489579021532939, 2.7557223407074952658e-6, 2.7631404894231720425e-7,
             2.5115706993351030553e-8);
  }
  return fma(r * r, q, r);
}

/// x = n ln(2) + r; `shifted` is n + magic, whose low bits are n.
template <class V> struct ExpReduction { V shifted, n, r; };

template <class V> [[gnu::always_inline]] inline ExpReduction<V> reduce_exp(V x) {
  const V magic(kMagic<V>);
  const V shifted = fma(x, V(1.4426950408889634074), magic);
  const V n = shifted - magic;
  // ln(2) in two parts; the first has so few bits that its product with n is exact.
  V r = fma(-n, constant<V>(0x1.62ep-1, 0x1.62e42ffp-1), x);
  r = fma(-n, constant<V>(0x1.0bfbe8p-15, -0x1.718432a1b0e26p-35), r);
  return {shifted, n, r};
}

/// 2^n for n in the normal range, from n + magic.
template <class V> [[gnu::always_inline]] inline V pow2_shifted(V shifted) {
  return V::from_bits((bits(shifted) << kMantissa<V>)+one_bits<V>());
}

/// p * 2^n in two steps, so that results may overflow or be denormal.
template <class V> [[gnu::always_inline]] inline V scale_shifted(V p, V shifted) {
  const auto k = bits(shifted), half = k >> 1;
  const auto one = one_bits<V>();
  const V s1 = V::from_bits((half << kMantissa<V>)+one);
  const V s2 = V::from_bits(((k - half) << kMantissa<V>)+one);
  return p * s1 * s2;
}

/// p * 2^n for n from -150 (double -1076) to 100, which may be denormal: 2^n is taken too great by
/// a power of two that the last product takes back.
template <class V> [[gnu::always_inline]] inline V scale_down(V p, V shifted) {
  const typename V::Bits lifted(is_float<V> ? uint64_t{127 + 24} << 23 : uint64_t{1023 + 54} << 52);
  const V power = V::from_bits((bits(shifted) << kMantissa<V>)+lifted);
  return p * power * constant<V>(0x1p-24, 0x1p-54);
}

/// exp(x) for x <= 20, also where that is denormal; NaN passes.
template <class V> [[gnu::always_inline]] inline V exp_low(V x) {
  const auto e = reduce_exp(max(constant<V>(-104.0, -746.0), x));
  return scale_down(V(1) + expm1_poly(e.r), e.shifted);
}

/// Keeps x where exp neither surely overflows nor surely underflows to 0; NaN passes.
template <class V> [[gnu::always_inline]] inline V clamp_exp(V x) {
  return max(constant<V>(-104.0, -746.0), min(constant<V>(89.0, 710.0), x));
}

/// exp(x + low), for |low| far below |x|.
template <class V> [[gnu::always_inline]] inline V exp_pair(V x, V low) {
  const auto e = reduce_exp(clamp_exp(x));
  return scale_shifted(V(1) + expm1_poly(e.r + low), e.shifted);
}

/// exp(x) - 1 for |x| below 60, where one scaling by 2^n is enough.
template <class V> [[gnu::always_inline]] inline V expm1_small(V x) {
  const auto e = reduce_exp(x);
  const V s = pow2_shifted(e.shifted);
  return fma(s, expm1_poly(e.r), s - V(1));
}

/// exp(x) / 2 for x >= 0, which stays finite as long as sinh and cosh do.
template <class V> [[gnu::always_inline]] inline V half_exp(V x) {
  const auto e = reduce_exp(min(constant<V>(90.0, 711.0), x));
  return scale_shifted(V(1) + expm1_poly(e.r), e.shifted - V(1));
}

}  // namespace detail

/// Where exp and exp2 neither overflow nor give denormals, so that one scaling by 2^n is enough.
template <Real V> [[gnu::always_inline]] inline auto exp_ordinary(V x) {
  return abs(x) <= detail::constant<V>(87.0, 708.0);
}
template <Real V> [[gnu::always_inline]] inline auto exp2_ordinary(V x) {
  return abs(x) <= detail::constant<V>(125.0, 1021.0);
}

template <Real V> [[gnu::always_inline]] inline V exp(V x) {
  if constexpr (V::kOrdinary) {
    const auto e = detail::reduce_exp(x);
    return (V(1) + detail::expm1_poly(e.r)) * detail::pow2_shifted(e.shifted);
  }
  const auto e = detail::reduce_exp(detail::clamp_exp(x));
  return detail::scale_shifted(V(1) + detail::expm1_poly(e.r), e.shifted);
}

template <Real V> [[gnu::always_inline]] inline V exp2(V x) {
  const V magic(detail::kMagic<V>);
  if constexpr (!V::kOrdinary)
    x = max(detail::constant<V>(-151.0, -1076.0), min(detail::constant<V>(129.0, 1025.0), x));
  const V shifted = x + magic, f = x - (shifted - magic);  // f is exact
  const V r = fma(f, detail::constant<V>(0x1.62e43p-1, 0x1.62e42fefa39efp-1),
                  f * detail::constant<V>(-0x1.05c61p-29, 0x1.abc9e3b39803fp-56));
  if constexpr (V::kOrdinary)
    return (V(1) + detail::expm1_poly(r)) * detail::pow2_shifted(shifted);
  else
    return detail::scale_shifted(V(1) + detail::expm1_poly(r), shifted);
}

template <Real V> [[gnu::always_inline]] inline V expm1(V x) {
  const V c = max(detail::constant<V>(-18.0, -38.0), min(detail::constant<V>(89.0, 710.0), x));
  const auto e = detail::reduce_exp(c);
  // half of the result with 2^(n - 1), because 2^n itself may overflow where the result does not
  const V t = detail::pow2_shifted(e.shifted - V(1));
  const V half = fma(t, detail::expm1_poly(e.r), t - V(0.5));
  return select(abs(x) < V(detail::Limits<V>::epsilon() / 2), x, half + half);
}

/// 1 / (1 + exp(-x)), also where that is denormal.
template <Real V> [[gnu::always_inline]] inline V sigmoid(V x) {
  const V p = detail::exp_low(-abs(x));
  return select(x < V(0), p, V(1)) / (V(1) + p);
}

/// tanh(log(1 + exp(x))), the gate of mish.
template <Real V> [[gnu::always_inline]] inline V tanh_softplus(V x) {
  const V e = detail::exp_low(min(V(20), x));  // from 20 on the quotient is 1
  const V w = e * (e + V(2));
  return w / (w + V(2));
}

template <Real V> [[gnu::always_inline]] inline V tanh(V x) {
  const V t = detail::expm1_small(min(detail::constant<V>(18.5, 38.5), abs(x) + abs(x)));
  const V r = t / (t + V(2));
  return copysign(select(abs(x) < V(detail::Limits<V>::epsilon() / 2), abs(x), r), x);
}

template <Real V> [[gnu::always_inline]] inline V sinh(V x) {
  const V a = abs(x), z = a * a;
  V q;  // (sinh(a) / a - 1) / a² on a <= 1
  if constexpr (detail::is_float<V>) {
    q = detail::poly(z, 0.16666666489, 0.00833335057813, 0.000198360701443, 2.8174180221e-6);
  } else {
    q = detail::poly(z, 0.16666666666666667428, 0.008333333333333139186, 0.00019841269841437415409,
                     2.7557319155418657263e-6, 2.5052123386092486856e-8, 1.6057241266925997232e-10,
                     7.7592854369433619736e-13);
  }
  const V h = detail::half_exp(a);
  return copysign(select(a < V(1), fma(a * z, q, a), h - V(0.25) / h), x);
}

template <Real V> [[gnu::always_inline]] inline V cosh(V x) {
  const V h = detail::half_exp(abs(x));
  return h + V(0.25) / h;
}

}  // namespace pellucid::kernels
