// Convolution: one primitive for 1-D, 2-D and 3-D, transposed or not, and the ops of its
// gradients, which are convolutions again. Kernels work channels-last: results are laid out so,
// hidden from the program unless it chose channels-last itself. An input in another order is
// reordered by _channels_last, which profiles show. The functions that programs call (conv2d…) are
// in conv_forms.cpp.
#include "ops/conv.h"

#include "kernels/conv.h"
#include "kernels/copy.h"
#include "ops/root.h"
#include "tensor/weights.h"

namespace pellucid {
namespace {

// The attributes stride, padding, dilation, transposed, output_padding, groups; they start at
// `first`.
struct Params {
  Params(const AttrReader& a, size_t first)
      : stride(a.ints(first)),
        padding(a.ints(first + 1)),
        dilation(a.ints(first + 2)),
        output_padding(a.ints(first + 4)),
        transposed(a.flag(first + 3)),
        groups(a.integer(first + 5)) {}
  IntArrayRef stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// The convolution as the kernels see it. A transposed one is the gradient of the data of the
// convolution that goes from its output back to its input, so there H, W and C are those of the
// output.
struct Geometry {
  kernels::ConvShape shape;
  Dims output_sizes;
};

void check_params(const Call& c, const Params& p, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    PELLUCID_CHECK(p.stride[i] > 0, ValueError, "{}: the stride must be positive, found {}.",
                   c.name(), p.stride);
    PELLUCID_CHECK(p.padding[i] >= 0, ValueError, "{}: the padding must not be negative, found {}.",
                   c.name(), p.padding);
    PELLUCID_CHECK(p.dilation[i] > 0, ValueError, "{}: the dilation must be positive, found {}.",
                   c.name(), p.dilation);
    PELLUCID_CHECK(p.output_padding[i] >= 0 && (!p.transposed || p.output_padding[i] < p.stride[i]),
                   ValueError,
                   "{}: output_padding {} must be at least 0 and less than the stride {}.",
                   c.name(), p.output_padding, p.stride);
  }
}

void check_channels(const Call& c, const Params& p, IntArrayRef input, IntArrayRef weight) {
  PELLUCID_CHECK(p.groups > 0, ValueError, "{}: groups must be positive, found {}.", c.name(),
                 p.groups);
  const int64_t most = std::max<int64_t>({1, input[1], weight[0]});
  PELLUCID_CHECK(p.groups <= most, ShapeError,
                 "{}: {} groups are more than there are channels (input {}, weight {}).", c.name(),
                 p.groups, input, weight);
  if (p.transposed) {
    PELLUCID_CHECK(input[1] == weight[0] && input[1] % p.groups == 0, ShapeError,
                   "{}: input has {} channels but the weight takes {} in {} groups (input {}, "
                   "weight {}). A transposed weight is [in, out / groups, …].",
                   c.name(), input[1], weight[0], p.groups, input, weight);
  } else {
    PELLUCID_CHECK(input[1] == weight[1] * p.groups, ShapeError,
                   "{}: input has {} channels but the weight takes {} in {} groups (input {}, "
                   "weight {}). The weight is [out, in / groups, …].",
                   c.name(), input[1], weight[1] * p.groups, p.groups, input, weight);
    PELLUCID_CHECK(weight[0] % p.groups == 0, ShapeError,
                   "{}: {} output channels cannot be divided into {} groups (weight {}).", c.name(),
                   weight[0], p.groups, weight);
  }
}

Geometry geometry(const Call& c, const Params& p, IntArrayRef input, IntArrayRef weight) {
  PELLUCID_CHECK(input.size() >= 3 && input.size() <= 5, ShapeError,
                 "{}: 'input' must be [N, C, L], [N, C, H, W] or [N, C, D, H, W], found sizes {}.",
                 c.name(), input);
  PELLUCID_CHECK(weight.size() == input.size(), ShapeError,
                 "{}: 'weight' must have as many dimensions as 'input', found sizes {} and {}.",
                 c.name(), weight, input);
  const size_t n = input.size() - 2;
  const Dims stride = per_dim(c.name(), "stride", p.stride, n),
             padding = per_dim(c.name(), "padding", p.padding, n),
             dilation = per_dim(c.name(), "dilation", p.dilation, n),
             extra = per_dim(c.name(), "output_padding", p.output_padding, n);
  check_params(
      c, p,
      std::min({n, p.stride.size(), p.padding.size(), p.dilation.size(), p.output_padding.size()}));
  check_channels(c, p, input, weight);
  Geometry g;
  g.output_sizes = {input[0], p.transposed ? weight[1] * p.groups : weight[0]};
  for (size_t i = 0; i < n; ++i) {
    const int64_t size = input[2 + i], kernel = weight[2 + i];
    PELLUCID_CHECK(kernel > 0, ShapeError, "{}: the kernel must not be empty (weight {}).",
                   c.name(), weight);
    int64_t reach = 0, out = 0;  // of the dilated kernel
    bool fits = !__builtin_mul_overflow(dilation[i], kernel - 1, &reach);
    if (p.transposed) {
      fits = fits && !__builtin_mul_overflow(size - 1, stride[i], &out) &&
             !__builtin_add_overflow(out, reach, &out);
      out += extra[i] + 1 - 2 * padding[i];
      PELLUCID_CHECK(fits && size > 0 && out > 0, ShapeError,
                     "{}: the result would have size {} at dimension {} (input {}, weight {}, "
                     "stride {}, padding {}, dilation {}, output_padding {}).",
                     c.name(), fits ? out : 0, 2 + i, input, weight, p.stride, p.padding,
                     p.dilation, p.output_padding);
    } else {
      PELLUCID_CHECK(
          fits && size <= (int64_t{1} << 62) && size + 2 * padding[i] >= reach + 1, ShapeError,
          "{}: the kernel reaches over {} elements but dimension {} has {} with padding (input {}, "
          "weight {}, padding {}, dilation {}).",
          c.name(), reach + 1, 2 + i, size + 2 * padding[i], input, weight, p.padding, p.dilation);
      out = (size + 2 * padding[i] - reach - 1) / stride[i] + 1;
    }
    g.output_sizes.push_back(out);
  }
  const IntArrayRef image = p.transposed ? g.output_sizes.ref() : input;
  kernels::ConvShape& s = g.shape;
  s.N = input[0], s.C = image[1], s.O = weight[0], s.groups = p.groups;
  s.W = image[n + 1], s.KW = weight[n + 1], s.stride_w = stride[n - 1], s.pad_w = padding[n - 1],
  s.dilation_w = dilation[n - 1];
  if (n >= 2)
    s.H = image[n], s.KH = weight[n], s.stride_h = stride[n - 2], s.pad_h = padding[n - 2],
    s.dilation_h = dilation[n - 2];
  if (n == 3)
    s.D = image[2], s.KD = weight[2], s.stride_d = stride[0], s.pad_d = padding[0],
    s.dilation_d = dilation[0];
  return g;
}

void check_operands(const Call& c, std::string_view first, std::string_view second) {
  check_defined(c, 0, first);
  check_defined(c, 1, second);
  check_floating(c, c.in(0), first);
  check_same_dtype(c, c.in(0), c.in(1));
}

void check_grad_output(const Call& c, const Geometry& g) {
  PELLUCID_CHECK(c.in(0).sizes() == g.output_sizes.ref(), ShapeError,
                 "{}: 'grad_output' has sizes {} but the convolution's result has {}.", c.name(),
                 c.in(0).sizes(), g.output_sizes);
}

// A channels-last result; the program sees it only where it chose that layout.
void make_image_output(Call& c, IntArrayRef sizes) {
  const bool shown = shows_channels_last(c.in(0)) || shows_channels_last(c.in(1));
  c.make_output(sizes, detail::channels_last_strides(sizes), c.in(0).dtype(), !shown);
}

void infer_channels_last(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& t = c.in(0);
  PELLUCID_CHECK(t.dim() >= 3 && t.dim() <= 5, ShapeError,
                 "_channels_last: [N, C, …] with one to three more dims is needed, found sizes {}.",
                 t.sizes());
  c.make_output(t.sizes(), detail::channels_last_strides(t.sizes()), t.dtype(), true);
}

void copy_values(const Tensor& from, const Tensor& to) {
  if (to.numel() == 0) return;
  kernels::copy_strided(to.sizes(), to.raw_data(), to.dtype(), to.raw_strides().data(),
                        from.raw_data(), from.dtype(), from.raw_strides().data());
}

// What a kernel reads and writes: images channels-last, weights row-major, 16-bit floats as float.
Tensor image(const Tensor& t) {
  const Tensor wide = widened(t);
  return in_channels_last_order(wide) ? wide : _channels_last(wide);
}

Tensor row_major(const Tensor& t) { return t.defined() ? contiguous_values(widened(t)) : t; }

template <class F> void run_into(const Tensor& out, F&& kernel) {
  if (out.dtype() == kFloat64) return kernel(double{}, out);
  if (out.dtype() == kFloat32) return kernel(float{}, out);
  const Tensor wide = empty_strided(out.sizes(), out.raw_strides(), kFloat32);
  kernel(float{}, wide);
  copy_values(wide, out);
}

void infer_convolution(Call& c) {
  check_operands(c, "input", "weight");
  const Params p(c, 0);
  const Geometry g = geometry(c, p, c.in(0).sizes(), c.in(1).sizes());
  if (c.has_in(2)) {
    check_same_dtype(c, c.in(1), c.in(2));
    PELLUCID_CHECK(c.in(2).dim() == 1 && c.in(2).size(0) == g.output_sizes[1], ShapeError,
                   "{}: 'bias' must have sizes [{}], one for each output channel, found {}.",
                   c.name(), g.output_sizes[1], c.in(2).sizes());
  }
  make_image_output(c, g.output_sizes);
}

// Whether a call at once is one of a model that does not learn now, so that the next one may have
// the same weights.
bool may_repeat(const Call& c) {
  return !autograd::GradMode::is_enabled() || !(c.in(0).requires_grad() || c.in(1).requires_grad());
}

// The primitive that a call of a program keeps.
kernels::PrimitiveSlot* primitive_of(const Call& c) {
  detail::CapturedWeights* const captured = detail::captured_weights_of(c.in(1));
  return captured ? &captured->primitive : nullptr;
}

void run_convolution(Call& c) {
  const bool repeats = may_repeat(c);
  const NoGradGuard off;
  const Params p(c, 0);
  const kernels::ConvShape s = geometry(c, p, c.in(0).sizes(), c.in(1).sizes()).shape;
  if (c.described() && !c.described()->epilogue) {
    if (p.transposed || c.out().dtype() != kFloat32 || !kernels::conv_forward_has_blocks(s)) return;
    tell_root(c);
    c.described()->repeats = true;
    return;
  }
  const Tensor x = image(c.in(0)), bias = c.has_in(2) ? row_major(c.in(2)) : Tensor();
  const detail::HeldWeights w(c.in(1), row_major, repeats);
  kernels::PrimitiveSlot* const slot = primitive_of(c);
  run_into(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    const T* const b = bias.defined() ? bias.raw<T>() : nullptr;
    T* const y = out.raw<T>();
    if (p.transposed) {
      kernels::conv_backward_data<T>(s, x.raw<T>(), w, b, y, slot);
    } else if (s.C == 0) {  // sums over no channels
      for (int64_t i = 0; i < out.numel(); ++i) y[i] = b ? b[i % s.O] : T(0);
    } else {
      kernels::conv_forward<T>(s, x.raw<T>(), w, b, y, epilogue_of(c), slot);
    }
  });
}

double contraction_flops(const kernels::ConvShape& s) {
  const auto f = [](int64_t n) { return static_cast<double>(n); };
  return 2.0 * f(s.N) * f(s.O) * f(s.out_pixels()) * f(s.C / s.groups) * f(s.taps());
}

Cost convolution_cost(const Call& c) {
  const double bias = c.has_in(2) ? static_cast<double>(c.out().numel()) : 0;
  return {
      contraction_flops(geometry(c, Params(c, 0), c.in(0).sizes(), c.in(1).sizes()).shape) + bias,
      moved_bytes(c), bias};
}

// What kernels take for themselves, and the copies that they read and write.
template <class F> int64_t with_copies(const Call& c, bool second_is_image, F&& scratch) {
  const int64_t copies =
      copy_bytes(c.in(0), true) + copy_bytes(c.in(1), second_is_image) + wide_bytes(c.out());
  return copies + (c.out().dtype() == kFloat64 ? scratch(double{}) : scratch(float{}));
}

int64_t convolution_scratch(const Call& c) {
  const Params p(c, 0);
  const kernels::ConvShape s = geometry(c, p, c.in(0).sizes(), c.in(1).sizes()).shape;
  return with_copies(c, false, [&](auto v) {
    using T = decltype(v);
    return p.transposed ? kernels::conv_backward_data_scratch<T>(s)
                        : kernels::conv_forward_scratch<T>(s, c.has_in(2));
  });
}

// The sum over all but the channels.
Tensor channel_sums(const Tensor& t) {
  Dims dims{0};
  for (int64_t d = 2; d < t.dim(); ++d) dims.push_back(d);
  return t.sum(dims.ref());
}

// A vector of channels that broadcasts over an image.
Tensor over_image(const Tensor& channels, size_t dims) {
  Dims sizes(dims, 1);
  sizes[1] = -1;
  return channels.view(sizes);
}

Tensors convolution_vjp(const Vjp& v) {
  const Params p(v, 0);
  Tensors out(3);
  // Both gradients read grad channels-last: reorder it once.
  const bool contracts = v.needs(0) || v.needs(1);
  const Tensor g = contracts && !in_channels_last_order(v.grad) ? _channels_last(v.grad) : v.grad;
  if (v.needs(0))
    out[0] = convolution_backward_input(g, v.in(1), v.in_sizes(0), p.stride, p.padding, p.dilation,
                                        p.transposed, p.output_padding, p.groups);
  if (v.needs(1))
    std::tie(out[1], out[2]) = convolution_backward_weight(
        g, v.in(0), v.in_sizes(1), p.stride, p.padding, p.dilation, p.transposed, p.output_padding,
        p.groups, v.needs(2) && !p.transposed);
  if (v.needs(2) && !out[2].defined()) out[2] = channel_sums(g);
  return out;
}

// grad_output, weight; the attributes are input_size and the convolution's.
Geometry input_geometry(const Call& c) {
  return geometry(c, Params(c, 1), c.ints(0), c.in(1).sizes());
}

void infer_backward_input(Call& c) {
  check_operands(c, "grad_output", "weight");
  check_grad_output(c, input_geometry(c));
  make_image_output(c, c.ints(0));
}

void run_backward_input(Call& c) {
  const NoGradGuard off;
  const kernels::ConvShape s = input_geometry(c).shape;
  const Tensor g = image(c.in(0)), w = row_major(c.in(1));
  kernels::PrimitiveSlot* const slot = primitive_of(c);
  run_into(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    if (Params(c, 1).transposed)
      kernels::conv_forward<T>(s, g.raw<T>(), w.raw<T>(), nullptr, out.raw<T>(), nullptr, slot);
    else
      kernels::conv_backward_data<T>(s, g.raw<T>(), w.raw<T>(), nullptr, out.raw<T>(), slot);
  });
}

