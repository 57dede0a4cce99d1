// Options of resizing pictures.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "pellucid/nn/arg.h"

namespace pellucid::nn {

struct UpsampleOptions {
  using mode_t = std::variant<enumtype::kNearest, enumtype::kLinear, enumtype::kBilinear,
                              enumtype::kBicubic, enumtype::kTrilinear>;
  PELLUCID_ARG(std::optional<std::vector<int64_t>>, size) = std::nullopt;
  PELLUCID_ARG(std::optional<std::vector<double>>, scale_factor) = std::nullopt;
  PELLUCID_ARG(mode_t, mode) = kNearest;
  PELLUCID_ARG(std::optional<bool>, align_corners) = std::nullopt;
};

namespace functional {
struct InterpolateFuncOptions {
  using mode_t =
      std::variant<enumtype::kNearest, enumtype::kLinear, enumtype::kBilinear, enumtype::kBicubic,
                   enumtype::kTrilinear, enumtype::kArea, enumtype::kNearestExact>;
  PELLUCID_ARG(std::optional<std::vector<int64_t>>, size) = std::nullopt;
  PELLUCID_ARG(std::optional<std::vector<double>>, scale_factor) = std::nullopt;
  PELLUCID_ARG(mode_t, mode) = kNearest;
  PELLUCID_ARG(std::optional<bool>, align_corners) = std::nullopt;
  PELLUCID_ARG(std::optional<bool>, recompute_scale_factor) = std::nullopt;
  PELLUCID_ARG(bool, antialias) = false;
};
}  // namespace functional

}  // namespace pellucid::nn
