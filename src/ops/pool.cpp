// Max and average pooling over windows, 1-D and 2-D, in the layout of the input. A primitive for
// each and one for its gradient; the gradient of max pooling reads the positions that forward
// found. Adaptive pooling is in pool_adaptive.cpp.
#include "ops/pool.h"

namespace pellucid {
namespace {

using kernels::PoolLayout;
using kernels::PoolPlan;

struct Windows {
  IntArrayRef kernel, stride, padding, dilation;
  bool ceil_mode;
};

kernels::PoolShape pool_shape(const Call& c, const PoolSizes& s, const Windows& w) {
  const Dims kernel = per_dim(c.name(), "kernel_size", w.kernel, s.n),
             stride = w.stride.empty() ? kernel : per_dim(c.name(), "stride", w.stride, s.n),
             padding = per_dim(c.name(), "padding", w.padding, s.n),
             dilation = per_dim(c.name(), "dilation", w.dilation, s.n);
  for (size_t i = 0; i < s.n; ++i) {
    PELLUCID_CHECK(kernel[i] > 0, ValueError, "{}: the kernel_size must be positive, found {}.",
                   c.name(), kernel);
    PELLUCID_CHECK(stride[i] > 0, ValueError, "{}: the stride must be positive, found {}.",
                   c.name(), stride);
    PELLUCID_CHECK(dilation[i] > 0, ValueError, "{}: the dilation must be positive, found {}.",
                   c.name(), dilation);
    PELLUCID_CHECK(padding[i] >= 0 && padding[i] <= ((kernel[i] - 1) * dilation[i] + 1) / 2,
                   ValueError,
                   "{}: the padding must be at least 0 and at most half of the kernel's reach, "
                   "found padding {} (kernel_size {}, dilation {}).",
                   c.name(), padding, kernel, dilation);
  }
  const size_t last = s.n - 1;
  kernels::PoolShape p{.N = s.N,
                       .C = s.C,
                       .H = s.H,
                       .W = s.W,
                       .KW = kernel[last],
                       .stride_w = stride[last],
                       .pad_w = padding[last],
                       .dilation_w = dilation[last],
                       .ceil_mode = w.ceil_mode};
  if (s.n == 2)
    p.KH = kernel[0], p.stride_h = stride[0], p.pad_h = padding[0], p.dilation_h = dilation[0];
  PELLUCID_CHECK(p.OH() > 0 && p.OW() > 0, ShapeError,
                 "{}: no window fits: the result would be {} x {} (input {} x {}, kernel_size {}, "
                 "stride {}, padding {}, dilation {}).",
                 c.name(), p.OH(), p.OW(), s.H, s.W, kernel, stride, padding, dilation);
  return p;
}

double window_flops(const Call& c, IntArrayRef kernel, size_t n, int64_t outputs) {
  double size = 1;
  for (const int64_t k : per_dim(c.name(), "kernel_size", kernel, n))
    size *= static_cast<double>(k);
  return size * static_cast<double>(outputs);
}

void check_pooled(const Call& c, std::string_view argument) {
  check_defined(c, 0, argument);
  check_floating(c, c.in(0), argument);
}

// Max: the attributes are kernel_size, stride, padding, dilation, ceil_mode, from `first` on.
Windows max_windows(const AttrReader& a, size_t first) {
  return {a.ints(first), a.ints(first + 1), a.ints(first + 2), a.ints(first + 3),
          a.flag(first + 4)};
}

template <size_t N> void infer_max(Call& c) {
  check_pooled(c, "self");
  const Tensor& x = c.in(0);
  const PoolSizes s(c, N, x.sizes());
  const kernels::PoolShape p = pool_shape(c, s, max_windows(c, 0));
  const Dims sizes = s.with(p.OH(), p.OW());
  const PoolLayout layout = pool_layout(x, s);
  make_pool_output(c, sizes, x.dtype(), layout, x);
  if (c.wants(1))
    make_pool_output(c, sizes, kInt64, layout, x);
  else
    c.skip_output();
}

template <size_t N> void run_max(Call& c) {
  const NoGradGuard off;
  const PoolSizes s(c, N, c.in(0).sizes());
  const PoolPlan plan = pool_plan(pool_shape(c, s, max_windows(c, 0)));
  const PoolLayout layout = pool_layout(c.in(0), s);
  const Tensor x = in_layout(c.in(0), layout);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::max_pool_forward<T>(plan, layout, x.raw<T>(), out.raw<T>(),
                                 c.wants(1) ? c.out(1).raw<int64_t>() : nullptr);
  });
}

