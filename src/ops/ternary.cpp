// Ops of three inputs: where, clamp, lerp, addcmul, addcdiv.
#include "ops/formula.h"
#include "ops/formulas_samples.h"
#include "ops/number_range.h"

namespace pellucid {
namespace {

// where

struct Where {
  template <class M, class V> V value(M condition, V a, V b) const {
    return select(condition, a, b);
  }
};

void infer_where(Call& c) {
  for (size_t i = 0; i < 3; ++i)
    check_defined(c, i, i == 0 ? "condition" : i == 1 ? "self" : "other");
  const DType condition = c.in(0).dtype();
  PELLUCID_CHECK(condition == kBool || condition == kUInt8, TypeError,
                 "where: the condition must be a bool tensor, found {}. Compare it, for example "
                 "condition != 0.",
                 condition);
  make_pointwise_output(c, result_type(c.inputs().subspan(1)));
}

void check_where(const Call& c) {
  const DType promoted = result_type(c.inputs().subspan(1));
  for (const size_t i : {1, 2})
    if (c.in(i).impl().wrapped_number) check_fits("where", c.in(i).item(), promoted);
}

void run_where(Call& c) {
  static constexpr size_t inputs[] = {0, 1, 2};
  const DType promoted = result_type(c.inputs().subspan(1)), computed = compute_type(promoted);
  check_where(c);
  const Where f;
  run_loop(c, kernels::pointwise_loops<Where, kernels::SelectKind<3>, kernels::AllTypes>(), &f,
           computed, computed, inputs, 1, true, promoted);
}

Tensors where_vjp(const Vjp& v) {
  return {Tensor(), v.needs(1) ? where(v.in(0), v.grad, 0) : Tensor(),
          v.needs(2) ? where(v.in(0), 0, v.grad) : Tensor()};
}

// clamp

/// One or two bounds, as numbers. NaN stays.
struct ClampNumbers {
  static constexpr double kFlops = 2;
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  ClampNumbers(double l, double h) : low(l), high(h) {}
  explicit ClampNumbers(const AttrReader& a) {
    if (a.has_attr(0)) low = a.number(0);
    if (a.has_attr(1)) high = a.number(1);
  }
  template <class V> V value(V x) const {
    const V y = select(x < V(low), V(low), x);
    return select(y > V(high), V(high), y);
  }
  template <class V> V grad(V g, V x) const {
    return select((x >= V(low)) & (x <= V(high)), g, V(0));
  }
};
struct ClampMin {
  template <class V> V value(V x, V low) const { return select((x < low) | (low != low), low, x); }
};
struct ClampMax {
  template <class V> V value(V x, V high) const {
    return select((x > high) | (high != high), high, x);
  }
};
struct Clamp {
  static constexpr double kFlops = 2;
  template <class V> V value(V x, V low, V high) const {
    return ClampMax().value(ClampMin().value(x, low), high);
  }
};

void infer_clamp(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.has_in(1) || c.has_in(2), ValueError,
                 "{}: at least one of min and max must be given.", c.name());
  make_pointwise_output(c, result_type(c));
}

bool is_plain_number(const Call& c, size_t i) {
  if (!c.has_in(i)) return true;
  const Tensor& t = c.in(i);
  return t.dim() == 0 && t.dtype() == kFloat64 && t.impl().wrapped_number &&
         !std::isnan(*t.raw<double>());
}

template <class F> void run_bounds(Call& c, std::span<const size_t> inputs) {
  const DType promoted = result_type(c), computed = compute_type(promoted);
  const F f;
  const kernels::LoopTable& loops = [&]() -> const kernels::LoopTable& {
    if constexpr (std::is_same_v<F, Clamp>)
      return kernels::pointwise_loops<F, kernels::ValueKind<3>, kernels::AllTypes>();
    else
      return kernels::pointwise_loops<F, kernels::ValueKind<2>, kernels::AllTypes>();
  }();
  run_loop(c, loops, &f, computed, computed, inputs, flops_of<F>(), false,
           is_floating(promoted) ? computed : promoted);
}

void run_clamp(Call& c) {
  static constexpr size_t both[] = {0, 1, 2}, low[] = {0, 1}, high[] = {0, 2};
  if (is_floating(c.in(0).dtype()) && is_plain_number(c, 1) && is_plain_number(c, 2)) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const ClampNumbers f(c.has_in(1) ? *c.in(1).raw<double>() : -inf,
                         c.has_in(2) ? *c.in(2).raw<double>() : inf);
    const DType computed = compute_type(c.in(0).dtype());
    return run_loop(c, kernels::pointwise_loops<ClampNumbers, kernels::ValueKind<1>>(), &f,
                    computed, computed, {both, 1}, 1);
  }
  if (c.has_in(1) && c.has_in(2))
    run_bounds<Clamp>(c, both);
  else if (c.has_in(1))
    run_bounds<ClampMin>(c, low);
  else
    run_bounds<ClampMax>(c, high);
}

