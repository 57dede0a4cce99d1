// Options of pooling layers and functions.
#pragma once

#include "pellucid/nn/arg.h"

namespace pellucid::nn {

template <size_t D> struct AvgPoolOptions {
  AvgPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size), stride_(kernel_size) {}
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride);
  PELLUCID_ARG(ExpandingArray<D>, padding) = 0;
  PELLUCID_ARG(bool, ceil_mode) = false;
  PELLUCID_ARG(bool, count_include_pad) = true;
  PELLUCID_ARG(std::optional<int64_t>, divisor_override) = std::nullopt;
};
template <size_t D> struct MaxPoolOptions {
  MaxPoolOptions(ExpandingArray<D> kernel_size) : kernel_size_(kernel_size), stride_(kernel_size) {}
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride);
  PELLUCID_ARG(ExpandingArray<D>, padding) = 0;
  PELLUCID_ARG(ExpandingArray<D>, dilation) = 1;
  PELLUCID_ARG(bool, ceil_mode) = false;
};
template <class Size> struct AdaptivePoolOptions {
  AdaptivePoolOptions(Size output_size) : output_size_(output_size) {}
  PELLUCID_ARG(Size, output_size);
};
template <size_t D> struct LPPoolOptions {
  LPPoolOptions(double norm_type, ExpandingArray<D> kernel_size)
      : norm_type_(norm_type), kernel_size_(kernel_size), stride_(kernel_size) {}
  PELLUCID_ARG(double, norm_type);
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride);
  PELLUCID_ARG(bool, ceil_mode) = false;
};
template <size_t D> struct MaxUnpoolOptions {
  MaxUnpoolOptions(ExpandingArray<D> kernel_size)
      : kernel_size_(kernel_size), stride_(kernel_size) {}
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride);
  PELLUCID_ARG(ExpandingArray<D>, padding) = 0;
};
using AvgPool1dOptions = AvgPoolOptions<1>;
using AvgPool2dOptions = AvgPoolOptions<2>;
using AvgPool3dOptions = AvgPoolOptions<3>;
using MaxPool1dOptions = MaxPoolOptions<1>;
using MaxPool2dOptions = MaxPoolOptions<2>;
using MaxPool3dOptions = MaxPoolOptions<3>;
using AdaptiveAvgPool1dOptions = AdaptivePoolOptions<ExpandingArray<1>>;
using AdaptiveAvgPool2dOptions = AdaptivePoolOptions<ExpandingArrayWithOptionalElem<2>>;
using AdaptiveAvgPool3dOptions = AdaptivePoolOptions<ExpandingArrayWithOptionalElem<3>>;
using AdaptiveMaxPool1dOptions = AdaptivePoolOptions<ExpandingArray<1>>;
using AdaptiveMaxPool2dOptions = AdaptivePoolOptions<ExpandingArrayWithOptionalElem<2>>;
using AdaptiveMaxPool3dOptions = AdaptivePoolOptions<ExpandingArrayWithOptionalElem<3>>;
using MaxUnpool1dOptions = MaxUnpoolOptions<1>;
using MaxUnpool2dOptions = MaxUnpoolOptions<2>;
using MaxUnpool3dOptions = MaxUnpoolOptions<3>;
using LPPool1dOptions = LPPoolOptions<1>;
using LPPool2dOptions = LPPoolOptions<2>;
using LPPool3dOptions = LPPoolOptions<3>;

namespace functional {
using AvgPool1dFuncOptions = AvgPool1dOptions;
using AvgPool2dFuncOptions = AvgPool2dOptions;
using AvgPool3dFuncOptions = AvgPool3dOptions;
using MaxPool1dFuncOptions = MaxPool1dOptions;
using MaxPool2dFuncOptions = MaxPool2dOptions;
using MaxPool3dFuncOptions = MaxPool3dOptions;
using AdaptiveAvgPool1dFuncOptions = AdaptiveAvgPool1dOptions;
using AdaptiveAvgPool2dFuncOptions = AdaptiveAvgPool2dOptions;
using AdaptiveAvgPool3dFuncOptions = AdaptiveAvgPool3dOptions;
using AdaptiveMaxPool1dFuncOptions = AdaptiveMaxPool1dOptions;
using AdaptiveMaxPool2dFuncOptions = AdaptiveMaxPool2dOptions;
using AdaptiveMaxPool3dFuncOptions = AdaptiveMaxPool3dOptions;
using LPPool1dFuncOptions = LPPool1dOptions;
using LPPool2dFuncOptions = LPPool2dOptions;
using LPPool3dFuncOptions = LPPool3dOptions;
template <size_t D> struct MaxUnpoolFuncOptions {
  MaxUnpoolFuncOptions(ExpandingArray<D> kernel_size)
      : kernel_size_(kernel_size), stride_(kernel_size) {}
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride);
  PELLUCID_ARG(ExpandingArray<D>, padding) = 0;
  /// Sizes that differ from the least ones by less than a stride; all or the last D.
  PELLUCID_ARG(std::optional<std::vector<int64_t>>, output_size) = std::nullopt;
};
using MaxUnpool1dFuncOptions = MaxUnpoolFuncOptions<1>;
using MaxUnpool2dFuncOptions = MaxUnpoolFuncOptions<2>;
using MaxUnpool3dFuncOptions = MaxUnpoolFuncOptions<3>;
}  // namespace functional
}  // namespace pellucid::nn
