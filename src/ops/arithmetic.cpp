// The four operations, negation, and their other names. Division with rounding is in
// arithmetic_divide.cpp, powers and the binary functions in arithmetic_power.cpp.
#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct Add {
  template <class V> V value(V a, V b) const { return a + b; }
};
struct Sub {
  template <class V> V value(V a, V b) const { return a - b; }
};
struct Mul {
  template <class V> V value(V a, V b) const { return a * b; }
};
struct Div {
  template <class V> V value(V a, V b) const { return a / b; }
};
struct Neg {
  template <class V> V value(V x) const { return -x; }
};

/// a + alpha b; alpha is kept twice because not every int64 is a double.
struct AddScaled {
  static constexpr double kFlops = 2;
  double number;
  int64_t integer;
  template <class V> V value(V a, V b) const {
    if constexpr (on_integers<V>())
      return a + V(integer) * b;
    else
      return fma(V(number), b, a);
  }
};

bool is_one(const Scalar& s) { return s.isFloatingPoint() ? s.toDouble() == 1.0 : s.toLong() == 1; }

void check_alpha(const Call& c, DType result) {
  const Scalar alpha = c.scalar(0);
  PELLUCID_CHECK(!alpha.isBoolean() || result == kBool, TypeError,
                 "{}: alpha is a bool, but the result is {}; a bool alpha is for bool results.",
                 c.name(), result);
  PELLUCID_CHECK(is_floating(result) || !alpha.isFloatingPoint(), TypeError,
                 "{}: alpha {} is not an integer, but the result is {}. Convert a tensor to a "
                 "floating dtype first.",
                 c.name(), alpha, result);
}

void infer_add(Call& c) {
  infer_pointwise<Result::Same>(c);
  if (!is_one(c.scalar(0)) || c.scalar(0).isBoolean()) check_alpha(c, c.out().dtype());
}

void infer_sub(Call& c) {
  infer_pointwise<Result::Same>(c);
  PELLUCID_CHECK(
      c.in(0).dtype() != kBool && c.in(1).dtype() != kBool, TypeError,
      "{}: bool tensors cannot be subtracted (self {}, other {}). Use ^ or logical_xor for masks.",
      c.name(), c.in(0).dtype(), c.in(1).dtype());
  if (!is_one(c.scalar(0)) || c.scalar(0).isBoolean()) check_alpha(c, c.out().dtype());
}

void run_add(Call& c) {
  const Scalar alpha = c.scalar(0);
  if (is_one(alpha)) return run_with<Add, 2, kernels::AllTypes, Result::Same>(c, {});
  run_with<AddScaled, 2, kernels::AllTypes, Result::Same>(c, {alpha.toDouble(), alpha.toLong()});
}

void run_sub(Call& c) {
  const Scalar alpha = c.scalar(0);
  if (is_one(alpha)) return run_with<Sub, 2, kernels::AllTypes, Result::Same>(c, {});
  run_with<AddScaled, 2, kernels::AllTypes, Result::Same>(c,
                                                          {-alpha.toDouble(), (-alpha).toLong()});
}

Cost add_cost(const Call& c) { return elementwise_cost(c, is_one(c.scalar(0)) ? 1 : 2); }

Tensors add_vjp(const Vjp& v) {
  const Scalar alpha = v.scalar(0);
  return {v.needs(0) ? v.grad : Tensor(), !v.needs(1)     ? Tensor()
                                          : is_one(alpha) ? v.grad
                                                          : mul(v.grad, alpha)};
}

Tensors sub_vjp(const Vjp& v) {
  const Scalar alpha = v.scalar(0);
  return {v.needs(0) ? v.grad : Tensor(), !v.needs(1)     ? Tensor()
                                          : is_one(alpha) ? neg(v.grad)
                                                          : mul(v.grad, -alpha)};
}

Tensors mul_vjp(const Vjp& v) {
  return {v.needs(0) ? mul(v.grad, v.in(1)) : Tensor(),
          v.needs(1) ? mul(v.grad, v.in(0)) : Tensor()};
}

Tensors div_vjp(const Vjp& v) {
  if (!v.needs(0) && !v.needs(1)) return Tensors(2);
  const Tensor quotient = div(v.grad, v.in(1));
  return {v.needs(0) ? quotient : Tensor(),
          v.needs(1) ? neg(mul(quotient, div(v.in(0), v.in(1)))) : Tensor()};
}

void add_samples(Samples& s) {
  binary_scalar_samples(s);
  s.add({sample_randn({2, 3}), sample_randn({3})}, {{"alpha", -1.5}});
  s.add_no_grad({sample_ints({2, 3}, -9, 9), sample_ints({3}, -9, 9)}, {{"alpha", 3}});
  s.error({sample_ints({2}, 0, 9), sample_ints({2}, 0, 9)}, "alpha 1.5 is not an integer",
          {{"alpha", 1.5}});
}

void sub_samples(Samples& s) {
  add_samples(s);
  s.error({sample_randn({2}).gt(0), sample_randn({2}).gt(0)}, "bool tensors cannot be subtracted");
}

}  // namespace

extern constinit const OpDef add_op = {
    .schema = "add[_](Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .doc = "self + alpha * other",
    .kind = OpKind::Pointwise,
    .infer = infer_add,
    .cost = add_cost,
    .kernel = run_add,
    .vjp = add_vjp,
    .onnx = {"Add", 14},
    .samples = add_samples,
    .any_layout = true,
    .describes = true,
    .structural_attrs = 0b1};  // an alpha of 1 has a loop of its own

extern constinit const OpDef sub_op = {
    .schema = "sub|subtract[_](Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    .doc = "self - alpha * other",
    .kind = OpKind::Pointwise,
    .infer = infer_sub,
    .cost = add_cost,
    .kernel = run_sub,
    .vjp = sub_vjp,
    .onnx = {"Sub", 14},
    .samples = sub_samples,
    .any_layout = true,
    .describes = true,
    .structural_attrs = 0b1};  // an alpha of 1 has a loop of its own

extern constinit const OpDef rsub_op = {
    .schema = "rsub(Tensor self, Tensor|Scalar other, Scalar alpha=1) -> Tensor",
    .doc = "other - alpha * self",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {sub(c.in(1), c.in(0), c.scalar(0))}; },
    .samples = binary_scalar_samples,
};

extern constinit const OpDef mul_op =
    binary<Mul>("mul|multiply[_](Tensor self, Tensor|Scalar other) -> Tensor", "self * other",
                Saved::Crossed, mul_vjp, binary_scalar_samples, {"Mul", 14});

extern constinit const OpDef div_op = binary<Div, kernels::FloatTypes, Result::Float>(
    "div|divide|true_divide[_](Tensor self, Tensor|Scalar other) -> Tensor",
    "self / other; integers are divided as floating numbers",
    Saved::crossed_input(0) | Saved::input(1), div_vjp, binary_scalar_samples, {"Div", 14});

extern constinit const OpDef neg_op = unary_same<Neg, Accept::NoBool>(
    "neg|negative[_](Tensor self) -> Tensor", "-self", Saved::None,
    [](const Vjp& v) -> Tensors { return {neg(v.grad)}; }, unary_samples, {"Neg", 13});

}  // namespace pellucid
