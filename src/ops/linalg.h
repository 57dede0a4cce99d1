// What the ops of matrix products share: a tensor seen as a matrix for kernels/gemm, and scaled
// gradients.
#pragma once

#include "kernels/gemm.h"
#include "ops/common.h"
#include "ops/root.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {

/// The last two dimensions of t.
template <class T> kernels::MatrixView<T> matrix_view(const Tensor& t) {
  const IntArrayRef strides = t.raw_strides();
  return {t.raw<std::remove_const_t<T>>(), strides[strides.size() - 2],
          strides[strides.size() - 1]};
}

/// Elements from one row of t, seen as [-1, k], to the next. A size of 1 has no say: its stride may
/// be anything, also in a contiguous tensor.
inline int64_t row_step(const Tensor& t) {
  const IntArrayRef sizes = t.sizes(), strides = t.raw_strides();
  for (size_t d = sizes.size() - 1; d-- > 0;)
    if (sizes[d] != 1) return strides[d];
  return sizes.back();
}

/// t * factor, or t itself for 1.
inline Tensor scaled(const Tensor& t, const Scalar& factor) {
  return factor.equal(1) ? t : t.mul(factor);
}

/// out = alpha self @ other + beta out over the last two dimensions; the dimensions before them
/// broadcast to out's. No operand is copied: its strides are passed on.
template <class T>
void run_batched(const Tensor& self, const Tensor& other, const Tensor& out, T alpha, T beta,
                 const kernels::Epilogue* then = nullptr);
/// Whether that computes whole matrices one after the other on each thread.
bool runs_by_matrix(const Tensor& self, const Tensor& other, const Tensor& out);

/// A product with an epilogue, which only float and double can have.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, T alpha, kernels::MatrixView<const T> a,
              kernels::MatrixView<const T> b, T beta, kernels::MatrixView<T> c,
              const kernels::Epilogue* then) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    kernels::gemm_then<T>(m, n, k, alpha, a, b, beta, c, then);
  else
    kernels::gemm<T>(m, n, k, alpha, a, b, beta, c);
}

// What these kernels take for themselves, in bytes.
/// Of `count` products of the last two dimensions.
int64_t matrices_scratch(const Tensor& a, const Tensor& b, int64_t count);
/// Of an op whose inputs 0 and 1 are multiplied.
int64_t product_scratch(const Call& c);
/// Of `count` rows with a weight [out, in] or [in].
int64_t rows_scratch(const Tensor& rows, const Tensor& weight, int64_t count);

}  // namespace pellucid
