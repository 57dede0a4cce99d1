// Decompositions of single matrices: LU and Cholesky (factor.cpp), QR (factor_qr.cpp), eigenvalues
// of symmetric matrices (eigh.cpp), singular values (svd.cpp). Matrices are row-major and dense; a
// caller runs over batches.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

/// The inverse of a [n, n]. False if a is singular.
template <class T> bool inverse(int64_t n, const T* a, T* out);
/// The determinant of a [n, n].
template <class T> T determinant(int64_t n, const T* a);
/// x [n, k] with a x = b. False if a is singular.
template <class T> bool solve(int64_t n, int64_t k, const T* a, const T* b, T* x);
/// The lower triangle l [n, n] with l l^T = a, of which the lower triangle is read. Returns the
/// order of the first leading minor that is not positive, or 0.
template <class T> int64_t cholesky(int64_t n, const T* a, T* l);
/// a [m, n] = q [m, columns] r [columns, n] with orthonormal columns; q may be null.
template <class T> void qr(int64_t m, int64_t n, int64_t columns, const T* a, T* q, T* r);
/// a [m, n] = u diag(s) vt with s descending; u [m, m] and vt [n, n] if `full`, else [m, k] and
/// [k, n] with k = min(m, n). With null u and vt only s is computed. False if a has entries that
/// are not finite.
template <class T> bool svd(int64_t m, int64_t n, bool full, const T* a, T* u, T* s, T* vt);
/// The eigenvalues, ascending, and the eigenvectors (columns of v) of the symmetric a [n, n], of
/// which one triangle is read. With a null v only the values are computed. False if a has entries
/// that are not finite.
template <class T> bool eigh(int64_t n, bool lower, const T* a, T* values, T* v);

}  // namespace pellucid::kernels
