// Tensors for values that come from outside: numbers in the program's text, lists of Python.
#pragma once

#include "pellucid/tensor.h"

namespace pellucid::detail {

/// A tensor into which values are about to be written by address. In a thread that captures calls
/// it has memory at once, where empty() would be pending. A program that is made there knows it as
/// a constant.
PELLUCID_API Tensor new_values(IntArrayRef sizes, DType dtype);

}  // namespace pellucid::detail
