// Windows of images as columns (im2col, torch.nn.functional.unfold) and their transpose (col2im,
// fold). Each is the gradient of the other.
#include "kernels/fold.h"

#include "ops/conv.h"

namespace pellucid {
namespace {

// The attributes kernel_size, dilation, padding, stride from `first` on, for an image of H x W.
kernels::ConvShape window_shape(const Call& c, size_t first, int64_t H, int64_t W) {
  const auto list = [&](size_t i, std::string_view name, int64_t least) {
    Dims values = per_dim(c.name(), name, c.ints(first + i), 2);
    PELLUCID_CHECK(values[0] >= least && values[1] >= least, ValueError,
                   "{}: '{}' must be at least {}, found {}.", c.name(), name, least, values);
    return values;
  };
  const Dims kernel = list(0, "kernel_size", 1), dilation = list(1, "dilation", 1),
             padding = list(2, "padding", 0), stride = list(3, "stride", 1);
  kernels::ConvShape s{.H = H,
                       .W = W,
                       .KH = kernel[0],
                       .KW = kernel[1],
                       .stride_h = stride[0],
                       .stride_w = stride[1],
                       .pad_h = padding[0],
                       .pad_w = padding[1],
                       .dilation_h = dilation[0],
                       .dilation_w = dilation[1]};
  const int64_t reach_h = dilation[0] * (kernel[0] - 1) + 1,
                reach_w = dilation[1] * (kernel[1] - 1) + 1;
  PELLUCID_CHECK(H + 2 * padding[0] >= reach_h && W + 2 * padding[1] >= reach_w, ShapeError,
                 "{}: a window reaches over {} x {} pixels but the image has {} x {} with padding "
                 "(kernel_size {}, dilation {}, padding {}).",
                 c.name(), reach_h, reach_w, H + 2 * padding[0], W + 2 * padding[1], kernel,
                 dilation, padding);
  return s;
}

// self [N, C, H, W] or [C, H, W].
kernels::ConvShape image_shape(const Call& c) {
  const IntArrayRef sizes = c.in(0).sizes();
  const size_t n = sizes.size();
  PELLUCID_CHECK((n == 3 || n == 4) && sizes[n - 3] > 0 && sizes[n - 2] > 0 && sizes[n - 1] > 0,
                 ShapeError,
                 "{}: 'self' must be [N, C, H, W] or [C, H, W] with positive C, H and W, found "
                 "sizes {}.",
                 c.name(), sizes);
  kernels::ConvShape s = window_shape(c, 0, sizes[n - 2], sizes[n - 1]);
  s.N = n == 4 ? sizes[0] : 1, s.C = sizes[n - 3];
  return s;
}

// self [N, C KH KW, L] or [C KH KW, L]; the attributes are output_size and the windows'.
kernels::ConvShape columns_shape(const Call& c) {
  const IntArrayRef sizes = c.in(0).sizes();
  const size_t n = sizes.size();
  PELLUCID_CHECK((n == 2 || n == 3) && sizes[n - 2] > 0 && sizes[n - 1] > 0, ShapeError,
                 "{}: 'self' must be [N, C * kernel, L] or [C * kernel, L] without empty columns, "
                 "found sizes {}.",
                 c.name(), sizes);
  const Dims image = per_dim(c.name(), "output_size", c.ints(0), 2);
  PELLUCID_CHECK(image[0] > 0 && image[1] > 0, ValueError,
                 "{}: 'output_size' must be positive, found {}.", c.name(), image);
  kernels::ConvShape s = window_shape(c, 1, image[0], image[1]);
  const int64_t taps = s.KH * s.KW, rows = sizes[n - 2];
  PELLUCID_CHECK(rows % taps == 0 && sizes[n - 1] == s.OH() * s.OW(), ShapeError,
                 "{}: an image of {} x {} has {} windows of {} taps, so 'self' must be [N, C * {}, "
                 "{}], found sizes {}.",
                 c.name(), image[0], image[1], s.OH() * s.OW(), taps, taps, s.OH() * s.OW(), sizes);
  s.N = n == 3 ? sizes[0] : 1, s.C = rows / taps;
  return s;
}

// Runs a kernel of float or double from input 0 to output 0; 16-bit floats pass through float.
template <class F> void run_between(Call& c, F&& kernel) {
  const NoGradGuard off;
  const Tensor from = contiguous_values(widened(c.in(0)));
  const bool narrow = from.dtype() != c.out().dtype();
  const Tensor to = narrow ? empty(c.out().sizes(), from.dtype()) : c.out();
  if (from.dtype() == kFloat64)
    kernel(from.raw<double>(), to.raw<double>());
  else
    kernel(from.raw<float>(), to.raw<float>());
  if (narrow) c.out().copy_(to);
}

void infer_im2col(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  const kernels::ConvShape s = image_shape(c);
  Dims sizes;
  if (c.in(0).dim() == 4) sizes.push_back(s.N);
  sizes.push_back(s.C * s.KH * s.KW);
  sizes.push_back(s.OH() * s.OW());
  c.make_output(sizes, c.in(0).dtype());
}

void infer_col2im(Call& c) {
  check_defined(c, 0, "self");
  check_floating(c, c.in(0), "self");
  const kernels::ConvShape s = columns_shape(c);
  Dims sizes;
  if (c.in(0).dim() == 3) sizes.push_back(s.N);
  for (const int64_t n : {s.C, s.H, s.W}) sizes.push_back(n);
  c.make_output(sizes, c.in(0).dtype());
}

}  // namespace

extern constinit const OpDef im2col_op = {
    .schema =
        "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
        "-> Tensor",
    .doc =
        "The window around each place of [N, C, H, W] as a column of [N, C * kernel, windows]; "
        "nn.functional.unfold.",
    .kind = OpKind::Index,
    .infer = infer_im2col,
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel =
        [](Call& c) {
          const kernels::ConvShape s = image_shape(c);
          run_between(c, [&](const auto* x, auto* y) { kernels::image_to_columns(s, x, y); });
        },
    .vjp = [](const Vjp& v) -> Tensors {
      const IntArrayRef sizes = v.in_sizes(0);
      return {col2im(v.grad, sizes.slice(sizes.size() - 2), v.ints(0), v.ints(1), v.ints(2),
                     v.ints(3))};
    },
    .samples =
        [](Samples& s) {
          const auto ints = [](int64_t a, int64_t b) { return Value::ints({a, b}); };
          s.add({sample_randn({2, 2, 4, 3}), ints(2, 2), 1, 0, 1});
          s.add({sample_randn({1, 1, 5, 4}), ints(3, 2), ints(1, 2), ints(1, 2), ints(2, 1)});
          s.add({sample_randn({2, 3, 4}), 2, 1, 1, 3});
          s.add({sample_randn({0, 2, 4, 3}), 2, 1, 0, 1});
          s.error({sample_randn({4, 3}), 2, 1, 0, 1}, "must be [N, C, H, W] or [C, H, W]");
          s.error({sample_randn({1, 1, 2, 3}), 3, 1, 0, 1},
                  "a window reaches over 3 x 3 pixels but the image has 2 x 3");
          s.error({sample_randn({1, 1, 2, 3}), 2, 1, 0, 0}, "'stride' must be at least 1");
          s.large([] { return Values{randn({16, 32, 56, 56}), 3, 1, 1, 1}; });
        },
};

extern constinit const OpDef col2im_op = {
    .schema =
        "col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] "
        "padding, int[2] stride) -> Tensor",
    .doc =
        "The transpose of im2col: columns [N, C * kernel, windows] added up where windows overlap; "
        "nn.functional.fold.",
    .kind = OpKind::Index,
    .infer = infer_col2im,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel =
        [](Call& c) {
          const kernels::ConvShape s = columns_shape(c);
          run_between(c, [&](const auto* x, auto* y) { kernels::columns_to_image(s, x, y); });
        },
    .vjp = [](const Vjp& v) -> Tensors {
      return {im2col(v.grad, v.ints(1), v.ints(2), v.ints(3), v.ints(4))};
    },
    .samples =
        [](Samples& s) {
          const auto ints = [](int64_t a, int64_t b) { return Value::ints({a, b}); };
          s.add({sample_randn({2, 8, 6}), ints(4, 3), ints(2, 2), 1, 0, 1});
          s.add({sample_randn({1, 6, 18}), ints(5, 4), ints(3, 2), ints(1, 2), ints(1, 2),
                 ints(2, 1)});
          s.add({sample_randn({8, 4}), ints(3, 4), 2, 1, 1, 3});
          s.error({sample_randn({2, 8, 5}), ints(4, 3), 2, 1, 0, 1},
                  "has 6 windows of 4 taps, so 'self' must be [N, C * 4, 6]");
          s.error({sample_randn({8}), ints(4, 3), 2, 1, 0, 1}, "must be [N, C * kernel, L]");
          s.large([] { return Values{randn({16, 288, 3136}), Value::ints({56, 56}), 3, 1, 1, 1}; });
        },
};

}  // namespace pellucid
