// Adaptive pooling: the windows that divide an input into a given number of outputs, as in PyTorch.
#include "ops/pool.h"

namespace pellucid {
namespace {

using kernels::PoolLayout;
using kernels::PoolPlan;

Dims output_sizes(const Call& c, const PoolSizes& s, IntArrayRef output_size) {
  const Dims out = per_dim(c.name(), "output_size", output_size, s.n);
  for (const int64_t o : out)
    PELLUCID_CHECK(o >= 0, ValueError, "{}: output_size must not be negative, found {}.", c.name(),
                   output_size);
  return s.with(out[0], out.back());
}

PoolPlan plan_to(const PoolSizes& s, IntArrayRef out) {
  return kernels::adaptive_pool_plan(s.N, s.C, s.H, s.W, s.n == 2 ? out[out.size() - 2] : 1,
                                     out.back());
}

template <size_t N> void infer_forward(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  const PoolSizes s(c, N, c.in(0).sizes());
  const Dims sizes = output_sizes(c, s, c.ints(0));
  const PoolLayout layout = pool_layout(c.in(0), s);
  make_pool_output(c, sizes, c.in(0).dtype(), layout, c.in(0));
}

template <size_t N> void infer_max(Call& c) {
  infer_forward<N>(c);
  const PoolSizes s(c, N, c.in(0).sizes());
  make_pool_output(c, output_sizes(c, s, c.ints(0)), kInt64, pool_layout(c.in(0), s), c.in(0));
}

// Every input is read once, but for the few that lie in two windows.
Cost read_cost(const Call& c) { return {static_cast<double>(c.in(0).numel()), moved_bytes(c)}; }

template <size_t N> void run_avg(Call& c) {
  const NoGradGuard off;
  const PoolSizes s(c, N, c.in(0).sizes());
  const PoolLayout layout = pool_layout(c.in(0), s);
  const Tensor x = in_layout(c.in(0), layout);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::avg_pool_forward<T>(plan_to(s, out.sizes()), layout, {}, x.raw<T>(), out.raw<T>());
  });
}

template <size_t N> void run_max(Call& c) {
  const NoGradGuard off;
  const PoolSizes s(c, N, c.in(0).sizes());
  const PoolLayout layout = pool_layout(c.in(0), s);
  const Tensor x = in_layout(c.in(0), layout);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::max_pool_forward<T>(plan_to(s, out.sizes()), layout, x.raw<T>(), out.raw<T>(),
                                 c.out(1).raw<int64_t>());
  });
}

// The attributes are input_size and the number of spatial dimensions.
PoolSizes backward_sizes(const Call& c) {
  const int64_t n = c.integer(1);
  PELLUCID_CHECK(n == 1 || n == 2, ValueError, "{}: spatial_dims must be 1 or 2, found {}.",
                 c.name(), n);
  const PoolSizes s(c, static_cast<size_t>(n), c.ints(0));
  const IntArrayRef g = c.in(0).sizes();
  PELLUCID_CHECK(
      g.size() == c.ints(0).size() && g[0] == c.ints(0)[0] && (!s.batched || g[1] == s.C),
      ShapeError, "{}: 'grad_output' of sizes {} cannot come from an input of sizes {}.", c.name(),
      g, c.ints(0));
  return s;
}

// The gradient of a pooled 1 x 1 image fits both layouts: images mostly come from convolutions, so
// channels-last.
PoolLayout gradient_layout(const Tensor& grad, const PoolSizes& s) {
  return s.batched && s.n == 2 && s.C > 1 && in_channels_last_order(grad) ? PoolLayout::NHWC
                                                                          : pool_layout(grad, s);
}

void make_gradient_output(Call& c, PoolLayout layout, const Tensor& like) {
  if (layout == PoolLayout::NHWC && like.impl().is_contiguous())
    c.make_output(c.ints(0), detail::channels_last_strides(c.ints(0)), c.in(0).dtype(), true);
  else
    make_pool_output(c, c.ints(0), c.in(0).dtype(), layout, like);
}

