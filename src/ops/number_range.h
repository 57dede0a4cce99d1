// Whether a number fits the dtype of the tensor that it is written into.
#pragma once

#include <string_view>

#include "pellucid/dtype.h"
#include "pellucid/scalar.h"

namespace pellucid {

/// Throws ValueError where `value`, without its fraction, is beyond what an integer dtype holds; -1
/// is taken for the greatest uint8, as in C. Floating dtypes and bool take every number.
PELLUCID_API void check_fits(std::string_view op, const Scalar& value, DType dtype);

}  // namespace pellucid
