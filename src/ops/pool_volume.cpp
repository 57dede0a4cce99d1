// Pooling of volumes [N, C, D, H, W], composed of pools of images: first over height and width,
// then over depth. Maxima and means over a box are those of the means or maxima of its slices.
// And the way back from maxima to where they were found (max_unpool).
#include "ops/common.h"
#include "ops/conv.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

using Values = std::vector<Value>;

Tensor check_volume(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& x = c.in(0);
  PELLUCID_CHECK(x.dim() == 4 || x.dim() == 5, ShapeError,
                 "{}: [N, C, D, H, W] or [C, D, H, W] is needed, found sizes {}.", c.name(),
                 x.sizes());
  for (int64_t d = x.dim() - 4; d < x.dim(); ++d)
    PELLUCID_CHECK(x.size(d) > 0, ShapeError,
                   "{}: all dims but the batch must have elements, found sizes {}.", c.name(),
                   x.sizes());
  return x;
}

// [N * C, D, H, W] of a volume with or without N.
Tensor slices(const Tensor& x) {
  const IntArrayRef sizes = x.sizes();
  const size_t n = sizes.size();
  int64_t outer = 1;
  for (size_t d = 0; d + 3 < n; ++d) outer *= sizes[d];
  return x.reshape({outer, sizes[n - 3], sizes[n - 2], sizes[n - 1]});
}

// The result for x from [N * C, OH, OW, OD], where depth is last.
Tensor volumes(const Tensor& x, const Tensor& depth_last) {
  const Tensor pooled = depth_last.movedim(-1, 1);
  Dims out(x.sizes());
  for (size_t d = 0; d < 3; ++d) out[out.size() - 3 + d] = pooled.size(static_cast<int64_t>(d) + 1);
  return pooled.reshape(out);
}

// over_images pools the last two dims, over_depth the last one, which is then depth.
template <class Images, class Depth>
Tensor by_dims(const Tensor& x, Images over_images, Depth over_depth) {
  return volumes(x, over_depth(over_images(slices(x)).movedim(1, -1)));
}

// The same for pools that also give the places of their maxima. The first of equal maxima is that
// of the first slice that has one, and there the first: the order of the whole box.
template <class Images, class Depth>
Tensors maxima_by_dims(const Tensor& x, Images over_images, Depth over_depth) {
  const auto [images, in_image] = over_images(slices(x));
  const auto [values, in_columns] = over_depth(images.movedim(1, -1));
  const Tensor depth = in_columns.remainder(x.size(-3));  // places are column * D + depth
  const Tensor places = in_image.movedim(1, -1).gather(-1, depth);
  return {volumes(x, values), volumes(x, depth.mul(x.size(-2) * x.size(-1)).add(places))};
}

struct Window {
  explicit Window(const Call& c)
      : kernel(per_dim(c.name(), "kernel_size", c.ints(0), 3)),
        stride(c.ints(1).empty() ? kernel : per_dim(c.name(), "stride", c.ints(1), 3)),
        padding(per_dim(c.name(), "padding", c.ints(2), 3)) {}
  Dims kernel, stride, padding;
  static IntArrayRef image(const Dims& v) { return v.ref().slice(1, 2); }
};

Tensor compose_max(const Call& c) {
  const Tensor x = check_volume(c);
  const Window w(c);
  const Dims dilation = per_dim(c.name(), "dilation", c.ints(3), 3);
  const bool ceil_mode = c.flag(4);
  return by_dims(
      x,
      [&](const Tensor& t) {
        return max_pool2d(t, Window::image(w.kernel), Window::image(w.stride),
                          Window::image(w.padding), Window::image(dilation), ceil_mode);
      },
      [&](const Tensor& t) {
        return max_pool2d(t, {1, w.kernel[0]}, {1, w.stride[0]}, {0, w.padding[0]},
                          {1, dilation[0]}, ceil_mode);
      });
}

Tensors compose_max_with_indices(const Call& c) {
  const Tensor x = check_volume(c);
  const Window w(c);
  const Dims dilation = per_dim(c.name(), "dilation", c.ints(3), 3);
  const bool ceil_mode = c.flag(4);
  return maxima_by_dims(
      x,
      [&](const Tensor& t) {
        return max_pool2d_with_indices(t, Window::image(w.kernel), Window::image(w.stride),
                                       Window::image(w.padding), Window::image(dilation),
                                       ceil_mode);
      },
      [&](const Tensor& t) {
        return max_pool2d_with_indices(t, {1, w.kernel[0]}, {1, w.stride[0]}, {0, w.padding[0]},
                                       {1, dilation[0]}, ceil_mode);
      });
}

