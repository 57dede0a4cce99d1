// Matrix times vector for float and double, at the speed of memory. Used by gemm.cpp.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace pellucid::kernels {

/// y[m] = alpha A[m, k] x[k] + beta y; with beta == 0, y is not read. m and k are positive.
template <class T>
void gemv(int64_t m, int64_t k, T alpha, const MatrixView<const T>& a, const T* x, int64_t x_stride,
          T beta, T* y, int64_t y_stride);

}  // namespace pellucid::kernels
