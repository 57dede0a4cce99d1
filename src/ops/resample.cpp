// Resizing along one dim, from which interpolate is made dim by dim: nearest, linear, cubic and
// area, with PyTorch's rules for where an output looks and, of uint8, how it rounds.
#include "kernels/resample.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

using kernels::ResampleTable;

struct Resize {
  int64_t in = 0, out = 0;
  bool align_corners = false;
  double step = 1;       // inputs from one output to the next
  bool in_float = true;  // PyTorch computes places in float32 for float32 values
};

struct TableMaker {
  ResampleTable table;
  void begin_output() { table.begin.push_back(static_cast<int64_t>(table.index.size())); }
  void tap(int64_t index, double weight) {
    // Taps come in order, and a border entry is read by several taps of a cubic: one weight for
    // all.
    if (static_cast<int64_t>(table.index.size()) > table.begin.back() &&
        table.index.back() == index) {
      table.weight.back() += weight;
      return;
    }
    table.index.push_back(index);
    table.weight.push_back(weight);
  }
  ResampleTable done() {
    begin_output();
    return std::move(table);
  }
};

// Where output o looks, in units of inputs.
double place(const Resize& r, int64_t o) {
  if (r.align_corners) {
    const double step =
        r.out > 1 ? static_cast<double>(r.in - 1) / static_cast<double>(r.out - 1) : 0.0;
    return r.in_float ? static_cast<float>(step) * static_cast<float>(o)
                      : step * static_cast<double>(o);
  }
  if (r.in_float) return static_cast<float>(r.step) * (static_cast<float>(o) + 0.5f) - 0.5f;
  return r.step * (static_cast<double>(o) + 0.5) - 0.5;
}

ResampleTable nearest_table(const Resize& r, bool exact) {
  TableMaker m;
  for (int64_t o = 0; o < r.out; ++o) {
    const float at = (static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * static_cast<float>(r.step);
    m.begin_output();
    m.tap(std::min(static_cast<int64_t>(std::floor(at)), r.in - 1), 1);
  }
  return m.done();
}

ResampleTable linear_table(const Resize& r) {
  TableMaker m;
  for (int64_t o = 0; o < r.out; ++o) {
    const double at = std::max(place(r, o), 0.0);
    const auto low = std::min(static_cast<int64_t>(at), r.in - 1);
    const double part = std::min(at - static_cast<double>(low), 1.0);
    m.begin_output();
    m.tap(low, 1 - part);
    m.tap(std::min(low + 1, r.in - 1), part);
  }
  return m.done();
}

// Keys' cubic. a is -0.75 as PyTorch's and OpenCV's, or -0.5 as Pillow's, which PyTorch has with
// antialias.
constexpr double kSharp = -0.75, kSmooth = -0.5;

double cubic_weight(double x, double a) {
  x = std::abs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

ResampleTable cubic_table(const Resize& r) {
  TableMaker m;
  for (int64_t o = 0; o < r.out; ++o) {
    const double at = place(r, o), low = std::floor(at), part = at - low;
    m.begin_output();
    for (int64_t k = -1; k <= 2; ++k)
      m.tap(std::clamp<int64_t>(static_cast<int64_t>(low) + k, 0, r.in - 1),
            cubic_weight(part - static_cast<double>(k), kSharp));
  }
  return m.done();
}

ResampleTable area_table(const Resize& r) {
  TableMaker m;
  for (int64_t o = 0; o < r.out; ++o) {
    const int64_t first = o * r.in / r.out, last = ((o + 1) * r.in + r.out - 1) / r.out;
    m.begin_output();
    for (int64_t i = first; i < last; ++i) m.tap(i, 1.0 / static_cast<double>(last - first));
  }
  return m.done();
}

/// Weights that widen with the step, so that each input counts when the size shrinks.
ResampleTable antialias_table(const Resize& r, bool cubic) {
  const double step = !r.align_corners ? r.step
                      : r.out > 1 ? static_cast<double>(r.in - 1) / static_cast<double>(r.out - 1)
                                  : 0.0;
  const double widen = std::max(step, 1.0), reach = (cubic ? 2 : 1) * widen;
  const auto filter = [&](double x) {
    x = std::abs(x) / widen;
    if (cubic) return x < 2 ? cubic_weight(x, kSmooth) : 0.0;
    return std::max(1 - x, 0.0);
  };
  TableMaker m;
  for (int64_t o = 0; o < r.out; ++o) {
    const double centre = step * (static_cast<double>(o) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - reach + 0.5), 0),
               last = std::min<int64_t>(static_cast<int64_t>(centre + reach + 0.5), r.in);
    double total = 0;
    for (int64_t i = first; i < last; ++i) total += filter(static_cast<double>(i) + 0.5 - centre);
    m.begin_output();
    for (int64_t i = first; i < last; ++i)
      m.tap(i, filter(static_cast<double>(i) + 0.5 - centre) / (total != 0 ? total : 1));
  }
  return m.done();
}

// The attributes after dim and size: mode, align_corners, scale.
ResampleTable make_table(const AttrReader& c, int64_t in, int64_t out, DType dtype) {
  const double scale = c.has_attr(4) ? c.number(4) : 0;
  const Resize r{in, out, c.flag(3),
                 scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out),
                 dtype != kFloat64 && dtype != kUInt8};
  const std::string_view mode = c.text(2);
  if (mode == "nearest") return nearest_table(r, false);
  if (mode == "nearest-exact") return nearest_table(r, true);
  if (mode == "linear") return linear_table(r);
  if (mode == "cubic") return cubic_table(r);
  if (mode == "linear-antialias") return antialias_table(r, false);
  if (mode == "cubic-antialias") return antialias_table(r, true);
  PELLUCID_CHECK(mode == "area", ValueError,
                 "resample: mode must be 'nearest', 'nearest-exact', 'linear', 'cubic', "
                 "'linear-antialias', 'cubic-antialias' or 'area', found '{}'.",
                 mode);
  return area_table(r);
}

