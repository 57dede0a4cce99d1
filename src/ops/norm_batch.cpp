// Batch and instance normalisation. In training the running statistics are moved in place, as in
// PyTorch. Row-major and channels-last inputs are both taken as they lie; the result lies like the
// input.
#include <cmath>

#include "core/vjp_tools.h"
#include "kernels/norm.h"
#include "ops/norm.h"
#include "ops/root.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

bool channels_last(const Tensor& t) {
  return !t.impl().is_contiguous() && t.impl().is_channels_last();
}

void check_input(const Call& c, const Tensor& x) {
  check_floating(c, x, "input");
  PELLUCID_CHECK(x.dim() >= 2, ShapeError,
                 "{}: 'input' must have at least 2 dimensions (batch, channels), found sizes {}.",
                 c.name(), x.sizes());
}

// Output k of the input's sizes, in its memory order.
void make_like(Call& c, const Tensor& x) {
  if (channels_last(x))
    c.make_output(x.sizes(), x.raw_strides(), x.dtype(), x.impl().hidden_layout);
  else
    c.make_output(x.sizes(), x.dtype());
}

/// t's values in row-major or channels-last order, whichever `last` says.
Tensor in_order(const Tensor& t, bool last) {
  if (last ? channels_last(t) : t.impl().is_contiguous()) return t;
  Tensor copy = empty_strided(
      t.sizes(),
      last ? detail::channels_last_strides(t.sizes()) : detail::contiguous_strides(t.sizes()),
      t.dtype());
  copy.copy_(t);
  return copy;
}

kernels::BatchNorm shape_of(const Tensor& x, bool last) {
  kernels::BatchNorm b{.type = x.dtype(),
                       .batch = x.size(0),
                       .channels = x.size(1),
                       .channels_last = last,
                       .x = x.raw_data()};
  for (size_t i = 2; i < x.sizes().size(); ++i) b.spatial *= x.sizes()[i];
  return b;
}

/// values[i] = 1 / sqrt(variance[i] + eps), both of a statistics type.
void reciprocal_deviation(const Tensor& variance, const Tensor& rstd, double eps) {
  for (int64_t i = 0; i < rstd.numel(); ++i) {
    if (rstd.dtype() == kFloat64)
      rstd.raw<double>()[i] = 1 / std::sqrt(variance.raw<double>()[i] + eps);
    else
      rstd.raw<float>()[i] =
          static_cast<float>(1 / std::sqrt(static_cast<double>(variance.raw<float>()[i]) + eps));
  }
}

// running = (1 - momentum) running + momentum * factor * batch
void move_running(const Tensor& running, const Tensor& batch, double momentum, double factor) {
  const Tensor now = batch.to(kFloat64);
  const Tensor moved = running.to(kFloat64).mul(1 - momentum).add(now.mul(momentum * factor));
  running.data().copy_(moved);  // the dispatcher counts the version
}

void infer_train(Call& c) {
  check_defined(c, 0, "input");
  const Tensor& x = c.in(0);
  check_input(c, x);
  const Dims channels{x.size(1)};
  check_parameter(c, 1, "weight", channels, x.dtype());
  check_parameter(c, 2, "bias", channels, x.dtype());
  check_parameter(c, 3, "running_mean", channels, std::nullopt);
  check_parameter(c, 4, "running_var", channels, std::nullopt);
  const int64_t per_channel = x.size(1) == 0 ? 0 : x.numel() / x.size(1);
  PELLUCID_CHECK(per_channel != 1, ValueError,
                 "batch_norm: training needs more than 1 value per channel, found input sizes {}.",
                 x.sizes());
  make_like(c, x);
  for (size_t k = 1; k < 3; ++k) {
    if (c.wants(k))
      c.make_output(channels, statistics_type(x.dtype()));
    else
      c.skip_output();
  }
}

