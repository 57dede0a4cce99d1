// The convolutions that programs call, composed over the primitive of conv.cpp: they fill in lists,
// add and remove a batch dimension, turn 'same' into numbers, and reorder the input to
// channels-last.
#include "ops/conv.h"

namespace pellucid {
namespace {

struct Form {
  size_t n;  // spatial dimensions
  bool transposed = false;
};

constexpr const char* kSpatial[] = {"", "L", "H, W", "D, H, W"};

// Inputs [N, C, …] or [C, …]; the attributes are given as lists that may hold one int.
Tensor run_form(const Call& c, Form form, IntArrayRef stride_, IntArrayRef padding_,
                IntArrayRef dilation_, IntArrayRef extra_, int64_t groups) {
  check_defined(c, 0, "input");
  check_defined(c, 1, "weight");
  const size_t n = form.n;
  const auto dims = static_cast<size_t>(c.in(0).dim());
  PELLUCID_CHECK(dims == n + 1 || dims == n + 2, ShapeError,
                 "{}: 'input' must be [N, C, {}] or [C, {}], found sizes {}.", c.name(),
                 kSpatial[n], kSpatial[n], c.in(0).sizes());
  Dims stride = per_dim(c.name(), "stride", stride_, n),
       padding = per_dim(c.name(), "padding", padding_, n),
       dilation = per_dim(c.name(), "dilation", dilation_, n),
       extra = per_dim(c.name(), "output_padding", extra_, n);
  const bool batched = dims == n + 2;
  Tensor x = batched ? c.in(0) : c.in(0).unsqueeze(0);
  if (form.transposed) {
    Dims more(2 * n, 0);  // constant_pad_nd counts from the last dimension
    bool any = false;
    for (size_t i = 0; i < n; ++i) {
      PELLUCID_CHECK(extra[i] < std::max(stride[i], dilation[i]), ValueError,
                     "{}: output_padding {} must be less than the stride {} or the dilation {}.",
                     c.name(), extra_, stride_, dilation_);
      if (stride[i] < 1 || extra[i] < stride[i]) continue;
      // Beyond a stride it is as if the input went on with zeros.
      more[2 * (n - 1 - i) + 1] = extra[i] / stride[i];
      extra[i] %= stride[i];
      any = true;
    }
    if (any) x = constant_pad_nd(x, more);
  }
  if (!in_channels_last_order(x)) x = _channels_last(x);
  const Tensor bias = c.has_in(2) ? c.in(2) : Tensor();
  const Tensor y =
      convolution(x, c.in(1), bias, stride, padding, dilation, form.transposed, extra, groups);
  return batched ? y : y.squeeze(0);
}

// padding = 'valid' or 'same'. An odd total puts the extra zeros at the end, as in PyTorch.
Tensor run_named_padding(const Call& c, size_t n) {
  check_defined(c, 0, "input");
  check_defined(c, 1, "weight");
  const std::string_view mode = c.text(1);
  PELLUCID_CHECK(mode == "valid" || mode == "same", ValueError,
                 "{}: padding must be numbers, 'valid' or 'same', found '{}'.", c.name(), mode);
  if (mode == "valid") return run_form(c, {n}, c.ints(0), 0, c.ints(2), 0, c.integer(3));
  const Dims stride = per_dim(c.name(), "stride", c.ints(0), n),
             dilation = per_dim(c.name(), "dilation", c.ints(2), n);
  const IntArrayRef weight = c.in(1).sizes();
  PELLUCID_CHECK(weight.size() == n + 2, ShapeError,
                 "{}: 'weight' must have {} dimensions, found sizes {}.", c.name(), n + 2, weight);
  Dims padding(n, 0), more(2 * n, 0);
  bool uneven = false;
  for (size_t i = 0; i < n; ++i) {
    PELLUCID_CHECK(stride[i] == 1, ValueError,
                   "{}: padding = 'same' needs a stride of 1, found {}.", c.name(), c.ints(0));
    const int64_t total = dilation[i] * (weight[2 + i] - 1);
    padding[i] = total / 2;
    more[2 * (n - 1 - i) + 1] = total % 2;
    uneven |= total % 2 != 0;
  }
  if (!uneven) return run_form(c, {n}, stride, padding, dilation, 0, c.integer(3));
  const Tensor x = constant_pad_nd(c.in(0), more);
  const Tensor* const inputs[] = {&x, &c.in(1), &c.in(2)};
  const Call padded(c.op(), inputs, c.attrs());
  return run_form(padded, {n}, stride, padding, dilation, 0, c.integer(3));
}

template <size_t N> Tensors conv(const Call& c) {
  return {run_form(c, {N}, c.ints(0), c.ints(1), c.ints(2), 0, c.integer(3))};
}

template <size_t N> Tensors conv_named(const Call& c) { return {run_named_padding(c, N)}; }

// stride, padding, output_padding, groups, dilation: PyTorch's order.
template <size_t N> Tensors conv_transposed(const Call& c) {
  return {run_form(c, {N, true}, c.ints(0), c.ints(1), c.ints(4), c.ints(2), c.integer(3))};
}

}  // namespace

extern constinit const OpDef conv1d_op = {
    .schema =
        "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
        "int[1] dilation=1, int groups=1) -> Tensor",
    .doc = "Convolution of [N, C, L] or [C, L] with a weight [out, C / groups, kernel].",
    .kind = OpKind::Contraction,
    .compose = conv<1>,
    .onnx = {"Conv", 11},
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 2, 5}), sample_randn({2, 2, 3}), sample_randn({2})});
      s.add({sample_randn({2, 6}), sample_randn({2, 1, 2})},
            {{"stride", 2}, {"padding", 1}, {"dilation", 2}, {"groups", 2}});
      s.add({sample_randn({2, 5, 2}).transpose(1, 2), sample_randn({2, 2, 3})});
      s.add({sample_randn({0, 2, 5}), sample_randn({2, 2, 3})});
      s.error({sample_randn({2, 3, 5}), sample_randn({2, 2, 3})},
              "input has 3 channels but the weight takes 2");
      s.error({sample_randn({5}), sample_randn({2, 2, 3})}, "'input' must be [N, C, L] or [C, L]");
      s.large([] { return Values{randn({16, 64, 512}), randn({128, 64, 5}), randn({128})}; });
    }};

