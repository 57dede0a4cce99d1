// Pooling as functions.
#pragma once

#include <tuple>

#include "pellucid/nn/options/pooling.h"
#include "pellucid/tensor.h"

namespace pellucid::nn::functional {

PELLUCID_API Tensor avg_pool1d(const Tensor& input, const AvgPool1dFuncOptions& options);
PELLUCID_API Tensor avg_pool2d(const Tensor& input, const AvgPool2dFuncOptions& options);
PELLUCID_API Tensor max_pool1d(const Tensor& input, const MaxPool1dFuncOptions& options);
PELLUCID_API Tensor max_pool2d(const Tensor& input, const MaxPool2dFuncOptions& options);
PELLUCID_API Tensor avg_pool3d(const Tensor& input, const AvgPool3dFuncOptions& options);
PELLUCID_API Tensor max_pool3d(const Tensor& input, const MaxPool3dFuncOptions& options);
PELLUCID_API Tensor adaptive_avg_pool3d(const Tensor& input,
                                        const AdaptiveAvgPool3dFuncOptions& options);
PELLUCID_API std::tuple<Tensor, Tensor> max_pool1d_with_indices(
    const Tensor& input, const MaxPool1dFuncOptions& options);
PELLUCID_API std::tuple<Tensor, Tensor> max_pool2d_with_indices(
    const Tensor& input, const MaxPool2dFuncOptions& options);
PELLUCID_API Tensor adaptive_avg_pool1d(const Tensor& input,
                                        const AdaptiveAvgPool1dFuncOptions& options);
PELLUCID_API Tensor adaptive_avg_pool2d(const Tensor& input,
                                        const AdaptiveAvgPool2dFuncOptions& options);
PELLUCID_API Tensor adaptive_max_pool1d(const Tensor& input,
                                        const AdaptiveMaxPool1dFuncOptions& options);
PELLUCID_API Tensor adaptive_max_pool2d(const Tensor& input,
                                        const AdaptiveMaxPool2dFuncOptions& options);
PELLUCID_API std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(
    const Tensor& input, const AdaptiveMaxPool1dFuncOptions& options);
PELLUCID_API std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(
    const Tensor& input, const AdaptiveMaxPool2dFuncOptions& options);
PELLUCID_API std::tuple<Tensor, Tensor> max_pool3d_with_indices(
    const Tensor& input, const MaxPool3dFuncOptions& options);
PELLUCID_API Tensor adaptive_max_pool3d(const Tensor& input,
                                        const AdaptiveMaxPool3dFuncOptions& options);
PELLUCID_API std::tuple<Tensor, Tensor> adaptive_max_pool3d_with_indices(
    const Tensor& input, const AdaptiveMaxPool3dFuncOptions& options);
PELLUCID_API Tensor max_unpool1d(const Tensor& input, const Tensor& indices,
                                 const MaxUnpool1dFuncOptions& options);
PELLUCID_API Tensor max_unpool2d(const Tensor& input, const Tensor& indices,
                                 const MaxUnpool2dFuncOptions& options);
PELLUCID_API Tensor max_unpool3d(const Tensor& input, const Tensor& indices,
                                 const MaxUnpool3dFuncOptions& options);
PELLUCID_API Tensor lp_pool1d(const Tensor& input, const LPPool1dFuncOptions& options);
PELLUCID_API Tensor lp_pool2d(const Tensor& input, const LPPool2dFuncOptions& options);
PELLUCID_API Tensor lp_pool3d(const Tensor& input, const LPPool3dFuncOptions& options);

}  // namespace pellucid::nn::functional
