// Matrix times vector for float and double, at the speed of memory. Used by gemm.cpp and by kernels
// that run several products in one parallel region.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace pellucid::kernels {

/// y[m] = alpha A[m, k] x[k] + beta y; with beta == 0, y is not read. m and k are positive. The end
/// of A asks for what the caller reads `then`, unless that is null.
template <class T>
void gemv(int64_t m, int64_t k, T alpha, const MatrixView<const T>& a, const T* x, int64_t x_stride,
          T beta, T* y, int64_t y_stride, const T* then = nullptr);

/// Rows of a matrix without gaps, [rows, k].
template <class T> struct RowsView {
  const T* data = nullptr;
  int64_t rows = 0, k = 0;
};

/// y = A x on the calling thread, row by row with the bits of gemv (for rows of up to 65536). The
/// end of A asks for the beginning of `next`, the rows that this thread reads after it, if there
/// are any.
template <class T>
void gemv_one_thread(const RowsView<T>& a, const T* x, T* y, const RowsView<T>& next = {});

}  // namespace pellucid::kernels
