// How a pointwise loss becomes records. A loss is a formula of (x, target):
//     template <class V> V value(V x, V t) const;
//     template <class V> V grad(V g, V x, V t) const;         // the gradient by x
//     template <class V> V grad_target(V g, V x, V t) const;  // absent where value(x, t) ==
//     value(t, x)
// Its first attribute is the reduction. With mean or sum, blocks of losses are computed and added
// in a fixed order, so that the losses themselves never reach memory.
#pragma once

#include "ops/formula.h"
#include "ops/plain_gradient.h"

namespace pellucid {

/// aten's numbers for `reduction`.
namespace reduction {
inline constexpr int64_t kNone = 0, kMean = 1, kSum = 2;
}

/// The reduction that attribute i names; throws ValueError for other numbers.
int64_t reduction_attr(const Call& c, size_t i);
/// The losses themselves, their mean or their sum.
Tensor apply_reduction(const Tensor& losses, int64_t how);
/// Sum of loop(in[0], in[1]) over n elements of contiguous inputs of `type`, float32 or float64.
double sum_of_losses(kernels::InnerLoop loop, const void* formula, DType type,
                     const void* const* in, int64_t n);
/// Tells the loop of a reduced loss over its two inputs, for a group (Call::described).
void describe_sum_of_losses(const Call& c, const kernels::LoopTable& loops, const void* formula,
                            double work);
/// Writes a number into a 0-dimensional floating tensor.
void store_number(const Tensor& out, double value);
/// How many losses inputs of these sizes have.
int64_t loss_count(std::string_view op, IntArrayRef self, IntArrayRef target);
/// Whether the call's two inputs can be read block by block without conversion.
bool one_pass(const Call& c);

void infer_loss(Call& c);
void infer_loss_backward(Call& c);

/// A formula whose incoming gradient is divided by the number of losses.
template <class F> struct ScaledLoss {
  static constexpr double kFlops = flops_of<F>() + 1;
  F formula;
  double scale;
  template <class V> V grad(V g, V x, V t) const { return formula.grad(g * V(scale), x, t); }
};

/// infer_loss, and what the formula's constructor checks of its parameters.
template <class F> void infer_loss_of(Call& c) {
  infer_loss(c);
  make_formula<F>(c);
}

template <class F> void run_loss(Call& c) {
  const F f = make_formula<F>(c);
  const int64_t how = c.integer(0);
  if (how == reduction::kNone) return run_with<F, 2, kernels::FloatTypes, Result::Float>(c, f);
  if (c.described())
    return describe_sum_of_losses(c, kernels::pointwise_loops<F, kernels::ValueKind<2>>(), &f,
                                  flops_of<F>());
  const int64_t n = loss_count(c.name(), c.in(0).sizes(), c.in(1).sizes());
  double result = 0;
  if (one_pass(c)) {
    const void* in[] = {c.in(0).raw_data(), c.in(1).raw_data()};
    const kernels::LoopTable& loops = kernels::pointwise_loops<F, kernels::ValueKind<2>>();
    result = sum_of_losses(kernels::loop_for(loops, c.out().dtype()), &f, c.out().dtype(), in, n);
  } else {
    const NoGradGuard off;
    std::vector<Attr> attrs(c.attrs().begin(), c.attrs().end());
    attrs[0] = Attr(reduction::kNone);
    result =
        call1(c.op(), c.inputs(), attrs).sum(std::nullopt, false, kFloat64).template item<double>();
  }
  store_number(c.out(), how == reduction::kMean ? result / static_cast<double>(n) : result);
}

template <class F> Cost loss_cost(const Call& c) {
  const auto n = static_cast<double>(loss_count(c.name(), c.in(0).sizes(), c.in(1).sizes()));
  return {(flops_of<F>() + (c.integer(0) == reduction::kNone ? 0 : 1)) * n, moved_bytes(c)};
}

/// Attributes of a backward op are those of the loss; its inputs are grad_output, self, target.
template <class F> ScaledLoss<F> scaled(const AttrReader& a, int64_t n) {
  return {make_formula<F>(a),
          a.integer(0) == reduction::kMean ? 1.0 / static_cast<double>(n) : 1.0};
}

template <class F> void run_loss_backward(Call& c) {
  static constexpr size_t inputs[] = {0, 1, 2};
  const ScaledLoss<F> f = scaled<F>(c, c.out().numel());
  const DType computed = compute_type(to_float(result_type(c)));
  run_loop(c, kernels::pointwise_loops<ScaledLoss<F>, kernels::GradKind<3>>(), &f, computed,
           computed, inputs, 2 * flops_of<F>(), false, computed);
}

template <class F, const OpDef& Backward> Tensors loss_vjp(const Vjp& v) {
  const Tensor &x = v.in(0), &t = v.in(1);
  Tensors out(2);
  const auto backward = [&](const Tensor& a, const Tensor& b) {
    const Tensor* const inputs[] = {&v.grad, &a, &b};
    return call1(Backward, inputs, v.attrs());
  };
  if (v.needs(0)) out[0] = backward(x, t);
  if (!v.needs(1)) return out;
  if constexpr (requires(F f, TensorValue a) { f.grad_target(a, a, a); }) {
    const ScaledLoss<F> f = scaled<F>(v, loss_count("backward", x.sizes(), t.sizes()));
    out[1] =
        f.formula
            .grad_target(TensorValue(v.grad) * TensorValue(f.scale), TensorValue(x), TensorValue(t))
            .tensor();
  } else {
    out[1] = backward(t, x);
  }
  return out;
}

template <class F, const OpDef& Backward> Tensors loss_backward_vjp(const Vjp& v) {
  const Tensor &x = v.in(1), &t = v.in(2);
  Tensors out(3);
  if (v.needs(1) || v.needs(2)) {
    const ScaledLoss<F> f = scaled<F>(v, loss_count("backward", x.sizes(), t.sizes()));
    const auto formula = [&f](const Tensors& in) -> Tensors {
      return {f.grad(TensorValue(in[0]), TensorValue(in[1]), TensorValue(in[2])).tensor()};
    };
    out = plain_gradients(formula, {v.in(0), x, t}, {false, v.needs(1), v.needs(2)}, v.grads);
  }
  if (v.needs(0)) {  // linear in grad_output
    const Tensor* const inputs[] = {&v.grad, &x, &t};
    out[0] = call1(Backward, inputs, v.attrs());
  }
  return out;
}

/// The op of a loss; its schema starts (Tensor self, Tensor target, int reduction=1, …).
template <class F, const OpDef& Backward>
constexpr OpDef loss(std::string_view schema, std::string_view doc, void (*samples)(Samples&),
                     void (*kernel)(Call&) = run_loss<F>) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Reduction,
          .infer = infer_loss_of<F>,
          .cost = loss_cost<F>,
          .kernel = kernel,
          .saved = Saved::Inputs,
          .vjp = loss_vjp<F, Backward>,
          .samples = samples,
          .any_layout = true,
          .describes = kernel == run_loss<F>};
}

/// The op of its gradient by self; the schema is (Tensor grad_output, Tensor self, Tensor
/// target, int reduction, …).
template <class F, const OpDef& Self>
constexpr OpDef loss_backward(std::string_view schema, std::string_view doc,
                              void (*samples)(Samples&)) {
  return {.schema = schema,
          .doc = doc,
          .kind = OpKind::Pointwise,
          .infer = infer_loss_backward,
          .cost = formula_cost<ScaledLoss<F>>,
          .kernel = run_loss_backward<F>,
          .saved = Saved::Inputs,
          .vjp = loss_backward_vjp<F, Self>,
          .samples = samples,
          .any_layout = true,
          .describes = true};
}

}  // namespace pellucid
