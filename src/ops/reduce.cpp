// Reductions: sum, mean, prod, extremes and their places, any, all, logsumexp. Running sums and
// products are in reduce_scan.cpp, variances in statistics.cpp, norms in vector_norm.cpp.
#include "ops/reduce.h"

#include <cmath>
#include <limits>

#include "kernels/tiles.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor/phantom.h"

namespace pellucid {

using kernels::ReduceOp;

int64_t count_zeros(const Tensor& x) {
  if (!detail::has_values(x.impl())) return 0;
  const NoGradGuard off;
  return x.eq(0).sum().item<int64_t>();
}

Dims dims_attr(const Call& c, size_t i) {
  return wrap_dims(c.name(), c.has_attr(i) ? OptionalIntArrayRef(c.ints(i)) : OptionalIntArrayRef(),
                   c.in(0).dim());
}

Dims dims_attr(const Vjp& v, size_t i) {
  return wrap_dims("backward",
                   v.has_attr(i) ? OptionalIntArrayRef(v.ints(i)) : OptionalIntArrayRef(),
                   static_cast<int64_t>(v.in_sizes(0).size()));
}

Dims dim_attr(const Call& c, size_t i) {
  const int64_t ndim = c.in(0).dim();
  if (!c.has_attr(i)) return wrap_dims(c.name(), {}, ndim);
  const int64_t dim = wrap_dim(c.name(), c.integer(i), ndim);
  return ndim == 0 ? Dims() : Dims{dim};
}

int64_t reduced_count(IntArrayRef sizes, IntArrayRef dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= sizes[static_cast<size_t>(d)];
  return n;
}

void make_reduced(Call& c, IntArrayRef dims, bool keepdim, DType dtype) {
  PELLUCID_CHECK(
      c.in(0).dim() <= kMaxReducedDims, ShapeError,
      "{}: a reduction takes at most {} dimensions, found {} (sizes {}). Reshape the tensor first.",
      c.name(), kMaxReducedDims, c.in(0).dim(), c.in(0).sizes());
  c.make_output(reduced_sizes(c.in(0).sizes(), dims, keepdim), dtype);
}

namespace {

// What the kernel takes, but for memory. The outputs are row-major: one stride per input dim,
// skipping the reduced ones.
struct Reduction {
  Reduction(const Tensor& input, ReduceOp op, IntArrayRef dims, const Tensor& out, double parameter)
      : out_strides(input.impl().sizes.size(), 0) {
    const detail::TensorImpl& in = input.impl();
    int64_t step = 1;
    size_t next = dims.size();
    for (size_t d = in.sizes.size(); d-- > 0;) {
      if (next > 0 && dims[next - 1] == static_cast<int64_t>(d)) {
        args.reduced |= uint64_t{1} << d;
        --next;
      } else {
        out_strides[d] = step;
        step *= in.sizes[d];
      }
    }
    args.op = op;
    args.in_type = in.dtype;
    args.out_type = out.defined() ? out.dtype() : in.dtype;
    args.sizes = in.sizes;
    args.in_strides = in.strides;
    args.out_strides = out_strides;
    args.parameter = parameter;
  }
  void set_second(void* second) {
    if (args.op == ReduceOp::ArgMax || args.op == ReduceOp::ArgMin)
      args.indices = static_cast<int64_t*>(second);
    else
      args.mean = second;
  }
  Dims out_strides;
  kernels::ReduceArgs args;
};

// What a loop over rows needs to know. Results are those of the call: values, and what comes with
// them, or places alone.
struct SomeRows {
  kernels::RowReduction reduction;
  bool has_values, has_second;
};
void reduce_tile(const void* context, const kernels::TileRows& t) {
  const auto& s = *static_cast<const SomeRows*>(context);
  void* const second = s.has_second ? t.out[s.has_values ? 1 : 0] : nullptr;
  kernels::reduce_some_rows(s.reduction, t.in[0], t.rows, s.has_values ? t.out[0] : nullptr,
                            second);
}

// How many elements the last dims have that are all reduced; 0 where others are reduced, too.
int64_t reduced_row(IntArrayRef sizes, uint64_t reduced) {
  int64_t row = 1;
  size_t d = sizes.size();
  while (d > 0 && (sizes[d - 1] == 1 || (reduced >> (d - 1) & 1) != 0)) row *= sizes[--d];
  while (d > 0)
    if (--d; sizes[d] != 1 && (reduced >> d & 1) != 0) return 0;
  return row;
}

void describe_reduction(const Call& c, const Reduction& r, const Tensor& out,
                        const Tensor& second) {
  const detail::TensorImpl& in = c.in(0).impl();
  kernels::TileStep& step = *c.described();
  const bool heavy = r.args.op == ReduceOp::LogSumExp || r.args.op == ReduceOp::Norm;
  step.work = heavy ? 4 : 1;
  step.out_computed = c.out().dtype();
  step.input_count = 1;
  step.inputs[0] = {.number = 0, .computed = in.dtype, .through = in.dtype};
  if (in.numel == 0 || in.sizes.empty()) return;
  const int64_t row = reduced_row(in.sizes, r.args.reduced), rows = row > 0 ? in.numel / row : 0;
  if (in.is_contiguous() && rows > 1 && row <= kernels::kMostInRow) {
    const SomeRows context{.reduction = {.op = r.args.op,
                                         .in_type = in.dtype,
                                         .out_type = r.args.out_type,
                                         .many = kernels::reduces_many(rows),
                                         .count = row,
                                         .parameter = r.args.parameter},
                           .has_values = out.defined(),
                           .has_second = second.defined()};
    step.by_rows(reduce_tile, row, context);
    step.reduces = true;
    return;
  }
  kernels::ReduceArgs args = r.args;
  static char exists[8];
  args.out = out.defined() ? exists : nullptr;
  step.fold = kernels::piece_fold(args);
  if (!step.fold) return;
  step.inputs[0].computed = step.fold->computed;
}

}  // namespace

void run_reduction(const Tensor& input, ReduceOp op, IntArrayRef dims, const Tensor& out,
                   const Tensor& second, double parameter) {
  Reduction r(input, op, dims, out, parameter);
  r.args.in = input.impl().data();
  r.args.out = out.defined() ? out.raw_data() : nullptr;
  if (second.defined()) r.set_second(second.raw_data());
  kernels::reduce(r.args);
}

void run_or_describe(Call& c, ReduceOp op, const Dims& dims, const Tensor& out,
                     const Tensor& second, double parameter) {
  if (!c.described()) [[likely]]
    return run_reduction(c.in(0), op, dims, out, second, parameter);
  describe_reduction(c, Reduction(c.in(0), op, dims, out, parameter), out, second);
}

Cost reduction_cost(const Call& c) {
  return {static_cast<double>(c.in(0).numel()), moved_bytes(c)};
}

Tensor spread(const Tensor& reduced, IntArrayRef dims, IntArrayRef sizes, bool keepdim) {
  return restore_dims(reduced, dims, static_cast<int64_t>(sizes.size()), keepdim).expand(sizes);
}

void check_not_empty(const Call& c, IntArrayRef dims) {
  const IntArrayRef sizes = c.in(0).sizes();
  if (c.in(0).numel() != 0) return;
  for (int64_t d : dims)
    PELLUCID_CHECK(sizes[static_cast<size_t>(d)] != 0, ShapeError,
                   "{}: dimension {} of sizes {} has no element, and {} of nothing is not defined.",
                   c.name(), d, sizes, c.name());
}

namespace {

template <ReduceOp Op> void run_simple(Call& c) {
  run_or_describe(c, Op, dims_attr(c, 0), c.out(), {}, 0);
}

// A sum or product. Floats to be summed as integers are truncated one by one.
void run_sum(Call& c, ReduceOp op, const Dims& dims) {
  const Tensor& x = c.in(0);
  if (!is_floating(x.dtype()) || is_floating(c.out().dtype()))
    return run_or_describe(c, op, dims, c.out(), {}, 0);
  const NoGradGuard off;
  if (!c.described()) run_reduction(x.to(c.out().dtype()), op, dims, c.out(), {}, 0);
}

DType sum_type(const Call& c) {
  if (c.has_attr(2)) return c.dtype(2);
  return is_integral(c.in(0).dtype(), true) ? kInt64 : c.in(0).dtype();
}

void infer_sum(Call& c) {
  check_defined(c, 0, "self");
  make_reduced(c, dims_attr(c, 0), c.flag(1), sum_type(c));
}

void infer_mean(Call& c) {
  check_defined(c, 0, "self");
  const DType t = c.has_attr(2) ? c.dtype(2) : c.in(0).dtype();
  PELLUCID_CHECK(
      is_floating(t), TypeError,
      "mean: the result would be {}; a mean is floating. Pass dtype=float32 or convert the input.",
      t);
  make_reduced(c, dims_attr(c, 0), c.flag(1), t);
}

void infer_prod(Call& c) {
  check_defined(c, 0, "self");
  make_reduced(c, dim_attr(c, 0), c.flag(1), sum_type(c));
}

Tensors sum_vjp(const Vjp& v) {
  return {spread(v.grad, dims_attr(v, 0), v.in_sizes(0), v.flag(1))};
}

Tensors mean_vjp(const Vjp& v) {
  const Dims dims = dims_attr(v, 0);
  return {spread(v.grad.div(static_cast<double>(reduced_count(v.in_sizes(0), dims))), dims,
                 v.in_sizes(0), v.flag(1))};
}

// Products of all elements but one along the last dim, right where some are zero.
Tensor product_of_others(const Tensor& x) {
  const int64_t n = x.size(-1);
  const Tensor one = ones_like(x.slice(-1, 0, 1));
  const Tensor left = cat(Tensors{one, x.slice(-1, 0, n - 1).cumprod(-1)}, -1);
  const Tensor right =
      cat(Tensors{one, x.flip({-1}).slice(-1, 0, n - 1).cumprod(-1)}, -1).flip({-1});
  return left.mul(right);
}

// As PyTorch, also in what NaN gives: a quotient where there is no zero, the products of the others
// where there is one, and 0 where the product of all has two.
Tensors prod_vjp(const Vjp& v) {
  const Tensor& x = v.in(0);
  if (x.numel() == 0) return {zeros_like(x)};
  if (x.dim() == 0) return {v.grad};
  const bool all = !v.has_attr(0);
  const int64_t dim = all ? 0 : wrap_dim("prod", v.integer(0), x.dim());
  const bool expand = !all && !v.flag(1);
  const Tensor g = expand ? v.grad.unsqueeze(dim) : v.grad;
  const int64_t zeros_inside = count_zeros(x);
  if (zeros_inside == 0) return {g.mul(expand ? v.out().unsqueeze(dim) : v.out()).div(x)};
  if (all && zeros_inside > 1 && !autograd::GradMode::is_enabled()) return {zeros_like(x)};
  if (all) return {g.mul(product_of_others(x.reshape({-1})).reshape(x.sizes()))};
  return {g.mul(product_of_others(x.transpose(dim, -1)).transpose(dim, -1))};
}

// The gradient of an extreme goes to all elements that equal it, in equal parts.
Tensors extreme_vjp(const Vjp& v) {
  const Dims dims = dims_attr(v, 0);
  const bool keep = v.flag(1);
  const auto n = static_cast<int64_t>(v.in_sizes(0).size());
  const Tensor mask = v.in(0).eq(restore_dims(v.out(), dims, n, keep)).to(v.grad.dtype());
  const Tensor share = restore_dims(v.grad, dims, n, keep).div(mask.sum(dims.ref(), true));
  return {mask.mul(share)};
}

void infer_extreme(Call& c) {
  check_defined(c, 0, "self");
  const Dims dims = dims_attr(c, 0);
  check_not_empty(c, dims);
  make_reduced(c, dims, c.flag(1), c.in(0).dtype());
}

// max() and min() of all elements: no attributes, so the shared rules get none to read.
template <ReduceOp Op> void run_all(Call& c) {
  run_or_describe(c, Op, wrap_dims(c.name(), {}, c.in(0).dim()), c.out(), {}, 0);
}

void infer_extreme_of_all(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(0).numel() > 0, ShapeError,
                 "{}: the tensor has no elements (sizes {}), and {} of nothing is not defined.",
                 c.name(), c.in(0).sizes(), c.name());
  make_reduced(c, wrap_dims(c.name(), {}, c.in(0).dim()), false, c.in(0).dtype());
}

void infer_extreme_dim(Call& c) {
  check_defined(c, 0, "self");
  const Dims dims = dim_attr(c, 0);
  check_not_empty(c, dims);
  make_reduced(c, dims, c.flag(1), c.in(0).dtype());
  make_reduced(c, dims, c.flag(1), kInt64);
}

template <ReduceOp Op> void run_extreme_dim(Call& c) {
  run_or_describe(c, Op, dim_attr(c, 0), c.out(0), c.out(1), 0);
}

Tensors extreme_dim_vjp(const Vjp& v) {
  const IntArrayRef sizes = v.in_sizes(0);
  if (sizes.empty()) return {v.grads[0]};
  if (!v.grads[0].defined()) return {Tensor()};
  const int64_t dim = wrap_dim("max", v.integer(0), static_cast<int64_t>(sizes.size()));
  const Tensor g = v.flag(1) ? v.grad : v.grad.unsqueeze(dim);
  const Tensor at = v.flag(1) ? v.out(1) : v.out(1).unsqueeze(dim);
  return {zeros(sizes, v.grad.dtype()).scatter(dim, at, g)};
}

void infer_argextreme(Call& c) {
  check_defined(c, 0, "self");
  const Dims dims = dim_attr(c, 0);
  if (c.has_attr(0))
    check_not_empty(c, dims);
  else
    PELLUCID_CHECK(c.in(0).numel() > 0, ShapeError,
                   "{}: the tensor has no elements (sizes {}); name a dim that has some.", c.name(),
                   c.in(0).sizes());
  make_reduced(c, dims, c.flag(1), kInt64);
}

template <ReduceOp Op> void run_argextreme(Call& c) {
  run_or_describe(c, Op, dim_attr(c, 0), {}, c.out(), 0);
}

// any and all over no dims at all keep every element, as in PyTorch; absent dims mean all of them.
Dims truth_dims(const Call& c) {
  return wrap_dims(c.name(), c.has_attr(0) ? OptionalIntArrayRef(c.ints(0)) : OptionalIntArrayRef(),
                   c.in(0).dim(), false);
}

void infer_truth(Call& c) {
  check_defined(c, 0, "self");
  make_reduced(c, truth_dims(c), c.flag(1), c.in(0).dtype() == kUInt8 ? kUInt8 : kBool);
}

template <ReduceOp Op> void run_truth(Call& c) {
  run_or_describe(c, Op, truth_dims(c), c.out(), {}, 0);
}

void infer_logsumexp(Call& c) {
  check_defined(c, 0, "self");
  make_reduced(c, dims_attr(c, 0), c.flag(1), to_float(c.in(0).dtype()));
}

Tensors logsumexp_vjp(const Vjp& v) {
  const Dims dims = dims_attr(v, 0);
  const auto n = static_cast<int64_t>(v.in_sizes(0).size());
  const Tensor out = restore_dims(v.out(), dims, n, v.flag(1));
  // -inf - -inf would be NaN where a whole line is -inf: no gradient there.
  const Tensor weight = v.in(0).sub(where(out.eq(-INFINITY), Scalar(0.0), out)).exp();
  return {restore_dims(v.grad, dims, n, v.flag(1)).mul(weight)};
}

void samples_of_reduction(Samples& s) {
  s.add({sample_randn({2, 3})});
  s.add({sample_randn({2, 3, 2}), Value::ints({0, 2})});
  s.add({sample_randn({2, 3, 2}), Value::ints({-1}), true});
  s.add({sample_randn({3, 4}).permute({1, 0}), Value::ints({0})});
  s.add({sample_randn({})});
  s.error({sample_randn({2, 3}), Value::ints({2})}, "dim 2 is out of range");
  s.error({sample_randn({2, 3}), Value::ints({1, -1})}, "appears more than once");
  s.large([] { return Values{randn({4096, 1024})}; });
}

void samples_with_empty(Samples& s) {
  samples_of_reduction(s);
  s.add({sample_randn({0, 3}), Value::ints({0})});
  s.add_no_grad({sample_ints({3, 2}, -9, 9), Value::ints({0})});
  s.add_no_grad({sample_randn({3, 2}), Value::ints({0})}, {{"dtype", kInt64}});
}

void samples_of_extreme(Samples& s) {
  samples_of_reduction(s);
  s.error({sample_randn({0, 3}), Value::ints({0})}, "of nothing is not defined");
}

void samples_of_extreme_dim(Samples& s) {
  s.add({sample_randn({3, 4}), 1});
  s.add({sample_randn({3, 4}), 0, true});
  s.add({sample_randn({2, 3, 2}).permute({2, 0, 1}), -2});
  s.add({sample_randn({}), 0});
  s.error({sample_randn({3, 0}), 1}, "of nothing is not defined");
  s.error({sample_randn({3, 4}), 2}, "dim 2 is out of range");
}

void samples_of_extreme_of_all(Samples& s) {
  s.add({sample_randn({3, 4})});
  s.add({sample_randn({})});
  s.error({sample_randn({0})}, "the tensor has no elements");
}

void samples_of_arg(Samples& s) {
  s.add({sample_randn({3, 4})});
  s.add({sample_randn({3, 4}), 1});
  s.add({sample_randn({3, 4}), 0, true});
  s.error({sample_randn({3, 0}), 1}, "of nothing is not defined");
  s.error({sample_randn({0})}, "the tensor has no elements");
  s.large([] { return Values{randn({4096, 1024})}; });
}

void samples_with_nan(Samples& s) {
  const Tensor x = sample_randn({3, 4});
  const Tensor holes = where(x.gt(0.7), Scalar(std::numeric_limits<double>::quiet_NaN()), x);
  s.add({x});
  s.add_no_grad({holes, Value::ints({1})});
  s.add_no_grad({holes, Value::ints({0}), true});
  s.error({x, Value::ints({2})}, "dim 2 is out of range");
}

void samples_of_truth(Samples& s) {
  s.add({sample_randn({3, 4}).gt(0.5)});
  s.add({sample_randn({3, 4}).gt(-3), Value::ints({1})});
  s.add({sample_ints({3, 4}, 0, 2), Value::ints({0}), true});
  s.add({sample_randn({0, 3}), Value::ints({0})});
  s.add({sample_ints({2, 3}, 0, 2), Value::ints({})});
  s.error({sample_randn({3, 4}), Value::ints({2})}, "dim 2 is out of range");
}

}  // namespace