Tensors compose_adaptive_max(const Call& c) {
  const Tensor x = check_volume(c);
  const Dims size = per_dim(c.name(), "output_size", c.ints(0), 3);
  return maxima_by_dims(
      x, [&](const Tensor& t) { return adaptive_max_pool2d(t, Window::image(size)); },
      [&](const Tensor& t) {
        return adaptive_max_pool2d(t, {t.size(-2), size[0]});
      });
}

// Places in the last `dims` dims, which have output_size in the result.
Tensor compose_unpool(const Call& c, size_t dims) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "indices");
  const Tensor &x = c.in(0), &indices = c.in(1);
  check_floating(c, x, "self");
  const auto rank = static_cast<size_t>(x.dim());
  PELLUCID_CHECK(rank == dims + 1 || rank == dims + 2, ShapeError,
                 "{}: {} or {} dims are needed, found sizes {}.", c.name(), dims + 1, dims + 2,
                 x.sizes());
  PELLUCID_CHECK(indices.dtype() == kInt64 && indices.sizes() == x.sizes(), ShapeError,
                 "{}: 'indices' must be int64 with the sizes of 'self' ({}), found {} of sizes {}.",
                 c.name(), x.sizes(), indices.dtype(), indices.sizes());
  const Dims size = per_dim(c.name(), "output_size", c.ints(0), dims);
  for (const int64_t n : size)
    PELLUCID_CHECK(n > 0, ValueError, "{}: output_size must be positive, found {}.", c.name(),
                   c.ints(0));
  const auto first = static_cast<int64_t>(rank - dims);
  Dims flat(x.sizes().slice(0, rank - dims)), out = flat;
  for (const int64_t n : size) out.push_back(n);
  flat.push_back(detail::checked_numel(size));
  return x.new_zeros(flat).scatter(-1, indices.flatten(first), x.flatten(first)).reshape(out);
}

Tensor compose_avg(const Call& c) {
  const Tensor x = check_volume(c);
  const Window w(c);
  const bool ceil_mode = c.flag(3), padded = c.flag(4);
  // Sums where the caller divides.
  const std::optional<int64_t> divisor = c.has_attr(5) ? std::optional<int64_t>(1) : std::nullopt;
  PELLUCID_CHECK(!c.has_attr(5) || c.integer(5) != 0, ValueError,
                 "avg_pool3d: divisor_override must not be 0.");
  const Tensor pooled = by_dims(
      x,
      [&](const Tensor& t) {
        return avg_pool2d(t, Window::image(w.kernel), Window::image(w.stride),
                          Window::image(w.padding), ceil_mode, padded, divisor);
      },
      [&](const Tensor& t) {
        return avg_pool2d(t, {1, w.kernel[0]}, {1, w.stride[0]}, {0, w.padding[0]}, ceil_mode,
                          padded, divisor);
      });
  return divisor ? pooled.div(static_cast<double>(c.integer(5))) : pooled;
}

Tensor compose_adaptive(const Call& c) {
  const Tensor x = check_volume(c);
  const Dims size = per_dim(c.name(), "output_size", c.ints(0), 3);
  return by_dims(
      x, [&](const Tensor& t) { return adaptive_avg_pool2d(t, Window::image(size)); },
      [&](const Tensor& t) {
        return adaptive_avg_pool2d(t, {t.size(-2), size[0]});
      });
}

}  // namespace

extern constinit const OpDef max_pool3d_op = {
    .schema =
        "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] "
        "dilation=1, bool ceil_mode=False) -> Tensor",
    .doc = "The maximum of each window of volumes.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_max(c)}; },
    .onnx = {"MaxPool", 12},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4, 3, 4}), 2});
          s.add({sample_randn({2, 4, 5, 4}), Value::ints({2, 3, 2}), Value::ints({2, 1, 1}),
                 Value::ints({1, 1, 0}), 1, true});
          s.error({sample_randn({2, 3, 4}), 2}, "[N, C, D, H, W] or [C, D, H, W] is needed");
        },
};

extern constinit const OpDef max_pool3d_with_indices_op = {
    .schema =
        "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] "
        "padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor values, Tensor indices)",
    .doc = "The maximum of each window of volumes, and where it was found, as (d * H + h) * W + w.",
    .kind = OpKind::Reduction,
    .compose = compose_max_with_indices,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4, 3, 4}), 2});
          s.add({sample_randn({2, 4, 5, 4}), Value::ints({2, 3, 2}), Value::ints({2, 1, 1}),
                 Value::ints({1, 1, 0}), 1, true});
          s.add({sample_randn({1, 1, 5, 3, 4}), 2, 1, 0, Value::ints({2, 1, 3})});
          s.error({sample_randn({2, 3, 4}), 2}, "[N, C, D, H, W] or [C, D, H, W] is needed");
        },
};