void infer_avg_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_floating(c, c.in(0), "grad_output");
  const PoolSizes s = backward_sizes(c);
  make_gradient_output(c, gradient_layout(c.in(0), s), c.in(0));
}

void run_avg_backward(Call& c) {
  const NoGradGuard off;
  const PoolSizes s = backward_sizes(c);
  const PoolLayout layout = gradient_layout(c.in(0), s);
  const Tensor g = in_layout(c.in(0), layout);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::avg_pool_backward<T>(plan_to(s, g.sizes()), layout, {}, g.raw<T>(), out.raw<T>());
  });
}

void infer_max_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  check_defined(c, 1, "indices");
  check_floating(c, c.in(0), "grad_output");
  const PoolSizes s = backward_sizes(c);
  PELLUCID_CHECK(
      c.in(1).dtype() == kInt64 && c.in(1).sizes() == c.in(0).sizes(), ShapeError,
      "{}: 'indices' must be int64 with the sizes of 'grad_output' ({}), found {} of sizes {}.",
      c.name(), c.in(0).sizes(), c.in(1).dtype(), c.in(1).sizes());
  make_gradient_output(c, gradient_layout(c.in(1), s), c.in(1));
}

void run_max_backward(Call& c) {
  const NoGradGuard off;
  const PoolSizes s = backward_sizes(c);
  const PoolLayout layout = gradient_layout(c.in(1), s);
  const Tensor g = in_layout(c.in(0), layout), indices = in_layout(c.in(1), layout);
  check_positions(c, indices, s);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::max_pool_backward<T>(plan_to(s, g.sizes()), layout, g.raw<T>(), indices.raw<int64_t>(),
                                  out.raw<T>());
  });
}

void samples_2d(Samples& s) {
  s.add({sample_randn({1, 2, 4, 5}), Value::ints({2, 3})});
  s.add({sample_randn({2, 3, 3}), 1});
  s.add({sample_randn({1, 2, 2, 2}), 3});
  s.add({sample_randn({1, 4, 3, 2}).permute({0, 3, 1, 2}), 2});
  s.add({sample_randn({0, 2, 4, 4}), 2});
  s.error({sample_randn({4, 4}), 2}, "[N, C, H, W] or [C, H, W] are needed");
  s.error({sample_randn({1, 2, 0, 4}), 2}, "must not be empty");
  s.error({sample_randn({1, 2, 4, 4}), -1}, "output_size must not be negative");
  s.large([] { return Values{randn({64, 512, 7, 7}), 1}; });
}

void samples_1d(Samples& s) {
  s.add({sample_randn({2, 2, 5}), 3});
  s.add({sample_randn({2, 4}), 1});
  s.error({sample_randn({4}), 2}, "[N, C, L] or [C, L] are needed");
  s.large([] { return Values{randn({64, 64, 576}), 32}; });
}

}  // namespace

extern constinit const OpDef adaptive_avg_pool1d_op = {
    .schema = "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
    .doc = "Averages that divide L into output_size windows.",
    .kind = OpKind::Reduction,
    .infer = infer_forward<1>,
    .cost = read_cost,
    .scratch = pool_scratch,
    .kernel = run_avg<1>,
    .vjp = [](const Vjp& v) -> Tensors {
      return {adaptive_avg_pool_backward(v.grad, v.in_sizes(0), 1)};
    },
    .samples = samples_1d,
    .any_layout = true};

extern constinit const OpDef adaptive_avg_pool2d_op = {
    .schema = "adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor",
    .doc = "Averages that divide H x W into output_size windows.",
    .kind = OpKind::Reduction,
    .infer = infer_forward<2>,
    .cost = read_cost,
    .scratch = pool_scratch,
    .kernel = run_avg<2>,
    .vjp = [](const Vjp& v) -> Tensors {
      return {adaptive_avg_pool_backward(v.grad, v.in_sizes(0), 2)};
    },
    .samples = samples_2d,
    .any_layout = true};

