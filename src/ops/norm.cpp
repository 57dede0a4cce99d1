// Layer, root-mean-square and group normalisation, each one pass forward and one backward. Batch
// and instance normalisation are in norm_batch.cpp.
#include "kernels/norm.h"

#include <limits>

#include "kernels/tiles.h"
#include "ops/norm.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor/pending.h"

namespace pellucid {
namespace {

// Layer and RMS norm: attributes start with normalized_shape.

struct Rows {
  int64_t rows, n;
};

Rows rows_of(IntArrayRef sizes, IntArrayRef normalized) {
  Rows r{1, 1};
  const size_t lead = sizes.size() - normalized.size();
  for (size_t i = 0; i < sizes.size(); ++i) (i < lead ? r.rows : r.n) *= sizes[i];
  return r;
}

void check_normalized(const Call& c, const Tensor& x, IntArrayRef normalized) {
  check_floating(c, x, "input");
  const IntArrayRef sizes = x.sizes();
  PELLUCID_CHECK(!normalized.empty(), ShapeError,
                 "{}: normalized_shape is empty; it must name at least the last dimension.",
                 c.name());
  PELLUCID_CHECK(normalized.size() <= sizes.size() &&
                     sizes.slice(sizes.size() - normalized.size()) == normalized,
                 ShapeError,
                 "{}: the input's last sizes must be normalized_shape {}, found input sizes {}.",
                 c.name(), normalized, sizes);
}

Dims last_dims(size_t ndim, size_t count) {
  Dims dims;
  for (size_t d = ndim - count; d < ndim; ++d) dims.push_back(static_cast<int64_t>(d));
  return dims;
}
Dims first_dims(size_t ndim, size_t count) {
  Dims dims;
  for (size_t d = 0; d < ndim - count; ++d) dims.push_back(static_cast<int64_t>(d));
  return dims;
}

/// Sums what was repeated over the rows; a tensor without rows is its own sum.
Tensor sum_rows(const Tensor& t, IntArrayRef normalized) {
  const Dims dims = first_dims(t.sizes().size(), normalized.size());
  return dims.empty() ? t : t.sum(dims.ref());
}

void make_statistics(Call& c, size_t k, IntArrayRef sizes, DType input) {
  if (c.wants(k))
    c.make_output(sizes, statistics_type(input));
  else
    c.skip_output();
}

template <bool Centred> void infer_layer(Call& c) {
  check_defined(c, 0, "input");
  const Tensor& x = c.in(0);
  const IntArrayRef normalized = c.ints(0);
  check_normalized(c, x, normalized);
  check_parameter(c, 1, "weight", normalized, x.dtype());
  if (Centred) check_parameter(c, 2, "bias", normalized, x.dtype());
  c.make_output(x.sizes(), x.dtype());
  const int64_t rows = rows_of(x.sizes(), normalized).rows;
  if (Centred) make_statistics(c, 1, {rows}, x.dtype());
  make_statistics(c, Centred ? 2 : 1, {rows}, x.dtype());
}

// eps is optional for RMS norm: then it is the least difference from 1 of the statistics' type.
double eps_of(const AttrReader& a, size_t i, DType input) {
  if (a.has_attr(i)) return a.number(i);
  return input == kFloat64 ? std::numeric_limits<double>::epsilon()
                           : std::numeric_limits<float>::epsilon();
}

template <bool Centred> void layer_rows(const void* context, const kernels::TileRows& t) {
  kernels::LayerNorm l = *static_cast<const kernels::LayerNorm*>(context);
  l.rows = t.rows;
  l.x = t.in[0];
  if constexpr (Centred)
    kernels::layer_norm(l, t.out[0], t.out[1], t.out[2]);
  else
    kernels::rms_norm(l, t.out[0], t.out[1]);
}

// Rows are independent of each other; the weights are the same for all of them.
template <bool Centred> void describe_layer(const Call& c) {
  const DType type = c.in(0).dtype();
  const auto parameter = [&](size_t i) -> const void* {
    return c.has_in(i) && c.in(i).numel() > 0 ? c.in(i).raw_data() : nullptr;
  };
  for (const size_t i : {1, 2})
    if (c.has_in(i) && (!c.in(i).is_contiguous() || detail::is_pending(*c.in(i).impl().storage)))
      return;
  kernels::TileStep& step = *c.described();
  const int64_t n = rows_of(c.in(0).sizes(), c.ints(0)).n;
  step.by_rows(layer_rows<Centred>, n,
               kernels::LayerNorm{type, 0, n, nullptr, parameter(1),
                                  Centred ? parameter(2) : nullptr, eps_of(c, 1, type)});
  step.work = 4;
  step.out_computed = type;
  step.input_count = 1;
  step.inputs[0] = {.number = 0, .computed = type, .through = type};
}

template <bool Centred> void run_layer(Call& c) {
  if (c.described()) return describe_layer<Centred>(c);
  const NoGradGuard off;
  const Tensor x = contiguous_values(c.in(0)), w = contiguous_if(c, 1),
               b = Centred ? contiguous_if(c, 2) : Tensor();
  const auto [rows, n] = rows_of(x.sizes(), c.ints(0));
  const kernels::LayerNorm l{
      x.dtype(), rows, n, x.raw_data(), data_if(w), data_if(b), eps_of(c, 1, x.dtype())};
  // The kernels always write their statistics.
  const auto kept = [&, rows = rows](size_t k) {
    return c.out(k).defined() ? c.out(k) : empty({rows}, statistics_type(x.dtype()));
  };
  if (Centred) {
    const Tensor mean = kept(1), rstd = kept(2);
    kernels::layer_norm(l, c.out().raw_data(), mean.raw_data(), rstd.raw_data());
  } else {
    const Tensor rstd = kept(1);
    kernels::rms_norm(l, c.out().raw_data(), rstd.raw_data());
  }
}

Tensors layer_norm_vjp(const Vjp& v) {
  if (!v.grads[0].defined()) return Tensors(3);
  const Dims mask{v.needs(0), v.needs(1), v.needs(2)};
  auto [dx, dw, db] =
      layer_norm_backward(v.grad, v.in(0), v.out(1), v.out(2), v.has_in(1) ? v.in(1) : Tensor(),
                          v.ints(0), v.number(1), mask);
  return {dx, dw, db};
}

Tensors rms_norm_vjp(const Vjp& v) {
  if (!v.grads[0].defined()) return Tensors(2);
  const Dims mask{v.needs(0), v.needs(1)};
  auto [dx, dw] = rms_norm_backward(v.grad, v.in(0), v.out(1), v.has_in(1) ? v.in(1) : Tensor(),
                                    v.ints(0), eps_of(v, 1, v.in_dtype(0)), mask);
  return {dx, dw};
}

// The backward ops: inputs grad_output, input, (mean,) rstd, weight; attributes
// normalized_shape, eps, output_mask.
template <bool Centred> void infer_layer_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_defined(c, 1, "input");
  const Tensor& x = c.in(1);
  check_normalized(c, x, c.ints(0));
  check_same_dtype(c, c.in(0), x);
  PELLUCID_CHECK(c.in(0).sizes() == x.sizes(), ShapeError,
                 "{}: 'grad_output' has sizes {} but 'input' has {}.", c.name(), c.in(0).sizes(),
                 x.sizes());
  const int64_t rows = rows_of(x.sizes(), c.ints(0)).rows;
  for (size_t i = 2; i < (Centred ? 4 : 3); ++i) {
    check_defined(c, i, "a statistic");
    check_parameter(c, i, "a statistic", {rows}, compute_type(x.dtype()));
  }
  check_parameter(c, Centred ? 4 : 3, "weight", c.ints(0), x.dtype());
  const size_t outputs = Centred ? 3 : 2;
  PELLUCID_CHECK(c.ints(2).size() == outputs, ShapeError,
                 "{}: output_mask must have {} entries, found {}.", c.name(), outputs, c.ints(2));
  for (size_t k = 0; k < outputs; ++k) {
    if (!c.ints(2)[k])
      c.skip_output();
    else
      c.make_output(k == 0 ? x.sizes() : c.ints(0), x.dtype());
  }
}

template <bool Centred> void run_layer_backward(Call& c) {
  const NoGradGuard off;
  const Tensor dy = contiguous_values(c.in(0)), x = contiguous_values(c.in(1)),
               first = contiguous_values(c.in(2));
  const Tensor w = contiguous_if(c, Centred ? 4 : 3);
  const auto [rows, n] = rows_of(x.sizes(), c.ints(0));
  const kernels::LayerNorm l{x.dtype(), rows, n, x.raw_data(), data_if(w), nullptr, c.number(1)};
  if (Centred) {
    const Tensor rstd = contiguous_values(c.in(3));
    kernels::layer_norm_backward(l, dy.raw_data(), first.raw_data(), rstd.raw_data(),
                                 output_if(c, 0), output_if(c, 1), output_if(c, 2));
  } else {
    kernels::rms_norm_backward(l, dy.raw_data(), first.raw_data(), output_if(c, 0),
                               output_if(c, 1));
  }
}

// Statistics are functions of the input here, so no gradient goes to the saved ones.
template <bool Centred> Tensors layer_backward_vjp(const Vjp& v) {
  const size_t weight = Centred ? 4 : 3;
  const IntArrayRef normalized = v.ints(0), mask = v.ints(2);
  const double eps = v.number(1);
  const auto formula = [&](const Tensors& in) -> Tensors {
    const Tensor &dy = in[0], &x = in[1], &w = in[2];
    const Dims dims = last_dims(x.sizes().size(), normalized.size());
    const Tensor centred = Centred ? x.sub(x.mean(dims.ref(), true)) : x;
    const Tensor rstd = centred.mul(centred).mean(dims.ref(), true).add(eps).rsqrt();
    const Tensor x_hat = centred.mul(rstd);
    return {mask[0] ? plain_input_gradient(w.defined() ? dy.mul(w) : dy, x_hat, rstd, dims, Centred)
                    : Tensor(),
            mask[1] ? sum_rows(dy.mul(x_hat), normalized) : Tensor(),
            Centred && mask[2] ? sum_rows(dy, normalized) : Tensor()};
  };
  const Tensors g =
      plain_gradients(formula, {v.in(0), v.in(1), v.has_in(weight) ? v.in(weight) : Tensor()},
                      {v.needs(0), v.needs(1), v.needs(weight)}, v.grads);
  Tensors out(v.input_count());
  out[0] = g[0];
  out[1] = g[1];
  out[weight] = g[2];
  return out;
}

template <int Flops> Cost norm_cost(const Call& c) {
  return {Flops * static_cast<double>(c.in(0).numel()), moved_bytes(c)};
}

// Group norm: attributes num_groups, eps.

kernels::GroupNorm group_shape(const Tensor& x, int64_t groups, double eps) {
  kernels::GroupNorm g{
      .type = x.dtype(), .batch = x.size(0), .channels = x.size(1), .groups = groups, .eps = eps};
  for (size_t i = 2; i < x.sizes().size(); ++i) g.spatial *= x.sizes()[i];
  return g;
}

void check_groups(const Call& c, const Tensor& x, int64_t groups) {
  check_floating(c, x, "input");
  PELLUCID_CHECK(x.dim() >= 2, ShapeError,
                 "{}: 'input' must have at least 2 dimensions (batch, channels), found sizes {}.",
                 c.name(), x.sizes());
  PELLUCID_CHECK(groups > 0 && x.size(1) % groups == 0, ShapeError,
                 "{}: num_groups {} must divide the {} channels of the input (sizes {}).", c.name(),
                 groups, x.size(1), x.sizes());
}

void infer_group(Call& c) {
  check_defined(c, 0, "input");
  const Tensor& x = c.in(0);
  check_groups(c, x, c.integer(0));
  check_parameter(c, 1, "weight", {x.size(1)}, x.dtype());
  check_parameter(c, 2, "bias", {x.size(1)}, x.dtype());
  c.make_output(x.sizes(), x.dtype());
  make_statistics(c, 1, {x.size(0), c.integer(0)}, x.dtype());
  make_statistics(c, 2, {x.size(0), c.integer(0)}, x.dtype());
}

void run_group(Call& c) {
  const NoGradGuard off;
  const Tensor x = contiguous_values(c.in(0)), w = contiguous_if(c, 1), b = contiguous_if(c, 2);
  kernels::GroupNorm g = group_shape(x, c.integer(0), c.number(1));
  g.x = x.raw_data();
  g.weight = data_if(w);
  g.bias = data_if(b);
  const auto kept = [&](size_t k) {
    return c.out(k).defined() ? c.out(k) : empty({g.batch, g.groups}, statistics_type(g.type));
  };
  const Tensor mean = kept(1), rstd = kept(2);
  kernels::group_norm(g, c.out().raw_data(), mean.raw_data(), rstd.raw_data());
}

Tensors group_norm_vjp(const Vjp& v) {
  if (!v.grads[0].defined()) return Tensors(3);
  const Dims mask{v.needs(0), v.needs(1), v.needs(2)};
  auto [dx, dw, db] =
      group_norm_backward(v.grad, v.in(0), v.out(1), v.out(2), v.has_in(1) ? v.in(1) : Tensor(),
                          v.integer(0), v.number(1), mask);
  return {dx, dw, db};
}

// Inputs grad_output, input, mean, rstd, weight; attributes num_groups, eps, output_mask.
void infer_group_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_defined(c, 1, "input");
  const Tensor& x = c.in(1);
  check_groups(c, x, c.integer(0));
  check_same_dtype(c, c.in(0), x);
  PELLUCID_CHECK(c.in(0).sizes() == x.sizes(), ShapeError,
                 "{}: 'grad_output' has sizes {} but 'input' has {}.", c.name(), c.in(0).sizes(),
                 x.sizes());
  for (size_t i = 2; i < 4; ++i) {
    check_defined(c, i, "a statistic");
    check_parameter(c, i, "a statistic", {x.size(0), c.integer(0)}, compute_type(x.dtype()));
  }
  check_parameter(c, 4, "weight", {x.size(1)}, x.dtype());
  PELLUCID_CHECK(c.ints(2).size() == 3, ShapeError,
                 "{}: output_mask must have 3 entries, found {}.", c.name(), c.ints(2));
  for (size_t k = 0; k < 3; ++k) {
    if (!c.ints(2)[k])
      c.skip_output();
    else if (k == 0)
      c.make_output(x.sizes(), x.dtype());
    else
      c.make_output({x.size(1)}, x.dtype());
  }
}

