// Matrix products over raw pointers: C = alpha A B + beta C for every dtype, one matrix or a batch,
// with fast paths for vectors. Strides are in elements and may be anything, zero and negative
// included. The bits of a result depend on the sizes alone, never on the number of threads.
// Broadcasting, checks and allocation are the callers' business.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

class Epilogue;  // kernels/tiles.h

/// A matrix in memory; element (i, j) is data[i * row_stride + j * col_stride].
template <class T> struct MatrixView {
  T* data;
  int64_t row_stride;
  int64_t col_stride;
  MatrixView transposed() const { return {data, col_stride, row_stride}; }
  MatrixView at(int64_t offset) const { return {data + offset, row_stride, col_stride}; }
};

/// The multiply-adds of a task that is worth a thread's while: about 4 us of a float product.
inline constexpr double kTaskWork = 384.0 * 1024;

/// C[m, n] = alpha A[m, k] B[k, n] + beta C. With beta == 0, C is not read; with k == 0 it is beta
/// C. T is float, double, Half, BFloat16 (summed in float), an integer (wrapping around) or bool
/// (any of ands).
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a, MatrixView<const T> b,
          T beta, MatrixView<T> c);

/// The same for float and double with an epilogue on each block of C, which is row-major.
template <class T>
void gemm_then(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a,
               MatrixView<const T> b, T beta, MatrixView<T> c, const Epilogue* then);

/// Bytes that such a product takes for itself while it runs, with alpha = 1, beta = 0 and C in
/// rows; the operands' data are not read.
template <class T>
int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b);

/// The same for row-major storage with leading dimensions, as BLAS has it.
template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  gemm<T>(m, n, k, alpha,
          transpose_a ? MatrixView<const T>{a, 1, lda} : MatrixView<const T>{a, lda, 1},
          transpose_b ? MatrixView<const T>{b, 1, ldb} : MatrixView<const T>{b, ldb, 1}, beta,
          MatrixView<T>{c, ldc, 1});
}

/// `batch` products; matrix i of an operand starts `*_step * i` elements after the first (0 to
/// reuse it).
template <class T>
void bgemm(int64_t batch, int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a,
           int64_t a_step, MatrixView<const T> b, int64_t b_step, T beta, MatrixView<T> c,
           int64_t c_step, const Epilogue* then = nullptr);

/// Whether every block that bgemm gives to an epilogue is a whole matrix.
bool bgemm_is_by_matrix(int64_t batch, int64_t m, int64_t n, int64_t k);

/// The bias of a linear layer: c[i, j] += bias[j * bias_stride].
template <class T>
void add_bias(int64_t m, int64_t n, const T* bias, int64_t bias_stride, T* c, int64_t row_stride);

/// A linear layer, C = A B + bias, in one pass: the same bits as gemm and then add_bias.
template <class T>
void gemm_bias(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b,
               const T* bias, int64_t bias_stride, T* c, int64_t row_stride,
               const Epilogue* then = nullptr);

/// The sum of x[i] y[i], in a fixed order.
template <class T> T dot(int64_t n, const T* x, int64_t x_stride, const T* y, int64_t y_stride);

/// A product on the calling thread, for callers that run in parallel themselves (attention's
/// tiles). Row-major as in BLAS, sizes positive; T is float or double. The same sizes always give
/// the same bits.
template <class T>
void gemm_one_thread(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha,
                     const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

}  // namespace pellucid::kernels
