// Singular values and eigenvalues of single matrices, by Eigen.
#include "kernels/decompose.h"

#include <Eigen/Dense>
#include <algorithm>

namespace pellucid::kernels {

namespace {

template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T> using In = Eigen::Map<const RowMajor<T>>;
template <class T> using Out = Eigen::Map<RowMajor<T>>;

// The sign of a singular or an eigenvector is free; with this one, results do not depend on the
// algorithm: the entry of greatest magnitude is positive.
template <class Column> bool is_turned(const Column& column) {
  Eigen::Index at = 0;
  column.cwiseAbs().maxCoeff(&at);
  return column(at) < 0;
}

// Jacobi's rotations are the most exact; divide and conquer is faster from here on.
constexpr int64_t kJacobiLimit = 16;

template <class Solver, class T>
bool take_svd(const Solver& solver, int64_t m, int64_t n, T* u, T* s, T* vt) {
  if (solver.info() != Eigen::Success) return false;
  const int64_t k = std::min(m, n);
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>(s, k) = solver.singularValues();
  if (!u) return true;
  Out<T> left(u, m, solver.matrixU().cols()), right(vt, solver.matrixV().cols(), n);
  left = solver.matrixU();
  right = solver.matrixV().transpose();
  for (int64_t i = 0; i < left.cols(); ++i) {
    if (!is_turned(left.col(i))) continue;
    left.col(i) *= T(-1);
    if (i < k) right.row(i) *= T(-1);
  }
  for (int64_t i = k; i < right.rows(); ++i)
    if (is_turned(right.row(i))) right.row(i) *= T(-1);
  return true;
}

}  // namespace

template <class T> bool svd(int64_t m, int64_t n, bool full, const T* a, T* u, T* s, T* vt) {
  const Matrix<T> matrix = In<T>(a, m, n);
  if (!matrix.allFinite()) return false;
  const unsigned options = !u     ? 0u
                           : full ? Eigen::ComputeFullU | Eigen::ComputeFullV
                                  : Eigen::ComputeThinU | Eigen::ComputeThinV;
  if (std::min(m, n) <= kJacobiLimit)
    return take_svd(Eigen::JacobiSVD<Matrix<T>>(matrix, options), m, n, u, s, vt);
  return take_svd(Eigen::BDCSVD<Matrix<T>>(matrix, options), m, n, u, s, vt);
}

template <class T> bool eigh(int64_t n, bool lower, const T* a, T* values, T* v) {
  if (n == 0) return true;
  Matrix<T> matrix = In<T>(a, n, n);
  if (!lower) matrix.transposeInPlace();
  const Eigen::SelfAdjointEigenSolver<Matrix<T>> solver(
      matrix, v ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);  // reads the lower triangle
  if (solver.info() != Eigen::Success) return false;
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>(values, n) = solver.eigenvalues();
  if (!v) return true;
  Out<T> vectors(v, n, n);
  vectors = solver.eigenvectors();
  for (int64_t i = 0; i < n; ++i)
    if (is_turned(vectors.col(i))) vectors.col(i) *= T(-1);
  return true;
}

#define PELLUCID_DECOMPOSE(T)                                         \
  template bool svd<T>(int64_t, int64_t, bool, const T*, T*, T*, T*); \
  template bool eigh<T>(int64_t, bool, const T*, T*, T*);
PELLUCID_DECOMPOSE(float)
PELLUCID_DECOMPOSE(double)
#undef PELLUCID_DECOMPOSE

}  // namespace pellucid::kernels
