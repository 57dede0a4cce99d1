// Values and gradients of pointwise ops at infinities, NaN, signed zeros and kinks. The tables are
// PyTorch 2.13's.
#include <doctest/doctest.h>

#include <cmath>

#include "derived/support.h"
#include "ops/values.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using pellucid::test::values;

TEST_SUITE_BEGIN("pointwise");

namespace {

using Doubles = std::vector<double>;

struct Case {
  const char* op;
  std::vector<Value> attributes;
  Doubles x, y, gradient;
};

/// Equal to 1e-7 relative, NaN with NaN, and the sign of zeros too.
bool agree(const Doubles& got, const Doubles& wanted) {
  if (got.size() != wanted.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    if (got[i] == wanted[i] && std::signbit(got[i]) == std::signbit(wanted[i])) continue;
    if (!(std::fabs(got[i] - wanted[i]) <= 1e-7 * std::fabs(wanted[i])) || wanted[i] == 0)
      return false;
  }
  return true;
}

Tensor leaf(const Doubles& v) { return tensor(v, TensorOptions(kFloat64)).requires_grad_(); }

std::string text(const Doubles& v) {
  std::string s;
  for (double d : v) s += fmt::format("{} ", d);
  return s;
}

// Zeros of gradients compare without their sign: PyTorch's own depends on the order of factors.
Doubles unsigned_zeros(Doubles v) {
  for (double& d : v) d = d == 0 ? 0.0 : d;
  return v;
}

void check(const Case& c) {
  for (const DType t : {kFloat64, kFloat32}) {
    const Tensor x = leaf(c.x);
    std::vector<Value> args = {x.to(t)};
    args.insert(args.end(), c.attributes.begin(), c.attributes.end());
    const Tensor y = invoke(c.op, args)[0].tensor();
    const Doubles got = values(y);
    y.sum().backward();
    const Doubles gradient = values(x.grad());
    INFO(c.op, " ", name_of(t), " of ", text(c.x), ": ", text(got), ", gradient ", text(gradient),
         ", wanted ", text(c.y), " and ", text(c.gradient));
    CHECK(agree(t == kFloat64 ? got : values(y.to(kFloat64)), c.y));
    CHECK(agree(unsigned_zeros(gradient), unsigned_zeros(c.gradient)));
  }
}

const Doubles kSpecial = {-kInf, -0.0, 0.0, kInf, kNan};

}  // namespace

