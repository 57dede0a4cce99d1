// softmax, log_softmax and softmin over one dim, each one pass, and their gradients.
#include "kernels/softmax.h"

#include "kernels/tiles.h"
#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

kernels::SoftmaxShape shape_of(IntArrayRef sizes, int64_t dim) {
  kernels::SoftmaxShape s{1, 1, 1};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto d = static_cast<int64_t>(i);
    (d < dim ? s.outer : d == dim ? s.dim : s.inner) *= sizes[i];
  }
  return s;
}

int64_t softmax_dim(const Call& c) { return wrap_dim(c.name(), c.integer(0), c.in(0).dim()); }

void infer_softmax(Call& c) {
  check_defined(c, 0, "self");
  softmax_dim(c);
  const DType t = c.dtype_if(1).value_or(c.in(0).dtype());
  PELLUCID_CHECK(
      is_floating(t), TypeError,
      "{}: the result would be {}; it must be floating. Pass dtype=float32 or convert the input.",
      c.name(), t);
  c.make_output(c.in(0).sizes(), t);
}

// What a loop over rows needs to know.
struct RowsOfSoftmax {
  DType type;
  int64_t n;
};
template <bool Log> void softmax_rows(const void* context, const kernels::TileRows& t) {
  const auto& s = *static_cast<const RowsOfSoftmax*>(context);
  kernels::softmax(s.type, t.in[0], t.out[0], {t.rows, s.n, 1}, Log);
}
template <bool Log> void softmax_backward_rows(const void* context, const kernels::TileRows& t) {
  const auto& s = *static_cast<const RowsOfSoftmax*>(context);
  kernels::softmax_backward(s.type, t.in[0], t.in[1], t.out[0], {t.rows, s.n, 1}, Log);
}
// Along the last dim, rows are independent of each other.
void describe(const Call& c, kernels::RowLoop loop, size_t inputs) {
  const Tensor& out = c.out();
  const kernels::SoftmaxShape shape = shape_of(out.sizes(), softmax_dim(c));
  kernels::TileStep& step = *c.described();
  for (size_t i = 0; i < inputs; ++i)
    if (c.in(i).dtype() != out.dtype()) return;
  if (shape.inner != 1 || out.dim() == 0) return;
  step.by_rows(loop, shape.dim, RowsOfSoftmax{out.dtype(), shape.dim});
  step.work = 4;
  step.out_computed = out.dtype();
  step.input_count = static_cast<uint8_t>(inputs);
  for (size_t i = 0; i < inputs; ++i)
    step.inputs[i] = {
        .number = static_cast<uint8_t>(i), .computed = out.dtype(), .through = out.dtype()};
}

template <bool Log> void run_softmax(Call& c) {
  if (c.described()) return describe(c, softmax_rows<Log>, 1);
  const NoGradGuard off;
  const Tensor& out = c.out();
  const Tensor x =
      contiguous_values(c.in(0).dtype() == out.dtype() ? c.in(0) : c.in(0).to(out.dtype()));
  kernels::softmax(out.dtype(), x.raw_data(), out.raw_data(), shape_of(out.sizes(), softmax_dim(c)),
                   Log);
}

void infer_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_defined(c, 1, "output");
  softmax_dim(c);
  check_floating(c, c.in(0), "grad_output");
  check_same_dtype(c, c.in(0), c.in(1));
  PELLUCID_CHECK(c.in(0).sizes() == c.in(1).sizes(), ShapeError,
                 "{}: 'grad_output' has sizes {} but 'output' has {}.", c.name(), c.in(0).sizes(),
                 c.in(1).sizes());
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

template <bool Log> void run_backward(Call& c) {
  if (c.described()) return describe(c, softmax_backward_rows<Log>, 2);
  const NoGradGuard off;
  const Tensor grad = contiguous_values(c.in(0)), y = contiguous_values(c.in(1));
  kernels::softmax_backward(y.dtype(), grad.raw_data(), y.raw_data(), c.out().raw_data(),
                            shape_of(y.sizes(), softmax_dim(c)), Log);
}

template <int Flops> Cost softmax_cost(const Call& c) { return elementwise_cost(c, Flops); }

// y (g - sum(g y)) is symmetric in what it does to g; its derivative by y is written out.
Tensors softmax_backward_vjp(const Vjp& v) {
  const int64_t dim = v.integer(0);
  const Tensor& y = v.in(1);
  Tensors out(2);
  if (v.needs(0)) out[0] = softmax_backward(v.grad, y, dim);
  if (v.needs(1)) {
    const Tensor& g = v.in(0);
    const Tensor along = g.mul(y).sum(dim, true);
    out[1] = v.grad.mul(g.sub(along)).sub(g.mul(v.grad.mul(y).sum(dim, true)));
  }
  return out;
}