template <size_t N> Cost max_cost(const Call& c) {
  return {window_flops(c, c.ints(0), N, c.out().numel()), moved_bytes(c)};
}

Tensors max_vjp(const Vjp& v) {
  return {max_pool_backward(v.grad, v.out(1), v.in_sizes(0), v.ints(0), v.ints(1), v.ints(2),
                            v.ints(3), v.flag(4))};
}

Tensors max_vjp_2d(const Vjp& v) {
  return {max_pool_backward(v.grad, v.out(1), v.in_sizes(0),
                            per_dim("max_pool2d", "kernel_size", v.ints(0), 2), v.ints(1),
                            v.ints(2), v.ints(3), v.flag(4))};
}

size_t spatial_dims(IntArrayRef input_size, IntArrayRef kernel) {
  return kernel.size() == 2 || input_size.size() == 4 ? 2 : 1;
}

void check_gradient_sizes(const Call& c, const Tensor& t, std::string_view argument,
                          IntArrayRef wanted) {
  PELLUCID_CHECK(t.sizes() == wanted, ShapeError,
                 "{}: '{}' has sizes {} but the pooled result has {}.", c.name(), argument,
                 t.sizes(), wanted);
}

// grad_output, indices; the attributes are input_size and those of forward. A single int as
// kernel_size of a 3-D input means [N, C, L]: the vjps of 2-D pooling pass two.
PoolSizes backward_sizes(const Call& c) {
  return {c, spatial_dims(c.ints(0), c.ints(1)), c.ints(0)};
}

void infer_max_backward(Call& c) {
  check_pooled(c, "grad_output");
  check_defined(c, 1, "indices");
  const PoolSizes s = backward_sizes(c);
  const kernels::PoolShape p = pool_shape(c, s, max_windows(c, 1));
  check_gradient_sizes(c, c.in(0), "grad_output", s.with(p.OH(), p.OW()));
  check_gradient_sizes(c, c.in(1), "indices", s.with(p.OH(), p.OW()));
  PELLUCID_CHECK(c.in(1).dtype() == kInt64, TypeError, "{}: 'indices' must be int64, found {}.",
                 c.name(), c.in(1).dtype());
  make_pool_output(c, c.ints(0), c.in(0).dtype(), pool_layout(c.in(1), s), c.in(1));
}

void run_max_backward(Call& c) {
  const NoGradGuard off;
  const PoolSizes s = backward_sizes(c);
  const PoolPlan plan = pool_plan(pool_shape(c, s, max_windows(c, 1)));
  const PoolLayout layout = pool_layout(c.in(1), s);
  const Tensor g = in_layout(c.in(0), layout), indices = in_layout(c.in(1), layout);
  check_positions(c, indices, s);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::max_pool_backward<T>(plan, layout, g.raw<T>(), indices.raw<int64_t>(), out.raw<T>());
  });
}

// Average: the attributes are kernel_size, stride, padding, ceil_mode, count_include_pad,
// divisor_override.
Windows avg_windows(const AttrReader& a, size_t first) {
  static constexpr int64_t kOne[] = {1};
  return {a.ints(first), a.ints(first + 1), a.ints(first + 2), kOne, a.flag(first + 3)};
}

kernels::AverageOptions average_options(const Call& c, size_t first) {
  const int64_t divisor = c.has_attr(first + 5) ? c.integer(first + 5) : 0;
  PELLUCID_CHECK(!c.has_attr(first + 5) || divisor != 0, ValueError,
                 "{}: divisor_override must not be 0.", c.name());
  return {c.flag(first + 4), divisor};
}