extern constinit const OpDef conv1d_padding_op = {
    .schema =
        "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str "
        "padding, int[1] dilation=1, int groups=1) -> Tensor",
    .doc = "conv1d with padding 'valid' (none) or 'same' (the result is as long as the input).",
    .kind = OpKind::Contraction,
    .compose = conv_named<1>,
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 2, 5}), sample_randn({2, 2, 3}), sample_randn({2})},
            {{"padding", "same"}});
      s.add({sample_randn({2, 2, 5}), sample_randn({2, 2, 4})}, {{"padding", "same"}});
      s.add({sample_randn({2, 5}), sample_randn({2, 2, 3})}, {{"padding", "valid"}});
      s.error({sample_randn({2, 2, 5}), sample_randn({2, 2, 3})}, "'valid' or 'same', found 'full'",
              {{"padding", "full"}});
    }};

extern constinit const OpDef conv2d_op = {
    .schema =
        "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
        "int[2] dilation=1, int groups=1) -> Tensor",
    .doc =
        "Convolution of [N, C, H, W] or [C, H, W] with a weight [out, C / groups, kernel height, "
        "kernel width].",
    .kind = OpKind::Contraction,
    .compose = conv<2>,
    .onnx = {"Conv", 11},
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 2, 4, 3}), sample_randn({2, 2, 3, 2}), sample_randn({2})});
      s.add({sample_randn({1, 1, 5, 4}), sample_randn({2, 1, 2, 3})},
            {{"stride", Value::ints({2, 1})}, {"padding", 1}, {"dilation", Value::ints({1, 2})}});
      s.add({sample_randn({2, 4, 3}), sample_randn({4, 1, 2, 2}), sample_randn({4})},
            {{"groups", 2}});
      s.add({sample_randn({2, 3, 3, 2}).permute({0, 3, 1, 2}), sample_randn({2, 2, 2, 2})});
      s.add({sample_randn({0, 2, 4, 4}), sample_randn({2, 2, 3, 3}), sample_randn({2})});
      s.error({sample_randn({1, 3, 4, 4}), sample_randn({2, 2, 3, 3})},
              "input has 3 channels but the weight takes 2");
      s.error({sample_randn({4, 4}), sample_randn({2, 2, 3, 3})},
              "'input' must be [N, C, H, W] or [C, H, W]");
      s.error({sample_randn({1, 2, 4, 4}), sample_randn({2, 2, 3, 3})},
              "'stride' must be one int or 2", {{"stride", Value::ints({1, 1, 1})}});
      s.error({sample_randn({1, 2, 4, 4}), sample_randn({2, 2, 3, 3}).to(kFloat32)},
              "found float64 and float32");
      s.large([] {
        return Values{randn({8, 128, 28, 28}), randn({128, 128, 3, 3}), randn({128}), 1, 1};
      });
    }};