void infer_resample(Call& c) {
  const Tensor& x = c.in(0);
  const auto d = static_cast<size_t>(wrap_dim(c.name(), c.integer(0), x.dim()));
  PELLUCID_CHECK(x.dim() > 0 && x.sizes()[d] > 0 && c.integer(1) > 0, ShapeError,
                 "{}: sizes must be positive, found {} to be resized to {} along dim {} (self {}).",
                 c.name(), x.dim() > 0 ? x.sizes()[d] : 0, c.integer(1), c.integer(0), x.sizes());
  make_table(c, 1, 1, x.dtype());  // throws for an unknown mode
  Dims sizes(x.sizes());
  sizes[d] = c.integer(1);
  c.make_output(sizes, x.dtype());
}

void infer_values(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(0).is_floating_point() || c.in(0).dtype() == kUInt8, TypeError,
                 "{}: 'self' must be a floating or uint8 tensor, found {}. Convert it with "
                 ".to(kFloat32).",
                 c.name(), c.in(0).dtype());
  infer_resample(c);
}

void infer_gradient(Call& c) {
  check_defined(c, 0, "grad_output");
  check_floating(c, c.in(0), "grad_output");
  infer_resample(c);
}

// x resampled along dim d by a table, into y.
void apply_table(const Tensor& x, size_t d, const ResampleTable& table, const Tensor& y) {
  const NoGradGuard off;
  const bool narrow = is_reduced_float(x.dtype());
  const Tensor from = contiguous_values(narrow ? x.to(kFloat32) : x);
  const Tensor to = narrow ? empty(y.sizes(), kFloat32) : y;
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < d; ++i) outer *= x.sizes()[i];
  for (size_t i = d + 1; i < x.sizes().size(); ++i) inner *= x.sizes()[i];
  if (from.dtype() == kUInt8)
    kernels::resample_bytes(table, outer, x.sizes()[d], inner, from.raw<uint8_t>(),
                            to.raw<uint8_t>());
  else if (from.dtype() == kFloat64)
    kernels::resample(table, outer, x.sizes()[d], inner, from.raw<double>(), to.raw<double>());
  else
    kernels::resample(table, outer, x.sizes()[d], inner, from.raw<float>(), to.raw<float>());
  if (narrow) y.copy_(to);
}

