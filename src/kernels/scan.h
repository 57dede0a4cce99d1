// Cumulative sums and products along one dim of a strided array. Floats accumulate in float64,
// integers wrap in int64.
#pragma once

#include <cstdint>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

enum class ScanOp : uint8_t { Sum, Prod };

/// One scan; strides count elements. A 0-dimensional array is copied.
struct ScanArgs {
  ScanOp op = ScanOp::Sum;
  DType in_type = kFloat32;
  const void* in = nullptr;
  DType out_type = kFloat32;
  void* out = nullptr;
  IntArrayRef sizes, in_strides, out_strides;
  int64_t dim = 0;
  bool reverse = false;  ///< from the last element to the first, as the gradient of a sum needs
};
void scan(const ScanArgs& args);

}  // namespace pellucid::kernels