std::optional<Scalar> number_of(const Vjp& v, size_t i) {
  return v.has_in(i) ? std::optional(v.in(i).item()) : std::nullopt;
}

Tensors clamp_vjp(const Vjp& v) {
  const bool has_min = v.has_in(1), has_max = v.has_in(2);
  Tensors out(3);
  const auto wrapped = [&](size_t i) { return !v.has_in(i) || v.in(i).impl().wrapped_number; };
  if (wrapped(1) && wrapped(2)) {
    out[0] = clamp_backward(v.grad, v.in(0), number_of(v, 1), number_of(v, 2));
    return out;
  }
  const Tensor& x = v.in(0);
  const Tensor low = has_min ? v.in(1) : Tensor(), high = has_max ? v.in(2) : Tensor();
  if (v.needs(0)) {
    Tensor inside = has_min ? ge(x, low) : le(x, high);
    if (has_min && has_max) inside = logical_and(inside, le(x, high));
    out[0] = where(inside, v.grad, 0);
  }
  if (v.needs(1)) {
    Tensor below = lt(x, low);
    if (has_max) below = logical_and(below, lt(low, high));
    out[1] = where(below, v.grad, 0);
  }
  if (v.needs(2)) {
    Tensor above = gt(x, high);
    if (has_min) above = logical_or(above, lt(high, low));
    out[2] = where(above, v.grad, 0);
  }
  return out;
}

void clamp_samples(Samples& s) {
  s.add({sample_randn({3, 4}), -0.5, 0.5});
  s.add({sample_randn({4, 3}).t(), std::nullopt, 0.3});
  s.add({sample_randn({3, 4}), sample_uniform({4}, -1, 0), sample_uniform({3, 1}, 0, 1)});
  s.add({sample_randn({3, 4}), sample_randn({4})});
  s.add({sample_randn({})}, {{"max", sample_randn({2})}});
  s.add_no_grad({sample_ints({5}, -9, 9), -3, 3});
  s.add_no_grad({sample_ints({5}, -9, 9), 1.5});
  s.error({sample_randn({2})}, "at least one of min and max");
  s.error({sample_randn({2, 3}), sample_randn({4})}, "do not broadcast");
  s.large([] { return std::vector<Value>{randn({4096, 1024}), -1.0, 1.0}; });
}

// lerp, addcmul, addcdiv

/// a + w (b - a), from the nearer end, so that w = 1 gives b itself.
struct Lerp {
  static constexpr double kFlops = 3;
  template <class V> V value(V a, V b, V w) const {
    const V d = b - a;
    return select(abs(w) < V(0.5), fma(w, d, a), b - d * (V(1) - w));
  }
};

void infer_lerp(Call& c) {
  for (size_t i = 0; i < 3; ++i) check_defined(c, i, i == 0 ? "self" : i == 1 ? "end" : "weight");
  check_floating(c, c.in(0), "self");
  for (size_t i = 1; i < 3; ++i) {
    if (c.in(i).impl().wrapped_number) continue;
    PELLUCID_CHECK(c.in(i).dtype() == c.in(0).dtype(), TypeError,
                   "lerp: all tensors must have one dtype, found self {}, end {}, weight {}.",
                   c.in(0).dtype(), c.in(1).dtype(), c.in(2).dtype());
  }
  make_pointwise_output(c, result_type(c));
}

Tensors lerp_vjp(const Vjp& v) {
  return {v.needs(0) ? mul(v.grad, rsub(v.in(2), 1)) : Tensor(),
          v.needs(1) ? mul(v.grad, v.in(2)) : Tensor(),
          v.needs(2) ? mul(v.grad, sub(v.in(1), v.in(0))) : Tensor()};
}

