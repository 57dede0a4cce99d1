// Memory for a parameter.
#pragma once

#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

/// An uninitialised tensor of the default dtype whose bytes count as parameters.
inline Tensor new_parameter(IntArrayRef sizes) {
  const MemoryCategoryGuard category(MemoryCategory::Parameter);
  return empty(sizes);
}

}  // namespace pellucid::nn