// Attributes: momentum, eps.
void run_train(Call& c) {
  if (tell_root(c)) return;
  const NoGradGuard off;
  const bool last = channels_last(c.in(0));
  const Tensor x = in_order(c.in(0), last), w = contiguous_if(c, 1), bias = contiguous_if(c, 2);
  kernels::BatchNorm b = shape_of(x, last);
  b.weight = data_if(w);
  b.bias = data_if(bias);
  const DType type = statistics_type(x.dtype());
  const Tensor mean = c.out(1).defined() ? c.out(1) : empty({b.channels}, type);
  const Tensor rstd = c.out(2).defined() ? c.out(2) : empty({b.channels}, type);
  const Tensor variance = empty({b.channels}, type);
  kernels::batch_norm_stats(b, mean.raw_data(), variance.raw_data());
  reciprocal_deviation(variance, rstd, c.number(1));
  kernels::batch_norm_apply(b, mean.raw_data(), rstd.raw_data(), c.out().raw_data(),
                            epilogue_of(c));
  const auto n = static_cast<double>(b.batch * b.spatial);
  if (n == 0) return;
  if (c.has_in(3)) move_running(c.in(3), mean, c.number(0), 1);
  if (c.has_in(4))
    move_running(c.in(4), variance, c.number(0),
                 n / (n - 1));  // PyTorch keeps the unbiased variance
}

Tensors train_vjp(const Vjp& v) {
  if (!v.grads[0].defined()) return Tensors(5);
  const Dims mask{v.needs(0), v.needs(1), v.needs(2)};
  auto [dx, dw, db] =
      batch_norm_backward(tape::last_use(v.grad), v.in(0), v.has_in(1) ? v.in(1) : Tensor(),
                          v.out(1), v.out(2), true, v.number(1), mask);
  return {dx, dw, db, {}, {}};
}

void infer_eval(Call& c) {
  check_defined(c, 0, "input");
  check_defined(c, 3, "running_mean");
  check_defined(c, 4, "running_var");
  const Tensor& x = c.in(0);
  check_input(c, x);
  const Dims channels{x.size(1)};
  check_parameter(c, 1, "weight", channels, x.dtype());
  check_parameter(c, 2, "bias", channels, x.dtype());
  check_parameter(c, 3, "running_mean", channels, std::nullopt);
  check_parameter(c, 4, "running_var", channels, std::nullopt);
  make_like(c, x);
}

// Attributes: eps.
void run_eval(Call& c) {
  if (tell_root(c)) return;
  const NoGradGuard off;
  const bool last = channels_last(c.in(0));
  const Tensor x = in_order(c.in(0), last), w = contiguous_if(c, 1), bias = contiguous_if(c, 2);
  kernels::BatchNorm b = shape_of(x, last);
  b.weight = data_if(w);
  b.bias = data_if(bias);
  const DType type = statistics_type(x.dtype());
  const Tensor mean = contiguous_values(c.in(3).to(type)),
               variance = contiguous_values(c.in(4).to(type));
  const Tensor rstd = empty({b.channels}, type);
  reciprocal_deviation(variance, rstd, c.number(0));
  kernels::batch_norm_apply(b, mean.raw_data(), rstd.raw_data(), c.out().raw_data(),
                            epilogue_of(c));
}

/// A [channels] tensor that broadcasts over [batch, channels, …].
Tensor along_channels(const Tensor& t, int64_t ndim) {
  Dims sizes(static_cast<size_t>(ndim) - 1, 1);
  sizes[0] = t.numel();
  return t.reshape(sizes);
}

Tensors eval_vjp(const Vjp& v) {
  const DType type = statistics_type(v.in_dtype(0));
  const Tensor mean = v.in(3).to(type), rstd = v.in(4).to(type).add(v.number(0)).rsqrt();
  const Tensor weight = v.has_in(1) ? v.in(1) : Tensor();
  Tensors out(5);
  if (v.needs(0) || v.needs(1) || v.needs(2)) {
    const Dims mask{v.needs(0), v.needs(1), v.needs(2)};
    std::tie(out[0], out[1], out[2]) =
        batch_norm_backward(v.grad, v.in(0), weight, mean, rstd, false, v.number(0), mask);
  }
  if (!v.needs(3) && !v.needs(4)) return out;
  const Tensor& x = v.in(0);
  const int64_t ndim = x.dim();
  const Tensor g = (weight.defined() ? v.grad.mul(along_channels(weight, ndim)) : v.grad)
                       .mul(along_channels(rstd, ndim));
  Dims dims{0};
  for (int64_t d = 2; d < ndim; ++d) dims.push_back(d);
  if (v.needs(3)) out[3] = g.sum(dims.ref()).neg();
  if (v.needs(4))
    out[4] = g.mul(x.sub(along_channels(mean, ndim))).sum(dims.ref()).mul(rstd.square()).mul(-0.5);
  return out;
}

