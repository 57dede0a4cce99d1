// Powers, and binary functions of floating numbers: maximum and its kin, atan2, hypot, copysign,
// logaddexp, xlogy.
#include <cmath>

#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

// pow

struct Pow {
  static constexpr double kFlops = 12;
  template <class V> V value(V x, V y) const {
    if constexpr (on_integers<V>())
      return integer_power(x, y);
    else
      return pow(x, y);
  }

 private:
  /// By repeated squaring; a negative exponent gives 0 unless the base is 1 or -1.
  template <class V> static V integer_power(V x, V y) {
    if (y.v < 0) return x.v == 1 ? V(1) : x.v == -1 ? V(y.v & 1 ? -1 : 1) : V(0);
    V result(1);
    for (auto n = y.v; n != 0; n >>= 1, x = x * x)
      if (n & 1) result = result * x;
    return result;
  }
};

/// The exponents of common use, without a logarithm.
template <int kTwiceExponent> struct FixedPower {
  template <class V> V value(V x) const {
    if constexpr (kTwiceExponent == 0)
      return V(1);
    else if constexpr (kTwiceExponent == 2)
      return x;
    else if constexpr (kTwiceExponent == 4)
      return x * x;
    else if constexpr (kTwiceExponent == 6)
      return x * x * x;
    else if constexpr (kTwiceExponent == 1)
      return sqrt(x);
    else if constexpr (kTwiceExponent == -1)
      return V(1) / sqrt(x);
    else if constexpr (kTwiceExponent == -2)
      return V(1) / x;
    else
      return V(1) / (x * x);
  }
};

template <int kTwiceExponent, class Types> void run_fixed(Call& c) {
  static constexpr size_t inputs[] = {0};
  const FixedPower<kTwiceExponent> f;
  const DType promoted = result_type(c), computed = compute_type(promoted);
  run_loop(c, kernels::pointwise_loops<FixedPower<kTwiceExponent>, kernels::ValueKind<1>, Types>(),
           &f, computed, computed, inputs, 1, false, is_floating(promoted) ? computed : promoted);
}

bool is_number(const Tensor& t) { return t.defined() && t.impl().wrapped_number; }

void infer_pow(Call& c) {
  infer_pointwise<Result::Same, Accept::NoBool>(c);
  PELLUCID_CHECK(
      !(is_number(c.in(1)) && !is_floating(c.out().dtype()) && c.in(1).item().toLong() < 0),
      ValueError,
      "pow: integers to negative integer powers are not defined (self {}, exponent {}). Convert "
      "self to a floating dtype.",
      describe(c.in(0)), c.in(1).item());
}

// The kernel for a fixed exponent, or null.
void (*fixed_power(double exponent, bool floating))(Call&) {
  const double twice = 2 * exponent;
  if (twice == 0) return run_fixed<0, kernels::AllTypes>;
  if (twice == 2) return run_fixed<2, kernels::AllTypes>;
  if (twice == 4) return run_fixed<4, kernels::AllTypes>;
  if (twice == 6) return run_fixed<6, kernels::AllTypes>;
  if (!floating) return nullptr;
  if (twice == 1) return run_fixed<1, kernels::FloatTypes>;
  if (twice == -1) return run_fixed<-1, kernels::FloatTypes>;
  if (twice == -2) return run_fixed<-2, kernels::FloatTypes>;
  if (twice == -4) return run_fixed<-4, kernels::FloatTypes>;
  return nullptr;
}

void run_pow(Call& c) {
  if (is_number(c.in(1)) && !is_number(c.in(0)))
    if (auto* fixed = fixed_power(c.in(1).item().toDouble(), is_floating(result_type(c))))
      return fixed(c);
  run_formula<Pow, 2, kernels::AllTypes, Result::Same>(c);
}

Tensor pow_self_vjp(const Vjp& v) {
  const Tensor &x = v.in(0), &exponent = v.in(1);
  if (!is_number(exponent))
    return where(eq(exponent, 0), 0, mul(v.grad, mul(exponent, pow(x, sub(exponent, 1)))));
  const Scalar e = exponent.item();
  if (e.equal(0)) return zeros_like(v.grad);
  if (e.equal(1)) return v.grad;
  if (e.equal(2)) return square_backward(v.grad, x);
  int64_t whole = 0;
  const bool fits = !e.isFloatingPoint() && !__builtin_sub_overflow(e.toLong(), 1, &whole);
  const Scalar less = fits ? Scalar(whole) : Scalar(e.toDouble() - 1);
  return mul(v.grad, mul(pow(x, less), e));
}

