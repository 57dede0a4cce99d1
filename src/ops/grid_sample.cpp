// Values of images and volumes at the places of a grid: grid_sampler, and affine_grid_generator
// that makes grids. Interpolation is a product of one function for each coordinate, so three
// primitives that may derive each of these functions any number of times (`order`) are closed under
// differentiation: the values, their transpose, and the slopes along the coordinates.
#include "kernels/grid_sample.h"

#include "ops/conv.h"
#include "pellucid/operators.h"

namespace pellucid {
namespace {

constexpr int64_t kMostDerivatives = 64;

// The attributes interpolation_mode, padding_mode, align_corners, order, from `first` on.
struct Options {
  Options(const AttrReader& a, size_t first)
      : mode(a.integer(first)),
        padding(a.integer(first + 1)),
        align(a.flag(first + 2)),
        order(a.ints(first + 3)) {}
  int64_t mode, padding;
  bool align;
  Dims order;

  /// With one more derivative by coordinate d.
  Dims derived(size_t d) const {
    Dims more = order;
    ++more[d];
    return more;
  }
};

void check_modes(const Call& c, int64_t mode, int64_t padding, size_t image_dims) {
  PELLUCID_CHECK(mode >= 0 && mode <= 2, ValueError,
                 "{}: interpolation_mode must be 0 (bilinear), 1 (nearest) or 2 (bicubic), found "
                 "{}.",
                 c.name(), mode);
  PELLUCID_CHECK(padding >= 0 && padding <= 2, ValueError,
                 "{}: padding_mode must be 0 (zeros), 1 (border) or 2 (reflection), found {}.",
                 c.name(), padding);
  PELLUCID_CHECK(mode != 2 || image_dims == 4, ShapeError,
                 "{}: bicubic interpolation takes images, [N, C, H, W], found {} dimensions.",
                 c.name(), image_dims);
}

// Checks an image of these sizes against a grid, and says what the kernels are to do.
kernels::GridShape grid_shape(const Call& c, IntArrayRef input, IntArrayRef grid,
                              const Options& o) {
  const size_t n = input.size();
  PELLUCID_CHECK((n == 4 || n == 5) && grid.size() == n &&
                     grid[n - 1] == static_cast<int64_t>(n) - 2 && grid[0] == input[0],
                 ShapeError,
                 "{}: an input [N, C, H, W] takes a grid [N, rows, columns, 2], and one [N, C, D, "
                 "H, W] a grid [N, depths, rows, columns, 3]; found input {} and grid {}.",
                 c.name(), input, grid);
  check_modes(c, o.mode, o.padding, n);
  PELLUCID_CHECK(o.order.size() == n - 2, ValueError,
                 "{}: 'order' must have {} entries, one for each coordinate, found {}.", c.name(),
                 n - 2, o.order);
  kernels::GridShape s{.N = input[0],
                       .C = input[1],
                       .dims = static_cast<int>(n) - 2,
                       .mode = static_cast<kernels::GridMode>(o.mode),
                       .padding = static_cast<kernels::GridPadding>(o.padding),
                       .align_corners = o.align};
  double plane = 1;
  for (size_t i = 0; i + 2 < n; ++i) {
    PELLUCID_CHECK(input[i + 2] > 0, ShapeError,
                   "{}: the sampled dimensions must not be empty, found input {}.", c.name(),
                   input);
    PELLUCID_CHECK(o.order[i] >= 0 && o.order[i] <= kMostDerivatives, ValueError,
                   "{}: 'order' must be between 0 and {}, found {}.", c.name(), kMostDerivatives,
                   o.order);
    s.sizes[i] = input[i + 2];
    s.order[i] = static_cast<int>(o.order[i]);
    s.points *= grid[i + 1];
    plane *= static_cast<double>(input[i + 2]);
  }
  PELLUCID_CHECK(plane < 2147483648.0, ShapeError,
                 "{}: one channel must have fewer than 2^31 pixels, found input {}.", c.name(),
                 input);
  return s;
}

void check_tensors(const Call& c, std::initializer_list<std::string_view> names) {
  size_t i = 0;
  for (const std::string_view name : names) {
    check_defined(c, i, name);
    check_floating(c, c.in(i), name);
    check_same_dtype(c, c.in(0), c.in(i++));
  }
}

Dims values_sizes(IntArrayRef input, IntArrayRef grid) {
  Dims sizes{input[0], input[1]};
  for (size_t i = 1; i + 1 < grid.size(); ++i) sizes.push_back(grid[i]);
  return sizes;
}

void check_grad_output(const Call& c, IntArrayRef input, IntArrayRef grid) {
  const Dims wanted = values_sizes(input, grid);
  PELLUCID_CHECK(c.in(0).sizes() == wanted.ref(), ShapeError,
                 "{}: 'grad_output' must have sizes {}, found {}.", c.name(), wanted,
                 c.in(0).sizes());
}

// Calls kernel(T{}, inputs…, out) with T float or double; 16-bit floats pass through float.
template <class F> void run_sampler(Call& c, F&& kernel) {
  const NoGradGuard off;
  Tensors in;
  for (size_t i = 0; i < c.input_count(); ++i) in.push_back(contiguous_values(widened(c.in(i))));
  const bool narrow = in[0].dtype() != c.out().dtype();
  const Tensor out = narrow ? empty(c.out().sizes(), in[0].dtype()) : c.out();
  if (out.dtype() == kFloat64)
    kernel(double{}, in, out);
  else
    kernel(float{}, in, out);
  if (narrow) c.out().copy_(out);
}

// Two FLOPs a tap for each channel of each point, and some thirty for the taps of a point.
Cost sampling_cost(const Call& c, const kernels::GridShape& s) {
  const int taps = s.mode == kernels::GridMode::Nearest   ? 1
                   : s.mode == kernels::GridMode::Bicubic ? 16
                                                          : 1 << s.dims;
  const auto points = static_cast<double>(s.N * s.points);
  return {points * (30 + 2.0 * taps * static_cast<double>(s.C)), moved_bytes(c)};
}

kernels::GridShape values_shape(const Call& c) {
  return grid_shape(c, c.in(0).sizes(), c.in(1).sizes(), Options(c, 0));
}
kernels::GridShape spread_shape(const Call& c) {
  return grid_shape(c, c.ints(0), c.in(1).sizes(), Options(c, 1));
}
kernels::GridShape slopes_shape(const Call& c) {
  return grid_shape(c, c.in(1).sizes(), c.in(2).sizes(), Options(c, 0));
}

Tensors slopes_vjp(const Vjp& v) {
  const Options o(v, 0);
  const Tensor &g = v.in(0), &x = v.in(1), &grid = v.in(2);
  Tensors out(3);
  const auto add = [&](size_t i, const Tensor& t) { out[i] = out[i].defined() ? out[i] + t : t; };
  for (size_t d = 0; d < o.order.size(); ++d) {
    const Tensor along = v.grad.select(-1, static_cast<int64_t>(d)).unsqueeze(1);
    const Dims order = o.derived(d);
    if (v.needs(0)) add(0, along * _grid_values(x, grid, o.mode, o.padding, o.align, order));
    if (v.needs(1))
      add(1, _grid_spread(g * along, grid, v.in_sizes(1), o.mode, o.padding, o.align, order));
    if (v.needs(2)) add(2, _grid_slopes(g * along, x, grid, o.mode, o.padding, o.align, order));
  }
  return out;
}

// -1 … 1 in `count` steps: the corners' centres, or the corners themselves.
Tensor line(int64_t count, bool align_corners, const Tensor& like) {
  if (count <= 1) return zeros({count}, like.dtype());
  const double end = align_corners ? 1.0 : 1.0 - 1.0 / static_cast<double>(count);
  return linspace(-end, end, count, like.dtype());
}

// theta [N, n, n + 1] and size [N, C, …] to [N, …, n].
Tensors affine_grid(const Call& c) {
  check_defined(c, 0, "theta");
  const Tensor& theta = c.in(0);
  const IntArrayRef size = c.ints(0);
  check_floating(c, theta, "theta");
  const auto n = static_cast<int64_t>(size.size()) - 2;
  PELLUCID_CHECK((n == 2 || n == 3) && theta.sizes() == IntArrayRef({size[0], n, n + 1}),
                 ShapeError,
                 "{}: a size [N, C, H, W] takes theta [N, 2, 3], and one [N, C, D, H, W] theta [N, "
                 "3, 4]; found size {} and theta {}.",
                 c.name(), size, theta.sizes());
  for (const int64_t s : size)
    PELLUCID_CHECK(s > 0, ValueError, "{}: 'size' must be positive, found {}.", c.name(), size);
  Dims spatial;
  for (const int64_t s : size.slice(2)) spatial.push_back(s);
  Tensors base;  // x first
  for (int64_t d = n; d-- > 0;) {
    Dims shape(static_cast<size_t>(n), 1);
    shape[static_cast<size_t>(d)] = -1;
    base.push_back(
        line(spatial[static_cast<size_t>(d)], c.flag(1), theta).view(shape).expand(spatial));
  }
  base.push_back(ones(spatial, theta.dtype()));
  const Tensor places = stack(base, -1).reshape({1, -1, n + 1});
  Dims sizes{size[0]};
  for (const int64_t s : spatial) sizes.push_back(s);
  sizes.push_back(n);
  return {places.matmul(theta.transpose(1, 2)).view(sizes)};
}

// Places all over the image, and some beyond its borders.
Tensor sample_grid(IntArrayRef sizes) { return sample_uniform(sizes, -1.4, 1.4); }

}  // namespace

extern constinit const OpDef grid_values_op = {
    .schema =
        "_grid_values(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
        "align_corners, int[] order) -> Tensor",
    .doc =
        "grid_sampler, whose function of each of the grid's coordinates is derived as often as "
        "order says.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_tensors(c, {"input", "grid"});
          values_shape(c);
          c.make_output(values_sizes(c.in(0).sizes(), c.in(1).sizes()), c.in(0).dtype());
        },
    .cost = [](const Call& c) { return sampling_cost(c, values_shape(c)); },
    .kernel =
        [](Call& c) {
          const kernels::GridShape s = values_shape(c);
          run_sampler(c, [&]<class T>(T, const Tensors& in, const Tensor& out) {
            kernels::grid_values<T>(s, in[0].raw<T>(), in[1].raw<T>(), out.raw<T>());
          });
        },
    .saved = Saved::crossed_input(0) | Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      const Options o(v, 0);
      return {
          v.needs(0)
              ? _grid_spread(v.grad, v.in(1), v.in_sizes(0), o.mode, o.padding, o.align, o.order)
              : Tensor(),
          v.needs(1) ? _grid_slopes(v.grad, v.in(0), v.in(1), o.mode, o.padding, o.align, o.order)
                     : Tensor()};
    },
    .samples =
        [](Samples& s) {
          const Value plain = Value::ints({0, 0});
          for (const int64_t mode : {0, 1, 2})
            for (const int64_t padding : {0, 1, 2})
              s.add({sample_randn({1, 2, 4, 3}), sample_grid({1, 2, 3, 2}), mode, padding,
                     padding == 1, plain});
          s.add({sample_randn({2, 1, 3, 2}), sample_grid({2, 1, 2, 2}), 2, 0, true,
                 Value::ints({1, 0})});
          s.add({sample_randn({1, 2, 2, 3, 2}), sample_grid({1, 2, 1, 2, 3}), 0, 2, false,
                 Value::ints({0, 0, 0})});
          s.error({sample_randn({1, 2, 4, 3}), sample_grid({1, 2, 3, 2}), 0, 0, false,
                   Value::ints({0})},
                  "'order' must have 2 entries");
        },
};

