// Running the reduction kernel for a call; shared by reduce.cpp, statistics.cpp and
// vector_norm.cpp.
#pragma once

#include "kernels/reduce.h"
#include "ops/common.h"

namespace pellucid {

/// How many dimensions the kernels' mask of folded dims holds.
inline constexpr int64_t kMaxReducedDims = 64;

/// The dims that attribute `i` names (`int[1]? dim`), sorted; all where it is absent or empty.
Dims dims_attr(const Call& c, size_t i);
Dims dims_attr(const Vjp& v, size_t i);
/// The dim that attribute `i` names (`int? dim`), all where it is absent; none for a 0-dim tensor.
Dims dim_attr(const Call& c, size_t i);
/// The number of elements that are folded into one.
int64_t reduced_count(IntArrayRef sizes, IntArrayRef dims);
/// Makes an output of reduced sizes.
void make_reduced(Call& c, IntArrayRef dims, bool keepdim, DType dtype);
/// Folds `input` over `dims` into `out` (and `second`: the mean for Var and Std, the indices for
/// ArgMax and ArgMin).
void run_reduction(const Tensor& input, kernels::ReduceOp op, IntArrayRef dims, const Tensor& out,
                   const Tensor& second, double parameter);
/// The same for a kernel, of its input 0: runs it, or tells how it would run (Call::described).
void run_or_describe(Call& c, kernels::ReduceOp op, const Dims& dims, const Tensor& out,
                     const Tensor& second, double parameter);
/// One addition per element, every byte once.
Cost reduction_cost(const Call& c);
/// Spreads a reduced tensor over the input's sizes again, without copying.
Tensor spread(const Tensor& reduced, IntArrayRef dims, IntArrayRef sizes, bool keepdim);
/// How many elements are 0; none in a tensor that has no values, in an estimate.
int64_t count_zeros(const Tensor& x);
/// The vjp of one value that was chosen among all (max, min, median): in equal parts to the
/// elements that equal it, NaN equal to NaN.
Tensors shared_among_equals_vjp(const Vjp& v);
/// Throws if a dim without elements would be folded by an op that has no identity (max, argmax).
void check_not_empty(const Call& c, IntArrayRef dims);

}  // namespace pellucid
