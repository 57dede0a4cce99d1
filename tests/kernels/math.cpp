// Accuracy of the generic maths on every ISA level that the machine has, against std:: in long
// double.
#include "kernels/math.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/pointwise_loops.h"

using namespace pellucid;
using namespace pellucid::kernels;

namespace {

using Real80 = long double;

/// Distance in units of the last place of T at `want`; infinite for a wrong kind of result.
template <class T> double ulps(T got, Real80 want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  if (got == rounded) return 0;  // also equal infinities
  int e;
  std::frexp(std::isinf(rounded) ? std::numeric_limits<T>::max() : rounded, &e);
  const int least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  const Real80 ulp = std::ldexp(Real80(1), std::max(e - std::numeric_limits<T>::digits, least));
  if (std::isinf(got)) return want > std::numeric_limits<T>::max() * Real80(0.9999) ? 1 : INFINITY;
  return static_cast<double>(std::fabs(Real80(got) - want) / ulp);
}

/// Bit patterns spread over the whole type, values of ordinary size, and the special ones.
template <class T> std::vector<T> arguments() {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::vector<T> a;
  const U step = sizeof(T) == 4 ? U(64849) : U(0x000123456789abcdull);
  for (U u = 0; u < U(~step); u += step) a.push_back(std::bit_cast<T>(u));
  for (int i = -20000; i <= 20000; ++i) {
    a.push_back(static_cast<T>(i * 0.00123456789L));
    a.push_back(static_cast<T>(1 + i * 1e-6L));
    a.push_back(static_cast<T>(i * 0.05123L));
  }
  for (int k = 1; k < 400; ++k) {  // neighbours of multiples of pi/2
    const T m = static_cast<T>(k * 1.57079632679489661923L);
    for (T x : {m, std::nextafter(m, T(0)), std::nextafter(m, T(1e9))}) {
      a.push_back(x);
      a.push_back(-x);
    }
  }
  using L = std::numeric_limits<T>;
  for (T x : {T(0),
              L::denorm_min(),
              L::min(),
              std::nextafter(L::min(), T(0)),
              L::epsilon(),
              T(0.5),
              T(1),
              T(2),
              T(3),
              T(1000),
              L::max(),
              L::infinity(),
              T(88.72283),
              T(88.722839),
              T(89.0),
              T(-87.33655),
              T(-103.97),
              T(-104),
              T(709.782712893384),
              T(709.7827128933841),
              T(-708.3964185322641),
              T(-745.1332191019412),
              T(-745.2),
              T(89.4),
              T(710.4),
              T(12867),
              T(1.7e6),
              T(1e22)}) {
    a.push_back(x);
    a.push_back(-x);
  }
  a.push_back(L::quiet_NaN());
  return a;
}

template <class F, class T>
void check_unary(const std::string& name, double bound, Real80 (*oracle)(Real80)) {
  const std::vector<T> x = arguments<T>();
  std::vector<Real80> want(x.size());
  for (size_t i = 0; i < x.size(); ++i) want[i] = oracle(x[i]);
  std::vector<T> got(x.size());
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    const LoopTable& loops = pointwise_loops<F, ValueKind<1>>();
    const void* in[] = {x.data()};
    const F f{};
    (sizeof(T) == 4 ? loops.f32 : loops.f64)(&f, got.data(), in, static_cast<int64_t>(x.size()));
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = ulps(got[i], want[i]);
      if (e > worst) {
        worst = e;
        where = i;
      }
    }
    INFO(name << " " << std::string(sizeof(T) == 4 ? "float" : "double") << " at "
              << std::string(isa_name(level)) << ": " << worst
              << " ulp at x = " << static_cast<double>(x[where]) << ", got "
              << static_cast<double>(got[where]) << ", want " << static_cast<double>(want[where]));
    CHECK(worst <= bound);
  }
}

