// Formulas that say which arguments are ordinary: blocks of those run without the care for special
// values, and an element's bits do not depend on which loop its neighbours made it take.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "kernels/math.h"
#include "kernels/pointwise_loops.h"

using namespace pellucid;
using namespace pellucid::kernels;

namespace {

#define FORMULA(Name, function, test, libm)                          \
  struct Name {                                                      \
    template <class V> V value(V x) const { return function(x); }    \
  };                                                                 \
  struct Name##Ordinary : Name {                                     \
    static constexpr bool kUsesLibm = libm;                          \
    template <class V> static auto ordinary(V x) { return test(x); } \
  };
#define FORMULA_OF_TWO(Name, function, test)                                 \
  struct Name {                                                              \
    template <class V> V value(V x, V y) const { return function(x, y); }    \
  };                                                                         \
  struct Name##Ordinary : Name {                                             \
    static constexpr bool kUsesLibm = true;                                  \
    template <class V> static auto ordinary(V x, V y) { return test(x, y); } \
  };
struct Cdf {
  template <class V> V value(V x) const { return normal_cdf(x); }
};
FORMULA(Exp, exp, exp_ordinary, false)
FORMULA(Exp2, exp2, exp2_ordinary, false)
FORMULA(Log, log, log_ordinary, false)
FORMULA(Log2, log2, log_ordinary, false)
FORMULA(Log10, log10, log_ordinary, false)
FORMULA(Log1p, log1p, log1p_ordinary, false)
FORMULA(Sin, sin, trig_ordinary, true)
FORMULA(Cos, cos, trig_ordinary, true)
FORMULA(Tan, tan, trig_ordinary, true)
FORMULA_OF_TWO(Fmod, fmod, fmod_ordinary)
FORMULA_OF_TWO(Remainder, remainder, fmod_ordinary)
FORMULA_OF_TWO(FloorDiv, floor_div, fmod_ordinary)

template <class F, class T> std::vector<T> run(const std::vector<T>& x, bool in_place) {
  std::vector<T> out = in_place ? x : std::vector<T>(x.size());
  const LoopTable& loops = pointwise_loops<F, ValueKind<1>>();
  const void* in[] = {in_place ? out.data() : x.data()};
  const F f{};
  (sizeof(T) == 4 ? loops.f32 : loops.f64)(&f, out.data(), in, static_cast<int64_t>(x.size()));
  return out;
}

template <class F, class T>
std::vector<T> run(const std::vector<T>& x, const std::vector<T>& y, int in_place) {
  std::vector<T> a = x, b = y, out(x.size());
  std::vector<T>& to = in_place == 0 ? a : in_place == 1 ? b : out;
  const LoopTable& loops = pointwise_loops<F, ValueKind<2>>();
  const void* in[] = {a.data(), b.data()};
  const F f{};
  (sizeof(T) == 4 ? loops.f32 : loops.f64)(&f, to.data(), in, static_cast<int64_t>(x.size()));
  return to;
}

template <class T> void check_same(const std::vector<T>& got, const std::vector<T>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (want[i] != want[i])
      REQUIRE(got[i] != got[i]);
    else
      REQUIRE(std::memcmp(&got[i], &want[i], sizeof(T)) == 0);
  }
}

/// Values of an interval; `special` ones among them, or none.
template <class T> std::vector<T> arguments(double low, double high, bool special) {
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<T> x(2500);
  for (T& v : x) v = static_cast<T>(draw(generator));
  if (!special) return x;
  using Limits = std::numeric_limits<T>;
  const T values[] = {0,
                      T(-0.0),
                      Limits::infinity(),
                      -Limits::infinity(),
                      Limits::quiet_NaN(),
                      -1,
                      Limits::denorm_min(),
                      Limits::max(),
                      Limits::lowest(),
                      T(1e5)};
  for (size_t i = 0; i < std::size(values); ++i) x[700 + 7 * i] = values[i];
  return x;
}

template <class F, class Ordinary> void check_formula(double low, double high) {
  for (const Isa level : available_isas()) {
    const IsaGuard guard(level);
    for (const bool special : {false, true})
      for (const bool in_place : {false, true}) {
        const auto narrow = arguments<float>(low, high, special);
        check_same(run<Ordinary>(narrow, in_place), run<F>(narrow, false));
        const auto wide = arguments<double>(low, high, special);
        check_same(run<Ordinary>(wide, in_place), run<F>(wide, false));
      }
  }
}

template <class F, class Ordinary, class T> void check_of_two(bool special) {
  const std::vector<T> x = arguments<T>(-1e4, 1e4, special);
  std::vector<T> y = arguments<T>(-20, 20, special);
  if (special) std::rotate(y.begin(), y.begin() + 7, y.end());  // pairs of special values
  for (const Isa level : available_isas()) {
    const IsaGuard guard(level);
    for (const int in_place : {-1, 0, 1})
      check_same(run<Ordinary>(x, y, in_place), run<F>(x, y, -1));
  }
}

template <class F, class Ordinary> void check_formula_of_two() {
  for (const bool special : {false, true}) {
    check_of_two<F, Ordinary, float>(special);
    check_of_two<F, Ordinary, double>(special);
  }
}

}  // namespace

TEST_CASE("ordinary blocks give the bits of the usual loop, with special values beside them") {
  check_formula<Exp, ExpOrdinary>(-87, 87);
  check_formula<Exp, ExpOrdinary>(-120, 120);
  check_formula<Exp2, Exp2Ordinary>(-125, 125);
  check_formula<Log, LogOrdinary>(1e-6, 10);
  check_formula<Log2, Log2Ordinary>(1e-6, 10);
  check_formula<Log10, Log10Ordinary>(1e-6, 10);
  check_formula<Log1p, Log1pOrdinary>(-0.99, 10);
  check_formula<Log1p, Log1pOrdinary>(-1e-7, 1e-7);
  check_formula<Sin, SinOrdinary>(-50, 50);
  check_formula<Cos, CosOrdinary>(-20000, 20000);
  check_formula<Tan, TanOrdinary>(-50, 50);
  check_formula_of_two<Fmod, FmodOrdinary>();
  check_formula_of_two<Remainder, RemainderOrdinary>();
  check_formula_of_two<FloorDiv, FloorDivOrdinary>();
}

TEST_CASE("normal_cdf: to the rounding of 1 in float, exact at the ends") {
  std::vector<float> x;
  for (int i = -6500; i <= 6500; ++i) x.push_back(static_cast<float>(i) / 1000);
  for (const Isa level : available_isas()) {
    const IsaGuard guard(level);
    const auto got = run<Cdf>(x, false);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = 0.5 * std::erfc(-static_cast<double>(x[i]) * std::sqrt(0.5));
      REQUIRE(std::fabs(got[i] - want) < 1.2e-7);
    }
    const float infinity = std::numeric_limits<float>::infinity();
    const auto ends = run<Cdf>(std::vector<float>{-infinity, -40, 0, 40, infinity, NAN}, false);
    CHECK(ends[0] == 0);
    CHECK(ends[1] == 0);
    CHECK(std::fabs(ends[2] - 0.5f) < 1e-7f);
    CHECK(ends[3] == 1);
    CHECK(ends[4] == 1);
    CHECK(ends[5] != ends[5]);
  }
}