int64_t backward_input_scratch(const Call& c) {
  const kernels::ConvShape s = input_geometry(c).shape;
  return with_copies(c, false, [&](auto v) {
    using T = decltype(v);
    return Params(c, 1).transposed ? kernels::conv_forward_scratch<T>(s, false)
                                   : kernels::conv_backward_data_scratch<T>(s);
  });
}

Tensors backward_input_vjp(const Vjp& v) {
  const Params p(v, 1);
  Tensors out(2);
  if (v.needs(0))
    out[0] = convolution(v.grad, v.in(1), {}, p.stride, p.padding, p.dilation, p.transposed,
                         p.output_padding, p.groups);
  if (v.needs(1))
    out[1] = std::get<0>(convolution_backward_weight(v.in(0), v.grad, v.in_sizes(1), p.stride,
                                                     p.padding, p.dilation, p.transposed,
                                                     p.output_padding, p.groups, false));
  return out;
}

// grad_output, input; the attributes are weight_size, the convolution's, and whether to sum the
// bias too.
Geometry weight_geometry(const Call& c) {
  return geometry(c, Params(c, 1), c.in(1).sizes(), c.ints(0));
}

void infer_backward_weight(Call& c) {
  check_operands(c, "grad_output", "input");
  const Geometry g = weight_geometry(c);
  check_grad_output(c, g);
  c.make_output(c.ints(0), c.in(0).dtype());
  if (c.flag(7))
    c.make_output({g.output_sizes[1]}, c.in(0).dtype());
  else
    c.skip_output();
}