void run_group_backward(Call& c) {
  const NoGradGuard off;
  const Tensor dy = contiguous_values(c.in(0)), x = contiguous_values(c.in(1)),
               mean = contiguous_values(c.in(2));
  const Tensor rstd = contiguous_values(c.in(3)), w = contiguous_if(c, 4);
  kernels::GroupNorm g = group_shape(x, c.integer(0), c.number(1));
  g.x = x.raw_data();
  g.weight = data_if(w);
  kernels::group_norm_backward(g, dy.raw_data(), mean.raw_data(), rstd.raw_data(), output_if(c, 0),
                               output_if(c, 1), output_if(c, 2));
}

Tensors group_backward_vjp(const Vjp& v) {
  const int64_t groups = v.integer(0);
  const double eps = v.number(1);
  const IntArrayRef mask = v.ints(2);
  const auto formula = [&](const Tensors& in) -> Tensors {
    // Seen as [batch, groups, channels of a group, spatial].
    const Tensor& w = in[2];
    const IntArrayRef sizes = in[1].sizes();
    const Dims four{sizes[0], groups, sizes[1] / groups,
                    in[1].numel() == 0 ? 0 : in[1].numel() / (sizes[0] * sizes[1])};
    const Tensor dy = in[0].reshape(four), x = in[1].reshape(four);
    const Dims dims{2, 3};
    const Tensor centred = x.sub(x.mean(dims.ref(), true));
    const Tensor rstd = centred.mul(centred).mean(dims.ref(), true).add(eps).rsqrt();
    const Tensor x_hat = centred.mul(rstd);
    const Tensor g = w.defined() ? dy.mul(w.reshape({groups, four[2], 1})) : dy;
    const Dims batch{0, 3};
    return {mask[0] ? plain_input_gradient(g, x_hat, rstd, dims, true).reshape(sizes) : Tensor(),
            mask[1] ? dy.mul(x_hat).sum(batch.ref()).reshape({sizes[1]}) : Tensor(),
            mask[2] ? dy.sum(batch.ref()).reshape({sizes[1]}) : Tensor()};
  };
  const Tensors g = plain_gradients(formula, {v.in(0), v.in(1), v.has_in(4) ? v.in(4) : Tensor()},
                                    {v.needs(0), v.needs(1), v.needs(4)}, v.grads);
  return {g[0], g[1], {}, {}, g[2]};
}

}  // namespace

