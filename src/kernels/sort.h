// Sorting and selection along a dim, and the ops that find positions: unique, nonzero,
// masked_select. NaN counts as larger than every number. Ties keep their order. All dtypes; strides
// count elements.
#pragma once

#include <cstdint>
#include <vector>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// Lines along `dim` of `in`, and where results go: out_strides are those of `values` and
/// `indices`, either of which may be null.
struct SortArgs {
  DType type = kFloat32;
  const void* in = nullptr;
  void* values = nullptr;
  int64_t* indices = nullptr;
  IntArrayRef sizes, in_strides,
      out_strides;  ///< sizes of the input; the outputs' size along dim is k or the same
  int64_t dim = 0;
};

/// Stable sort of each line; NaN comes last, or first when descending.
void sort(const SortArgs& args, bool descending);
/// The k largest (or smallest) of each line in order, NaN being the largest.
void topk(const SortArgs& args, int64_t k, bool largest);
/// The k-th smallest of each line, k from 0; one value a line. With `nan_wins` a line that has a
/// NaN gives its first NaN (median).
void kthvalue(const SortArgs& args, int64_t k, bool nan_wins);

/// The distinct values of a contiguous array in ascending order, each NaN being distinct.
struct Unique {
  std::vector<int64_t> first;   ///< where each distinct value occurs first
  std::vector<int64_t> counts;  ///< how often
};
/// Also writes, for each element, the number of its distinct value, unless `inverse` is null.
Unique unique(DType type, const void* in, int64_t n, int64_t* inverse);

/// How many elements of a strided array are not zero.
int64_t count_nonzero(DType type, const void* in, IntArrayRef sizes, IntArrayRef strides);
/// Coordinates of the nonzero elements in row-major order: out is [count, dims] contiguous.
void nonzero(DType type, const void* in, IntArrayRef sizes, IntArrayRef strides, int64_t* out);
/// Copies the elements whose mask is true to `out` in row-major order; element_bytes is 1, 2, 4
/// or 8.
void masked_select(int64_t element_bytes, const void* in, IntArrayRef in_strides, const bool* mask,
                   IntArrayRef mask_strides, IntArrayRef sizes, void* out);

}  // namespace pellucid::kernels
