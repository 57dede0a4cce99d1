// nn::init: fills a tensor in place with values to start training from, and returns it. The
// distributions are PyTorch's; the random numbers are pellucid's own.
#pragma once

#include <tuple>

#include "pellucid/nn/arg.h"
#include "pellucid/tensor.h"

namespace pellucid::nn::init {

using NonlinearityType =
    std::variant<enumtype::kLinear, enumtype::kConv1D, enumtype::kConv2D, enumtype::kConv3D,
                 enumtype::kConvTranspose1D, enumtype::kConvTranspose2D, enumtype::kConvTranspose3D,
                 enumtype::kSigmoid, enumtype::kTanh, enumtype::kReLU, enumtype::kLeakyReLU>;
using FanModeType = std::variant<enumtype::kFanIn, enumtype::kFanOut>;

/// By how much a layer before this nonlinearity should scale its weights.
PELLUCID_API double calculate_gain(NonlinearityType nonlinearity, double param = 0.01);
PELLUCID_API Tensor constant_(Tensor tensor, Scalar value);
PELLUCID_API Tensor zeros_(Tensor tensor);
PELLUCID_API Tensor ones_(Tensor tensor);
/// The identity matrix.
PELLUCID_API Tensor eye_(Tensor matrix);
/// A convolution that passes its input channels through.
PELLUCID_API Tensor dirac_(Tensor tensor);
PELLUCID_API Tensor normal_(Tensor tensor, double mean = 0, double std = 1);
/// A normal distribution cut off at a and b (values, not deviations).
PELLUCID_API Tensor trunc_normal_(Tensor tensor, double mean = 0, double std = 1, double a = -2,
                                  double b = 2);
PELLUCID_API Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
/// Orthonormal rows or columns.
PELLUCID_API Tensor orthogonal_(Tensor tensor, double gain = 1.0);
/// Normal values of which the fraction `sparsity` of each column is zero.
PELLUCID_API Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01);
PELLUCID_API Tensor kaiming_normal_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                                    NonlinearityType nonlinearity = kLeakyReLU);
PELLUCID_API Tensor kaiming_uniform_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                                     NonlinearityType nonlinearity = kLeakyReLU);
PELLUCID_API Tensor xavier_normal_(Tensor tensor, double gain = 1.0);
PELLUCID_API Tensor xavier_uniform_(Tensor tensor, double gain = 1.0);
/// The numbers of inputs and outputs that one weight connects.
PELLUCID_API std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor);

}  // namespace pellucid::nn::init
