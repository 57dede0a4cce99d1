// What checks of values share.
#pragma once

#include <limits>

#include "pellucid/tensor.h"

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

/// The only element.
inline double only(const pellucid::Tensor& t) { return t.item<double>(); }
