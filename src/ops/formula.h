// How a formula becomes records. The maths of a pointwise op is a struct with generic members
//     template <class V> V value(V x) const;            and, where it has a derivative,
//     template <class V> V grad(V g, V x) const;        // x is the input, or the result with
//     kGradFromOutput
// The same text runs with V = kernels::Lane (eager kernels) and with V = TensorValue (a gradient of
// a gradient). Members that a formula may have:
//     static constexpr double kFlops = 5;               per element, default 1
//     static constexpr bool kGradFromOutput = true;     grad reads the result instead of the input
//     static constexpr bool kUsesLibm = true;           see kernels/pointwise_loops.h
//     explicit Formula(const AttrReader&)               parameters from the call's attributes (for
//     a backward
//                                                       op they are the same attributes)
#pragma once

#include "kernels/math.h"
#include "kernels/pointwise.h"
#include "ops/common.h"
#include "ops/tensor_value.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {

template <class F> F make_formula(const AttrReader& a) {
  if constexpr (std::is_constructible_v<F, const AttrReader&>)
    return F(a);
  else
    return F{};
}

template <class F> constexpr double flops_of() {
  if constexpr (requires { F::kFlops; })
    return F::kFlops;
  else
    return 1;
}

template <class F> constexpr bool grad_from_output() {
  if constexpr (requires { F::kGradFromOutput; })
    return F::kGradFromOutput;
  else
    return false;
}

/// Whether V is a lane of integers; a formula asks it where integers have a meaning of their own.
template <class V> constexpr bool on_integers() {
  if constexpr (requires { typename V::Scalar; })
    return std::is_integral_v<typename V::Scalar>;
  else
    return false;
}

/// How the result's dtype follows from the inputs'.
enum class Result : uint8_t {
  Same,   ///< the promoted type of the inputs
  Float,  ///< integers become floating
  Bool,   ///< a predicate
};

/// Which promoted types an op takes; others raise TypeError.
enum class Accept : uint8_t { Any, NoBool, Floating, Integral, IntegralNoBool };

constexpr bool accepts(Accept a, DType t) {
  switch (a) {
    case Accept::Any:
      return true;
    case Accept::NoBool:
      return t != kBool;
    case Accept::Floating:
      return is_floating(t);
    case Accept::Integral:
      return !is_floating(t);
    case Accept::IntegralNoBool:
      return is_integral(t, false);
  }
  return false;
}

inline void check_accepts(const Call& c, Accept a, DType t) {
  if (accepts(a, t)) [[likely]]
    return;
  const std::string_view wanted = a == Accept::Floating ? "floating"
                                  : a == Accept::NoBool ? "number"
                                                        : "integer";
  detail::raise<TypeError>(
      "{}: takes {} tensors, found {}. Convert it first, for example with .to({}).", c.name(),
      wanted, t, a == Accept::Floating ? "kFloat32" : "kInt64");
}

/// infer of a pointwise op over all its inputs.
template <Result R, Accept A = Accept::Any> void infer_pointwise(Call& c) {
  for (size_t i = 0; i < c.input_count(); ++i) check_defined(c, i, i == 0 ? "self" : "an argument");
  const DType t = result_type(c);
  if constexpr (A != Accept::Any) check_accepts(c, A, t);
  make_pointwise_output(c, R == Result::Bool ? kBool : R == Result::Float ? to_float(t) : t);
}

/// Runs formula f of N inputs in the promoted type of the call (floating for ops without integer
/// loops).
template <class F, int N, class Types, Result R> void run_with(Call& c, const F& f) {
  static constexpr size_t inputs[] = {0, 1, 2, 3};
  const DType promoted =
      Types::integers && R != Result::Float ? result_type(c) : to_float(result_type(c));
  const DType computed = compute_type(promoted);
  using Kind =
      std::conditional_t<R == Result::Bool, kernels::PredicateKind<N>, kernels::ValueKind<N>>;
  run_loop(c, kernels::pointwise_loops<F, Kind, Types>(), &f, computed,
           R == Result::Bool ? kBool : computed, {inputs, N}, flops_of<F>(), false,
           R == Result::Bool || !is_floating(promoted) ? promoted : computed);
}

