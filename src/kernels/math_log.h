// log and its family: log2, log10, log1p, softplus, log_sigmoid, pow. Within 2 units in the last
// place (pow 3); zeros, negatives, denormals, infinities and NaN as in C.
#pragma once

#include "kernels/math_core.h"
#include "kernels/math_exp.h"

namespace pellucid::kernels {
namespace detail {

/// x = m * 2^e with m from sqrt(1/2) to sqrt(2), for positive finite x, denormals too.
template <class V> struct LogSplit { V m, e; };

/// The same for normal x, and e as the exponent of a number 2^e.
template <class V> struct NormalSplit {
  V m, e;
  typename V::Bits exponent;
};

template <class V> [[gnu::always_inline]] inline NormalSplit<V> split_normal(V x) {
  using B = typename V::Bits;
  const B half_root(is_float<V> ? 0x3f3504f3ull : 0x3fe6a09e667f3bcdull);  // sqrt(1/2)
  const B u = bits(x) + (one_bits<V>() - half_root);
  const B mantissa_mask((uint64_t{1} << kMantissa<V>)-1);
  // the biased exponent becomes a number by pasting it under the exponent of 2^mantissa
  const V two_m = constant<V>(0x1p23, 0x1p52);
  const V biased = V::from_bits((u >> kMantissa<V>) | bits(two_m));
  const V bias = constant<V>(0x1p23 + 127, 0x1p52 + 1023);
  return {V::from_bits((u & mantissa_mask) + half_root), biased - bias, u & ~mantissa_mask};
}

template <class V> [[gnu::always_inline]] inline LogSplit<V> split_log(V x) {
  if constexpr (V::kOrdinary) {
    const auto s = split_normal(x);
    return {s.m, s.e};
  } else {
    const auto tiny = x < V(Limits<V>::min());
    const auto s = split_normal(select(tiny, x * constant<V>(0x1p24, 0x1p54), x));
    return {s.m, s.e - select(tiny, constant<V>(24.0, 54.0), V(0))};
  }
}

/// What log(1 + f) is beyond f, for 1 + f from sqrt(1/2) to sqrt(2): about -f² / 2.
template <class V> [[gnu::always_inline]] inline V log1p_rest(V f) {
  const V f2 = f * f;
  if constexpr (is_float<V>) {  // (log(1 + f) - f + f²/2) / f³
    const V q = poly(f, 0.333333172954, -0.250008115859, 0.200022514199, -0.166244871567,
                     0.141817562143, -0.131298099115, 0.128788505564, -0.0785412482183);
    return fma(f2 * f, q, f2 * V(-0.5));
  } else {  // with s = f / (2 + f): 2 atanh(s) = 2 s + s³ q(s²)
    const V s = f / (V(2) + f), z = s * s;
    const V q = poly(z, 0.66666666666666660975, 0.4000000000000624596, 0.2857142856908595674,
                     0.22222222646839331099, 0.18181775657769720627, 0.1538709127012459658,
                     0.1325010306537222242, 0.13251494446077596664);
    const V half = f2 * V(0.5);
    return s * fma(z, q, half) - half;
  }
}

/// `r` for positive finite x; else what a logarithm gives for 0, negatives, infinity and NaN.
template <class V> [[gnu::always_inline]] inline V log_special(V x, V r) {
  if constexpr (V::kOrdinary) return r;
  r = select(x < infinity<V>(), r, x);
  r = select(x == V(0), -infinity<V>(), r);
  return select(x < V(0), nan<V>(), r);
}

/// e ln(2) + log(1 + f).
template <class V> [[gnu::always_inline]] inline V log_join(V e, V f) {
  const V low = fma(e, constant<V>(0x1.0bfbe8p-15, -0x1.718432a1b0e26p-35), log1p_rest(f));
  return fma(e, constant<V>(0x1.62ep-1, 0x1.62e42ffp-1), f + low);
}

}  // namespace detail

/// Where log, log2 and log10 need no care: positive, finite, not denormal.
template <Real V> [[gnu::always_inline]] inline auto log_ordinary(V x) {
  return (x >= V(detail::Limits<V>::min())) & (x < detail::infinity<V>());
}

template <Real V> [[gnu::always_inline]] inline V log(V x) {
  const auto s = detail::split_log(x);
  return detail::log_special(x, detail::log_join(s.e, s.m - V(1)));
}

template <Real V> [[gnu::always_inline]] inline V log2(V x) {
  const auto s = detail::split_log(x);
  const V f = s.m - V(1), rest = detail::log1p_rest(f);
  // 1 / ln(2) is 1 + 0.4427: the 1 costs no rounding
  const V c(0.44269504088896340736);
  return detail::log_special(x, s.e + (f + fma(f, c, fma(rest, c, rest))));
}

template <Real V> [[gnu::always_inline]] inline V log10(V x) {
  const auto s = detail::split_log(x);
  const V f = s.m - V(1), rest = detail::log1p_rest(f);
  const V c(0.43429448190325182765);
  const V low =
      fma(s.e, detail::constant<V>(0x1.3509f8p-18, -0x1.0c0219dc1da99p-39), (f + rest) * c);
  return detail::log_special(x, fma(s.e, detail::constant<V>(0x1.344p-2, 0x1.3441350ap-2), low));
}

/// Where log1p needs no care.
template <Real V> [[gnu::always_inline]] inline auto log1p_ordinary(V x) {
  return (x > V(-1)) & (x < V(0x1p60));
}

template <Real V> [[gnu::always_inline]] inline V log1p(V x) {
  // 1 + x is never denormal; what it is beyond (-1, infinity) does not count, log_special answers
  const auto s = detail::split_normal(V(1) + x);
  // 2^-e (1 + x) - 1 from x itself, so that what 1 + x lost is not lost; it no longer counts beyond
  // 2^60
  const typename V::Bits twice_bias(detail::is_float<V> ? uint64_t{254} << 23
                                                        : uint64_t{2046} << 52);
  const V scale = V::from_bits(twice_bias - s.exponent);
  V f = fma(x, scale, scale - V(1));
  if constexpr (!V::kOrdinary) f = select(s.e > V(60), s.m - V(1), f);
  // the sign of x, which only a zero has lost
  return copysign(detail::log_special(V(1) + x, detail::log_join(s.e, f)), x);
}

/// log(1 + exp(x)) without overflow.
template <Real V> [[gnu::always_inline]] inline V softplus(V x) {
  // exp(-|x|) is in [0, 1], so the special cases of log1p cannot occur; max keeps NaN
  const V e = detail::exp_low(-abs(x));
  if constexpr (detail::is_float<V>) {  // (log(1 + e) - e) / e² on [0, 1]
    const V q = detail::poly(e, -0.499999327635, 0.333305113141, -0.249585873413, 0.196954000778,
                             -0.153553948989, 0.106805530741, -0.0576644198321, 0.0202045718491,
                             -0.00331846963145);
    return max(V(0), x) + fma(e * e, q, e);
  } else {
    const auto high = V(1) + e > V(1.41421356);
    const V scale = select(high, V(0.5), V(1));
    const V f = e * scale + (scale - V(1));
    return max(V(0), x) + detail::log_join(select(high, V(1), V(0)), f);
  }
}

/// log(sigmoid(x)).
template <Real V> [[gnu::always_inline]] inline V log_sigmoid(V x) { return -softplus(-x); }

namespace detail {

/// log(x) for positive finite x as a pair, with about half as many bits again as V has.
template <class V> [[gnu::always_inline]] inline Pair<V> log_pair(V x) {
  const auto split = split_log(x);
  const V f = split.m - V(1);
  const auto den = two_sum(split.m, V(1));
  const V s = f / den.hi;  // s + s_lo = f / (m + 1); log(m) = 2 atanh(s + s_lo)
  const auto back = two_product(s, den.hi);
  const V s_lo = (((f - back.hi) - back.lo) - s * den.lo) / den.hi;
  const auto z = two_product(s, s);
  const V z_lo = fma(s + s, s_lo, z.lo);
  V q;  // (atanh(s) / s - 1 - z / 3) / z²
  if constexpr (is_float<V>) {
    q = poly(z.hi, 0.200000761485, 0.142735660534, 0.117092454517);
  } else {
    q = poly(z.hi, 0.19999999999999988712, 0.14285714285722580388, 0.11111111108762052475,
             0.090909094359120436956, 0.076922783848309378303, 0.066681606233587207448,
             0.058373710786286445878, 0.059948195686444185589);
  }
  const V third = constant<V>(0x1.555556p-2, 0x1.5555555555555p-2);
  const V third_lo = constant<V>(-0x1.555556p-27, 0x1.5555555555555p-56);
  const auto t = two_product(z.hi, third);
  const V t_lo = t.lo + fma(z.hi, third_lo, z_lo * third) + z.hi * z.hi * q;
  const auto u = fast_two_sum(t.hi, t_lo);  // z / 3 + z² q
  const auto w = two_product(s, u.hi);
  const auto a = fast_two_sum(s, w.hi);  // atanh
  const V a_lo = a.lo + (w.lo + fma(s, u.lo, fma(s_lo, u.hi, s_lo)));
  const V e_hi = split.e * constant<V>(0x1.62ep-1, 0x1.62e42ffp-1);  // exact
  const auto e_lo = two_product(split.e, constant<V>(0x1.0bfbe8p-15, -0x1.718432a1b0e26p-35));
  const V e_tail = split.e * constant<V>(0x1.cf79acp-40, -0x1.9ff0342542fc3p-90);
  const auto sum = two_sum(e_hi, a.hi + a.hi);
  const auto sum2 = two_sum(sum.hi, e_lo.hi);
  const V low = sum.lo + sum2.lo + (e_lo.lo + e_tail) + (a_lo + a_lo);
  return fast_two_sum(sum2.hi, low);
}

}  // namespace detail

template <Real V> [[gnu::always_inline]] inline V pow(V x, V y) {
  const V a = abs(x);
  // any greater exponent overflows or underflows too, whatever the base except 1
  const V limit = detail::constant<V>(0x1p40, 0x1p70);
  const V yc = max(-limit, min(limit, y));
  const auto l = detail::log_pair(a);
  const auto p = detail::two_product(l.hi, yc);
  V r = detail::exp_pair(p.hi, fma(l.lo, yc, p.lo));
  // beyond the range the low part may be NaN or too great to matter
  const V bound = detail::constant<V>(200.0, 1500.0);
  r = select(p.hi > bound, detail::infinity<V>(), select(p.hi < -bound, V(0), r));
  const V inf = detail::infinity<V>();
  // 0 and infinity stay for y > 0 and change places for y < 0
  r = select(a == V(0), select(y < V(0), inf, V(0)), r);
  r = select(a == inf, select(y < V(0), V(0), inf), r);
  // the sign and the domain of negative bases
  const V half_y = y * V(0.5);
  const auto integer = trunc(y) == y;
  const auto odd = integer & (trunc(half_y) != half_y);
  const auto negative = copysign(V(1), x) < V(0);
  r = select(negative & odd, -r, r);
  r = select((x < V(0)) & !integer & (a != inf), detail::nan<V>(), r);
  r = select((x != x) | (y != y), x + y, r);
  return select((x == V(1)) | (y == V(0)) | ((x == V(-1)) & (abs(y) == inf)), V(1), r);
}

}  // namespace pellucid::kernels