extern constinit const OpDef adaptive_max_pool3d_op = {
    .schema =
        "adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor values, Tensor indices)",
    .doc =
        "Maxima that divide D x H x W into output_size windows, and where they were found, as (d * "
        "H + h) * W + w.",
    .kind = OpKind::Reduction,
    .compose = compose_adaptive_max,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4, 3, 5}), Value::ints({2, 2, 3})});
          s.add({sample_randn({2, 4, 3, 5}), 1});
          s.error({sample_randn({2, 3, 4}), 2}, "[N, C, D, H, W] or [C, D, H, W] is needed");
        },
};

extern constinit const OpDef max_unpool2d_op = {
    .schema = "max_unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor",
    .doc =
        "Images of output_size with the values of max_pool2d at the places that its indices name "
        "and zeros elsewhere.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors { return {compose_unpool(c, 2)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 1, 2}), arange(4).mul(3).reshape({1, 2, 1, 2}),
                 Value::ints({3, 4})});
          s.add({sample_randn({2, 1, 2}), arange(4).reshape({2, 1, 2}), Value::ints({2, 2})});
          s.error({sample_randn({2, 1, 2}), sample_ints({2, 2, 1}, 0, 4), 2},
                  "'indices' must be int64 with the sizes of 'self'");
          s.error({sample_randn({2, 1, 2}), sample_ints({2, 1, 2}, 4, 8), 2}, "out of bounds");
          s.error({sample_randn({1, 2}), sample_ints({1, 2}, 0, 4), 2}, "3 or 4 dims are needed");
          s.error({sample_randn({2, 1, 2}), sample_ints({2, 1, 2}, 0, 4), 0},
                  "output_size must be positive");
        },
};

extern constinit const OpDef max_unpool3d_op = {
    .schema =
        "max_unpool3d(Tensor self, Tensor indices, int[3] output_size, int[3] stride, int[3] "
        "padding) -> Tensor",
    .doc =
        "Volumes of output_size with the values of max_pool3d at the places that its indices name "
        "and zeros elsewhere. stride and padding are those of the pool; they change nothing.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors { return {compose_unpool(c, 3)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 1, 1, 2}), arange(4).mul(3).reshape({1, 2, 1, 1, 2}),
                 Value::ints({2, 3, 2}), 2, 0});
          s.error({sample_randn({2, 1, 1, 2}), sample_ints({2, 1, 1, 2}, 8, 9), 2, 2, 0},
                  "out of bounds");
          s.error({sample_randn({1, 1, 2}), sample_ints({1, 1, 2}, 0, 4), 2, 2, 0},
                  "4 or 5 dims are needed");
        },
};

extern constinit const OpDef avg_pool3d_op = {
    .schema =
        "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool "
        "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    .doc = "The mean of each window of volumes.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_avg(c)}; },
    .onnx = {"AveragePool", 11},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4, 3, 4}), 2});
          s.add({sample_randn({2, 4, 5, 4}), Value::ints({2, 3, 2}), Value::ints({2, 1, 1}),
                 Value::ints({1, 1, 0}), true, false});
          s.add({sample_randn({1, 1, 3, 3, 3}), 2, 1, 0, false, true, 3});
          s.error({sample_randn({2, 3, 4}), 2}, "[N, C, D, H, W] or [C, D, H, W] is needed");
          s.error({sample_randn({1, 1, 3, 3, 3}), 2, 1, 0, false, true, 0}, "must not be 0");
        },
};

extern constinit const OpDef adaptive_avg_pool3d_op = {
    .schema = "adaptive_avg_pool3d(Tensor self, int[3] output_size) -> Tensor",
    .doc = "Averages that divide D x H x W into output_size windows.",
    .kind = OpKind::Reduction,
    .compose = [](const Call& c) -> Tensors { return {compose_adaptive(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 4, 3, 5}), Value::ints({2, 2, 3})});
          s.add({sample_randn({2, 4, 3, 5}), 1});
          s.error({sample_randn({2, 3, 4}), 2}, "[N, C, D, H, W] or [C, D, H, W] is needed");
        },
};

}  // namespace pellucid