extern constinit const OpDef grid_spread_op = {
    .schema =
        "_grid_spread(Tensor grad_output, Tensor grid, int[] input_size, int interpolation_mode, "
        "int padding_mode, bool align_corners, int[] order) -> Tensor",
    .doc = "The gradient of _grid_values' input: each value goes to the pixels it was read from.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_tensors(c, {"grad_output", "grid"});
          spread_shape(c);
          check_grad_output(c, c.ints(0), c.in(1).sizes());
          c.make_output(c.ints(0), c.in(0).dtype());
        },
    .cost = [](const Call& c) { return sampling_cost(c, spread_shape(c)); },
    .kernel =
        [](Call& c) {
          const kernels::GridShape s = spread_shape(c);
          run_sampler(c, [&]<class T>(T, const Tensors& in, const Tensor& out) {
            kernels::grid_spread<T>(s, in[0].raw<T>(), in[1].raw<T>(), out.raw<T>());
          });
        },
    .saved = Saved::crossed_input(0) | Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      const Options o(v, 1);
      return {v.needs(0) ? _grid_values(v.grad, v.in(1), o.mode, o.padding, o.align, o.order)
                         : Tensor(),
              v.needs(1)
                  ? _grid_slopes(v.in(0), v.grad, v.in(1), o.mode, o.padding, o.align, o.order)
                  : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 3}), sample_grid({1, 2, 3, 2}), Value::ints({1, 2, 4, 3}),
                 0, 0, false, Value::ints({0, 0})});
          s.add({sample_randn({1, 1, 2, 2}), sample_grid({1, 2, 2, 2}), Value::ints({1, 1, 3, 4}),
                 2, 2, true, Value::ints({0, 1})});
          s.error({sample_randn({1, 2, 3, 3}), sample_grid({1, 2, 3, 2}), Value::ints({1, 2, 4, 3}),
                   0, 0, false, Value::ints({0, 0})},
                  "'grad_output' must have sizes [1, 2, 2, 3]");
          s.large([] {
            return Values{randn({8, 32, 64, 64}),
                          rand({8, 64, 64, 2}) * 2 - 1,
                          Value::ints({8, 32, 64, 64}),
                          0,
                          0,
                          false,
                          Value::ints({0, 0})};
          });
        },
};