extern constinit const OpDef conv2d_padding_op = {
    .schema =
        "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str "
        "padding, int[2] dilation=1, int groups=1) -> Tensor",
    .doc =
        "conv2d with padding 'valid' (none) or 'same' (the result has the input's height and "
        "width).",
    .kind = OpKind::Contraction,
    .compose = conv_named<2>,
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 2, 3, 3}), sample_randn({2, 2, 3, 2}), sample_randn({2})},
            {{"padding", "same"}});
      s.add({sample_randn({2, 3, 3}), sample_randn({1, 2, 2, 2})},
            {{"padding", "same"}, {"dilation", Value::ints({1, 2})}});
      s.add({sample_randn({1, 2, 3, 3}), sample_randn({2, 2, 3, 2})},
            {{"padding", "valid"}, {"stride", 2}});
      s.error({sample_randn({1, 2, 3, 3}), sample_randn({2, 2, 3, 2})}, "needs a stride of 1",
              {{"padding", "same"}, {"stride", 2}});
    }};

extern constinit const OpDef conv3d_op = {
    .schema =
        "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
        "int[3] dilation=1, int groups=1) -> Tensor",
    .doc =
        "Convolution of [N, C, D, H, W] or [C, D, H, W] with a weight [out, C / groups, kernel "
        "depth, kernel height, kernel width].",
    .kind = OpKind::Contraction,
    .compose = conv<3>,
    .onnx = {"Conv", 11},
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 2, 3, 2, 3}), sample_randn({2, 2, 2, 2, 2}), sample_randn({2})});
      s.add({sample_randn({2, 3, 3, 2}), sample_randn({2, 1, 2, 1, 2}), sample_randn({2})},
            {{"stride", Value::ints({2, 1, 1})},
             {"padding", Value::ints({1, 0, 1})},
             {"dilation", Value::ints({1, 2, 1})},
             {"groups", 2}});
      s.add({sample_randn({0, 1, 3, 3, 3}), sample_randn({2, 1, 2, 2, 2}), sample_randn({2})});
      s.error({sample_randn({1, 3, 3, 3, 3}), sample_randn({2, 2, 2, 2, 2})},
              "input has 3 channels but the weight takes 2");
      s.error({sample_randn({3, 3, 3}), sample_randn({2, 2, 2, 2, 2})},
              "'input' must be [N, C, D, H, W] or [C, D, H, W]");
      s.error({sample_randn({1, 2, 1, 3, 3}), sample_randn({2, 2, 2, 2, 2})},
              "the kernel reaches over 2 elements but dimension 2 has 1");
      s.large([] {
        return Values{randn({4, 32, 16, 28, 28}), randn({64, 32, 3, 3, 3}), randn({64}), 1, 1};
      });
    }};

extern constinit const OpDef conv3d_padding_op = {
    .schema =
        "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str "
        "padding, int[3] dilation=1, int groups=1) -> Tensor",
    .doc = "conv3d with padding 'valid' (none) or 'same' (the result has the input's sizes).",
    .kind = OpKind::Contraction,
    .compose = conv_named<3>,
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 1, 2, 3, 2}), sample_randn({2, 1, 2, 3, 1}), sample_randn({2})},
            {{"padding", "same"}});
      s.add({sample_randn({1, 2, 3, 2}), sample_randn({1, 1, 2, 2, 2})}, {{"padding", "valid"}});
      s.error({sample_randn({1, 1, 2, 3, 2}), sample_randn({2, 1, 2, 3, 1})}, "needs a stride of 1",
              {{"padding", "same"}, {"stride", 2}});
    }};