extern constinit const OpDef adaptive_avg_pool_backward_op = {
    .schema =
        "adaptive_avg_pool_backward(Tensor grad_output, int[] input_size, int spatial_dims) -> "
        "Tensor",
    .doc = "The gradient of adaptive average pooling.",
    .kind = OpKind::Reduction,
    .infer = infer_avg_backward,
    .cost = [](const Call& c) { return elementwise_cost(c, 1); },
    .scratch = pool_scratch,
    .kernel = run_avg_backward,
    .vjp = [](const Vjp& v) -> Tensors {
      const IntArrayRef out =
          v.in_sizes(0).slice(v.in_sizes(0).size() - static_cast<size_t>(v.integer(1)));
      return {v.integer(1) == 1 ? adaptive_avg_pool1d(v.grad, out)
                                : adaptive_avg_pool2d(v.grad, out)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 3}), Value::ints({1, 2, 4, 5}), 2});
          s.add({sample_randn({1, 2, 3}), Value::ints({1, 2, 5}), 1});
          s.error({sample_randn({1, 3, 2, 3}), Value::ints({1, 2, 4, 5}), 2},
                  "cannot come from an input of sizes [1, 2, 4, 5]");
        },
    .any_layout = true};

extern constinit const OpDef adaptive_max_pool1d_op = {
    .schema =
        "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor values, Tensor indices)",
    .doc = "Maxima that divide L into output_size windows, and where they were found.",
    .kind = OpKind::Reduction,
    .infer = infer_max<1>,
    .cost = read_cost,
    .scratch = pool_scratch,
    .kernel = run_max<1>,
    .saved = Saved::output(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {adaptive_max_pool_backward(v.grad, v.out(1), v.in_sizes(0), 1)};
    },
    .samples = samples_1d,
    .any_layout = true};

extern constinit const OpDef adaptive_max_pool2d_op = {
    .schema =
        "adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor values, Tensor indices)",
    .doc =
        "Maxima that divide H x W into output_size windows, and where they were found, as h * W + "
        "w.",
    .kind = OpKind::Reduction,
    .infer = infer_max<2>,
    .cost = read_cost,
    .scratch = pool_scratch,
    .kernel = run_max<2>,
    .saved = Saved::output(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {adaptive_max_pool_backward(v.grad, v.out(1), v.in_sizes(0), 2)};
    },
    .samples = samples_2d,
    .any_layout = true};

extern constinit const OpDef adaptive_max_pool_backward_op = {
    .schema =
        "adaptive_max_pool_backward(Tensor grad_output, Tensor indices, int[] input_size, int "
        "spatial_dims) -> Tensor",
    .doc =
        "The gradient of adaptive max pooling: each value goes back to where its maximum was "
        "found.",
    .kind = OpKind::Index,
    .infer = infer_max_backward,
    .cost = [](const Call& c) { return elementwise_cost(c, 1); },
    .scratch = pool_scratch,
    .kernel = run_max_backward,
    .check =
        [](const Call& c) { check_positions(c, contiguous_values(c.in(1)), backward_sizes(c)); },
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {
          v.needs(0) ? at_positions(v.grad, v.in(1), static_cast<size_t>(v.integer(1))) : Tensor(),
          Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 2}), sample_ints({1, 2, 2, 2}, 0, 16),
                 Value::ints({1, 2, 4, 4}), 2});
          s.error({sample_randn({1, 2, 2, 2}), sample_ints({1, 2, 2, 2}, 16, 20),
                   Value::ints({1, 2, 4, 4}), 2},
                  "out of range for an image of 4 x 4");
          s.error({sample_randn({1, 2, 2, 2}), sample_ints({1, 2, 2}, 0, 16),
                   Value::ints({1, 2, 4, 4}), 2},
                  "'indices' must be int64");
        },
    .any_layout = true};

}  // namespace pellucid
