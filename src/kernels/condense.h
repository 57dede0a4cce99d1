// Dense matrices brought to a few diagonals by reflections from both sides, where eigenvalues and
// singular values are found in few operations. The matrix is read once (symmetric) or twice for
// each reflection: the update by one reflection and the product with the next are one pass.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

/// A matrix in padded rows: `rows` of them, `stride` apart, and zeros where the matrix ends. Both
/// are as padded_size() says.
struct PaddedSize {
  int64_t rows, stride;
  int64_t count() const { return rows * stride; }
};
template <class T> PaddedSize padded_size(int64_t n);

/// Entries of T that condense_symmetric and condense_square take for themselves.
template <class T> int64_t condense_scratch(int64_t n);

/// Q^T A Q = the tridiagonal matrix with `diagonal` [n] and `beside` [n - 1], for the symmetric A
/// [n, n] in padded rows, which are lost. Q is the product of n - 1 reflections: vector k is row k
/// of v (in padded rows) with zeros before entry k + 1, and tau[k] belongs to it.
template <class T>
void condense_symmetric(int64_t n, T* a, T* v, T* tau, double* diagonal, double* beside,
                        T* scratch);

/// Q^T A P = the matrix with `diagonal` [n] and `above` [n - 1], for A [n, n] in padded rows, which
/// are lost. Q's reflections have zeros before entry k, P's before k + 1.
template <class T>
void condense_square(int64_t n, T* a, T* q, T* q_tau, T* p, T* p_tau, double* diagonal,
                     double* above, T* scratch);

}  // namespace pellucid::kernels