template <size_t N> void infer_avg(Call& c) {
  check_pooled(c, "self");
  average_options(c, 0);
  const PoolSizes s(c, N, c.in(0).sizes());
  const kernels::PoolShape p = pool_shape(c, s, avg_windows(c, 0));
  make_pool_output(c, s.with(p.OH(), p.OW()), c.in(0).dtype(), pool_layout(c.in(0), s), c.in(0));
}

template <size_t N> void run_avg(Call& c) {
  const NoGradGuard off;
  const PoolSizes s(c, N, c.in(0).sizes());
  const PoolPlan plan = pool_plan(pool_shape(c, s, avg_windows(c, 0)));
  const PoolLayout layout = pool_layout(c.in(0), s);
  const Tensor x = in_layout(c.in(0), layout);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::avg_pool_forward<T>(plan, layout, average_options(c, 0), x.raw<T>(), out.raw<T>());
  });
}

std::optional<int64_t> divisor_of(const AttrReader& a, size_t i) {
  return a.has_attr(i) ? std::optional(a.integer(i)) : std::nullopt;
}

Tensors avg_vjp(const Vjp& v) {
  return {avg_pool_backward(v.grad, v.in_sizes(0), v.ints(0), v.ints(1), v.ints(2), v.flag(3),
                            v.flag(4), divisor_of(v, 5))};
}

void infer_avg_backward(Call& c) {
  check_pooled(c, "grad_output");
  average_options(c, 1);
  const PoolSizes s = backward_sizes(c);
  const kernels::PoolShape p = pool_shape(c, s, avg_windows(c, 1));
  check_gradient_sizes(c, c.in(0), "grad_output", s.with(p.OH(), p.OW()));
  make_pool_output(c, c.ints(0), c.in(0).dtype(), pool_layout(c.in(0), s), c.in(0));
}

void run_avg_backward(Call& c) {
  const NoGradGuard off;
  const PoolSizes s = backward_sizes(c);
  const PoolPlan plan = pool_plan(pool_shape(c, s, avg_windows(c, 1)));
  const PoolLayout layout = pool_layout(c.in(0), s);
  const Tensor g = in_layout(c.in(0), layout);
  run_pool(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    kernels::avg_pool_backward<T>(plan, layout, average_options(c, 1), g.raw<T>(), out.raw<T>());
  });
}

// 1-D pooling has no divisor_override; the ops share their code with 2-D, which reads it as
// absent.
template <size_t N> Cost avg_cost(const Call& c) {
  return {window_flops(c, c.ints(0), N, c.out().numel()), moved_bytes(c)};
}

void max_samples_2d(Samples& s) {
  s.add({sample_randn({1, 2, 4, 4}), 2});
  s.add({sample_randn({2, 5, 3}), Value::ints({3, 2}), Value::ints({2, 1}), 1});
  s.add({sample_randn({1, 2, 5, 3}), 2, 1, 0, 2}, {});
  s.add({sample_randn({1, 2, 3, 5}), 2, 2, 0, 1, true});
  s.add({sample_randn({1, 3, 4, 2}).permute({0, 3, 1, 2}), 2});
  s.add({sample_randn({0, 2, 4, 4}), 2});
  s.error({sample_randn({4, 4}), 2}, "[N, C, H, W] or [C, H, W] are needed");
  s.error({sample_randn({1, 2, 4, 4}), 5}, "no window fits");
  s.error({sample_randn({1, 2, 4, 4}), 2, 2, 2}, "at most half of the kernel's reach");
  s.error({sample_randn({1, 2, 4, 4}), 2, 0}, "the stride must be positive");
  s.error({sample_ints({1, 2, 4, 4}, 0, 5), 2}, "must be a floating tensor");
  s.large([] { return Values{randn({64, 64, 24, 24}), 2}; });
}

void max_samples_1d(Samples& s) {
  s.add({sample_randn({1, 2, 6}), 2});
  s.add({sample_randn({2, 7}), 3, 2, 1, 2});
  s.add({sample_randn({1, 7, 2}).transpose(1, 2), 3, 2, 0, 1, true});
  s.error({sample_randn({6}), 2}, "[N, C, L] or [C, L] are needed");
  s.large([] { return Values{randn({64, 64, 576}), 2}; });
}

}  // namespace