/// kernel of a pointwise op of N inputs.
template <class F, int N, class Types, Result R> void run_formula(Call& c) {
  run_with<F, N, Types, R>(c, make_formula<F>(c));
}

template <class F> Cost formula_cost(const Call& c) { return elementwise_cost(c, flops_of<F>()); }

/// kernel of the backward op of a unary formula: inputs (grad_output, self or result).
template <class F> void run_grad(Call& c) {
  static constexpr size_t inputs[] = {0, 1};
  const F f = make_formula<F>(c);
  const DType computed = compute_type(to_float(result_type(c)));
  run_loop(c, kernels::pointwise_loops<F, kernels::GradKind<2>>(), &f, computed, computed, inputs,
           2 * flops_of<F>(), false, computed);
}

/// vjp of a backward op of formula f: f.grad is written with ops here, so it can be
/// differentiated again.
template <class F> Tensors grad_vjp_with(const Vjp& v, const F& f) {
  Tensors out(2);
  if (v.needs(0)) out[0] = f.grad(TensorValue(v.grad), TensorValue(v.in(1))).tensor();
  if (v.needs(1)) {
    const bool higher = autograd::GradMode::is_enabled();
    const AutoGradMode on(true);
    const Tensor x =
        alias(v.in(1));  // a place of its own: the incoming gradient may depend on in(1) too
    const Tensor y = f.grad(TensorValue(v.in(0)), TensorValue(x)).tensor();
    if (y.requires_grad()) out[1] = autograd::grad({y}, {x}, {v.grad}, true, higher, true)[0];
  }
  return out;
}

template <class F> Tensors grad_vjp(const Vjp& v) { return grad_vjp_with(v, make_formula<F>(v)); }

template <class F, const OpDef& Backward> Tensors unary_vjp(const Vjp& v) {
  const Tensor& x = grad_from_output<F>() ? v.out() : v.in(0);
  const Tensor* const inputs[] = {&v.grad, &x};
  return {call1(Backward, inputs, v.attrs())};
}

/// vjp of a step function (floor, sign…): zero wherever it is defined.
inline Tensors zero_vjp(const Vjp& v) {
  Tensors out(v.input_count());
  for (size_t i = 0; i < out.size(); ++i)
    if (v.needs(i)) out[i] = zeros_like(v.grad);
  return out;
}

/// The op of f'(x) * grad_output, in one pass.
template <class F>
constexpr OpDef unary_backward(std::string_view schema, std::string_view doc,
                               void (*samples)(Samples&)) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_pointwise<Result::Float>,
          .cost = formula_cost<F>,
          .kernel = run_grad<F>,
          .saved = Saved::Inputs,
          .vjp = grad_vjp<F>,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

/// The op f'(x) * grad_output that a factory makes beside the op itself. Registration names it: the
/// backward of exp2(Tensor self) is exp2_backward(Tensor grad_output, Tensor self), or (…, Tensor
/// result) if the formula reads that.
template <class F>
inline constinit OpDef backward_of = {
    .doc = "grad_output times the derivative of the op",
    .kind = OpKind::Pointwise,
    .infer = infer_pointwise<Result::Float>,
    .cost = formula_cost<F>,
    .kernel = run_grad<F>,
    .saved = Saved::Inputs,
    .vjp = grad_vjp<F>,
    .samples =
        [](Samples& s) { derived_backward_samples(backward_of<F>, grad_from_output<F>(), s); },
    .any_layout = true,
    .describes = true};

/// The same op with the derivative of its formula, as an op of its own.
template <class F> constexpr OpDef with_backward(OpDef op) {
  op.saved = grad_from_output<F>() ? Saved::Output : Saved::Inputs;
  op.vjp = unary_vjp<F, backward_of<F>>;
  op.backward = &backward_of<F>;
  return op;
}

