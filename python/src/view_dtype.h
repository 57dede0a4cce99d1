// The bytes of a tensor seen as another dtype.
#pragma once

#include "pellucid/tensor.h"

namespace pellucid::python {

/// Tensor.view(dtype): no op has it, because it is no function of the values.
Tensor view_bytes_as(const Tensor& t, DType to);

}  // namespace pellucid::python
