// Options of losses, as modules and as functions. The reduction is kMean unless set to kSum or
// kNone.
#pragma once

#include <functional>

#include "pellucid/nn/arg.h"
#include "pellucid/tensor.h"

namespace pellucid::nn {

namespace detail {
using reduction_t = std::variant<enumtype::kNone, enumtype::kMean, enumtype::kSum>;
struct ReductionOptions {
  using reduction_t = detail::reduction_t;
  ReductionOptions() = default;
  ReductionOptions(reduction_t reduction) : reduction_(reduction) {}
  template <class T>
  requires std::is_constructible_v<reduction_t, T> ReductionOptions(T reduction)
      : reduction_(reduction) {}
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct MarginOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(double, margin) = 1.0;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct ZeroMarginOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(double, margin) = 0.0;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct WeightOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
}  // namespace detail

using L1LossOptions = detail::ReductionOptions;
using MSELossOptions = detail::ReductionOptions;
using SoftMarginLossOptions = detail::ReductionOptions;
using MultiLabelMarginLossOptions = detail::ReductionOptions;
using HingeEmbeddingLossOptions = detail::MarginOptions;
using CosineEmbeddingLossOptions = detail::ZeroMarginOptions;
using MarginRankingLossOptions = detail::ZeroMarginOptions;
using BCELossOptions = detail::WeightOptions;
using MultiLabelSoftMarginLossOptions = detail::WeightOptions;

struct KLDivLossOptions {
  using reduction_t =
      std::variant<enumtype::kNone, enumtype::kBatchMean, enumtype::kSum, enumtype::kMean>;
  KLDivLossOptions() = default;
  template <class T>
  requires std::is_constructible_v<reduction_t, T> KLDivLossOptions(T reduction)
      : reduction_(reduction) {}
  PELLUCID_ARG(reduction_t, reduction) = kMean;
  PELLUCID_ARG(bool, log_target) = false;
};
struct MultiMarginLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(int64_t, p) = 1;
  PELLUCID_ARG(double, margin) = 1.0;
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct TripletMarginLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(double, margin) = 1.0;
  PELLUCID_ARG(double, p) = 2.0;
  PELLUCID_ARG(double, eps) = 1e-6;
  PELLUCID_ARG(bool, swap) = false;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct TripletMarginWithDistanceLossOptions {
  using reduction_t = detail::reduction_t;
  using distance_function_t = std::function<Tensor(const Tensor&, const Tensor&)>;
  PELLUCID_ARG(std::optional<distance_function_t>, distance_function) = std::nullopt;
  PELLUCID_ARG(double, margin) = 1.0;
  PELLUCID_ARG(bool, swap) = false;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct SmoothL1LossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
  PELLUCID_ARG(std::optional<double>, beta) = std::nullopt;
};
struct HuberLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
  PELLUCID_ARG(double, delta) = 1.0;
};
struct PoissonNLLLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(bool, log_input) = true;
  PELLUCID_ARG(bool, full) = false;
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct GaussianNLLLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(bool, full) = false;
  PELLUCID_ARG(double, eps) = 1e-6;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct CTCLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(int64_t, blank) = 0;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
  PELLUCID_ARG(bool, zero_infinity) = false;
};
struct NLLLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(int64_t, ignore_index) = -100;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
};
struct CrossEntropyLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(int64_t, ignore_index) = -100;
  PELLUCID_ARG(reduction_t, reduction) = kMean;
  PELLUCID_ARG(double, label_smoothing) = 0.0;
};
struct BCEWithLogitsLossOptions {
  using reduction_t = detail::reduction_t;
  PELLUCID_ARG(Tensor, weight);
  PELLUCID_ARG(reduction_t, reduction) = kMean;
  PELLUCID_ARG(Tensor, pos_weight);
};

namespace functional {
using L1LossFuncOptions = L1LossOptions;
using MSELossFuncOptions = MSELossOptions;
using SoftMarginLossFuncOptions = SoftMarginLossOptions;
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossOptions;
using HingeEmbeddingLossFuncOptions = HingeEmbeddingLossOptions;
using CosineEmbeddingLossFuncOptions = CosineEmbeddingLossOptions;
using MarginRankingLossFuncOptions = MarginRankingLossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossOptions;
using KLDivFuncOptions = KLDivLossOptions;
using MultiMarginLossFuncOptions = MultiMarginLossOptions;
using TripletMarginLossFuncOptions = TripletMarginLossOptions;
using TripletMarginWithDistanceLossFuncOptions = TripletMarginWithDistanceLossOptions;
using SmoothL1LossFuncOptions = SmoothL1LossOptions;
using HuberLossFuncOptions = HuberLossOptions;
using PoissonNLLLossFuncOptions = PoissonNLLLossOptions;
using GaussianNLLLossFuncOptions = GaussianNLLLossOptions;
using CTCLossFuncOptions = CTCLossOptions;
using NLLLossFuncOptions = NLLLossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
}  // namespace functional
}  // namespace pellucid::nn
