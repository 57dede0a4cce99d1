// The maths of formulas, written once over a value type V (see math_core.h): exp, log,
// trigonometry, erf, hypot, fmod… as branch-free polynomials that a compiler vectorises. Each keeps
// within 4 units in the last place and gives C's results for infinities, NaN, denormals and signed
// zeros. It has no loops and no dispatch: those are in pointwise_loops.h.
#pragma once

#include "kernels/math_core.h"
#include "kernels/math_exp.h"
#include "kernels/math_log.h"
#include "kernels/math_trig.h"

namespace pellucid::kernels {

template <Real V> [[gnu::always_inline]] inline V reciprocal(V x) { return V(1) / x; }
template <Real V> [[gnu::always_inline]] inline V rsqrt(V x) { return V(1) / sqrt(x); }
template <class V> [[gnu::always_inline]] inline V square(V x) { return x * x; }

template <Real V> [[gnu::always_inline]] inline auto isnan(V x) { return x != x; }
template <Real V> [[gnu::always_inline]] inline auto isinf(V x) {
  return abs(x) == detail::infinity<V>();
}
template <Real V> [[gnu::always_inline]] inline auto isfinite(V x) {
  return abs(x) < detail::infinity<V>();
}

/// sqrt(x² + y²) without needless overflow; infinity wins over NaN.
template <Real V> [[gnu::always_inline]] inline V hypot(V x, V y) {
  const V ax = abs(x), ay = abs(y);
  const V hi = max(ax, ay), lo = min(ax, ay);
  const V q = select(hi == V(0), V(0), lo / hi);
  V r = hi * sqrt(fma(q, q, V(1)));
  r = select((x != x) | (y != y), x + y, r);
  const V inf = detail::infinity<V>();
  return select((ax == inf) | (ay == inf), inf, r);
}

namespace detail {

/// erf(x) for |x| <= 1, as x + x * (fit of erf(x) / x - 1 over x²).
template <class V> [[gnu::always_inline]] inline V erf_near(V x) {
  const V z = x * x;
  V q;
  if constexpr (is_float<V>) {
    q = poly(z, 0.128379165907, -0.376126271126, 0.112836000703, -0.0268544446899, 0.00518954176354,
             -0.000802093928638, 7.88955086506e-5);
  } else {
    q = poly(z, 0.12837916709551256675, -0.37612638903183546554, 0.11283791670945250686,
             -0.026866170643275865585, 0.0052239776074209468809, -0.0008548325989591220612,
             0.00012055295317731082227, -0.000014924744616757758508, 1.6447517172569232262e-6,
             -1.620917250335686461e-7, 1.3722963263063040391e-8, -7.8011674459256111032e-10);
  }
  return fma(x, q, x);
}

}  // namespace detail

template <Real V> [[gnu::always_inline]] inline V erf(V x) {
  const V a = abs(x);
  V exponent;  // -log(1 - erf(a)) on a >= 1, up to where erf rounds to 1
  if constexpr (detail::is_float<V>) {
    exponent = detail::poly(min(V(4), a), 0.000321021679593, 1.12716936792, 0.638016912459,
                            0.103213227415, -0.021886786339, 0.00295927288344, -0.000187505436744);
  } else {
    exponent = detail::poly(
        min(V(6), a), 1.6485636141351035814e-7, 1.1283774732281807294, 0.63662783457124885512,
        0.10274909377312590738, -0.019081750990571636395, -0.00027531756879831236413,
        0.0017633236742689279553, -0.00063630917573865887287, 0.000041526693481677760288,
        0.000072146253322221035213, -0.000045804846424480781467, 0.000016777644255893309037,
        -4.3986997522524058964e-6, 8.6576456550574540124e-7, -1.2816178466174616032e-7,
        1.3919242486638036131e-8, -1.0498502006886217352e-9, 4.9193782750058873736e-11,
        -1.0789557967660012682e-12);
  }
  const V far = -detail::expm1_small(-exponent);
  return copysign(select(a < V(1), detail::erf_near(a), far), x);
}

/// The share of the normal distribution below x. In float accurate to the rounding of 1, which is
/// what gelu needs and takes half the work of erf; 0 and 1 where that rounding leaves nothing.
template <Real V> [[gnu::always_inline]] inline V normal_cdf(V x) {
  if constexpr (!detail::is_float<V>) {
    return V(0.5) * (V(1) + erf(x * V(0.70710678118654752440)));
  } else {
    const V last(5.75), a = min(last, abs(x)), magic(detail::kMagic<V>);
    // -log2 of the tail beyond a, on [0, 5.75], weighted by that tail
    const V p = detail::poly(a, 0.999999978282, 1.15110572353, 0.459204907227, 0.0525050287749,
                             -0.00707547185277, 0.000145870155319, 0.000182547615375,
                             -3.86207559745e-05, 2.77205049382e-06);
    const V shifted = magic - p, f = (magic - shifted) - p;
    const V power = detail::poly(f, 0.999999999919, 0.69314720671, 0.240226515049, 0.0555032721576,
                                 0.0096179945313, 0.00134004316694, 0.000154780177027);  // 2^f
    const V tail = select(abs(x) > last, V(0), power * detail::pow2_shifted(shifted));
    return select(x < V(0), tail, V(1) - tail);
  }
}

/// 1 - erf(x), with its relative accuracy kept where that is tiny.
template <Real V> [[gnu::always_inline]] inline V erfc(V x) {
  const V a = min(detail::constant<V>(10.2, 27.3), abs(x));  // beyond, the result is 0
  const V sum = a + V(3.75), line = fma(a, V(2), V(1));
  const V inverse = V(1) / (sum * line);  // one division for t and for 1 / (1 + 2 a)
  const V t = (a - V(3.75)) * (line * inverse);
  V q;  // exp(a²) erfc(a) (1 + 2 a), a smooth function of t
  if constexpr (detail::is_float<V>) {
    q = detail::poly(t, 1.23751263068, -0.140240582543, 0.0035854419553, 0.0822759793692,
                     -0.108804990455, 0.0923139515986, -0.0586777185321, 0.0283188249436,
                     -0.00983820864193, 0.0018018525854, 0.000483839983703, -0.000209031924745);
  } else {
    q = detail::poly(t, 1.2375126308378275848, -0.14024059858554669117, 0.0035854154854626534512,
                     0.08227673849011270555, -0.10880393014165360434, 0.092304321161530212335,
                     -0.058693398591502292251, 0.028362277400086896936, -0.0097465795411226845501,
                     0.0017556260239516522056, 0.00029371359358473978752,
                     -0.00029015502041143053235, 0.000051649172236589634383,
                     0.000022387506830524346052, -0.000011443545379006867902,
                     -9.8082083404928124253e-7, 1.7487866670015837087e-6, -4.7140958380372146035e-8,
                     -2.5295286691833259797e-7, 1.5135614465646961855e-8, 3.2774087392206542387e-8,
                     -5.7243228167039639624e-10, -2.2993978438493104279e-9);
  }
  const auto square = detail::two_product(a, a);
  const auto e = detail::reduce_exp(-square.hi);
  const V power = detail::scale_down(V(1) + detail::expm1_poly(e.r - square.lo), e.shifted);
  V share;  // 1 / (1 + 2 a)
  if constexpr (V::kFma) {
    const V guess = sum * inverse;
    share = fma(guess, fma(-line, guess, V(1)), guess);
  } else {
    share = V(1) / line;
  }
  const V r = power * (q * share);
  const V far = select(x < V(0), V(2) - r, r);
  return select(abs(x) < V(0.5), V(1) - detail::erf_near(x), far);
}

/// Where fmod, remainder and floor_div answer without libm: the quotient needs one step, and
/// two_product neither over- nor underflows.
template <Real V> [[gnu::always_inline]] inline auto fmod_ordinary(V x, V y) {
  const V ax = abs(x), ay = abs(y), q = trunc(ax / ay);
  const V range = detail::constant<V>(0x1p22, 0x1p51);
  const V least = detail::constant<V>(0x1p-100, 0x1p-900),
          most = detail::constant<V>(0x1p100, 0x1p900);
  return (ax < ay) | ((q < range) & (ay > least) & (ax < most));
}

/// C's fmod: exact, with the sign of x.
template <Real V> [[gnu::always_inline]] inline V fmod(V x, V y) {
  const V ax = abs(x), ay = abs(y);
  const V q = trunc(ax / ay);
  const auto p = detail::two_product(q, ay);
  V r = (ax - p.hi) - p.lo;
  r = select(r < V(0), r + ay, r);  // the quotient was rounded up
  r = select(r >= ay, r - ay, r);
  r = select(ax < ay, ax, r);  // also for y infinite and for quotients that underflow
  return detail::or_libm(fmod_ordinary(x, y), copysign(r, x),
                         [x, y] { return V(std::fmod(x.v, y.v)); });
}

namespace detail {
/// Whether m is not 0 and has the other sign than y; asked by one comparison, because g++ cannot
/// vectorise an exclusive or of two.
template <class V> [[gnu::always_inline]] inline auto signs_differ(V m, V y) {
  return m * copysign(V(1), y) < V(0);
}
}  // namespace detail

/// Python's %, as PyTorch's remainder: the sign of y.
template <Real V> [[gnu::always_inline]] inline V remainder(V x, V y) {
  const V m = fmod(x, y);
  return select(detail::signs_differ(m, y), m + y, m);
}

/// The quotient rounded down, consistent with remainder; x / 0 as in division.
template <Real V> [[gnu::always_inline]] inline V floor_div(V x, V y) {
  const V m = fmod(x, y);
  V q = (x - m) / y;
  q = select(detail::signs_differ(m, y), q - V(1), q);
  const V f = floor(q);
  const V r = select(q - f > V(0.5), f + V(1), f);
  return select(y == V(0), x / y, select(q == V(0), copysign(V(0), x / y), r));
}

/// The integer forms of the three.
template <class V>
requires std::is_integral_v<typename V::Scalar>
[[gnu::always_inline]] inline V fmod(V x, V y) { return x % y; }
template <class V>
requires std::is_integral_v<typename V::Scalar>
[[gnu::always_inline]] inline V remainder(V x, V y) {
  const V m = x % y;
  return select((m != V(0)) & ((m < V(0)) ^ (y < V(0))), m + y, m);
}
template <class V>
requires std::is_integral_v<typename V::Scalar>
[[gnu::always_inline]] inline V floor_div(V x, V y) {
  const V q = x / y, m = x % y;
  return select((m != V(0)) & ((m < V(0)) ^ (y < V(0))), q - V(1), q);
}

}  // namespace pellucid::kernels