/// self + value (tensor1 * tensor2)
struct AddcMul {
  static constexpr double kFlops = 3;
  double number;
  int64_t integer;
  explicit AddcMul(const AttrReader& a)
      : number(a.scalar(0).toDouble()), integer(a.scalar(0).toLong()) {}
  template <class V> V value(V x, V a, V b) const {
    if constexpr (on_integers<V>())
      return x + V(integer) * a * b;
    else
      return x + V(number) * a * b;
  }
};
struct AddcDiv {
  static constexpr double kFlops = 3;
  double number;
  explicit AddcDiv(const AttrReader& a) : number(a.number(0)) {}
  template <class V> V value(V x, V a, V b) const { return x + V(number) * (a / b); }
};

void infer_addcdiv(Call& c) {
  infer_pointwise<Result::Same>(c);
  PELLUCID_CHECK(
      is_floating(c.in(1).dtype()) || is_floating(c.in(2).dtype()), TypeError,
      "addcdiv: tensor1 ({}) and tensor2 ({}) are both integers; convert one to a floating dtype.",
      c.in(1).dtype(), c.in(2).dtype());
}

void infer_addcmul(Call& c) {
  infer_pointwise<Result::Same>(c);
  PELLUCID_CHECK(is_floating(c.out().dtype()) || !c.scalar(0).isFloatingPoint(), TypeError,
                 "addcmul: value {} is not an integer, but the result is {}.", c.scalar(0),
                 c.out().dtype());
}

Tensor scaled(const Tensor& t, const Scalar& s) { return s.equal(Scalar(1)) ? t : mul(t, s); }

Tensors addcmul_vjp(const Vjp& v) {
  const Tensor g = v.needs(1) || v.needs(2) ? scaled(v.grad, v.scalar(0)) : Tensor();
  return {v.needs(0) ? v.grad : Tensor(), v.needs(1) ? mul(g, v.in(2)) : Tensor(),
          v.needs(2) ? mul(g, v.in(1)) : Tensor()};
}

Tensors addcdiv_vjp(const Vjp& v) {
  Tensors out(3);
  if (v.needs(0)) out[0] = v.grad;
  if (!v.needs(1) && !v.needs(2)) return out;
  const Tensor quotient = div(scaled(v.grad, v.scalar(0)), v.in(2));
  if (v.needs(1)) out[1] = quotient;
  if (v.needs(2)) out[2] = neg(mul(quotient, div(v.in(1), v.in(2))));
  return out;
}

void ternary_samples(Samples& s) {
  s.add({sample_randn({3, 4}), sample_randn({3, 4}), sample_randn({3, 4}, 0.3)});
  s.add({sample_randn({3, 4}), sample_randn({4}), sample_randn({3, 1}, 0.3)});
  s.add({sample_randn({4, 3}).t(), sample_randn({}), sample_randn({4}, 0.3)});
  s.error({sample_randn({2, 3}), sample_randn({4}), sample_randn({3})}, "do not broadcast");
  s.large([] {
    return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024}), rand({4096, 1024}) + 0.5};
  });
}

void addc_samples(Samples& s) {
  ternary_samples(s);
  s.add({sample_randn({2, 2}), sample_randn({2, 2}), sample_randn({2, 2}, 0.3)}, {{"value", -0.5}});
}

}  // namespace

