// interpolate and Upsample: resample along each dim after the second.
#include "pellucid/nn/upsampling.h"

#include <algorithm>
#include <cmath>

#include "nn/repr.h"
#include "pellucid/nn/functional/vision.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace functional {

namespace {

// The name of a mode, how many dims it is for (0: any), and what resample calls it.
struct Mode {
  const char* name;
  int64_t dims;
  const char* along;
};

Mode mode_of(const InterpolateFuncOptions::mode_t& mode) {
  constexpr Mode modes[] = {{"nearest", 0, "nearest"},
                            {"linear", 1, "linear"},
                            {"bilinear", 2, "linear"},
                            {"bicubic", 2, "cubic"},
                            {"trilinear", 3, "linear"},
                            {"area", 0, "area"},
                            {"nearest-exact", 0, "nearest-exact"}};
  return modes[mode.index()];
}

template <class T>
std::optional<std::vector<T>> one_for_each(const std::optional<std::vector<T>>& given, size_t dims,
                                           const char* name) {
  if (!given) return std::nullopt;
  PELLUCID_CHECK(given->size() == dims || given->size() == 1, ShapeError,
                 "interpolate: {} has {} entries but the input has {} dims to resize.", name,
                 given->size(), dims);
  return given->size() == dims ? given : std::vector<T>(dims, given->front());
}

}  // namespace

Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options) {
  const auto dims = static_cast<size_t>(std::max<int64_t>(input.dim() - 2, 0));
  const Mode mode = mode_of(options.mode());
  PELLUCID_CHECK(dims >= 1 && dims <= 3, ShapeError,
                 "interpolate: the input must have 3, 4 or 5 dims (N, C, …), found sizes {}.",
                 input.sizes());
  PELLUCID_CHECK(mode.dims == 0 || mode.dims == static_cast<int64_t>(dims), ShapeError,
                 "interpolate: mode {} resizes {} dims, but an input of sizes {} has {}.",
                 mode.name, mode.dims, input.sizes(), dims);
  PELLUCID_CHECK(!options.antialias() || mode.dims == 2, ValueError,
                 "interpolate: antialias is for bilinear and bicubic, not for {}.", mode.name);
  PELLUCID_CHECK(input.dtype() != kUInt8 || mode.dims == 2 || mode.along[0] == 'n', TypeError,
                 "interpolate: mode {} does not take uint8; nearest, nearest-exact, bilinear and "
                 "bicubic do.",
                 mode.name);
  const bool corners = options.align_corners().value_or(false);
  PELLUCID_CHECK(!options.align_corners() || mode.dims != 0, ValueError,
                 "interpolate: align_corners has a meaning for linear, bilinear, bicubic and "
                 "trilinear, not for {}.",
                 mode.name);
  const auto size = one_for_each(options.size(), dims, "size");
  const auto factor = one_for_each(options.scale_factor(), dims, "scale_factor");
  PELLUCID_CHECK(size.has_value() != factor.has_value(), ValueError,
                 "interpolate: give either size or scale_factor.");
  const bool recompute = options.recompute_scale_factor().value_or(false);
  const std::string along = std::string(mode.along) + (options.antialias() ? "-antialias" : "");
  Tensor x = input;
  for (size_t k = 0; k < dims; ++k) {
    // Bytes are rounded after every dim: the last comes first, as in PyTorch.
    const size_t d = input.dtype() == kUInt8 ? dims - 1 - k : k;
    const auto dim = static_cast<int64_t>(d) + 2;
    const int64_t to =
        size
            ? (*size)[d]
            : static_cast<int64_t>(std::floor(static_cast<double>(input.size(dim)) * (*factor)[d]));
    std::optional<double> scale;
    if (factor && !recompute && mode.along != std::string_view("area")) scale = (*factor)[d];
    x = resample(x, dim, to, along, corners, scale);
  }
  return x;
}

}  // namespace functional

namespace {

std::string describe(const UpsampleOptions& o) {
  const auto list = [](const auto& values) {
    if (values.size() == 1) return repr::text(values[0]);
    std::string out;
    for (const auto v : values) out += (out.empty() ? "(" : ", ") + repr::text(v);
    return out + ')';
  };
  constexpr const char* modes[] = {"nearest", "linear", "bilinear", "bicubic", "trilinear"};
  return (o.scale_factor() ? "scale_factor=" + list(*o.scale_factor())
                           : "size=" + list(o.size().value_or(std::vector<int64_t>{}))) +
         fmt::format(", mode='{}'", modes[o.mode().index()]);
}

template <class Mode> UpsampleOptions as_upsample(const Upsampling2dOptions& o, Mode mode) {
  // One number for both sizes is printed as one.
  const auto list = [](const auto& given) {
    return given.from_one() ? std::vector{given[0]} : std::vector(given->begin(), given->end());
  };
  UpsampleOptions made;
  if (o.size()) made.size(list(*o.size()));
  if (o.scale_factor()) made.scale_factor(list(*o.scale_factor()));
  return made.mode(mode);
}

Tensor upsample(const Tensor& input, const UpsampleOptions& options) {
  functional::InterpolateFuncOptions o;
  o.size(options.size())
      .scale_factor(options.scale_factor())
      .align_corners(options.align_corners());
  std::visit([&](auto mode) { o.mode(mode); }, options.mode());
  return functional::interpolate(input, o);
}

}  // namespace

Tensor UpsampleImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return upsample(input, options);
}
std::string UpsampleImpl::extra_repr() const { return describe(options); }

Tensor UpsamplingNearest2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return upsample(input, as_upsample(options, kNearest));
}
std::string UpsamplingNearest2dImpl::extra_repr() const {
  return describe(as_upsample(options, kNearest));
}

Tensor UpsamplingBilinear2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return upsample(input, as_upsample(options, kBilinear).align_corners(true));
}
std::string UpsamplingBilinear2dImpl::extra_repr() const {
  return describe(as_upsample(options, kBilinear));
}

}  // namespace pellucid::nn
