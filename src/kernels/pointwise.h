// The driver of pointwise kernels: runs one inner loop over operands of any layout and element
// type. It is compiled once; formulas only supply inner loops (pointwise_loops.h). It does not
// check shapes, dtypes or overlap: operands are expected to fit, and the output overlaps an input
// only by being laid out exactly like it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/pointwise_loops.h"
#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// A tensor as the driver sees it.
struct Operand {
  char* data;
  DType dtype;             ///< how it is stored
  DType compute;           ///< how the inner loop wants it
  const int64_t* strides;  ///< in elements, per dimension of the iteration shape; 0 repeats
};

/// out = loop(in…) for every index of `shape`; at most 7 inputs. `work_per_element` is 1 for what
/// is bound by memory (add, relu) and grows with the arithmetic (exp about 3); it decides whether
/// threads pay. A null loop, with one input of out's compute type, copies.
void run_pointwise(InnerLoop loop, const void* functor, IntArrayRef shape, const Operand& out,
                   std::span<const Operand> in, double work_per_element);

/// The loop of the table for a compute type; null where the formula has none.
inline InnerLoop loop_for(const LoopTable& table, DType compute) {
  switch (compute) {
    case kFloat32:
      return table.f32;
    case kFloat64:
      return table.f64;
    case kInt32:
      return table.i32;
    case kInt64:
      return table.i64;
    default:
      return nullptr;
  }
}

}  // namespace pellucid::kernels