Tensors pow_vjp(const Vjp& v) {
  Tensors out(2);
  if (v.needs(0)) out[0] = pow_self_vjp(v);
  if (v.needs(1)) {
    const Tensor &x = v.in(0), &exponent = v.in(1);
    const Tensor flat = logical_and(eq(x, 0), ge(exponent, 0));  // 0^y is constant there
    out[1] = mul(v.grad, where(flat, 0, mul(pow(x, exponent), log(x))));
  }
  return out;
}

void pow_samples(Samples& s) {
  binary_samples_in<0.3, 2.0>(s);
  for (const Value& e :
       {Value(2), Value(3), Value(0.5), Value(-1), Value(-2.0), Value(2.5), Value(0), Value(1.0)})
    s.add({sample_uniform({2, 3}, 0.3, 2.0), e});
  s.add({sample_randn({3, 2}, 0.2).t(), 3});
  s.add({2.0, sample_randn({2, 3})});
  s.add_no_grad({sample_ints({4}, -4, 4), 3});
  s.add_no_grad({sample_ints({4}, -4, 4), sample_ints({2, 1}, 0, 5)});
  s.error({sample_ints({4}, 1, 4), -1}, "negative integer powers");
  s.error({sample_randn({2}).gt(0), sample_randn({2}).gt(0)}, "takes number tensors");
}

Tensor as_double(const Tensor& t) { return t.defined() && !is_number(t) ? t.to(kFloat64) : t; }

// maximum, minimum, fmax, fmin

struct Maximum {
  template <class V> V value(V a, V b) const {
    if constexpr (on_integers<V>())
      return max(a, b);
    else
      return select((a > b) | (a != a), a, b);
  }
};
struct Minimum {
  template <class V> V value(V a, V b) const {
    if constexpr (on_integers<V>())
      return min(a, b);
    else
      return select((a < b) | (a != a), a, b);
  }
};
/// These leave NaN to the other.
struct Fmax {
  template <class V> V value(V a, V b) const { return select((a >= b) | (b != b), a, b); }
};
struct Fmin {
  template <class V> V value(V a, V b) const { return select((a <= b) | (b != b), a, b); }
};

// Ties share the gradient.
template <bool kMax> Tensors extremum_vjp(const Vjp& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  const Tensor shared = where(eq(a, b), mul(v.grad, 0.5), v.grad);
  return {v.needs(0) ? where(kMax ? lt(a, b) : gt(a, b), 0, shared) : Tensor(),
          v.needs(1) ? where(kMax ? lt(b, a) : gt(b, a), 0, shared) : Tensor()};
}

template <bool kMax> Tensors f_extremum_vjp(const Vjp& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  const Tensor first = logical_or(kMax ? ge(a, b) : le(a, b), isnan(b));
  return {v.needs(0) ? where(first, v.grad, 0) : Tensor(),
          v.needs(1) ? where(first, 0, v.grad) : Tensor()};
}

void extremum_samples(Samples& s) {
  binary_samples(s);
  s.add_no_grad({sample_ints({3, 4}, -3, 3), sample_ints({4}, -3, 3)});
  s.add_no_grad({sample_ints({4}, 0, 2) / sample_ints({4}, 0, 2), sample_randn({2, 4})});
}

// The rest

struct Atan2 {
  static constexpr double kFlops = 8;
  template <class V> V value(V y, V x) const { return atan2(y, x); }
};
struct Hypot {
  static constexpr double kFlops = 6;
  template <class V> V value(V a, V b) const { return hypot(a, b); }
};
struct Copysign {
  template <class V> V value(V a, V b) const { return copysign(a, b); }
};
struct LogAddExp {
  static constexpr double kFlops = 9;
  template <class V> V value(V a, V b) const {
    const V r = select(a > b, a, b) + log1p(exp(-abs(a - b)));
    return select((a == b) & (abs(a) == kernels::detail::infinity<V>()), a, r);
  }
};
struct Xlogy {
  static constexpr double kFlops = 5;
  template <class V> V value(V a, V b) const {
    return select((a == V(0)) & (b == b), V(0), a * log(b));
  }
};

Tensors atan2_vjp(const Vjp& v) {
  const Tensor &y = v.in(0), &x = v.in(1);
  const Tensor r2 = add(square(y), square(x));
  const Tensor g = where(eq(r2, 0), 0, div(v.grad, r2));  // PyTorch's choice at the origin
  return {v.needs(0) ? mul(g, x) : Tensor(), v.needs(1) ? neg(mul(g, y)) : Tensor()};
}

Tensors hypot_vjp(const Vjp& v) {
  return {v.needs(0) ? mul(v.grad, div(v.in(0), v.out())) : Tensor(),
          v.needs(1) ? mul(v.grad, div(v.in(1), v.out())) : Tensor()};
}

