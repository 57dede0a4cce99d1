// The product of a linear layer's input with its weight, which is stored [out, in]:
// C[m, n] = A[m, k] W[n, k]^T + bias. The weight, the larger operand, is read where it lies; the
// input is packed. Float at ISA level v4 alone; gemm.cpp decides which products come here.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace pellucid::kernels::weight {

/// Whether there is a kernel for this machine.
bool available();

/// One task, on one thread. The bits of an element depend on k alone, not on the task that it is
/// in. `bias` and the epilogue may be null. Sizes are positive.
void multiply_task(int64_t m, int64_t n, int64_t k, const MatrixView<const float>& a,
                   const float* w, int64_t w_stride, const float* bias, float* c, int64_t ldc,
                   const Epilogue* then);

/// Bytes that multiply_task takes for itself.
int64_t task_scratch(int64_t m, int64_t k);

}  // namespace pellucid::kernels::weight