void run_resample(Call& c) {
  const Tensor& x = c.in(0);
  const auto d = static_cast<size_t>(wrap_dim(c.name(), c.integer(0), x.dim()));
  apply_table(x, d, make_table(c, x.sizes()[d], c.integer(1), x.dtype()), c.out());
}

void run_resample_backward(Call& c) {
  const Tensor& g = c.in(0);
  const auto d = static_cast<size_t>(wrap_dim(c.name(), c.integer(0), g.dim()));
  const int64_t inputs = c.integer(1);
  const ResampleTable table = make_table(c, inputs, g.sizes()[d], g.dtype());
  apply_table(g, d, kernels::transposed_table(table, inputs), c.out());
}

std::optional<double> scale_of(const Vjp& v) {
  return v.has_attr(4) ? std::optional(v.number(4)) : std::nullopt;
}

int64_t size_along(const Vjp& v) {
  const IntArrayRef sizes = v.in_sizes(0);
  return sizes[static_cast<size_t>(
      wrap_dim("resample", v.integer(0), static_cast<int64_t>(sizes.size())))];
}

Cost resample_cost(const Call& c) { return elementwise_cost(c, 4); }

}  // namespace

extern constinit const OpDef resample_op = {
    .schema =
        "resample(Tensor self, int dim, int size, str mode='linear', bool align_corners=False, "
        "float? scale=None) -> Tensor",
    .doc =
        "self resized along one dim; mode 'nearest', 'nearest-exact', 'linear', 'cubic', "
        "'linear-antialias', 'cubic-antialias' or 'area'; interpolate resizes several dims with "
        "it. Results of uint8 are rounded.",
    .infer = infer_values,
    .cost = resample_cost,
    .kernel = run_resample,
    .vjp = [](const Vjp& v) -> Tensors {
      return {resample_backward(v.grad, v.integer(0), size_along(v), v.text(2), v.flag(3),
                                scale_of(v))};
    },
    .samples =
        [](Samples& s) {
          for (const char* mode : {"nearest", "nearest-exact", "linear", "cubic",
                                   "linear-antialias", "cubic-antialias", "area"}) {
            s.add({sample_randn({2, 5, 3}), 1, 8, mode});
            s.add({sample_randn({2, 5, 3}), 1, 2, mode});
          }
          s.add({sample_randn({2, 5}), -1, 2, "nearest"});  // the middle goes to no output
          s.add({sample_randn({2, 5}), -1, 9, "linear", true});
          s.add({sample_randn({2, 5}), -1, 9, "cubic", true});
          s.add({sample_randn({2, 5}), -1, 7, "linear", false, 1.5});
          s.error({sample_randn({2, 5}), 1, 0}, "sizes must be positive");
          s.error({sample_randn({2, 5}), 1, 4, "smooth"}, "mode must be");
          s.add_no_grad({sample_ints({2, 5}, 0, 255).to(kUInt8), 1, 8, "cubic"});
          s.error({sample_ints({2, 5}, 0, 4), 1, 4}, "must be a floating or uint8 tensor");
          s.large([] { return Values{randn({8, 64, 64, 64}), 2, 128}; });
        },
};

extern constinit const OpDef resample_backward_op = {
    .schema =
        "resample_backward(Tensor grad_output, int dim, int size, str mode='linear', bool "
        "align_corners=False, float? scale=None) -> Tensor",
    .doc = "The gradient of resample's input, which had `size` entries along dim.",
    .infer = infer_gradient,
    .cost = resample_cost,
    .kernel = run_resample_backward,
    .vjp = [](const Vjp& v) -> Tensors {
      return {resample(v.grad, v.integer(0), size_along(v), v.text(2), v.flag(3), scale_of(v))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 8, 3}), 1, 5, "linear"});
          s.add({sample_randn({2, 8}), 1, 5, "cubic"});
          s.add({sample_randn({2, 2}), 1, 4, "nearest", false, 0.6});
          s.add({sample_randn({2, 3}), 1, 5, "area"});
          s.error({sample_randn({2, 5}), 1, 0}, "sizes must be positive");
          s.large([] { return Values{randn({8, 64, 128, 64}), 2, 64}; });
        },
};

}  // namespace pellucid