void run_backward_weight(Call& c) {
  const NoGradGuard off;
  const kernels::ConvShape s = weight_geometry(c).shape;
  const bool transposed = Params(c, 1).transposed;
  const Tensor g = image(c.in(0)), x = image(c.in(1));
  Tensor bias = c.flag(7) ? c.out(1) : Tensor();
  if (bias.defined() && bias.dtype() != g.dtype()) bias = empty(bias.sizes(), g.dtype());
  kernels::PrimitiveSlot* const slot = primitive_of(c);
  run_into(c.out(), [&](auto v, const Tensor& out) {
    using T = decltype(v);
    T* const b = bias.defined() && !transposed ? bias.raw<T>() : nullptr;
    if (transposed)
      kernels::conv_backward_weights<T>(s, g.raw<T>(), x.raw<T>(), out.raw<T>(), b, slot);
    else
      kernels::conv_backward_weights<T>(s, x.raw<T>(), g.raw<T>(), out.raw<T>(), b, slot);
  });
  if (!bias.defined()) return;
  if (transposed) bias = channel_sums(g);
  if (!bias.is_same(c.out(1))) copy_values(bias, c.out(1));
}

int64_t backward_weight_scratch(const Call& c) {
  const kernels::ConvShape s = weight_geometry(c).shape;
  return with_copies(c, true, [&](auto v) {
    return kernels::conv_backward_weights_scratch<decltype(v)>(
        s, c.flag(7) && !Params(c, 1).transposed);
  });
}