TEST_CASE("unary values and gradients at special points") {
  const std::vector<Case> cases = {
      {"abs", {}, kSpecial, {kInf, 0, 0, kInf, kNan}, {-1, 0, 0, 1, 0}},
      {"relu", {}, kSpecial, {0, -0.0, 0, kInf, kNan}, {0, 0, 0, 1, 1}},
      {"sigmoid", {}, kSpecial, {0, 0.5, 0.5, 1, kNan}, {0, 0.25, 0.25, 0, kNan}},
      {"tanh", {}, kSpecial, {-1, -0.0, 0, 1, kNan}, {0, 1, 1, 0, kNan}},
      {"exp", {}, kSpecial, {0, 1, 1, kInf, kNan}, {0, 1, 1, kInf, kNan}},
      {"log", {}, kSpecial, {kNan, -kInf, -kInf, kInf, kNan}, {0, -kInf, kInf, 0, kNan}},
      {"sqrt", {}, kSpecial, {kNan, -0.0, 0, kInf, kNan}, {kNan, -kInf, kInf, 0, kNan}},
      {"rsqrt", {}, kSpecial, {kNan, -kInf, kInf, 0, kNan}, {kNan, kInf, -kInf, 0, kNan}},
      {"sign", {}, kSpecial, {-1, 0, 0, 1, 0}, {0, 0, 0, 0, 0}},
      {"square", {}, kSpecial, {kInf, 0, 0, kInf, kNan}, {-kInf, 0, 0, kInf, kNan}},
      {"reciprocal", {}, kSpecial, {-0.0, -kInf, kInf, 0, kNan}, {0, -kInf, -kInf, 0, kNan}},
      {"logsigmoid", {}, {-kInf, kInf, kNan}, {-kInf, -0.0, kNan}, {1, 0, kNan}},
      {"softsign", {}, kSpecial, {kNan, -0.0, 0, kNan, kNan}, {kNan, 1, 1, kNan, kNan}},
      {"tanhshrink", {}, kSpecial, {-kInf, 0, 0, kInf, kNan}, {1, 0, 0, 1, kNan}},
      {"silu", {}, kSpecial, {kNan, -0.0, 0, kInf, kNan}, {kNan, 0.5, 0.5, kNan, kNan}},
      {"mish", {}, kSpecial, {kNan, -0.0, 0, kInf, kNan}, {kNan, 0.6, 0.6, kNan, kNan}},
      {"gelu", {}, kSpecial, {kNan, -0.0, 0, kInf, kNan}, {kNan, 0.5, 0.5, kNan, kNan}},
      {"elu", {}, kSpecial, {-1, -0.0, 0, kInf, kNan}, {0, 1, 1, 1, 1}},
      {"selu",
       {},
       {-kInf, 0.0, kNan},
       {-1.7580993408473766, 0, kNan},
       {0, 1.7580993408473766, 1.0507009873554805}},
      {"leaky_relu", {}, kSpecial, {-kInf, -0.0, 0, kInf, kNan}, {0.01, 0.01, 0.01, 1, 0.01}},
      {"softplus",
       {},
       kSpecial,
       {0, 0.6931471805599453, 0.6931471805599453, kInf, kNan},
       {0, 0.5, 0.5, 1, kNan}},
      {"hardtanh", {}, {-1, 1, kNan, -kInf, kInf}, {-1, 1, kNan, -1, 1}, {0, 0, 1, 0, 0}},
      {"relu6", {}, {0, 6, kNan}, {0, 6, kNan}, {0, 0, 1}},
      {"hardsigmoid", {}, {-3, 3, -kInf, 0, kNan}, {0, 1, 0, 0.5, kNan}, {0, 0, 0, 1.0 / 6, 0}},
      {"hardswish", {}, {-3, 3, -kInf, kInf, kNan}, {-0.0, 3, kNan, kInf, kNan}, {0, 1, 0, 1, 1}},
      {"hardshrink", {}, {-0.5, 0.5, kNan}, {0, 0, kNan}, {0, 0, 1}},
      {"softshrink", {}, {-0.5, 0.5, kNan}, {-0.0, 0, kNan}, {0, 0, 1}},
      {"threshold", {1, 5}, {1, kNan}, {5, kNan}, {0, 1}},
      {"clamp", {-1.0, 1.0}, {-1, 1, kNan, kInf, -kInf}, {-1, 1, kNan, 1, -1}, {1, 1, 0, 0, 0}},
      {"clamp", {-1, 1}, {-1, 1, kNan, kInf, -kInf}, {-1, 1, kNan, 1, -1}, {1, 1, 0, 0, 0}},
      {"clamp", {2.0, 1.0}, {-1, 1.5, 3}, {1, 1, 1}, {0, 0, 0}},
      {"clamp", {kNan, 1.0}, {-1, 1}, {kNan, kNan}, {0, 0}},
      {"logit", {}, {0, 1, -1, 2}, {-kInf, kInf, kNan, kNan}, {kInf, kInf, kNan, kNan}},
      {"frac", {}, kSpecial, {kNan, 0, 0, kNan, kNan}, {1, 1, 1, 1, 1}},
      {"round", {}, {0.5, 1.5, -0.5, 2.5, kNan}, {0, 2, -0.0, 2, kNan}, {0, 0, 0, 0, 0}},
      {"floor", {}, kSpecial, {-kInf, -0.0, 0, kInf, kNan}, {0, 0, 0, 0, 0}},
      {"erfinv", {}, {-1, 1, 2, 0}, {-kInf, kInf, kNan, 0}, {kInf, kInf, kNan, 0.8862269254527579}},
      {"asin", {}, {1, -1, 2}, {1.5707963267948966, -1.5707963267948966, kNan}, {kInf, kInf, kNan}},
      {"acosh", {}, {1, 0.5}, {0, kNan}, {kInf, kNan}},
      {"atanh", {}, {1, -1, 2}, {kInf, -kInf, kNan}, {kInf, kInf, -1.0 / 3}},
      {"sin",
       {},
       {-kInf, 1e6, -0.0},
       {kNan, -0.34999350217129294, -0.0},
       {kNan, 0.93675212753314474, 1}},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("powers at special points") {
  const Doubles x = {0, -0.0, -kInf, -1, kNan};
  check({"pow", {0}, x, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}});
  check({"pow", {1}, x, {0, -0.0, -kInf, -1, kNan}, {1, 1, 1, 1, 1}});
  check({"pow", {2}, x, {0, 0, kInf, 1, kNan}, {0, 0, -kInf, -2, kNan}});
  check({"pow", {3}, x, {0, -0.0, -kInf, -1, kNan}, {0, 0, kInf, 3, kNan}});
  check({"pow", {0.5}, x, {0, -0.0, kNan, kNan, kNan}, {kInf, -kInf, kNan, kNan, kNan}});
  check({"pow", {-1}, x, {kInf, -kInf, -0.0, -1, kNan}, {-kInf, -kInf, 0, -1, kNan}});
  check({"pow", {2.5}, x, {0, 0, kInf, kNan, kNan}, {0, 0, kInf, kNan, kNan}});
}

TEST_CASE("nan_to_num replaces what is not finite and passes no gradient there") {
  const double most = std::numeric_limits<double>::max();
  const Tensor x = leaf(kSpecial), y = nan_to_num(x);
  CHECK(agree(values(y), {-most, -0.0, 0, most, 0}));
  y.sum().backward();
  CHECK(values(x.grad()) == Doubles{0, 1, 1, 0, 0});
}

TEST_CASE("binary values and gradients at ties, zeros and NaN") {
  struct Pair {
    const char* op;
    Doubles y, a, b;
  };
  const Doubles first = {0, 0, 1, 1, kNan, 2, -0.0, kInf, -7},
                second = {0, 2, 1, kNan, 1, -1, 1, kInf, 3};
  const double root = 0.7071067811865475;
  const Pair cases[] = {
      {"pow",
       {1, 0, 1, 1, kNan, 0.5, -0.0, kInf, -343},
       {0, 0, 1, kNan, 1, -0.25, 1, kInf, 147},
       {0, 0, 0, 0, kNan, 0.34657359027997264, 0, kInf, kNan}},
      {"maximum",
       {0, 2, 1, kNan, kNan, 2, 1, kInf, 3},
       {0.5, 0, 0.5, 1, 1, 1, 0, 0.5, 0},
       {0.5, 1, 0.5, 1, 1, 0, 1, 0.5, 1}},
      {"minimum",
       {0, 0, 1, kNan, kNan, -1, -0.0, kInf, -7},
       {0.5, 1, 0.5, 1, 1, 0, 1, 0.5, 1},
       {0.5, 0, 0.5, 1, 1, 1, 0, 0.5, 0}},
      {"fmax",
       {0, 2, 1, 1, 1, 2, 1, kInf, 3},
       {1, 0, 1, 1, 0, 1, 0, 1, 0},
       {0, 1, 0, 0, 1, 0, 1, 0, 1}},
      {"fmin",
       {0, 0, 1, 1, 1, -1, -0.0, kInf, -7},
       {1, 1, 1, 1, 0, 0, 1, 1, 1},
       {0, 0, 0, 0, 1, 1, 0, 0, 0}},
      {"atan2",
       {0, 0, 0.7853981633974483, kNan, kNan, 2.0344439357957027, -0.0, 0.7853981633974483,
        -1.1659045405098132},
       {0, 0.5, 0.5, kNan, kNan, -0.2, 1, kNan, 0.05172413793103448},
       {0, 0, -0.5, kNan, kNan, -0.4, 0, kNan, 0.12068965517241378}},
      {"hypot",
       {0, 2, 2 * root, kNan, kNan, 2.23606797749979, 1, kInf, 7.615773105863909},
       {kNan, 0, root, kNan, kNan, 0.8944271909999159, 0, kNan, -0.9191450300180578},
       {kNan, 1, root, kNan, kNan, -0.4472135954999579, 1, kNan, 0.39391929857916763}},
      {"copysign",
       {0, 0, 1, 1, kNan, -2, 0, kInf, 7},
       {0, 0, 1, 1, kNan, -1, 0, kNan, -1},
       {0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"logaddexp",
       {0.6931471805599453, 2.1269280110429727, 1.6931471805599454, kNan, kNan, 2.048587351573742,
        1.3132616875182228, kInf, 3.000045398899217},
       {0.5, 0.11920292202211755, 0.5, kNan, kNan, 0.9525741268224334, 0.2689414213699951, kNan,
        4.5397868702434395e-05},
       {0.5, 0.8807970779778823, 0.5, kNan, kNan, 0.04742587317756678, 0.7310585786300049, kNan,
        0.9999546021312976}},
      {"xlogy",
       {0, 0, 0, kNan, kNan, kNan, 0, kInf, -7.690286020676768},
       {0, 0.6931471805599453, 0, kNan, 0, kNan, 0, kInf, 1.0986122886681098},
       {kNan, 0, 1, kNan, kNan, -2, 0, kNan, -2.3333333333333335}},
      {"fmod",
       {kNan, 0, 0, kNan, kNan, 0, -0.0, kNan, -1},
       {1, 1, 1, 1, 1, 1, 1, 1, 1},
       {kNan, 0, -1, kNan, kNan, 2, 0, kNan, 2}},
      {"remainder",
       {kNan, 0, 0, kNan, kNan, 0, -0.0, kNan, 2},
       {1, 1, 1, 1, 1, 1, 1, 1, 1},
       {kNan, 0, -1, kNan, kNan, 2, 0, kNan, 3}},
      {"div",
       {kNan, 0, 1, kNan, kNan, -2, -0.0, kNan, -2.3333333333333335},
       {kInf, 0.5, 1, kNan, 1, -1, 1, 0, 0.3333333333333333},
       {kNan, 0, -1, kNan, kNan, -2, 0, kNan, 0.7777777777777778}},
  };
  for (const Pair& c : cases) {
    const Tensor a = leaf(first), b = leaf(second);
    const Tensor y = invoke(c.op, std::vector<Value>{a, b})[0].tensor();
    y.sum().backward();
    INFO(c.op, ": ", text(values(y)), ", gradients ", text(values(a.grad())), " and ",
         text(values(b.grad())));
    CHECK(agree(values(y), c.y));
    CHECK(agree(unsigned_zeros(values(a.grad())), unsigned_zeros(c.a)));
    CHECK(agree(unsigned_zeros(values(b.grad())), unsigned_zeros(c.b)));
  }
}

TEST_CASE("clamp by tensors shares the gradient between self and the bound that holds") {
  const Tensor x = leaf({0, 1, 2, -1, kNan}), low = leaf({0, 0, 0, 0, 0}),
               high = leaf({1, 1, 1, 1, 1});
  const Tensor y = clamp(x, low, high);
  y.sum().backward();
  CHECK(agree(values(y), {0, 1, 1, 0, kNan}));
  CHECK(values(x.grad()) == Doubles{1, 1, 0, 0, 0});
  CHECK(values(low.grad()) == Doubles{0, 0, 0, 1, 0});
  CHECK(values(high.grad()) == Doubles{0, 0, 1, 0, 0});
}

TEST_CASE("erfc and erfinv keep their accuracy where 1 - erf(x) has none") {
  for (double x : {-3.0, -0.5, 0.0, 0.3, 1.0, 5.0, 20.0, 26.0}) {
    CAPTURE(x);
    CHECK(erfc(leaf({x})).item<double>() == doctest::Approx(std::erfc(x)).epsilon(1e-14));
    CHECK(erfc(leaf({x}).to(kFloat32)).item<double>() ==
          doctest::Approx(std::erfc(static_cast<float>(x))).epsilon(1e-6));
  }
  for (double y : {-2.5, -0.1, 1e-12, 0.7, 1.5, 3.0}) {
    CAPTURE(y);
    CHECK(erfinv(leaf({std::erf(y)})).item<double>() == doctest::Approx(y).epsilon(1e-11));
  }
}

TEST_CASE("inverse hyperbolic functions agree with libm from the least to the greatest numbers") {
  for (double x : {1e-300, 1e-20, 1e-5, 0.3, 1.0, 2.0, 1e5, 1e20, 1e300}) {
    CAPTURE(x);
    CHECK(asinh(leaf({-x})).item<double>() == doctest::Approx(std::asinh(-x)).epsilon(1e-14));
    CHECK(acosh(leaf({1 + x})).item<double>() == doctest::Approx(std::acosh(1 + x)).epsilon(1e-14));
    if (x < 1)
      CHECK(atanh(leaf({-x})).item<double>() == doctest::Approx(std::atanh(-x)).epsilon(1e-14));
  }
}
TEST_SUITE_END();
