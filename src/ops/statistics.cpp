// Variance and standard deviation over any dims, alone and with the mean. Medians and quantiles are
// not here.
#include "ops/reduce.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

using kernels::ReduceOp;

// Attributes of the .correction overloads: dim, correction, keepdim.
double correction_of(const AttrReader& a) { return a.has_attr(1) ? a.number(1) : 1.0; }

void infer_variance(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  const Dims dims = dims_attr(c, 0);
  make_reduced(c, dims, c.flag(2), c.in(0).dtype());
  if (c.wants(1))
    make_reduced(c, dims, c.flag(2), c.in(0).dtype());
  else
    c.skip_output();
}

template <ReduceOp Op> void run_variance(Call& c) {
  run_or_describe(c, Op, dims_attr(c, 0), c.out(0), c.out(1), correction_of(c));
}

Cost variance_cost(const Call& c) {
  return {3.0 * static_cast<double>(c.in(0).numel()), moved_bytes(c)};
}

/// d var = 2 (x - mean) / (n - correction), d std = d var / (2 std), d mean = 1 / n.
template <ReduceOp Op> Tensors variance_vjp(const Vjp& v) {
  const Dims dims = dims_attr(v, 0);
  const IntArrayRef sizes = v.in_sizes(0);
  const auto ndim = static_cast<int64_t>(sizes.size());
  const auto n = static_cast<double>(reduced_count(sizes, dims));
  const bool keep = v.flag(2);
  Tensor result;
  if (v.grads[0].defined()) {
    Tensor g = v.grads[0].mul((Op == ReduceOp::Std ? 1.0 : 2.0) / (n - correction_of(v)));
    // A deviation of 0 is a kink: no gradient, as PyTorch has it.
    if (Op == ReduceOp::Std) g = where(v.out(0).eq(0.0), Scalar(0.0), g.div(v.out(0)));
    result = v.in(0)
                 .sub(restore_dims(v.out(1), dims, ndim, keep))
                 .mul(restore_dims(g, dims, ndim, keep));
  }
  if (v.grads[1].defined()) {
    const Tensor part = spread(v.grads[1].div(n), dims, sizes, keep);
    result = result.defined() ? result.add(part) : part;
  }
  return {result};
}

// Calls the .correction op for the overloads that say `unbiased`; dims are all where `dim` is
// absent.
template <const OpDef& Target>
Tensors with_correction(const Call& c, Attr dim, bool unbiased, bool keepdim) {
  const Attr attrs[] = {dim, Attr(Scalar(unbiased ? 1 : 0)), Attr(keepdim)};
  return call(Target, c.inputs(), attrs);
}
template <const OpDef& Target> Tensors compose_all(const Call& c) {
  return with_correction<Target>(c, Attr(), c.flag(0), false);
}
template <const OpDef& Target> Tensors compose_dim(const Call& c) {
  return with_correction<Target>(c, c.attr(0), c.flag(1), c.flag(2));
}

void samples_of_correction(Samples& s) {
  s.add({sample_randn({2, 3})});
  s.add({sample_randn({2, 3, 2}), Value::ints({0, 2})}, {{"correction", 0}, {"keepdim", true}});
  s.add({sample_randn({3, 4}).permute({1, 0}), Value::ints({0})}, {{"correction", 0.5}});
  s.add({sample_randn({3, 4}), Value::ints({-1})});
  s.error({sample_ints({3}, 0, 5)}, "must be a floating tensor");
  s.error({sample_randn({2, 3}), Value::ints({2})}, "dim 2 is out of range");
  s.large([] { return Values{randn({4096, 1024}), Value::ints({1})}; });
}
void samples_of_all(Samples& s) {
  s.add({sample_randn({2, 3}), true});
  s.add({sample_randn({4}), false});
}
void samples_of_dim(Samples& s) {
  s.add({sample_randn({2, 3}), Value::ints({1}), true});
  s.add({sample_randn({2, 3, 2}), Value::ints({0, 1}), false, true});
  s.error({sample_randn({2, 3}), Value::ints({2}), true}, "dim 2 is out of range");
}

}  // namespace

// The overloads that take `unbiased` have no default for it, as in libtorch: var(x) is
// var.correction.
extern constinit const OpDef var_correction_op = {
    .schema =
        "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
        "keepdim=False) -> (Tensor, Tensor _mean)",
    .doc = "sum((x - mean)²) / (n - correction) over the given dims (all by default).",
    .kind = OpKind::Reduction,
    .infer = infer_variance,
    .cost = variance_cost,
    .kernel = run_variance<ReduceOp::Var>,
    .saved = Saved::Inputs | Saved::output(1),
    .vjp = variance_vjp<ReduceOp::Var>,
    .samples = samples_of_correction,
    .any_layout = true,
    .describes = true};
