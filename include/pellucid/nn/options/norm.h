// Options of normalisation layers and functions.
#pragma once

#include "pellucid/nn/arg.h"
#include "pellucid/tensor.h"

namespace pellucid::nn {

// Exported, because exported class templates take it as an argument.
struct PELLUCID_API BatchNormOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> BatchNormOptions(Given) = delete;
  BatchNormOptions(int64_t num_features) : num_features_(num_features) {}
  PELLUCID_ARG(int64_t, num_features);
  PELLUCID_ARG(double, eps) = 1e-5;
  /// Without a value the running statistics are plain averages.
  PELLUCID_ARG(std::optional<double>, momentum) = 0.1;
  PELLUCID_ARG(bool, affine) = true;
  PELLUCID_ARG(bool, track_running_stats) = true;
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;

struct PELLUCID_API InstanceNormOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> InstanceNormOptions(Given) = delete;
  InstanceNormOptions(int64_t num_features) : num_features_(num_features) {}
  PELLUCID_ARG(int64_t, num_features);
  PELLUCID_ARG(double, eps) = 1e-5;
  PELLUCID_ARG(double, momentum) = 0.1;
  PELLUCID_ARG(bool, affine) = false;
  PELLUCID_ARG(bool, track_running_stats) = false;
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;

struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  PELLUCID_ARG(std::vector<int64_t>, normalized_shape);
  PELLUCID_ARG(double, eps) = 1e-5;
  PELLUCID_ARG(bool, elementwise_affine) = true;
  PELLUCID_ARG(bool, bias) = true;
};
struct RMSNormOptions {
  RMSNormOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  PELLUCID_ARG(std::vector<int64_t>, normalized_shape);
  /// Without a value, the least difference from 1 of the dtype.
  PELLUCID_ARG(std::optional<double>, eps) = std::nullopt;
  PELLUCID_ARG(bool, elementwise_affine) = true;
};
struct GroupNormOptions {
  GroupNormOptions(int64_t num_groups, int64_t num_channels)
      : num_groups_(num_groups), num_channels_(num_channels) {}
  PELLUCID_ARG(int64_t, num_groups);
  PELLUCID_ARG(int64_t, num_channels);
  PELLUCID_ARG(double, eps) = 1e-5;
  PELLUCID_ARG(bool, affine) = true;
};
struct LocalResponseNormOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> LocalResponseNormOptions(Given) = delete;
  LocalResponseNormOptions(int64_t size) : size_(size) {}
  PELLUCID_ARG(int64_t, size);
  PELLUCID_ARG(double, alpha) = 1e-4;
  PELLUCID_ARG(double, beta) = 0.75;
  PELLUCID_ARG(double, k) = 1.;
};

namespace functional {
struct BatchNormFuncOptions {
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(Tensor, bias);
  PELLUCID_ARG(bool, training) = false;
  PELLUCID_ARG(double, momentum) = 0.1;
  PELLUCID_ARG(double, eps) = 1e-5;
};
struct InstanceNormFuncOptions {
  PELLUCID_ARG(Tensor, running_mean);
  PELLUCID_ARG(Tensor, running_var);
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(Tensor, bias);
  PELLUCID_ARG(bool, use_input_stats) = true;
  PELLUCID_ARG(double, momentum) = 0.1;
  PELLUCID_ARG(double, eps) = 1e-5;
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  PELLUCID_ARG(std::vector<int64_t>, normalized_shape);
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(Tensor, bias);
  PELLUCID_ARG(double, eps) = 1e-5;
};
struct RMSNormFuncOptions {
  RMSNormFuncOptions(std::vector<int64_t> normalized_shape)
      : normalized_shape_(std::move(normalized_shape)) {}
  PELLUCID_ARG(std::vector<int64_t>, normalized_shape);
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(std::optional<double>, eps) = std::nullopt;
};
struct GroupNormFuncOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> GroupNormFuncOptions(Given) = delete;
  GroupNormFuncOptions(int64_t num_groups) : num_groups_(num_groups) {}
  PELLUCID_ARG(int64_t, num_groups);
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(Tensor, bias);
  PELLUCID_ARG(double, eps) = 1e-5;
};
struct NormalizeFuncOptions {
  PELLUCID_ARG(double, p) = 2.0;
  PELLUCID_ARG(int64_t, dim) = 1;
  PELLUCID_ARG(double, eps) = 1e-12;
};
using LocalResponseNormFuncOptions = LocalResponseNormOptions;
}  // namespace functional
}  // namespace pellucid::nn