extern constinit const OpDef layer_norm_op = {
    .schema =
        "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
        "float eps=1e-05, bool cudnn_enable=True)"
        " -> (Tensor, Tensor _mean, Tensor _rstd)",
    .doc = "(x - mean) / sqrt(var + eps) * weight + bias over the last dims.",
    .kind = OpKind::Reduction,
    .infer = infer_layer<true>,
    .cost = norm_cost<8>,
    .kernel = run_layer<true>,
    .saved = Saved::input(0) | Saved::input(1) | Saved::output(1) | Saved::output(2),
    .vjp = layer_norm_vjp,
    .onnx = {"LayerNormalization", 17},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5}), Value::ints({5}), sample_randn({5}), sample_randn({5})});
          s.add({sample_randn({2, 2, 3}), Value::ints({2, 3}), sample_randn({2, 3})});
          s.add({sample_randn({4, 3}).permute({1, 0}), Value::ints({4})}, {{"eps", 1e-2}});
          s.add({sample_randn({4}), Value::ints({4}), {}, sample_randn({4})});
          s.add({sample_randn({0, 3}), Value::ints({3})});
          s.error({sample_randn({2, 3}), Value::ints({4})},
                  "the input's last sizes must be normalized_shape [4]");
          s.error({sample_randn({2, 3}), Value::ints({3}), sample_randn({2})},
                  "'weight' must have sizes [3], found [2]");
          s.error({sample_randn({2, 3}), Value::ints({})}, "normalized_shape is empty");
          s.error({sample_ints({2, 3}, 0, 5), Value::ints({3})}, "must be a floating tensor");
          s.large([] {
            return Values{randn({4096, 1024}), Value::ints({1024}), randn({1024}), randn({1024})};
          });
        },
    .describes = true};

