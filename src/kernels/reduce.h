// Reductions of a strided array over any set of its dimensions: sum, mean, prod, max, min, argmax,
// argmin, any, all, var, std, p-norm, logsumexp. Bits depend on shape and strides alone, never on
// the number of threads. Checks of dims, and errors for empty max/min, are the caller's.
#pragma once

#include <cstdint>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// What to fold with. Max, Min, ArgMax and ArgMin let NaN win; ArgMax and ArgMin give the first
/// index.
enum class ReduceOp : uint8_t {
  Sum,
  Mean,
  Prod,
  Max,
  Min,
  ArgMax,
  ArgMin,
  Any,
  All,
  Var,
  Std,
  Norm,
  LogSumExp
};

/// One reduction. Strides count elements; out_strides has one entry per input dim, ignored where
/// reduced.
struct ReduceArgs {
  ReduceOp op = ReduceOp::Sum;
  DType in_type = kFloat32;
  const void* in = nullptr;
  DType out_type = kFloat32;
  void* out = nullptr;   ///< values; for ArgMax and ArgMin the extreme itself, or null
  void* mean = nullptr;  ///< Var, Std: the means too, of out_type, unless null
  int64_t* indices =
      nullptr;  ///< ArgMax, ArgMin: the position in row-major order of the reduced dims
  IntArrayRef sizes;
  IntArrayRef in_strides;
  IntArrayRef out_strides;  ///< of `out`, `mean` and `indices` alike
  uint64_t reduced = 0;     ///< bit d set: dim d is folded
  double parameter = 0;     ///< Var, Std: the correction; Norm: p (may be +-infinity)
};

/// Runs the reduction. Integers fold in int64, 16-bit floats in float32; an output of float64 folds
/// in float64. Without elements: 0 for Sum and Norm, 1 for Prod, -inf for LogSumExp, NaN for Mean
/// and Var.
void reduce(const ReduceArgs& args);

}  // namespace pellucid::kernels