extern constinit const OpDef conv_transpose1d_op = {
    .schema =
        "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] "
        "padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor",
    .doc = "The transpose of conv1d as a linear map; the weight is [C, out / groups, kernel].",
    .kind = OpKind::Contraction,
    .compose = conv_transposed<1>,
    .onnx = {"ConvTranspose", 11},
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 2, 3}), sample_randn({2, 2, 3}), sample_randn({2})});
      s.add({sample_randn({2, 4}), sample_randn({2, 1, 2}), sample_randn({2})},
            {{"stride", 2}, {"padding", 1}, {"output_padding", 1}, {"groups", 2}});
      s.add({sample_randn({1, 2, 3}), sample_randn({2, 1, 2})},
            {{"stride", 2}, {"output_padding", 2}, {"dilation", 3}});
      s.error({sample_randn({2, 2, 3}), sample_randn({2, 2, 3})}, "must be less than the stride",
              {{"output_padding", 1}});
      s.large([] { return Values{randn({16, 64, 256}), randn({64, 64, 4}), randn({64}), 2, 1}; });
    }};

extern constinit const OpDef conv_transpose2d_op = {
    .schema =
        "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
        "int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor",
    .doc =
        "The transpose of conv2d as a linear map; the weight is [C, out / groups, kernel height, "
        "kernel width].",
    .kind = OpKind::Contraction,
    .compose = conv_transposed<2>,
    .onnx = {"ConvTranspose", 11},
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 2, 3, 2}), sample_randn({2, 2, 2, 3}), sample_randn({2})});
      s.add(
          {sample_randn({2, 2, 2}), sample_randn({2, 1, 3, 3}), sample_randn({2})},
          {{"stride", 2}, {"padding", 1}, {"output_padding", Value::ints({1, 0})}, {"groups", 2}});
      s.add({sample_randn({1, 1, 2, 2}), sample_randn({1, 2, 2, 2})},
            {{"dilation", 2}, {"output_padding", 1}});
      s.add({sample_randn({0, 2, 3, 2}), sample_randn({2, 2, 2, 3}), sample_randn({2})});
      s.error({sample_randn({1, 3, 3, 2}), sample_randn({2, 2, 2, 3})},
              "input has 3 channels but the weight takes 2");
      s.error({sample_randn({1, 2, 1, 1}), sample_randn({2, 2, 2, 2})},
              "the result would have size", {{"padding", 1}});
      s.large([] {
        return Values{randn({16, 64, 28, 28}), randn({64, 32, 4, 4}), randn({32}), 2, 1};
      });
    }};

extern constinit const OpDef conv_transpose3d_op = {
    .schema =
        "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, "
        "int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor",
    .doc =
        "The transpose of conv3d as a linear map; the weight is [C, out / groups, kernel depth, "
        "kernel height, kernel width].",
    .kind = OpKind::Contraction,
    .compose = conv_transposed<3>,
    .onnx = {"ConvTranspose", 11},
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 2, 2, 1, 2}), sample_randn({2, 1, 2, 2, 1}), sample_randn({1})});
      s.add({sample_randn({2, 2, 2, 1}), sample_randn({2, 1, 2, 3, 2}), sample_randn({2})},
            {{"stride", Value::ints({2, 1, 1})},
             {"padding", Value::ints({0, 1, 0})},
             {"output_padding", Value::ints({1, 0, 0})},
             {"groups", 2}});
      s.error({sample_randn({1, 3, 2, 2, 2}), sample_randn({2, 2, 2, 2, 2})},
              "input has 3 channels but the weight takes 2");
      s.large([] {
        return Values{randn({4, 32, 8, 14, 14}), randn({32, 32, 2, 2, 2}), randn({32}), 2};
      });
    }};

}  // namespace pellucid
