// Options of resizing and sampling pictures, and of their windows as columns.
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

/// Of UpsamplingNearest2d and UpsamplingBilinear2d: one of the two.
struct Upsampling2dOptions {
  using Factor = ExpandingArray<2, double>;
  PELLUCID_ARG(std::optional<ExpandingArray<2>>, size) = std::nullopt;
  PELLUCID_ARG(std::optional<Factor>, scale_factor) = std::nullopt;
};

struct FoldOptions {
  FoldOptions(ExpandingArray<2> output_size, ExpandingArray<2> kernel_size)
      : output_size_(output_size), kernel_size_(kernel_size) {}
  PELLUCID_ARG(ExpandingArray<2>, output_size);
  PELLUCID_ARG(ExpandingArray<2>, kernel_size);
  PELLUCID_ARG(ExpandingArray<2>, dilation) = 1;
  PELLUCID_ARG(ExpandingArray<2>, padding) = 0;
  PELLUCID_ARG(ExpandingArray<2>, stride) = 1;
};
struct UnfoldOptions {
  UnfoldOptions(ExpandingArray<2> kernel_size) : kernel_size_(kernel_size) {}
  PELLUCID_ARG(ExpandingArray<2>, kernel_size);
  PELLUCID_ARG(ExpandingArray<2>, dilation) = 1;
  PELLUCID_ARG(ExpandingArray<2>, padding) = 0;
  PELLUCID_ARG(ExpandingArray<2>, stride) = 1;
};

namespace functional {
using FoldFuncOptions = FoldOptions;
using UnfoldFuncOptions = UnfoldOptions;
struct GridSampleFuncOptions {
  using mode_t = std::variant<enumtype::kBilinear, enumtype::kNearest, enumtype::kBicubic>;
  using padding_mode_t = std::variant<enumtype::kZeros, enumtype::kBorder, enumtype::kReflection>;
  PELLUCID_ARG(mode_t, mode) = kBilinear;
  PELLUCID_ARG(padding_mode_t, padding_mode) = kZeros;
  PELLUCID_ARG(std::optional<bool>, align_corners) = std::nullopt;
};
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