extern constinit const OpDef max_pool1d_op = {
    .schema =
        "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] "
        "dilation=1, bool ceil_mode=False) -> (Tensor values, Tensor _indices)",
    .doc =
        "The largest value of each window of [N, C, L] or [C, L]; the stride is kernel_size unless "
        "given.",
    .kind = OpKind::Reduction,
    .infer = infer_max<1>,
    .cost = max_cost<1>,
    .scratch = pool_scratch,
    .kernel = run_max<1>,
    .saved = Saved::output(1),
    .vjp = max_vjp,
    .onnx = {"MaxPool", 12},
    .samples = max_samples_1d,
    .any_layout = true};

extern constinit const OpDef max_pool2d_op = {
    .schema =
        "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
        "dilation=1, bool ceil_mode=False) -> (Tensor values, Tensor _indices)",
    .doc =
        "The largest value of each window of [N, C, H, W] or [C, H, W]; the stride is kernel_size "
        "unless given.",
    .kind = OpKind::Reduction,
    .infer = infer_max<2>,
    .cost = max_cost<2>,
    .scratch = pool_scratch,
    .kernel = run_max<2>,
    .saved = Saved::output(1),
    .vjp = max_vjp_2d,
    .onnx = {"MaxPool", 12},
    .samples = max_samples_2d,
    .any_layout = true};

extern constinit const OpDef max_pool1d_with_indices_op = {
    .schema =
        "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] "
        "padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor values, Tensor indices)",
    .doc = "max_pool1d and where in L each value was found.",
    .kind = OpKind::Reduction,
    .infer = infer_max<1>,
    .cost = max_cost<1>,
    .scratch = pool_scratch,
    .kernel = run_max<1>,
    .saved = Saved::output(1),
    .vjp = max_vjp,
    .samples = max_samples_1d,
    .any_layout = true};

extern constinit const OpDef max_pool2d_with_indices_op = {
    .schema =
        "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] "
        "padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor values, Tensor indices)",
    .doc = "max_pool2d and where each value was found, as h * W + w.",
    .kind = OpKind::Reduction,
    .infer = infer_max<2>,
    .cost = max_cost<2>,
    .scratch = pool_scratch,
    .kernel = run_max<2>,
    .saved = Saved::output(1),
    .vjp = max_vjp_2d,
    .samples = max_samples_2d,
    .any_layout = true};

extern constinit const OpDef max_pool_backward_op = {
    .schema =
        "max_pool_backward(Tensor grad_output, Tensor indices, int[] input_size, int[] "
        "kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor",
    .doc = "The gradient of max pooling: each value goes back to where its maximum was found.",
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
          v.needs(0) ? at_positions(v.grad, v.in(1), spatial_dims(v.ints(0), v.ints(1))) : Tensor(),
          Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 2}), sample_ints({1, 2, 2, 2}, 0, 16),
                 Value::ints({1, 2, 4, 4}), Value::ints({2, 2}), Value::ints({2, 2}),
                 Value::ints({0, 0}), Value::ints({1, 1}), false});
          s.error({sample_randn({1, 2, 3, 2}), sample_ints({1, 2, 2, 2}, 0, 16),
                   Value::ints({1, 2, 4, 4}), Value::ints({2, 2}), Value::ints({2, 2}),
                   Value::ints({0, 0}), Value::ints({1, 1}), false},
                  "'grad_output' has sizes [1, 2, 3, 2]");
          s.error({sample_randn({1, 2, 2, 2}), sample_ints({1, 2, 2, 2}, 16, 20),
                   Value::ints({1, 2, 4, 4}), Value::ints({2, 2}), Value::ints({2, 2}),
                   Value::ints({0, 0}), Value::ints({1, 1}), false},
                  "out of range for an image of 4 x 4");
        },
    .any_layout = true};