extern constinit const OpDef layer_norm_backward_op = {
    .schema =
        "layer_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? "
        "weight, int[] normalized_shape, float eps,"
        " int[] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc =
        "The gradients of layer_norm's input, weight and bias: those that output_mask marks with "
        "1.",
    .kind = OpKind::Reduction,
    .infer = infer_layer_backward<true>,
    .cost = norm_cost<16>,
    .kernel = run_layer_backward<true>,
    .saved = Saved::input(0) | Saved::input(1) | Saved::input(4),
    .vjp = layer_backward_vjp<true>,
    .samples = [](Samples& s) {
      const Tensor x = sample_randn({3, 5});
      const auto [var, mean] = x.var_mean(IntArrayRef({1}), false);
      // Differentiating treats mean and rstd as functions of the input, which finite differences of
      // this op do not.
      s.add_no_grad({sample_randn({3, 5}), x, mean, var.add(1e-5).rsqrt(), sample_randn({5}),
                     Value::ints({5}), 1e-5, Value::ints({1, 1, 1})});
      s.add_no_grad({sample_randn({3, 5}),
                     x,
                     mean,
                     var.add(1e-5).rsqrt(),
                     {},
                     Value::ints({5}),
                     1e-5,
                     Value::ints({1, 0, 0})});
      s.error(
          {sample_randn({3, 4}), x, mean, var, {}, Value::ints({5}), 1e-5, Value::ints({1, 0, 0})},
          "'grad_output' has sizes [3, 4] but 'input' has [3, 5]");
      s.large([] {
        const Tensor big = randn({4096, 1024});
        return Values{randn({4096, 1024}),
                      big,
                      big.mean(1),
                      big.var(1, false).add(1e-5).rsqrt(),
                      randn({1024}),
                      Value::ints({1024}),
                      1e-5,
                      Value::ints({1, 1, 1})};
      });
    }};