Tensors copysign_vjp(const Vjp& v) {
  Tensors out(2);
  const Tensor& x = v.in(0);
  if (v.needs(0)) out[0] = mul(v.grad, where(eq(x, 0), 0, div(v.out(), x)));
  if (v.needs(1)) out[1] = zeros_like(v.grad);
  return out;
}

Tensors logaddexp_vjp(const Vjp& v) {
  return {v.needs(0) ? mul(v.grad, sigmoid(sub(v.in(0), v.in(1)))) : Tensor(),
          v.needs(1) ? mul(v.grad, sigmoid(sub(v.in(1), v.in(0)))) : Tensor()};
}

Tensors xlogy_vjp(const Vjp& v) {
  const Tensor &a = v.in(0), &b = v.in(1);
  return {v.needs(0) ? mul(v.grad, where(logical_and(eq(a, 0), le(b, 0)), 0, log(b))) : Tensor(),
          v.needs(1) ? mul(v.grad, div(a, b)) : Tensor()};
}

}  // namespace

extern constinit const OpDef pow_op = {
    .schema = "pow[_](Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
    .doc = "self raised to exponent",
    .kind = OpKind::Pointwise,
    .infer = infer_pow,
    .cost = formula_cost<Pow>,
    .kernel = run_pow,
    .saved = Saved::Inputs,
    .vjp = pow_vjp,
    .onnx = {"Pow", 15},
    .samples = pow_samples,
    .any_layout = true,
    .describes = true,
    .structural_numbers = 0b10};  // small exponents have kernels of their own

extern constinit const OpDef float_power_op = {
    .schema = "float_power[_](Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
    .doc = "pow computed in float64",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      return {pow(as_double(c.in(0)), as_double(c.in(1)))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_uniform({2, 3}, 0.3, 2.0), sample_randn({3})});
          s.add_no_grad({sample_ints({4}, 1, 4), -1});
          s.add({2, sample_randn({3})});
        },
};

extern constinit const OpDef maximum_op =
    binary<Maximum>("maximum(Tensor self, Tensor other) -> Tensor", "the greater; NaN wins",
                    Saved::Inputs, extremum_vjp<true>, extremum_samples, {"Max", 13});
extern constinit const OpDef minimum_op =
    binary<Minimum>("minimum(Tensor self, Tensor other) -> Tensor", "the lesser; NaN wins",
                    Saved::Inputs, extremum_vjp<false>, extremum_samples, {"Min", 13});
extern constinit const OpDef max_other_op = alias<maximum_op>(
    "max.other(Tensor self, Tensor other) -> Tensor", "maximum", extremum_samples);
extern constinit const OpDef min_other_op = alias<minimum_op>(
    "min.other(Tensor self, Tensor other) -> Tensor", "minimum", extremum_samples);
extern constinit const OpDef fmax_op =
    binary<Fmax>("fmax(Tensor self, Tensor other) -> Tensor", "the greater; a number wins over NaN",
                 Saved::Inputs, f_extremum_vjp<true>, extremum_samples);
extern constinit const OpDef fmin_op =
    binary<Fmin>("fmin(Tensor self, Tensor other) -> Tensor", "the lesser; a number wins over NaN",
                 Saved::Inputs, f_extremum_vjp<false>, extremum_samples);

extern constinit const OpDef atan2_op = binary<Atan2, kernels::FloatTypes, Result::Float>(
    "atan2|arctan2[_](Tensor self, Tensor other) -> Tensor",
    "the angle of the point (other, self), in (-pi, pi]", Saved::Inputs, atan2_vjp, binary_samples);
extern constinit const OpDef hypot_op =
    binary<Hypot, kernels::FloatTypes, Result::Float, Accept::Floating>(
        "hypot[_](Tensor self, Tensor other) -> Tensor", "sqrt(self^2 + other^2) without overflow",
        Saved::InputsAndOutputs, hypot_vjp, binary_samples);
extern constinit const OpDef copysign_op = binary<Copysign, kernels::FloatTypes, Result::Float>(
    "copysign[_](Tensor self, Tensor|Scalar other) -> Tensor", "abs(self) with the sign of other",
    Saved::input(0) | Saved::output(0), copysign_vjp, binary_scalar_samples);
extern constinit const OpDef logaddexp_op =
    binary<LogAddExp, kernels::FloatTypes, Result::Float, Accept::Floating>(
        "logaddexp(Tensor self, Tensor other) -> Tensor",
        "log(exp(self) + exp(other)) without overflow", Saved::Inputs, logaddexp_vjp,
        binary_samples);
extern constinit const OpDef xlogy_op = binary<Xlogy, kernels::FloatTypes, Result::Float>(
    "xlogy|special_xlogy[_](Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    "self * log(other); 0 where self is 0", Saved::Inputs, xlogy_vjp, binary_samples_in<0.2, 2.0>);

}  // namespace pellucid