Tensors backward_weight_vjp(const Vjp& v) {
  const Params p(v, 1);
  const Tensor &gw = v.grads[0], &gb = v.grads[1];
  Tensors out(2);
  if (v.needs(0)) {
    if (gw.defined())
      out[0] = convolution(v.in(1), gw, {}, p.stride, p.padding, p.dilation, p.transposed,
                           p.output_padding, p.groups);
    if (gb.defined()) {
      const Tensor spread = over_image(gb, v.in_sizes(0).size()).expand(v.in_sizes(0));
      out[0] = out[0].defined() ? out[0].add(spread) : spread;
    }
  }
  if (v.needs(1) && gw.defined())
    out[1] = convolution_backward_input(v.in(0), gw, v.in_sizes(1), p.stride, p.padding, p.dilation,
                                        p.transposed, p.output_padding, p.groups);
  return out;
}

constexpr Saved kOperands{0b011, 0, 0b011};

}  // namespace

extern constinit const OpDef channels_last_op = {
    .schema = "_channels_last(Tensor self) -> Tensor",
    .doc = "A copy with the channels innermost in memory, which the program does not see.",
    .kind = OpKind::Pointwise,
    .infer = infer_channels_last,
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = [](Call& c) { copy_values(c.in(0), c.out()); },
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 2, 2})});
          s.add({sample_randn({2, 3, 2})});
          s.add({sample_randn({2, 3, 2, 2, 2})});
          s.error({sample_randn({2, 3})}, "is needed, found sizes [2, 3]");
          s.large([] { return Values{randn({64, 64, 28, 28})}; });
        },
    .any_layout = true};