// Inputs grad_output, input, weight, mean, rstd; attributes training, eps, output_mask.
void infer_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_defined(c, 1, "input");
  check_defined(c, 3, "mean");
  check_defined(c, 4, "rstd");
  const Tensor& x = c.in(1);
  check_input(c, x);
  check_same_dtype(c, c.in(0), x);
  PELLUCID_CHECK(c.in(0).sizes() == x.sizes(), ShapeError,
                 "{}: 'grad_output' has sizes {} but 'input' has {}.", c.name(), c.in(0).sizes(),
                 x.sizes());
  const Dims channels{x.size(1)};
  check_parameter(c, 2, "weight", channels, x.dtype());
  check_parameter(c, 3, "mean", channels, statistics_type(x.dtype()));
  check_parameter(c, 4, "rstd", channels, statistics_type(x.dtype()));
  PELLUCID_CHECK(c.ints(2).size() == 3, ShapeError,
                 "{}: output_mask must have 3 entries, found {}.", c.name(), c.ints(2));
  for (size_t k = 0; k < 3; ++k) {
    if (!c.ints(2)[k])
      c.skip_output();
    else if (k == 0)
      make_like(c, x);
    else
      c.make_output(channels, x.dtype());
  }
}

void run_backward(Call& c) {
  const NoGradGuard off;
  const bool last = channels_last(c.in(1));
  const Tensor dy = in_order(c.in(0), last), x = in_order(c.in(1), last), w = contiguous_if(c, 2);
  const Tensor mean = contiguous_values(c.in(3)), rstd = contiguous_values(c.in(4));
  kernels::BatchNorm b = shape_of(x, last);
  b.weight = data_if(w);
  kernels::batch_norm_backward(b, dy.raw_data(), mean.raw_data(), rstd.raw_data(), c.flag(0),
                               output_if(c, 0), output_if(c, 1), output_if(c, 2));
}

Tensors backward_vjp(const Vjp& v) {
  const bool training = v.flag(0);
  const double eps = v.number(1);
  const IntArrayRef mask = v.ints(2);
  const auto formula = [&](const Tensors& in) -> Tensors {
    const Tensor &dy = in[0], &x = in[1];
    const int64_t ndim = x.dim();
    Dims dims{0};
    for (int64_t d = 2; d < ndim; ++d) dims.push_back(d);
    // In training the statistics are functions of the input.
    const Tensor mean = training ? x.mean(dims.ref(), true) : along_channels(in[3], ndim);
    const Tensor centred = x.sub(mean);
    const Tensor rstd = training ? centred.mul(centred).mean(dims.ref(), true).add(eps).rsqrt()
                                 : along_channels(in[4], ndim);
    const Tensor x_hat = centred.mul(rstd),
                 g = in[2].defined() ? dy.mul(along_channels(in[2], ndim)) : dy;
    return {!mask[0]   ? Tensor()
            : training ? plain_input_gradient(g, x_hat, rstd, dims, true)
                       : g.mul(rstd),
            mask[1] ? dy.mul(x_hat).sum(dims.ref()) : Tensor(),
            mask[2] ? dy.sum(dims.ref()) : Tensor()};
  };
  const bool statistics = !training;
  return plain_gradients(
      formula, {v.in(0), v.in(1), v.has_in(2) ? v.in(2) : Tensor(), v.in(3), v.in(4)},
      {v.needs(0), v.needs(1), v.needs(2), statistics && v.needs(3), statistics && v.needs(4)},
      v.grads);
}

template <int Flops> Cost norm_cost(const Call& c) {
  return {Flops * static_cast<double>(c.in(0).numel()), moved_bytes(c)};
}

Tensor input_if(const Call& c, size_t i) { return c.has_in(i) ? c.in(i) : Tensor(); }

// Every item and channel is a channel of a batch of one.
Tensors compose_instance(const Call& c) {
  check_defined(c, 0, "input");
  const Tensor& x = c.in(0);
  PELLUCID_CHECK(x.dim() >= 3, ShapeError,
                 "instance_norm: 'input' must have at least 3 dimensions (batch, channels, …), "
                 "found sizes {}.",
                 x.sizes());
  PELLUCID_CHECK(c.flag(0) || (c.has_in(3) && c.has_in(4)), ValueError,
                 "instance_norm: running_mean and running_var are needed when the input's "
                 "statistics are not used.");
  const int64_t batch = x.size(0), channels = x.size(1);
  const auto repeated = [&](size_t i) { return c.has_in(i) ? c.in(i).repeat({batch}) : Tensor(); };
  const Tensor mean = repeated(3), variance = repeated(4);
  Dims sizes(x.sizes());
  sizes[0] = 1;
  sizes[1] = batch * channels;
  const Tensor y = batch_norm(x.contiguous().view(sizes), repeated(1), repeated(2), mean, variance,
                              c.flag(0), c.number(1), c.number(2), c.flag(3));
  if (c.flag(0)) {
    const NoGradGuard off;
    const Dims rows{batch, channels};
    if (mean.defined()) c.in(3).copy_(mean.view(rows).mean(IntArrayRef({0})));
    if (variance.defined()) c.in(4).copy_(variance.view(rows).mean(IntArrayRef({0})));
  }
  return {y.view(x.sizes())};
}

}  // namespace