// g - exp(y) sum(g)
Tensors log_softmax_backward_vjp(const Vjp& v) {
  const int64_t dim = v.integer(0);
  const Tensor weighted = v.grad.mul(v.in(1).exp());
  Tensors out(2);
  if (v.needs(0)) out[0] = v.grad.sub(weighted.sum(dim, true));
  if (v.needs(1)) out[1] = weighted.mul(v.in(0).sum(dim, true)).neg();
  return out;
}

void samples_of_softmax(Samples& s) {
  s.add({sample_randn({2, 5}), 1});
  s.add({sample_randn({2, 3, 4}), 1});
  s.add({sample_randn({3, 4}).permute({1, 0}), 0});
  s.add({sample_randn({4}).mul(100.0), -1});
  s.add({sample_randn({}), 0});
  s.add({sample_randn({2, 0}), 1});
  s.add_no_grad({sample_ints({2, 3}, 0, 5), 1, kFloat32});
  s.error({sample_ints({2, 3}, 0, 5), 1}, "it must be floating");
  s.error({sample_randn({2, 3}), 2}, "dim 2 is out of range");
  s.large([] { return Values{randn({4096, 1024}), 1}; });
}

template <Tensor (*Forward)(const Tensor&, IntArg, std::optional<ScalarType>)>
void samples_of_backward(Samples& s) {
  s.add({sample_randn({2, 5}), Forward(sample_randn({2, 5}), 1, std::nullopt), 1});
  s.add({sample_randn({2, 3, 2}), Forward(sample_randn({2, 3, 2}), 1, std::nullopt), -2});
  s.error({sample_randn({2, 5}), sample_randn({5, 2}), 1},
          "'grad_output' has sizes [2, 5] but 'output' has [5, 2]");
  s.large([] {
    return Values{randn({4096, 1024}), Forward(randn({4096, 1024}), 1, std::nullopt), 1};
  });
}

}  // namespace

extern constinit const OpDef softmax_op = {
    .schema = "softmax|special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "exp(x) / sum(exp(x)) along a dim.",
    .kind = OpKind::Reduction,
    .infer = infer_softmax,
    .cost = softmax_cost<5>,
    .kernel = run_softmax<false>,
    .saved = Saved::Output,
    .vjp = [](const Vjp& v) -> Tensors {
      return {softmax_backward(v.grad, v.out(), v.integer(0))};
    },
    .onnx = {"Softmax", 13},
    .samples = samples_of_softmax,
    .describes = true,
    .activation = true};

extern constinit const OpDef softmax_backward_op = {
    .schema = "softmax_backward(Tensor grad_output, Tensor output, int dim) -> Tensor",
    .doc = "The gradient of softmax from its result: y (g - sum(g y)).",
    .kind = OpKind::Reduction,
    .infer = infer_backward,
    .cost = softmax_cost<4>,
    .kernel = run_backward<false>,
    .saved = Saved::Inputs,
    .vjp = softmax_backward_vjp,
    .samples = samples_of_backward<softmax>,
    .describes = true};

extern constinit const OpDef log_softmax_op = {
    .schema =
        "log_softmax|special_log_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "x - log(sum(exp(x))) along a dim.",
    .kind = OpKind::Reduction,
    .infer = infer_softmax,
    .cost = softmax_cost<5>,
    .kernel = run_softmax<true>,
    .saved = Saved::Output,
    .vjp = [](const Vjp& v) -> Tensors {
      return {log_softmax_backward(v.grad, v.out(), v.integer(0))};
    },
    .onnx = {"LogSoftmax", 13},
    .samples = samples_of_softmax,
    .describes = true,
    .activation = true};

extern constinit const OpDef log_softmax_backward_op = {
    .schema = "log_softmax_backward(Tensor grad_output, Tensor output, int dim) -> Tensor",
    .doc = "The gradient of log_softmax from its result: g - exp(y) sum(g).",
    .kind = OpKind::Reduction,
    .infer = infer_backward,
    .cost = softmax_cost<4>,
    .kernel = run_backward<true>,
    .saved = Saved::Inputs,
    .vjp = log_softmax_backward_vjp,
    .samples = samples_of_backward<log_softmax>,
    .describes = true};

extern constinit const OpDef softmin_op = {
    .schema = "softmin(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "softmax(-x) along a dim.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {softmax(c.in(0).neg(), c.integer(0), c.dtype_if(1))};
    },
    .samples = samples_of_softmax};

}  // namespace pellucid