Real80 sigmoid80(Real80 x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
Real80 softplus80(Real80 x) {
  return std::isnan(x) ? x : std::fmax(x, Real80(0)) + std::log1p(std::exp(-std::fabs(x)));
}

#define UNARY(Name, expression)                                  \
  struct Name {                                                  \
    template <class V> V value(V x) const { return expression; } \
  }
UNARY(Exp, exp(x));
UNARY(Exp2, exp2(x));
UNARY(Expm1, expm1(x));
UNARY(Log, log(x));
UNARY(Log2, log2(x));
UNARY(Log10, log10(x));
UNARY(Log1p, log1p(x));
UNARY(Sin, sin(x));
UNARY(Cos, cos(x));
UNARY(Tan, tan(x));
UNARY(Asin, asin(x));
UNARY(Acos, acos(x));
UNARY(Atan, atan(x));
UNARY(Sinh, sinh(x));
UNARY(Cosh, cosh(x));
UNARY(Tanh, tanh(x));
UNARY(Erf, erf(x));
UNARY(Erfc, erfc(x));
UNARY(Sigmoid, sigmoid(x));
UNARY(Softplus, softplus(x));
UNARY(Sqrt, sqrt(x));
UNARY(Rsqrt, rsqrt(x));
UNARY(Reciprocal, reciprocal(x));
UNARY(Floor, floor(x));
UNARY(Ceil, ceil(x));
UNARY(Trunc, trunc(x));
UNARY(Round, round(x));
#define ACCURATE(Name, bound, ...)                        \
  do {                                                    \
    check_unary<Name, float>(#Name, bound, __VA_ARGS__);  \
    check_unary<Name, double>(#Name, bound, __VA_ARGS__); \
  } while (false)

TEST_CASE("maths: exponentials are within 2 ulp on every ISA") {
  ACCURATE(Exp, 2, [](Real80 x) { return std::exp(x); });
  ACCURATE(Exp2, 2, [](Real80 x) { return std::exp2(x); });
  ACCURATE(Expm1, 3, [](Real80 x) { return std::expm1(x); });
  ACCURATE(Sinh, 3, [](Real80 x) { return std::sinh(x); });
  ACCURATE(Cosh, 3, [](Real80 x) { return std::cosh(x); });
  ACCURATE(Tanh, 3, [](Real80 x) { return std::tanh(x); });
  ACCURATE(Sigmoid, 3, sigmoid80);
}

TEST_CASE("maths: logarithms are within 2 ulp on every ISA") {
  ACCURATE(Log, 2, [](Real80 x) { return std::log(x); });
  ACCURATE(Log2, 3, [](Real80 x) { return std::log2(x); });
  ACCURATE(Log10, 3, [](Real80 x) { return std::log10(x); });
  ACCURATE(Log1p, 2, [](Real80 x) { return std::log1p(x); });
  ACCURATE(Softplus, 3, softplus80);
}

TEST_CASE(
    "maths: trigonometry is within 3 ulp on every ISA, also beyond the range of the polynomials") {
  ACCURATE(Sin, 2, [](Real80 x) { return std::sin(x); });
  ACCURATE(Cos, 2, [](Real80 x) { return std::cos(x); });
  ACCURATE(Tan, 3, [](Real80 x) { return std::tan(x); });
  ACCURATE(Asin, 3, [](Real80 x) { return std::asin(x); });
  ACCURATE(Acos, 3, [](Real80 x) { return std::acos(x); });
  ACCURATE(Atan, 2, [](Real80 x) { return std::atan(x); });
}

// A formula of formulas: no NaN of a part may be taken for one of the whole.
UNARY(Chain, sin(x) + cos(x) * V(0.5) + fmod(x, V(3)));

TEST_CASE("maths: formulas that are composed are right for every argument") {
  const auto chain = [](Real80 x) {
    return std::sin(x) + std::cos(x) / 2 + std::fmod(x, Real80(3));
  };
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    const double x[] = {0.5, -3, 1e3, 1e5, 2e6, -1e7, 1e15, 1e300, -1e308, 5e-324};
    double got[10];
    const void* in[] = {x};
    const Chain f{};
    pointwise_loops<Chain, ValueKind<1>>().f64(&f, got, in, 10);
    for (int i = 0; i < 10; ++i)
      CHECK(got[i] == doctest::Approx(static_cast<double>(chain(x[i]))).epsilon(1e-14));
    const double none[] = {INFINITY, -INFINITY, NAN};
    const void* no[] = {none};
    pointwise_loops<Chain, ValueKind<1>>().f64(&f, got, no, 3);
    for (int i = 0; i < 3; ++i) CHECK(std::isnan(got[i]));
  }
}

TEST_CASE("maths: erf, roots and rounding") {
  ACCURATE(Erf, 3, [](Real80 x) { return std::erf(x); });
  ACCURATE(Erfc, 4, [](Real80 x) { return std::erfc(x); });
  ACCURATE(Sqrt, 0.501, [](Real80 x) { return std::sqrt(x); });
  ACCURATE(Rsqrt, 1.5, [](Real80 x) { return 1 / std::sqrt(x); });
  ACCURATE(Reciprocal, 0.501, [](Real80 x) { return 1 / x; });
  ACCURATE(Floor, 0, [](Real80 x) { return std::floor(x); });
  ACCURATE(Ceil, 0, [](Real80 x) { return std::ceil(x); });
  ACCURATE(Trunc, 0, [](Real80 x) { return std::trunc(x); });
  ACCURATE(Round, 0, [](Real80 x) { return std::nearbyint(x); });
}

#define BINARY(Name, expression)                                      \
  struct Name {                                                       \
    template <class V> V value(V x, V y) const { return expression; } \
  }
BINARY(Pow, pow(x, y));
BINARY(Atan2, atan2(x, y));
BINARY(Hypot, hypot(x, y));
BINARY(Fmod, fmod(x, y));
BINARY(Remainder, remainder(x, y));
BINARY(FloorDiv, floor_div(x, y));

/// Every pair of special values, and random pairs of ordinary and extreme size.
template <class T> void pairs(std::vector<T>& a, std::vector<T>& b) {
  using L = std::numeric_limits<T>;
  std::vector<T> special;
  for (T x : {T(0), L::denorm_min(), L::min(), L::epsilon(), T(0.5), T(1), T(1.5), T(2), T(3),
              T(10), T(33), T(1e10), T(1e30), L::max(), L::infinity(), T(16777215),
              T(9007199254740991.0), std::nextafter(T(1), T(2)), std::nextafter(T(1), T(0))}) {
    special.push_back(x);
    special.push_back(-x);
  }
  special.push_back(L::quiet_NaN());
  for (T x : special)
    for (T y : special) {
      a.push_back(x);
      b.push_back(y);
    }
  uint64_t state = 88172645463325252ull;
  const auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  };
  for (int i = 0; i < 60000; ++i) {
    const double kind = next();
    if (kind < 0.4) {
      a.push_back(T(next() * 20 - 10));
      b.push_back(T(next() * 20 - 10));
    } else if (kind < 0.7) {
      a.push_back(T(std::exp2(next() * 200 - 100)));
      b.push_back(T(next() * 4 - 2));
    } else if (kind < 0.8) {
      a.push_back(T(1 + (next() - 0.5) * 1e-3));
      b.push_back(T((next() - 0.5) * 1e5));
    } else {
      a.push_back(T(std::exp2(next() * 250 - 125)));
      b.push_back(T(std::exp2(next() * 250 - 125)));
    }
  }
}

template <class F, class T>
void check_binary(const std::string& name, double bound, Real80 (*oracle)(Real80, Real80)) {
  std::vector<T> x, y;
  pairs(x, y);
  std::vector<T> got(x.size());
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    const LoopTable& loops = pointwise_loops<F, ValueKind<2>>();
    const void* in[] = {x.data(), y.data()};
    const F f{};
    (sizeof(T) == 4 ? loops.f32 : loops.f64)(&f, got.data(), in, static_cast<int64_t>(x.size()));
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = ulps(got[i], oracle(x[i], y[i]));
      if (e > worst) {
        worst = e;
        where = i;
      }
    }
    INFO(name << " " << std::string(sizeof(T) == 4 ? "float" : "double") << " at "
              << std::string(isa_name(level)) << ": " << worst << " ulp at "
              << static_cast<double>(x[where]) << ", " << static_cast<double>(y[where]) << ", got "
              << static_cast<double>(got[where]) << ", want "
              << static_cast<double>(oracle(x[where], y[where])));
    CHECK(worst <= bound);
  }
}
#define ACCURATE2(Name, bound, ...)                        \
  do {                                                     \
    check_binary<Name, float>(#Name, bound, __VA_ARGS__);  \
    check_binary<Name, double>(#Name, bound, __VA_ARGS__); \
  } while (false)

TEST_CASE("maths: functions of two arguments") {
  ACCURATE2(Pow, 4, [](Real80 x, Real80 y) { return std::pow(x, y); });
  ACCURATE2(Atan2, 3, [](Real80 x, Real80 y) { return std::atan2(x, y); });
  ACCURATE2(Hypot, 2, [](Real80 x, Real80 y) { return std::hypot(x, y); });
  ACCURATE2(Fmod, 0, [](Real80 x, Real80 y) { return std::fmod(x, y); });
}

TEST_CASE("maths: remainder and floor_div follow Python, as PyTorch does") {
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    const float a[] = {7, -7, 7, -7, 5.5f, -5.5f, 1e10f, 0, -0.0f, 3},
                b[] = {3, 3, -3, -3, 2, 2, 3, 5, 5, INFINITY};
    const float rem[] = {1, 2, -2, -1, 1.5f, 0.5f, 1, 0, 0, 3},
                div[] = {2, -3, -3, 2, 2, -3, 3333333333.f, 0, 0, 0};
    const void* in[] = {a, b};
    float got[10];
    pointwise_loops<Remainder, ValueKind<2>, AllTypes>().f32(&level, got, in, 10);
    for (int i = 0; i < 10; ++i) CHECK(got[i] == rem[i]);
    pointwise_loops<FloorDiv, ValueKind<2>, AllTypes>().f32(&level, got, in, 10);
    for (int i = 0; i < 10; ++i) CHECK(got[i] == div[i]);
    const int32_t m = INT32_MIN, ia[] = {7, -7, 7, -7, m, m, 5, m},
                  ib[] = {3, 3, -3, -3, -1, 1, 0, 2};
    const int32_t irem[] = {1, 2, -2, -1, 0, 0, 0, 0}, idiv[] = {2, -3, -3, 2, m, m, 0, m / 2};
    const void* iin[] = {ia, ib};
    int32_t igot[8];
    pointwise_loops<Remainder, ValueKind<2>, AllTypes>().i32(&level, igot, iin, 8);
    for (int i = 0; i < 8; ++i) CHECK(igot[i] == irem[i]);
    pointwise_loops<FloorDiv, ValueKind<2>, AllTypes>().i32(&level, igot, iin, 8);
    for (int i = 0; i < 8; ++i) CHECK(igot[i] == idiv[i]);
  }
}

TEST_CASE("maths: exact cases stay exact") {
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    for (int k = -40; k <= 38; ++k) {
      const double x = std::pow(10.0L, k), two = std::ldexp(1.0, k);
      const float xf = static_cast<float>(std::pow(10.0L, k));
      double r;
      float rf;
      const void* in[] = {&x};
      const void* inf[] = {&xf};
      pointwise_loops<Log10, ValueKind<1>>().f64(&x, &r, in, 1);
      CHECK(r == k);
      if (k >= 0) {
        pointwise_loops<Log10, ValueKind<1>>().f32(&x, &rf, inf, 1);
        CHECK(rf == static_cast<float>(k));
      }
      const void* in2[] = {&two};
      pointwise_loops<Log2, ValueKind<1>>().f64(&x, &r, in2, 1);
      CHECK(r == k);
      const double exponent = k;
      const void* in3[] = {&exponent};
      pointwise_loops<Exp2, ValueKind<1>>().f64(&x, &r, in3, 1);
      CHECK(r == two);
    }
  }
}

}  // namespace
