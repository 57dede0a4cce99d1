// Sums and maxima of rows in bags, over raw pointers. Indices have been checked. Bits do not depend
// on threads: each result adds its rows in the order of the list.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

/// A list of n pairs: row from[i] of a table [*, width] belongs to result to[i] of `rows`.
struct RowPairs {
  int64_t n = 0, width = 0, rows = 0;
  const int64_t* from = nullptr;
  const int64_t* to = nullptr;
};

/// out [rows, width]: out[to[i]] += scale[i] * x[from[i]] from zeros; a null scale is ones.
template <class T> void sum_rows(const RowPairs& pairs, const T* x, const T* scale, T* out);

/// out [rows, width]: which of the rows that belong to a result has the greatest value in each
/// column, the first of equal ones; -1 where there is none.
template <class T> void argmax_rows(const RowPairs& pairs, const T* x, int64_t* out);

}  // namespace pellucid::kernels