extern constinit const OpDef avg_pool1d_op = {
    .schema =
        "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool "
        "ceil_mode=False, bool count_include_pad=True) -> Tensor",
    .doc = "The average of each window of [N, C, L] or [C, L].",
    .kind = OpKind::Reduction,
    .infer = infer_avg<1>,
    .cost = avg_cost<1>,
    .scratch = pool_scratch,
    .kernel = run_avg<1>,
    .vjp = avg_vjp,
    .onnx = {"AveragePool", 11},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 6}), 2});
          s.add({sample_randn({2, 7}), 3, 2, 1, true, false});
          s.add({sample_randn({1, 7, 2}).transpose(1, 2), 3, 2});
          s.error({sample_randn({1, 2, 6}), 2, 1, 2}, "at most half of the kernel's reach");
          s.large([] { return Values{randn({64, 64, 576}), 2}; });
        },
    .any_layout = true};

extern constinit const OpDef avg_pool2d_op = {
    .schema =
        "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool "
        "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    .doc = "The average of each window of [N, C, H, W] or [C, H, W]; the divisor may be given.",
    .kind = OpKind::Reduction,
    .infer = infer_avg<2>,
    .cost = avg_cost<2>,
    .scratch = pool_scratch,
    .kernel = run_avg<2>,
    .vjp = [](const Vjp& v) -> Tensors {
      return {avg_pool_backward(v.grad, v.in_sizes(0),
                                per_dim("avg_pool2d", "kernel_size", v.ints(0), 2), v.ints(1),
                                v.ints(2), v.flag(3), v.flag(4), divisor_of(v, 5))};
    },
    .onnx = {"AveragePool", 11},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4, 4}), 2});
          s.add(
              {sample_randn({2, 5, 3}), Value::ints({3, 2}), Value::ints({2, 1}), 1, false, false});
          s.add({sample_randn({1, 2, 3, 5}), 2, 2, 1, true});
          s.add({sample_randn({1, 3, 4, 2}).permute({0, 3, 1, 2}), 2}, {{"divisor_override", 3}});
          s.add({sample_randn({0, 2, 4, 4}), 2});
          s.error({sample_randn({1, 2, 4, 4}), 2}, "divisor_override must not be 0",
                  {{"divisor_override", 0}});
          s.error({sample_randn({1, 2, 4, 4}), 5}, "no window fits");
          s.error({sample_randn({4, 4}), 2}, "[N, C, H, W] or [C, H, W] are needed");
          s.large([] { return Values{randn({64, 64, 24, 24}), 2}; });
        },
    .any_layout = true};

extern constinit const OpDef avg_pool_backward_op = {
    .schema =
        "avg_pool_backward(Tensor grad_output, int[] input_size, int[] kernel_size, int[] stride, "
        "int[] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    .doc = "The gradient of average pooling: each value is divided among its window.",
    .kind = OpKind::Reduction,
    .infer = infer_avg_backward,
    .cost =
        [](const Call& c) {
          return Cost{
              window_flops(c, c.ints(1), spatial_dims(c.ints(0), c.ints(1)), c.in(0).numel()),
              moved_bytes(c)};
        },
    .scratch = pool_scratch,
    .kernel = run_avg_backward,
    .vjp = [](const Vjp& v) -> Tensors {
      if (spatial_dims(v.ints(0), v.ints(1)) == 1)
        return {avg_pool1d(v.grad, v.ints(1), v.ints(2), v.ints(3), v.flag(4), v.flag(5))};
      return {avg_pool2d(v.grad, v.ints(1), v.ints(2), v.ints(3), v.flag(4), v.flag(5),
                         divisor_of(v, 6))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 2}), Value::ints({1, 2, 4, 4}), Value::ints({2, 2}),
                 Value::ints({2, 2}), Value::ints({0, 0}), false, true, Value()});
          s.add({sample_randn({1, 2, 3}), Value::ints({1, 2, 6}), Value::ints({2}), Value::ints({}),
                 Value::ints({0}), false, true, Value()});
          s.error({sample_randn({1, 2, 3, 2}), Value::ints({1, 2, 4, 4}), Value::ints({2, 2}),
                   Value::ints({2, 2}), Value::ints({0, 0}), false, true, Value()},
                  "'grad_output' has sizes [1, 2, 3, 2]");
        },
    .any_layout = true};

}  // namespace pellucid