extern constinit const OpDef rms_norm_op = {
    .schema =
        "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
        "(Tensor, Tensor _rstd)",
    .doc = "x / sqrt(mean(x²) + eps) * weight over the last dims.",
    .kind = OpKind::Reduction,
    .infer = infer_layer<false>,
    .cost = norm_cost<5>,
    .kernel = run_layer<false>,
    .saved = Saved::input(0) | Saved::input(1) | Saved::output(1),
    .vjp = rms_norm_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 5}), Value::ints({5}), sample_randn({5})});
          s.add({sample_randn({2, 2, 3}), Value::ints({2, 3})}, {{"eps", 1e-3}});
          s.add({sample_randn({4, 3}).permute({1, 0}), Value::ints({4}), sample_randn({4})});
          s.error({sample_randn({2, 3}), Value::ints({4})},
                  "the input's last sizes must be normalized_shape [4]");
          s.error({sample_randn({2, 3}), Value::ints({3}), sample_randn({2})},
                  "'weight' must have sizes [3], found [2]");
          s.large([] { return Values{randn({4096, 1024}), Value::ints({1024}), randn({1024})}; });
        },
    .describes = true};

extern constinit const OpDef rms_norm_backward_op = {
    .schema =
        "rms_norm_backward(Tensor grad_output, Tensor input, Tensor rstd, Tensor? weight, int[] "
        "normalized_shape, float eps, int[] output_mask)"
        " -> (Tensor, Tensor)",
    .doc = "The gradients of rms_norm's input and weight: those that output_mask marks with 1.",
    .kind = OpKind::Reduction,
    .infer = infer_layer_backward<false>,
    .cost = norm_cost<12>,
    .kernel = run_layer_backward<false>,
    .saved = Saved::input(0) | Saved::input(1) | Saved::input(3),
    .vjp = layer_backward_vjp<false>,
    .samples = [](Samples& s) {
      const Tensor x = sample_randn({3, 5});
      const Tensor rstd = x.mul(x).mean(IntArrayRef({1})).add(1e-5).rsqrt();
      s.add_no_grad({sample_randn({3, 5}), x, rstd, sample_randn({5}), Value::ints({5}), 1e-5,
                     Value::ints({1, 1})});
      s.add_no_grad(
          {sample_randn({3, 5}), x, rstd, {}, Value::ints({5}), 1e-5, Value::ints({1, 0})});
      s.error({sample_randn({3, 5}),
               x,
               sample_randn({2}),
               {},
               Value::ints({5}),
               1e-5,
               Value::ints({1, 0})},
              "must have sizes [3], found [2]");
      s.large([] {
        const Tensor big = randn({4096, 1024});
        return Values{randn({4096, 1024}),
                      big,
                      big.square().mean(1).add(1e-5).rsqrt(),
                      randn({1024}),
                      Value::ints({1024}),
                      1e-5,
                      Value::ints({1, 1})};
      });
    }};