Tensors shared_among_equals_vjp(const Vjp& v) {
  const Tensor mask = v.in(0).eq(v.out()).logical_or(v.in(0).isnan()).to(v.grad.dtype());
  return {mask.mul(v.grad.div(mask.sum()))};
}

extern constinit const OpDef sum_op = {
    .schema =
        "sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
        "Tensor",
    .doc = "The sum of the elements over the given dims (all by default); integers sum in int64.",
    .kind = OpKind::Reduction,
    .infer = infer_sum,
    .cost = reduction_cost,
    .kernel = [](Call& c) { run_sum(c, ReduceOp::Sum, dims_attr(c, 0)); },
    .vjp = sum_vjp,
    .onnx = {"ReduceSum", 13},
    .samples = samples_with_empty,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef mean_op = {
    .schema =
        "mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
        "Tensor",
    .doc = "The mean of the elements over the given dims (all by default).",
    .kind = OpKind::Reduction,
    .infer = infer_mean,
    .cost = reduction_cost,
    .kernel = run_simple<ReduceOp::Mean>,
    .vjp = mean_vjp,
    .onnx = {"ReduceMean", 13},
    .samples =
        [](Samples& s) {
          samples_of_reduction(s);
          s.error({sample_ints({3}, 0, 5)}, "a mean is floating");
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef prod_op = {
    .schema =
        "prod(Tensor self, int? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    .doc = "The product of the elements over one dim (all by default).",
    .kind = OpKind::Reduction,
    .infer = infer_prod,
    .cost = reduction_cost,
    .kernel = [](Call& c) { run_sum(c, ReduceOp::Prod, dim_attr(c, 0)); },
    .saved = Saved::InputsAndOutputs,
    .vjp = prod_vjp,
    .onnx = {"ReduceProd", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({2, 3, 2}), 1});
          s.add({sample_randn({2, 3, 2}), -1, true});
          s.add({sample_randn({2, 3}).mul(sample_ints({2, 3}, 0, 2)), 1});  // zeros inside
          s.add({sample_randn({0, 3}), 0});
          s.add({sample_randn({})});
          s.error({sample_randn({2, 3}), 2}, "dim 2 is out of range");
        },
    .describes = true};

extern constinit const OpDef amax_op = {
    .schema = "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    .doc = "The greatest element over the given dims (all by default); NaN wins.",
    .kind = OpKind::Reduction,
    .infer = infer_extreme,
    .cost = reduction_cost,
    .kernel = run_simple<ReduceOp::Max>,
    .saved = Saved::InputsAndOutputs,
    .vjp = extreme_vjp,
    .onnx = {"ReduceMax", 13},
    .samples = samples_of_extreme,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef amin_op = {
    .schema = "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    .doc = "The least element over the given dims (all by default); NaN wins.",
    .kind = OpKind::Reduction,
    .infer = infer_extreme,
    .cost = reduction_cost,
    .kernel = run_simple<ReduceOp::Min>,
    .saved = Saved::InputsAndOutputs,
    .vjp = extreme_vjp,
    .onnx = {"ReduceMin", 13},
    .samples = samples_of_extreme,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef max_op = {.schema = "max(Tensor self) -> Tensor",
                                       .doc = "The greatest element; NaN wins.",
                                       .kind = OpKind::Reduction,
                                       .infer = infer_extreme_of_all,
                                       .cost = reduction_cost,
                                       .kernel = run_all<ReduceOp::Max>,
                                       .saved = Saved::InputsAndOutputs,
                                       .vjp = shared_among_equals_vjp,
                                       .samples = samples_of_extreme_of_all,
                                       .any_layout = true,
                                       .describes = true};

extern constinit const OpDef min_op = {.schema = "min(Tensor self) -> Tensor",
                                       .doc = "The least element; NaN wins.",
                                       .kind = OpKind::Reduction,
                                       .infer = infer_extreme_of_all,
                                       .cost = reduction_cost,
                                       .kernel = run_all<ReduceOp::Min>,
                                       .saved = Saved::InputsAndOutputs,
                                       .vjp = shared_among_equals_vjp,
                                       .samples = samples_of_extreme_of_all,
                                       .any_layout = true,
                                       .describes = true};

extern constinit const OpDef max_dim_op = {
    .schema =
        "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    .doc = "The greatest element along a dim and its first place.",
    .kind = OpKind::Reduction,
    .infer = infer_extreme_dim,
    .cost = reduction_cost,
    .kernel = run_extreme_dim<ReduceOp::ArgMax>,
    .saved = Saved::output(1),
    .vjp = extreme_dim_vjp,
    .samples = samples_of_extreme_dim,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef min_dim_op = {
    .schema =
        "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    .doc = "The least element along a dim and its first place.",
    .kind = OpKind::Reduction,
    .infer = infer_extreme_dim,
    .cost = reduction_cost,
    .kernel = run_extreme_dim<ReduceOp::ArgMin>,
    .saved = Saved::output(1),
    .vjp = extreme_dim_vjp,
    .samples = samples_of_extreme_dim,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef argmax_op = {
    .schema = "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    .doc = "The place of the greatest element along a dim, or in the flattened tensor.",
    .kind = OpKind::Reduction,
    .infer = infer_argextreme,
    .cost = reduction_cost,
    .kernel = run_argextreme<ReduceOp::ArgMax>,
    .vjp = no_gradient,
    .onnx = {"ArgMax", 13},
    .samples = samples_of_arg,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef argmin_op = {
    .schema = "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    .doc = "The place of the least element along a dim, or in the flattened tensor.",
    .kind = OpKind::Reduction,
    .infer = infer_argextreme,
    .cost = reduction_cost,
    .kernel = run_argextreme<ReduceOp::ArgMin>,
    .vjp = no_gradient,
    .onnx = {"ArgMin", 13},
    .samples = samples_of_arg,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef any_op = {
    .schema = "any(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    .doc = "Whether some element over the given dims is not zero.",
    .kind = OpKind::Reduction,
    .infer = infer_truth,
    .cost = reduction_cost,
    .kernel = run_truth<ReduceOp::Any>,
    .vjp = no_gradient,
    .samples = samples_of_truth,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef all_op = {
    .schema = "all(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
    .doc = "Whether every element over the given dims is not zero.",
    .kind = OpKind::Reduction,
    .infer = infer_truth,
    .cost = reduction_cost,
    .kernel = run_truth<ReduceOp::All>,
    .vjp = no_gradient,
    .samples = samples_of_truth,
    .any_layout = true,
    .describes = true};

extern constinit const OpDef logsumexp_op = {
    .schema = "logsumexp|special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    .doc = "log(sum(exp(x))) over the given dims, computed without overflow.",
    .kind = OpKind::Reduction,
    .infer = infer_logsumexp,
    .cost =
        [](const Call& c) {
          return Cost{3.0 * static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_simple<ReduceOp::LogSumExp>,
    .saved = Saved::InputsAndOutputs,
    .vjp = logsumexp_vjp,
    .onnx = {"ReduceLogSumExp", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({1})});
          s.add({sample_randn({2, 3, 2}), Value::ints({0, 2}), true});
          s.add({sample_randn({4, 3}).permute({1, 0}), Value::ints({0})});
          s.error({sample_randn({2, 3}), Value::ints({2})}, "dim 2 is out of range");
          s.large([] { return Values{randn({4096, 1024}), Value::ints({1})}; });
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef aminmax_op = {
    .schema =
        "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    .doc = "The least and the greatest element over one dim (all by default).",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Dims dims = dim_attr(c, 0);
      return {c.in(0).amin(dims, c.flag(1)), c.in(0).amax(dims, c.flag(1))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4})});
          s.add({sample_randn({3, 4})}, {{"dim", 1}, {"keepdim", true}});
          s.error({sample_randn({0})}, "of nothing is not defined");
        }};

extern constinit const OpDef nansum_op = {
    .schema =
        "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
        "Tensor",
    .doc = "The sum over the given dims with NaN counted as zero.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& x = c.in(0);
      const Tensor numbers = is_floating(x.dtype()) ? where(x.isnan(), Scalar(0.0), x) : x;
      return {numbers.sum(dims_attr(c, 0).ref(), c.flag(1), c.dtype_if(2))};
    },
    .samples = samples_with_nan};

extern constinit const OpDef nanmean_op = {
    .schema =
        "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
        "Tensor",
    .doc = "The mean of the elements that are not NaN over the given dims.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_floating(c, c.in(0), "self");
      const Dims dims = dims_attr(c, 0);
      const Tensor count = c.in(0).isnan().logical_not().sum(dims.ref(), c.flag(1));
      return {nansum(c.in(0), dims.ref(), c.flag(1), c.dtype_if(2)).div(count)};
    },
    .samples = samples_with_nan};

extern constinit const OpDef sum_to_size_op = {
    .schema = "sum_to_size(Tensor self, int[] size) -> Tensor",
    .doc = "Sums away what broadcasting from `size` to self's sizes repeated.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& self = c.in(0);
      const IntArrayRef to = c.ints(0);
      PELLUCID_CHECK(broadcasts_to(to, self.sizes()), ShapeError,
                     "sum_to_size: sizes {} do not broadcast to the sizes {} of the tensor.", to,
                     self.sizes());
      if (to == self.sizes()) return {self};
      Dims dims;
      const size_t lead = self.sizes().size() - to.size();
      for (size_t i = 0; i < self.sizes().size(); ++i)
        if (i < lead || (to[i - lead] == 1 && self.sizes()[i] != 1))
          dims.push_back(static_cast<int64_t>(i));
      // A sum over leading dimensions alone has the sizes that are wanted.
      if (!dims.empty() && static_cast<size_t>(dims.back()) < lead)
        return {self.sum(dims.ref(), false)};
      const Tensor summed = dims.empty() ? self : self.sum(dims.ref(), true);
      return {lead ? summed.reshape(to) : summed};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2, 3}), Value::ints({2, 1})});
          s.add({sample_randn({2, 3}), Value::ints({2, 3})});
          s.add({sample_randn({2, 3}), Value::ints({})});
          s.error({sample_randn({2, 3}), Value::ints({2})}, "do not broadcast to the sizes [2, 3]");
        }};

}  // namespace pellucid