/// A unary op on floating values (integers are converted first) with a derivative, whose own op it
/// makes.
template <class F, Accept A = Accept::Any>
constexpr OpDef unary(std::string_view schema, std::string_view doc, void (*samples)(Samples&),
                      Onnx onnx = {}) {
  return with_backward<F>({.schema = schema,
                           .doc = doc,
                           .kind = OpKind::Pointwise,
                           .infer = infer_pointwise<Result::Float, A>,
                           .cost = formula_cost<F>,
                           .kernel = run_formula<F, 1, kernels::FloatTypes, Result::Float>,
                           .onnx = onnx,
                           .samples = samples,
                           .any_layout = true,
                           .describes = true});
}

/// The same where PyTorch has an op of its own for the derivative, which is given.
template <class F, const OpDef& Backward, Accept A = Accept::Any>
constexpr OpDef unary(std::string_view schema, std::string_view doc, void (*samples)(Samples&),
                      Onnx onnx = {}) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_pointwise<Result::Float, A>,
          .cost = formula_cost<F>,
          .kernel = run_formula<F, 1, kernels::FloatTypes, Result::Float>,
          .saved = grad_from_output<F>() ? Saved::Output : Saved::Inputs,
          .vjp = unary_vjp<F, Backward>,
          .onnx = onnx,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

/// A unary op on floating values whose derivative is one op.
template <class F, Accept A = Accept::Any>
constexpr OpDef unary_float(std::string_view schema, std::string_view doc, Saved saved,
                            Tensors (*vjp)(const Vjp&), void (*samples)(Samples&), Onnx onnx = {}) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_pointwise<Result::Float, A>,
          .cost = formula_cost<F>,
          .kernel = run_formula<F, 1, kernels::FloatTypes, Result::Float>,
          .saved = saved,
          .vjp = vjp,
          .onnx = onnx,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

/// A unary op that keeps the dtype (abs, relu, sign…), on integers too; its derivative may be
/// absent.
template <class F, Accept A = Accept::Any, class Types = kernels::AllTypes>
constexpr OpDef unary_same(std::string_view schema, std::string_view doc, Saved saved,
                           Tensors (*vjp)(const Vjp&), void (*samples)(Samples&), Onnx onnx = {}) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_pointwise<Result::Same, A>,
          .cost = formula_cost<F>,
          .kernel = run_formula<F, 1, Types, Result::Same>,
          .saved = saved,
          .vjp = vjp,
          .onnx = onnx,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

/// A binary op with its vjp.
template <class F, class Types = kernels::AllTypes, Result R = Result::Same, Accept A = Accept::Any>
constexpr OpDef binary(std::string_view schema, std::string_view doc, Saved saved,
                       Tensors (*vjp)(const Vjp&), void (*samples)(Samples&), Onnx onnx = {}) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_pointwise<R, A>,
          .cost = formula_cost<F>,
          .kernel = run_formula<F, 2, Types, R>,
          .saved = saved,
          .vjp = vjp,
          .onnx = onnx,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

/// A predicate of N inputs: the result is bool and no gradient flows.
template <class F, int N, class Types = kernels::AllTypes>
constexpr OpDef predicate(std::string_view schema, std::string_view doc, void (*samples)(Samples&),
                          Onnx onnx = {}) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_pointwise<Result::Bool>,
          .cost = formula_cost<F>,
          .kernel = run_formula<F, N, Types, Result::Bool>,
          .vjp = no_gradient,
          .onnx = onnx,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

/// The op as one that networks use between their layers.
constexpr OpDef activation(OpDef op) {
  op.activation = true;
  return op;
}

/// Another name of an op.
template <const OpDef& Target>
constexpr OpDef alias(std::string_view schema, std::string_view doc, void (*samples)(Samples&)) {
  return {
      .schema = schema,
      .doc = doc,
      .kind = Target.kind,
      .compose = [](const Call& c) -> Tensors { return {call1(Target, c.inputs(), c.attrs())}; },
      .samples = samples};
}

}  // namespace pellucid