extern constinit const OpDef convolution_op = {
    .schema =
        "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
        "dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
    .doc =
        "out[n, o] = bias[o] + the sum over c and the window of weight[o, c] * input[n, c]; or the "
        "transpose of that map.",
    .kind = OpKind::Contraction,
    .infer = infer_convolution,
    .cost = convolution_cost,
    .scratch = convolution_scratch,
    .kernel = run_convolution,
    .saved = kOperands,
    .vjp = convolution_vjp,
    .onnx = {"Conv", 11},
    .samples =
        [](Samples& s) {
          const auto ints = [](int64_t a, int64_t b) { return Value::ints({a, b}); };
          s.add({sample_randn({1, 2, 4, 3}), sample_randn({2, 2, 3, 2}), sample_randn({2}),
                 ints(1, 1), ints(1, 0), ints(1, 1), false, ints(0, 0), 1});
          s.add({sample_randn({2, 2, 5}), sample_randn({2, 1, 2}), Value(), Value::ints({2}),
                 Value::ints({1}), Value::ints({2}), false, Value::ints({0}), 2});
          s.add({sample_randn({1, 2, 2, 3}), sample_randn({2, 1, 2, 2}), sample_randn({2}),
                 ints(2, 1), ints(1, 0), ints(1, 2), true, ints(1, 0), 2});
          s.add({sample_randn({0, 2, 4, 3}), sample_randn({2, 2, 3, 2}), sample_randn({2}),
                 ints(1, 1), ints(1, 0), ints(1, 1), false, ints(0, 0), 1});
          const auto three = [](int64_t a, int64_t b, int64_t d) { return Value::ints({a, b, d}); };
          s.add({sample_randn({1, 2, 3, 2, 3}), sample_randn({2, 1, 2, 2, 1}), sample_randn({2}),
                 three(1, 2, 1), three(0, 1, 0), three(2, 1, 1), false, three(0, 0, 0), 2});
          s.add({sample_randn({1, 2, 2, 1, 2}), sample_randn({2, 1, 2, 2, 2}), Value(),
                 three(2, 1, 1), three(0, 0, 1), three(1, 1, 1), true, three(1, 0, 0), 1});
          s.error({sample_randn({1, 3, 4, 4}), sample_randn({2, 2, 3, 3}), Value(), ints(1, 1),
                   ints(0, 0), ints(1, 1), false, ints(0, 0), 1},
                  "input has 3 channels but the weight takes 2 in 1 groups");
          s.error({sample_randn({1, 2, 2, 4}), sample_randn({2, 2, 3, 3}), Value(), ints(1, 1),
                   ints(0, 0), ints(1, 1), false, ints(0, 0), 1},
                  "the kernel reaches over 3 elements but dimension 2 has 2");
          s.error({sample_randn({1, 2, 4, 4}), sample_randn({2, 2, 3, 3}), Value(), ints(0, 1),
                   ints(0, 0), ints(1, 1), false, ints(0, 0), 1},
                  "the stride must be positive");
          s.error({sample_randn({1, 2, 4, 4}), sample_randn({2, 2, 3, 3}), sample_randn({3}),
                   ints(1, 1), ints(0, 0), ints(1, 1), false, ints(0, 0), 1},
                  "'bias' must have sizes [2]");
          s.error({sample_randn({1, 2, 2, 2}), sample_randn({2, 2, 3, 3}), Value(), ints(2, 2),
                   ints(0, 0), ints(1, 1), true, ints(2, 2), 1},
                  "less than the stride");
          s.large([] {
            return Values{randn({64, 32, 26, 26}),
                          randn({64, 32, 3, 3}),
                          randn({64}),
                          Value::ints({1, 1}),
                          Value::ints({0, 0}),
                          Value::ints({1, 1}),
                          false,
                          Value::ints({0, 0}),
                          1};
          });
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef convolution_backward_input_op = {
    .schema =
        "convolution_backward_input(Tensor grad_output, Tensor weight, int[] input_size, int[] "
        "stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) "
        "-> Tensor",
    .doc = "The gradient of convolution with respect to its input.",
    .kind = OpKind::Contraction,
    .infer = infer_backward_input,
    .cost =
        [](const Call& c) {
          return Cost{contraction_flops(input_geometry(c).shape), moved_bytes(c)};
        },
    .scratch = backward_input_scratch,
    .kernel = run_backward_input,
    .saved = kOperands,
    .vjp = backward_input_vjp,
    .samples =
        [](Samples& s) {
          const auto ints = [](int64_t a, int64_t b) { return Value::ints({a, b}); };
          s.add({sample_randn({1, 2, 2, 3}), sample_randn({2, 1, 3, 2}), Value::ints({1, 1, 5, 3}),
                 ints(2, 1), ints(0, 1), ints(1, 2), false, ints(0, 0), 1});
          s.add({sample_randn({1, 2, 5}), sample_randn({2, 2, 2}), Value::ints({1, 2, 2}),
                 Value::ints({3}), Value::ints({0}), Value::ints({1}), true, Value::ints({0}), 1});
          s.error(
              {sample_randn({1, 2, 3, 3}), sample_randn({2, 1, 3, 2}), Value::ints({1, 1, 5, 3}),
               ints(2, 1), ints(0, 1), ints(1, 2), false, ints(0, 0), 1},
              "'grad_output' has sizes [1, 2, 3, 3]");
          s.large([] {
            return Values{randn({64, 64, 24, 24}),
                          randn({64, 32, 3, 3}),
                          Value::ints({64, 32, 26, 26}),
                          Value::ints({1, 1}),
                          Value::ints({0, 0}),
                          Value::ints({1, 1}),
                          false,
                          Value::ints({0, 0}),
                          1};
          });
        },
    .any_layout = true};

extern constinit const OpDef convolution_backward_weight_op = {
    .schema =
        "convolution_backward_weight(Tensor grad_output, Tensor input, int[] weight_size, int[] "
        "stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, "
        "bool bias) -> (Tensor grad_weight, Tensor grad_bias)",
    .doc = "The gradient of convolution with respect to its weight and, if asked for, its bias.",
    .kind = OpKind::Contraction,
    .infer = infer_backward_weight,
    .cost =
        [](const Call& c) {
          const double bias = c.flag(7) ? static_cast<double>(c.in(0).numel()) : 0;
          return Cost{contraction_flops(weight_geometry(c).shape) + bias, moved_bytes(c), bias};
        },
    .scratch = backward_weight_scratch,
    .kernel = run_backward_weight,
    .saved = kOperands,
    .vjp = backward_weight_vjp,
    .samples =
        [](Samples& s) {
          const auto ints = [](int64_t a, int64_t b) { return Value::ints({a, b}); };
          s.add({sample_randn({1, 2, 2, 3}), sample_randn({1, 1, 5, 3}), Value::ints({2, 1, 3, 2}),
                 ints(2, 1), ints(0, 1), ints(1, 2), false, ints(0, 0), 1, true});
          s.add({sample_randn({1, 2, 5}), sample_randn({1, 2, 2}), Value::ints({2, 2, 2}),
                 Value::ints({3}), Value::ints({0}), Value::ints({1}), true, Value::ints({0}), 1,
                 true});
          s.error(
              {sample_randn({1, 2, 3, 3}), sample_randn({1, 1, 5, 3}), Value::ints({2, 1, 3, 2}),
               ints(2, 1), ints(0, 1), ints(1, 2), false, ints(0, 0), 1, false},
              "'grad_output' has sizes [1, 2, 3, 3]");
          s.large([] {
            return Values{randn({64, 64, 24, 24}),
                          randn({64, 32, 26, 26}),
                          Value::ints({64, 32, 3, 3}),
                          Value::ints({1, 1}),
                          Value::ints({0, 0}),
                          Value::ints({1, 1}),
                          false,
                          Value::ints({0, 0}),
                          1,
                          true};
          });
        },
    .any_layout = true};

}  // namespace pellucid