extern constinit const OpDef grid_slopes_op = {
    .schema =
        "_grid_slopes(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int "
        "padding_mode, bool align_corners, int[] order) -> Tensor",
    .doc =
        "The gradient of _grid_values' grid: the slopes along each coordinate, over all channels.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_tensors(c, {"grad_output", "input", "grid"});
          slopes_shape(c);
          check_grad_output(c, c.in(1).sizes(), c.in(2).sizes());
          c.make_output(c.in(2).sizes(), c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          const kernels::GridShape s = slopes_shape(c);
          return Cost{s.dims * sampling_cost(c, s).flops, moved_bytes(c)};
        },
    .kernel =
        [](Call& c) {
          const kernels::GridShape s = slopes_shape(c);
          run_sampler(c, [&]<class T>(T, const Tensors& in, const Tensor& out) {
            kernels::grid_slopes<T>(s, in[0].raw<T>(), in[1].raw<T>(), in[2].raw<T>(),
                                    out.raw<T>());
          });
        },
    .saved = Saved::Inputs,
    .vjp = slopes_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 3}), sample_randn({1, 2, 4, 3}), sample_grid({1, 2, 3, 2}),
                 0, 0, false, Value::ints({0, 0})});
          s.add({sample_randn({1, 1, 2, 2}), sample_randn({1, 1, 3, 4}), sample_grid({1, 2, 2, 2}),
                 2, 1, true, Value::ints({0, 0})});
          s.add({sample_randn({1, 1, 1, 1, 2}), sample_randn({1, 1, 2, 3, 2}),
                 sample_grid({1, 1, 1, 2, 3}), 0, 2, false, Value::ints({0, 0, 0})});
          s.error({sample_randn({1, 2, 2, 2}), sample_randn({1, 2, 4, 3}),
                   sample_grid({1, 2, 3, 2}), 0, 0, false, Value::ints({0, 0})},
                  "'grad_output' must have sizes [1, 2, 2, 3]");
          s.large([] {
            return Values{randn({8, 32, 64, 64}),
                          randn({8, 32, 64, 64}),
                          rand({8, 64, 64, 2}) * 2 - 1,
                          0,
                          0,
                          false,
                          Value::ints({0, 0})};
          });
        },
};

