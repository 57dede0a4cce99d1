// Two products of linear layers' gradients, in which the large operand streams past: it is read or
// written once, where it lies, and asked for ahead of time. Float at ISA level v4 alone; gemm.cpp
// decides which products come here.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace pellucid::kernels::stream {

/// C[m, n] = alpha A[m, k] B[k, n] + beta C, with B in rows of n (and C in rows). Sizes are
/// positive; beta == 0 does not read C.
struct Task {
  int64_t m, n, k;
  float alpha;
  MatrixView<const float> a;
  const float* b;
  int64_t ldb;
  float beta;
  float* c;
  int64_t ldc;
  const Epilogue* then = nullptr;  ///< runs on each block of C that is complete
};

/// Whether there are kernels for this machine.
bool available();

// On all threads; the bits of an element depend on k alone.

/// For a large B and few rows: the gradient of an input, where B is the weight, [out, in].
void multiply_few_rows(const Task& task);
/// For a large C and a short k: the gradient of a weight, where A is in columns.
void multiply_short(const Task& task);

/// Bytes that each of the two takes at most at a time.
int64_t few_rows_scratch(int64_t m, int64_t n, int64_t k);
int64_t short_scratch(int64_t m, int64_t n, int64_t k);

}  // namespace pellucid::kernels::stream
