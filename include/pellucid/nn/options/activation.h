// Options of activations, as modules and as functions.
#pragma once

#include "pellucid/dtype.h"
#include "pellucid/nn/arg.h"

namespace pellucid::nn {

namespace detail {
struct AlphaInplaceOptions {
  PELLUCID_ARG(double, alpha) = 1.0;
  PELLUCID_ARG(bool, inplace) = false;
};
struct InplaceOptions {
  template <::pellucid::detail::Mistaken<bool> Given> InplaceOptions(Given) = delete;
  InplaceOptions(bool inplace = false) : inplace_(inplace) {}
  PELLUCID_ARG(bool, inplace);
};
struct LambdaOptions {
  template <::pellucid::detail::Mistaken<double> Given> LambdaOptions(Given) = delete;
  LambdaOptions(double lambda = 0.5) : lambda_(lambda) {}
  PELLUCID_ARG(double, lambda);
};
struct DimOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> DimOptions(Given) = delete;
  DimOptions(int64_t dim) : dim_(dim) {}
  PELLUCID_ARG(int64_t, dim);
};
struct DimDtypeOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> DimDtypeOptions(Given) = delete;
  DimDtypeOptions(int64_t dim) : dim_(dim) {}
  PELLUCID_ARG(int64_t, dim);
  PELLUCID_ARG(std::optional<DType>, dtype) = std::nullopt;
};
}  // namespace detail

using ELUOptions = detail::AlphaInplaceOptions;
using CELUOptions = detail::AlphaInplaceOptions;
using SELUOptions = detail::InplaceOptions;
using ReLUOptions = detail::InplaceOptions;
using ReLU6Options = detail::InplaceOptions;
using SiLUOptions = detail::InplaceOptions;
using MishOptions = detail::InplaceOptions;
using HardswishOptions = detail::InplaceOptions;
using HardsigmoidOptions = detail::InplaceOptions;
using HardshrinkOptions = detail::LambdaOptions;
using SoftshrinkOptions = detail::LambdaOptions;
using SoftmaxOptions = detail::DimOptions;
using SoftminOptions = detail::DimOptions;
using LogSoftmaxOptions = detail::DimOptions;

struct GLUOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> GLUOptions(Given) = delete;
  GLUOptions(int64_t dim = -1) : dim_(dim) {}
  PELLUCID_ARG(int64_t, dim);
};
struct GELUOptions {
  PELLUCID_ARG(std::string, approximate) = "none";
};
struct HardtanhOptions {
  PELLUCID_ARG(double, min_val) = -1.0;
  PELLUCID_ARG(double, max_val) = 1.0;
  PELLUCID_ARG(bool, inplace) = false;
};
struct LeakyReLUOptions {
  PELLUCID_ARG(double, negative_slope) = 1e-2;
  PELLUCID_ARG(bool, inplace) = false;
};
struct PReLUOptions {
  PELLUCID_ARG(int64_t, num_parameters) = 1;
  PELLUCID_ARG(double, init) = 0.25;
};
struct RReLUOptions {
  PELLUCID_ARG(double, lower) = 1.0 / 8.0;
  PELLUCID_ARG(double, upper) = 1.0 / 3.0;
  PELLUCID_ARG(bool, inplace) = false;
};
struct SoftplusOptions {
  PELLUCID_ARG(double, beta) = 1.0;
  PELLUCID_ARG(double, threshold) = 20.0;
};
struct ThresholdOptions {
  ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
  PELLUCID_ARG(double, threshold);
  PELLUCID_ARG(double, value);
  PELLUCID_ARG(bool, inplace) = false;
};

namespace functional {
using ELUFuncOptions = ELUOptions;
using CELUFuncOptions = CELUOptions;
using SELUFuncOptions = SELUOptions;
using GLUFuncOptions = GLUOptions;
using GELUFuncOptions = GELUOptions;
using HardshrinkFuncOptions = HardshrinkOptions;
using HardtanhFuncOptions = HardtanhOptions;
using LeakyReLUFuncOptions = LeakyReLUOptions;
using ReLUFuncOptions = ReLUOptions;
using ReLU6FuncOptions = ReLU6Options;
using SoftplusFuncOptions = SoftplusOptions;
using SoftshrinkFuncOptions = SoftshrinkOptions;
using ThresholdFuncOptions = ThresholdOptions;
using SoftmaxFuncOptions = detail::DimDtypeOptions;
using SoftminFuncOptions = detail::DimDtypeOptions;
using LogSoftmaxFuncOptions = detail::DimDtypeOptions;
struct RReLUFuncOptions {
  PELLUCID_ARG(double, lower) = 1.0 / 8.0;
  PELLUCID_ARG(double, upper) = 1.0 / 3.0;
  PELLUCID_ARG(bool, training) = false;
  PELLUCID_ARG(bool, inplace) = false;
};
struct GumbelSoftmaxFuncOptions {
  PELLUCID_ARG(double, tau) = 1.0;
  PELLUCID_ARG(bool, hard) = false;
  PELLUCID_ARG(int, dim) = -1;
};
}  // namespace functional
}  // namespace pellucid::nn