extern constinit const OpDef batch_norm_op = {
    .schema =
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
        "running_var, bool training, float momentum,"
        " float eps, bool cudnn_enabled=True) -> Tensor",
    .doc =
        "(x - mean) / sqrt(var + eps) * weight + bias per channel; in training with the batch's "
        "statistics, which also move the running ones.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors {
      const Tensor w = input_if(c, 1), b = input_if(c, 2), mean = input_if(c, 3),
                   variance = input_if(c, 4);
      // PyTorch takes a vector without elements, which has no dim of channels.
      if (c.has_in(0) && c.in(0).dim() == 1 && c.in(0).numel() == 0) return {c.in(0).clone()};
      PELLUCID_CHECK(!c.flag(0) || !(c.number(2) <= 0), ValueError,
                     "batch_norm: eps must be positive during training, found {}.", c.number(2));
      if (c.flag(0))
        return {batch_norm_train(c.in(0), w, b, mean, variance, c.number(1), c.number(2))};
      PELLUCID_CHECK(mean.defined() && variance.defined(), ValueError,
                     "batch_norm: running_mean and running_var are needed when training is false.");
      return {batch_norm_eval(c.in(0), w, b, mean, variance, c.number(2))};
    },
    .onnx = {"BatchNormalization", 15},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2, 2}),
                 sample_randn({2}),
                 sample_randn({2}),
                 {},
                 {},
                 true,
                 0.1,
                 1e-5});
          s.add({sample_randn({4, 3}), {}, {}, {}, {}, true, 0.1, 1e-5});
          s.add({sample_randn({2, 2, 2, 2}), sample_randn({2}), sample_randn({2}),
                 sample_randn({2}), sample_uniform({2}, 0.5, 2), false, 0.1, 1e-3});
          s.add_no_grad({sample_randn({2, 3, 2, 2}),
                         {},
                         {},
                         sample_randn({3}),
                         sample_uniform({3}, 0.5, 2),
                         true,
                         0.3,
                         1e-5});  // moves them
          s.error({sample_randn({2, 3}), {}, {}, {}, {}, false, 0.1, 1e-5},
                  "are needed when training is false");
          s.error({sample_randn({1, 3}), {}, {}, {}, {}, true, 0.1, 1e-5},
                  "more than 1 value per channel");
          s.error({sample_randn({2, 3}), sample_randn({2}), {}, {}, {}, true, 0.1, 1e-5},
                  "'weight' must have sizes [3], found [2]");
          s.large([] {
            return Values{randn({32, 64, 32, 32}),
                          randn({64}),
                          randn({64}),
                          zeros({64}),
                          ones({64}),
                          true,
                          0.1,
                          1e-5};
          });
        }};