extern constinit const OpDef where_op = {
    .schema = "where.self(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    .doc = "self where the condition holds, other elsewhere",
    .kind = OpKind::Pointwise,
    .infer = infer_where,
    .cost = formula_cost<Where>,
    .kernel = run_where,
    .check = check_where,
    .saved = Saved::input(0),
    .vjp = where_vjp,
    .onnx = {"Where", 16},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}).gt(0), sample_randn({3, 4}), sample_randn({3, 4})});
          s.add({sample_randn({3, 1}).gt(0), sample_randn({4}), sample_randn({})});
          s.add({sample_randn({4, 3}).t().gt(0), sample_randn({3, 4}), 0.5});
          s.add({sample_randn({3}).gt(0), -1.0, sample_randn({2, 3})});
          s.add({sample_randn({3}).gt(0), 1, 2});
          s.add({sample_randn({0}).gt(0), sample_randn({0}), sample_randn({2, 1})});
          s.error({sample_randn({2}), sample_randn({2}), sample_randn({2})},
                  "must be a bool tensor");
          s.error({sample_randn({2}).gt(0), sample_ints({2}, 0, 9).to(kInt8), 300},
                  "does not fit int8");
          s.error({sample_randn({2}).gt(0), sample_randn({3}), sample_randn({2})},
                  "do not broadcast");
          s.large([] {
            return std::vector<Value>{randn({4096, 1024}).gt(0), randn({4096, 1024}),
                                      randn({4096, 1024})};
          });
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef clamp_op = {
    .schema =
        "clamp|clip[_](Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
    .doc = "min(max(self, min), max); NaN stays",
    .kind = OpKind::Pointwise,
    .infer = infer_clamp,
    .cost = formula_cost<Clamp>,
    .kernel = run_clamp,
    .saved = Saved::Inputs,
    .vjp = clamp_vjp,
    .onnx = {"Clip", 13},
    .samples = clamp_samples,
    .any_layout = true,
    .describes = true,
    .structural_numbers = 0b110};  // bounds that are NaN have a loop of their own

extern constinit const OpDef clamp_backward_op = unary_backward<ClampNumbers>(
    "clamp_backward(Tensor grad_output, Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "grad_output where min <= self <= max, 0 elsewhere", [](Samples& s) {
      s.add({sample_randn({3, 4}), sample_randn({3, 4}), -0.5, 0.5});
      s.add({sample_randn({3, 4}), sample_randn({4, 3}).t()}, {{"max", 0.5}});
      s.large([] {
        return std::vector<Value>{randn({4096, 1024}), randn({4096, 1024}), -1.0, 1.0};
      });
    });

extern constinit const OpDef clamp_min_op = {
    .schema = "clamp_min[_](Tensor self, Tensor|Scalar min) -> Tensor",
    .doc = "clamp with a lower bound alone",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {clamp(c.in(0), c.in(1), Tensor())}; },
    .samples = binary_scalar_samples,
};
extern constinit const OpDef clamp_max_op = {
    .schema = "clamp_max[_](Tensor self, Tensor|Scalar max) -> Tensor",
    .doc = "clamp with an upper bound alone",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {clamp(c.in(0), Tensor(), c.in(1))}; },
    .samples = binary_scalar_samples,
};

extern constinit const OpDef lerp_op = {
    .schema = "lerp[_](Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor",
    .doc = "self + weight * (end - self)",
    .kind = OpKind::Pointwise,
    .infer = infer_lerp,
    .cost = formula_cost<Lerp>,
    .kernel = run_formula<Lerp, 3, kernels::FloatTypes, Result::Float>,
    .saved = Saved::Inputs,
    .vjp = lerp_vjp,
    .samples =
        [](Samples& s) {
          ternary_samples(s);
          s.add({sample_randn({3, 4}), sample_randn({4}), 0.3});
          s.error({sample_ints({2}, 0, 2), sample_ints({2}, 0, 2), 0.5},
                  "must be a floating tensor");
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef addcmul_op = {
    .schema =
        "addcmul[_](Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    .doc = "self + value * tensor1 * tensor2",
    .kind = OpKind::Pointwise,
    .infer = infer_addcmul,
    .cost = formula_cost<AddcMul>,
    .kernel = run_formula<AddcMul, 3, kernels::AllTypes, Result::Same>,
    .saved = Saved::input(1) | Saved::input(2),
    .vjp = addcmul_vjp,
    .samples = addc_samples,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef addcdiv_op = {
    .schema =
        "addcdiv[_](Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    .doc = "self + value * tensor1 / tensor2",
    .kind = OpKind::Pointwise,
    .infer = infer_addcdiv,
    .cost = formula_cost<AddcDiv>,
    .kernel = run_formula<AddcDiv, 3, kernels::FloatTypes, Result::Float>,
    .saved = Saved::input(1) | Saved::input(2),
    .vjp = addcdiv_vjp,
    .samples =
        [](Samples& s) {
          addc_samples(s);
          s.error({sample_randn({2}), sample_ints({2}, 1, 3), sample_ints({2}, 1, 3)},
                  "are both integers");
        },
    .any_layout = true,
    .describes = true};

}  // namespace pellucid