extern constinit const OpDef var_op = {.schema = "var(Tensor self, bool unbiased) -> Tensor",
                                       .doc = "The variance of all elements.",
                                       .kind = OpKind::Reduction,
                                       .compose = compose_all<var_correction_op>,
                                       .samples = samples_of_all};
extern constinit const OpDef var_dim_op = {
    .schema = "var.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> Tensor",
    .doc = "The variance over the given dims.",
    .kind = OpKind::Reduction,
    .compose = compose_dim<var_correction_op>,
    .samples = samples_of_dim};

extern constinit const OpDef std_correction_op = {
    .schema =
        "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
        "keepdim=False) -> (Tensor, Tensor _mean)",
    .doc = "sqrt(sum((x - mean)²) / (n - correction)) over the given dims (all by default).",
    .kind = OpKind::Reduction,
    .infer = infer_variance,
    .cost = variance_cost,
    .kernel = run_variance<ReduceOp::Std>,
    .saved = Saved::InputsAndOutputs,
    .vjp = variance_vjp<ReduceOp::Std>,
    .samples = samples_of_correction,
    .any_layout = true,
    .describes = true};
extern constinit const OpDef std_op = {.schema = "std(Tensor self, bool unbiased) -> Tensor",
                                       .doc = "The standard deviation of all elements.",
                                       .kind = OpKind::Reduction,
                                       .compose = compose_all<std_correction_op>,
                                       .samples = samples_of_all};
extern constinit const OpDef std_dim_op = {
    .schema = "std.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> Tensor",
    .doc = "The standard deviation over the given dims.",
    .kind = OpKind::Reduction,
    .compose = compose_dim<std_correction_op>,
    .samples = samples_of_dim};

extern constinit const OpDef var_mean_correction_op = {
    .schema =
        "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
        "keepdim=False) -> (Tensor, Tensor)",
    .doc = "The variance and the mean over the given dims, in one pass.",
    .kind = OpKind::Reduction,
    .infer = infer_variance,
    .cost = variance_cost,
    .kernel = run_variance<ReduceOp::Var>,
    .saved = Saved::Inputs | Saved::output(1),
    .vjp = variance_vjp<ReduceOp::Var>,
    .samples = samples_of_correction,
    .any_layout = true,
    .describes = true};
extern constinit const OpDef var_mean_op = {
    .schema = "var_mean(Tensor self, bool unbiased) -> (Tensor, Tensor)",
    .doc = "The variance and the mean of all elements.",
    .kind = OpKind::Reduction,
    .compose = compose_all<var_mean_correction_op>,
    .samples = samples_of_all};
extern constinit const OpDef var_mean_dim_op = {
    .schema =
        "var_mean.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> (Tensor, "
        "Tensor)",
    .doc = "The variance and the mean over the given dims.",
    .kind = OpKind::Reduction,
    .compose = compose_dim<var_mean_correction_op>,
    .samples = samples_of_dim};

extern constinit const OpDef std_mean_correction_op = {
    .schema =
        "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
        "keepdim=False) -> (Tensor, Tensor)",
    .doc = "The standard deviation and the mean over the given dims, in one pass.",
    .kind = OpKind::Reduction,
    .infer = infer_variance,
    .cost = variance_cost,
    .kernel = run_variance<ReduceOp::Std>,
    .saved = Saved::InputsAndOutputs,
    .vjp = variance_vjp<ReduceOp::Std>,
    .samples = samples_of_correction,
    .any_layout = true,
    .describes = true};
extern constinit const OpDef std_mean_op = {
    .schema = "std_mean(Tensor self, bool unbiased) -> (Tensor, Tensor)",
    .doc = "The standard deviation and the mean of all elements.",
    .kind = OpKind::Reduction,
    .compose = compose_all<std_mean_correction_op>,
    .samples = samples_of_all};
extern constinit const OpDef std_mean_dim_op = {
    .schema =
        "std_mean.dim(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> (Tensor, "
        "Tensor)",
    .doc = "The standard deviation and the mean over the given dims.",
    .kind = OpKind::Reduction,
    .compose = compose_dim<std_mean_correction_op>,
    .samples = samples_of_dim};

}  // namespace pellucid
