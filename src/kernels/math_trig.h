// sin, cos, tan and their inverses. Within 2 units in the last place (tan and atan2 3).
// Beyond kTrigRange libm answers for sin, cos and tan.
#pragma once

#include "kernels/math_core.h"

namespace pellucid::kernels {
namespace detail {

/// The argument up to which the quotient by pi/2 has few enough bits for an exact reduction.
template <class V> inline constexpr double kTrigRange = is_float<V> ? 12000.0 : 1.6e6;

/// |x| = n pi/2 + r + r_lo; the low bits of `quadrant` are n.
template <class V> struct TrigReduction {
  V r, r_lo;
  typename V::Bits quadrant;
};

template <class V> [[gnu::always_inline]] inline TrigReduction<V> reduce_trig(V x) {
  const V a = abs(x), magic(kMagic<V>);
  const V shifted = fma(a, V(0.63661977236758134308), magic);
  const V n = shifted - magic;
  // pi/2 in four parts; the products with the first three, and the first two differences, are exact
  V r = fma(-n, constant<V>(0x1.92p+0, 0x1.921fb544p+0), a);
  r = fma(-n, constant<V>(0x1.fb4p-12, 0x1.0b4611a6p-34), r);
  if constexpr (is_float<V>) {
    // what the one rounding of r loses is half a unit of r itself and need not be kept
    return {fma(-n, V(0x1.444p-24), r), -n * V(0x1.68c234p-39), bits(shifted)};
  }
  const auto s = two_sum(r, -n * constant<V>(0x1.444p-24, 0x1.3198a2ep-69));
  const V low = fma(-n, constant<V>(0x1.68c234p-39, 0x1.b839a252049c1p-104), s.lo);
  return {s.hi, low, bits(shifted)};
}

template <class V> [[gnu::always_inline]] inline V sin_poly(V r, V r_lo, V z) {
  V q;  // (sin(r) / r - 1) / r² on |r| <= pi/4
  if constexpr (is_float<V>) {
    q = poly(z, -0.166666548843, 0.00833217438505, -0.000195167705962);
  } else {
    q = poly(z, -0.16666666666666631706, 0.0083333333333223329554, -0.00019841269829740051964,
             2.7557313667128733418e-6, -2.5050754031453695485e-8, 1.5896547594872852701e-10);
  }
  return r + fma(r * z, q, r_lo);
}

template <class V> [[gnu::always_inline]] inline V cos_poly(V r, V r_lo, V z) {
  V q;  // (cos(r) - 1 + r²/2) / r⁴
  if constexpr (is_float<V>) {
    q = poly(z, 0.0416666467575, -0.00138873626383, 2.44379077775e-5);
  } else {
    q = poly(z, 0.041666666666666598806, -0.0013888888888874005782, 0.000024801587289405325039,
             -2.7557314329090475309e-7, 2.0875719969016784991e-9, -1.1359469374393161499e-11);
  }
  if constexpr (is_float<V>) return fma(fma(q, z, V(-0.5)), z, V(1));  // r_lo is a quarter unit
  const V half = z * V(0.5), w = V(1) - half;
  return w + (((V(1) - w) - half) + (z * z * q - r * r_lo));
}

/// Whether the lowest bit is set, asked through the sign of a float: the compiler turns `q & 1`
/// into a one-bit integer, which it cannot vectorise.
template <class V> [[gnu::always_inline]] inline auto is_odd(typename V::Bits q) {
  return V::from_bits((q << (sizeof(typename V::Scalar) * 8 - 1)) | one_bits<V>()) < V(0);
}

}  // namespace detail

/// Where sin, cos and tan answer without libm.
template <Real V> [[gnu::always_inline]] inline auto trig_ordinary(V x) {
  return abs(x) <= V(detail::kTrigRange<V>);
}

template <Real V> [[gnu::always_inline]] inline V sin(V x) {
  const auto t = detail::reduce_trig(x);
  const V z = t.r * t.r;
  const V s = detail::sin_poly(t.r, t.r_lo, z), c = detail::cos_poly(t.r, t.r_lo, z);
  const V r = select(detail::is_odd<V>(t.quadrant), c, s);
  return detail::or_libm(
      trig_ordinary(x),
      detail::flip_sign(r, (t.quadrant << (sizeof(typename V::Scalar) * 8 - 2)) ^ bits(x)),
      [x] { return V(std::sin(x.v)); });
}

template <Real V> [[gnu::always_inline]] inline V cos(V x) {
  const auto t = detail::reduce_trig(x);
  const V z = t.r * t.r;
  const V s = detail::sin_poly(t.r, t.r_lo, z), c = detail::cos_poly(t.r, t.r_lo, z);
  using B = typename V::Bits;
  const B quadrant = t.quadrant + B(1);
  const V r = select(detail::is_odd<V>(quadrant), c, s);
  return detail::or_libm(trig_ordinary(x),
                         detail::flip_sign(r, quadrant << (sizeof(typename V::Scalar) * 8 - 2)),
                         [x] { return V(std::cos(x.v)); });
}

template <Real V> [[gnu::always_inline]] inline V tan(V x) {
  const auto t = detail::reduce_trig(x);
  const V z = t.r * t.r;
  const V s = detail::sin_poly(t.r, t.r_lo, z), c = detail::cos_poly(t.r, t.r_lo, z);
  const auto odd = detail::is_odd<V>(t.quadrant);
  const V r = select(odd, -c, s) / select(odd, s, c);
  return detail::or_libm(trig_ordinary(x), detail::flip_sign(r, bits(x)),
                         [x] { return V(std::tan(x.v)); });
}

namespace detail {

/// asin(s) / s - 1, over z = s², on s <= 1/2.
template <class V> [[gnu::always_inline]] inline V asin_poly(V z) {
  if constexpr (is_float<V>) {
    return poly(z, 0.166667534349, 0.07495259588, 0.0454750437363, 0.0241570936476,
                0.0422033040795);
  } else {
    return poly(z, 0.16666666666666761832, 0.074999999999704195498, 0.04464285717497755158,
                0.030381942690211192956, 0.022372215480519419941, 0.017351603239796155537,
                0.013980924460010008392, 0.011398073914399118918, 0.010784880180952608233,
                0.0036892063659209705105, 0.021748627881893478213, -0.021056397558654490505,
                0.032663903115220246734);
  }
}

template <class V> [[gnu::always_inline]] inline V half_pi() {
  return constant<V>(0x1.921fb6p+0, 0x1.921fb54442d18p+0);
}
/// pi/2 less half_pi().
template <class V> [[gnu::always_inline]] inline V half_pi_low() {
  return constant<V>(-0x1.777a5cp-25, 0x1.1a62633145c07p-54);
}

/// The angle of the point (x, y), both >= 0, in [0, pi/2]; (0, 0) gives 0.
template <class V> [[gnu::always_inline]] inline V quadrant_angle(V y, V x) {
  // thirds at tan(pi/8) and tan(3 pi/8), so that one division serves |t| <= tan(pi/8)
  const auto upper = y > x * V(2.4142135623730950), middle = y > x * V(0.41421356237309505);
  const V num = select(upper, -x, select(middle, y - x, y));
  const V den = select(upper, y, select(middle, y + x, x));
  V t = num / den;
  t = select(x == y, V(0), t);  // also for two zeros
  const V base = select(upper, half_pi<V>(), select(middle, half_pi<V>() * V(0.5), V(0)));
  const V base_low =
      select(upper, half_pi_low<V>(), select(middle, half_pi_low<V>() * V(0.5), V(0)));
  const V z = t * t;
  V q;  // (atan(t) / t - 1) / t²
  if constexpr (is_float<V>) {
    q = poly(z, -0.333333154758, 0.199984888154, -0.142438475186, 0.105960332195, -0.0608358974381);
  } else {
    q = poly(z, -0.33333333333333198813, 0.19999999999954041148, -0.14285714280246383567,
             0.11111110786082114877, -0.090908978356257768949, 0.076920616298572434682,
             -0.066631203422356023541, 0.058480087159755429909, -0.050398445065425395011,
             0.038078283264809588524, -0.017922217598194311069);
  }
  return base + (t + fma(t * z, q, base_low));
}

}  // namespace detail

template <Real V> [[gnu::always_inline]] inline V asin(V x) {
  const V a = abs(x);
  const auto big = a > V(0.5);
  const V z = select(big, fma(a, V(-0.5), V(0.5)), a * a);
  const V s = select(big, sqrt(z), a);
  const V tail = s * z * detail::asin_poly(z);
  const V high = detail::half_pi<V>() - ((s + s) - fma(tail, V(-2), detail::half_pi_low<V>()));
  return copysign(select(big, high, s + tail), x);
}

template <Real V> [[gnu::always_inline]] inline V acos(V x) {
  const V a = abs(x);
  const auto big = a > V(0.5);
  const V z = select(big, fma(a, V(-0.5), V(0.5)), a * a);
  const V s = select(big, sqrt(z), x);
  const V tail = s * z * detail::asin_poly(z);
  const V near = detail::half_pi<V>() - (s - (detail::half_pi_low<V>() - tail));
  const V twice = (s + s) + (tail + tail);
  const V pi = detail::half_pi<V>() * V(2), pi_low = detail::half_pi_low<V>() * V(2);
  const V far = select(x < V(0), pi - ((s + s) - (pi_low - (tail + tail))), twice);
  return select(big, far, near);
}

template <Real V> [[gnu::always_inline]] inline V atan(V x) {
  if constexpr (!detail::is_float<V>) {
    return copysign(detail::quadrant_angle(abs(x), V(1)), x);
  } else {
    const V a = abs(x);
    const auto big = a > V(1);  // then pi/2 - atan(1 / a)
    const V t = select(big, V(-1), a) / select(big, a, V(1)), z = t * t;
    const V q = detail::poly(z, -0.333331527279, 0.1999377264, -0.142110536855, 0.106659981554,
                             -0.0755220030544, 0.0432116944891, -0.0163678251851,
                             0.00292066644279);  // (atan(t) / t - 1) / t² on |t| <= 1
    const V base = select(big, detail::half_pi<V>(), V(0));
    const V base_low = select(big, detail::half_pi_low<V>(), V(0));
    return copysign(base + (t + fma(t * z, q, base_low)), x);
  }
}

template <Real V> [[gnu::always_inline]] inline V atan2(V y, V x) {
  V ay = abs(y), ax = abs(x);
  // keeps ax + ay finite and ax * 2.4 from overflowing; what is tiny beside a huge one does not
  // count
  const V scale = select(max(ax, ay) > detail::constant<V>(0x1p120, 0x1p1000), V(0x1p-20), V(1));
  const V inf = detail::infinity<V>();
  const auto both = (ax == inf) & (ay == inf);
  ay = select(both, V(1), ay * scale);
  ax = select(both, V(1), ax * scale);
  const V angle = detail::quadrant_angle(ay, ax);
  const V pi = detail::half_pi<V>() * V(2), pi_low = detail::half_pi_low<V>() * V(2);
  const V r = select(copysign(V(1), x) < V(0), pi - (angle - pi_low), angle);
  return copysign(select((x != x) | (y != y), x + y, r), y);
}

}  // namespace pellucid::kernels