extern constinit const OpDef grid_sampler_op = {
    .schema =
        "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
        "align_corners) -> Tensor",
    .doc =
        "Values of [N, C, H, W] at the places grid [N, rows, columns, 2] (x, y in [-1, 1]), or of "
        "volumes; modes 0 bilinear, 1 nearest, 2 bicubic; padding 0 zeros, 1 border, 2 reflection.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors {
      check_tensors(c, {"input", "grid"});
      const Dims order(static_cast<size_t>(std::max<int64_t>(c.in(0).dim() - 2, 0)), 0);
      return {_grid_values(c.in(0), c.in(1), c.integer(0), c.integer(1), c.flag(2), order)};
    },
    .onnx = {"GridSample", 16},
    .samples =
        [](Samples& s) {
          for (const int64_t mode : {0, 1, 2})
            for (const int64_t padding : {0, 1, 2})
              s.add({sample_randn({2, 2, 4, 3}), sample_grid({2, 2, 3, 2}), mode, padding,
                     (mode + padding) % 2 == 0});
          s.add({sample_randn({1, 2, 2, 3, 2}), sample_grid({1, 2, 1, 2, 3}), 0, 1, true});
          s.add({sample_randn({1, 2, 2, 3, 2}), sample_grid({1, 2, 1, 2, 3}), 1, 0, false});
          s.error({sample_randn({1, 2, 4, 3}), sample_grid({1, 2, 3, 3}), 0, 0, false},
                  "takes a grid [N, rows, columns, 2]");
          s.error({sample_randn({1, 2, 4, 3}), sample_grid({1, 2, 3, 2}), 3, 0, false},
                  "interpolation_mode must be");
          s.error({sample_randn({1, 2, 4, 3}), sample_grid({1, 2, 3, 2}), 0, 3, false},
                  "padding_mode must be");
          s.error({sample_randn({1, 2, 2, 3, 2}), sample_grid({1, 2, 1, 2, 3}), 2, 0, false},
                  "bicubic interpolation takes images");
          s.large([] {
            return Values{randn({8, 32, 64, 64}), rand({8, 64, 64, 2}) * 2 - 1, 0, 0, false};
          });
        },
};

extern constinit const OpDef affine_grid_generator_op = {
    .schema = "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
    .doc =
        "The places [N, H, W, 2] or [N, D, H, W, 3] that grid_sampler reads for affine maps theta "
        "[N, 2, 3] or [N, 3, 4]; nn.functional.affine_grid.",
    .compose = affine_grid,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2, 3}), Value::ints({2, 1, 3, 2}), false});
          s.add({sample_randn({1, 2, 3}), Value::ints({1, 1, 1, 4}), true});
          s.add({sample_randn({1, 3, 4}), Value::ints({1, 1, 2, 3, 2}), false});
          s.error({sample_randn({1, 2, 3}), Value::ints({1, 1, 2, 3, 2}), false},
                  "takes theta [N, 2, 3]");
          s.error({sample_randn({1, 2, 3}), Value::ints({1, 1, 0, 3}), false},
                  "'size' must be positive");
          s.large([] { return Values{randn({64, 2, 3}), Value::ints({64, 3, 64, 64}), false}; });
        },
};

}  // namespace pellucid