extern constinit const OpDef group_norm_op = {
    .schema =
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
        "eps=1e-05, bool cudnn_enabled=True)"
        " -> (Tensor, Tensor _mean, Tensor _rstd)",
    .doc =
        "(x - mean) / sqrt(var + eps) * weight + bias, with statistics of each group of channels "
        "of each item.",
    .kind = OpKind::Reduction,
    .infer = infer_group,
    .cost = norm_cost<8>,
    .kernel = run_group,
    .saved = Saved::input(0) | Saved::input(1) | Saved::output(1) | Saved::output(2),
    .vjp = group_norm_vjp,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 4, 3}), 2, sample_randn({4}), sample_randn({4})});
      s.add({sample_randn({2, 6}), 3});
      s.add({sample_randn({2, 2, 2, 2}).permute({0, 1, 3, 2}), 1, sample_randn({2})},
            {{"eps", 1e-2}});
      s.error({sample_randn({2, 6, 2}), 4}, "num_groups 4 must divide the 6 channels");
      s.error({sample_randn({6}), 2}, "at least 2 dimensions");
      s.error({sample_randn({2, 6}), 2, sample_randn({3})},
              "'weight' must have sizes [6], found [3]");
      s.large([] { return Values{randn({32, 64, 32, 32}), 8, randn({64}), randn({64})}; });
    }};

extern constinit const OpDef group_norm_backward_op = {
    .schema =
        "group_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? "
        "weight, int num_groups, float eps,"
        " int[] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc =
        "The gradients of group_norm's input, weight and bias: those that output_mask marks with "
        "1.",
    .kind = OpKind::Reduction,
    .infer = infer_group_backward,
    .cost = norm_cost<16>,
    .kernel = run_group_backward,
    .saved = Saved::input(0) | Saved::input(1) | Saved::input(4),
    .vjp = group_backward_vjp,
    .samples = [](Samples& s) {
      const Tensor x = sample_randn({2, 4, 3});
      const auto [var, mean] = x.reshape({2, 2, 6}).var_mean(IntArrayRef({2}), false);
      s.add_no_grad({sample_randn({2, 4, 3}), x, mean, var.add(1e-5).rsqrt(), sample_randn({4}), 2,
                     1e-5, Value::ints({1, 1, 1})});
      s.error({sample_randn({2, 4}), x, mean, var, {}, 2, 1e-5, Value::ints({1, 0, 0})},
              "'grad_output' has sizes [2, 4] but 'input' has [2, 4, 3]");
      s.large([] {
        const Tensor big = randn({32, 64, 32, 32});
        const Tensor groups = big.view({32, 8, -1});
        return Values{randn({32, 64, 32, 32}),
                      big,
                      groups.mean(2),
                      groups.var(2, false).add(1e-5).rsqrt(),
                      randn({64}),
                      8,
                      1e-5,
                      Value::ints({1, 1, 1})};
      });
    }};

}  // namespace pellucid