extern constinit const OpDef batch_norm_train_op = {
    .schema =
        "batch_norm_train(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, "
        "Tensor(a!)? running_var, float momentum, float eps)"
        " -> (Tensor, Tensor _mean, Tensor _rstd)",
    .doc =
        "batch_norm with the statistics of the batch; running = (1 - momentum) running + momentum "
        "* batch.",
    .kind = OpKind::Reduction,
    .infer = infer_train,
    .cost = norm_cost<8>,
    .kernel = run_train,
    .saved = Saved::input(0) | Saved::input(1) | Saved::output(1) | Saved::output(2),
    .vjp = train_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2, 2}), sample_randn({2}), sample_randn({2}), {}, {}, 0.1, 1e-5});
          s.add({sample_randn({2, 3, 2, 2}).contiguous(MemoryFormat::ChannelsLast),
                 sample_randn({3}),
                 {},
                 {},
                 {},
                 0.1,
                 1e-2});
          s.add_no_grad({sample_randn({4, 3}),
                         {},
                         sample_randn({3}),
                         sample_randn({3}),
                         sample_uniform({3}, 0.5, 2),
                         0.1,
                         1e-5});
          s.error({sample_randn({3}), {}, {}, {}, {}, 0.1, 1e-5}, "at least 2 dimensions");
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef batch_norm_eval_op = {
    .schema =
        "batch_norm_eval(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
        "running_var, float eps) -> Tensor",
    .doc = "batch_norm with given statistics.",
    .kind = OpKind::Reduction,
    .infer = infer_eval,
    .cost = norm_cost<2>,
    .kernel = run_eval,
    .saved = Saved::input(0) | Saved::input(1) | Saved::input(3) | Saved::input(4),
    .vjp = eval_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2, 2}), sample_randn({2}), sample_randn({2}), sample_randn({2}),
                 sample_uniform({2}, 0.5, 2), 1e-5});
          s.add({sample_randn({2, 3, 2, 2}).contiguous(MemoryFormat::ChannelsLast),
                 {},
                 {},
                 sample_randn({3}),
                 sample_uniform({3}, 0.5, 2),
                 1e-5});
          s.error({sample_randn({2, 3}), {}, {}, sample_randn({2}), sample_randn({3}), 1e-5},
                  "'running_mean' must have sizes [3], found [2]");
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef batch_norm_backward_op = {
    .schema =
        "batch_norm_backward(Tensor grad_output, Tensor input, Tensor? weight, Tensor mean, Tensor "
        "rstd, bool training, float eps, int[] output_mask)"
        " -> (Tensor, Tensor, Tensor)",
    .doc =
        "The gradients of batch_norm's input, weight and bias: those that output_mask marks with "
        "1.",
    .kind = OpKind::Reduction,
    .infer = infer_backward,
    .cost = norm_cost<12>,
    .kernel = run_backward,
    .saved = Saved::Inputs,
    .vjp = backward_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2, 2}), sample_randn({3, 2, 2}), sample_randn({2}),
                 sample_randn({2}), sample_uniform({2}, 0.5, 2), false, 1e-5,
                 Value::ints({1, 1, 1})});
          s.add({sample_randn({4, 3}),
                 sample_randn({4, 3}),
                 {},
                 sample_randn({3}),
                 sample_uniform({3}, 0.5, 2),
                 false,
                 1e-5,
                 Value::ints({1, 0, 0})});
          s.error({sample_randn({2, 2}),
                   sample_randn({2, 3}),
                   {},
                   sample_randn({3}),
                   sample_randn({3}),
                   true,
                   1e-5,
                   Value::ints({1, 0, 0})},
                  "'grad_output' has sizes [2, 2] but 'input' has [2, 3]");
          s.large([] {
            const Tensor big = randn({32, 64, 32, 32});
            return Values{randn({32, 64, 32, 32}),
                          big,
                          randn({64}),
                          big.mean({0, 2, 3}),
                          big.var({0, 2, 3}, false).add(1e-5).rsqrt(),
                          true,
                          1e-5,
                          Value::ints({1, 1, 1})};
          });
        },
    .any_layout = true,
    .writes_over = 1};

extern constinit const OpDef instance_norm_op = {
    .schema =
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
        "running_var, bool use_input_stats, float momentum,"
        " float eps, bool cudnn_enabled=True) -> Tensor",
    .doc = "batch_norm with statistics of each channel of each item.",
    .kind = OpKind::Reduction,
    .compose = compose_instance,
    .onnx = {"InstanceNormalization", 6},
    .samples = [](Samples& s) {
      s.add(
          {sample_randn({2, 2, 4}), sample_randn({2}), sample_randn({2}), {}, {}, true, 0.1, 1e-5});
      s.add({sample_randn({2, 2, 3}),
             {},
             {},
             sample_randn({2}),
             sample_uniform({2}, 0.5, 2),
             false,
             0.1,
             1e-5});
      s.add_no_grad({sample_randn({2, 2, 4}),
                     {},
                     {},
                     sample_randn({2}),
                     sample_uniform({2}, 0.5, 2),
                     true,
                     0.1,
                     1e-5});
      s.error({sample_randn({2, 3}), {}, {}, {}, {}, true, 0.1, 1e-5}, "at least 3 dimensions");
      s.error({sample_randn({2, 3, 4}), {}, {}, {}, {}, false, 0.1, 1e-5},
              "running_mean and running_var are needed");
    }};

}  // namespace pellucid
