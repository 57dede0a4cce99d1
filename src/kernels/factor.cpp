// LU and Cholesky decompositions, and what is computed with them. Recursive, so that nearly all of
// the work is matrix products, which run on every core and ISA level. The bits of a result depend
// on the sizes alone.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/decompose.h"
#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/triangular.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kFewColumns = 8;  // that are eliminated one after the other
constexpr int64_t kSquare = 64;     // a block of a symmetric update that is computed whole

template <class T> int64_t bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(T)); }

/// Swaps row i with row pivots[i] in columns [0, n), in order.
template <class T>
void swap_rows(int64_t count, const int64_t* pivots, int64_t n, T* a, int64_t stride) {
  for (int64_t i = 0; i < count; ++i)
    if (pivots[i] != i)
      std::swap_ranges(a + i * stride, a + i * stride + n, a + pivots[i] * stride);
}

template <class T> void eliminate(int64_t m, int64_t n, T* a, int64_t stride, int64_t* pivots) {
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = j;
    for (int64_t i = j + 1; i < m; ++i)
      if (std::abs(a[i * stride + j]) > std::abs(a[best * stride + j])) best = i;
    pivots[j] = best;
    if (best != j) std::swap_ranges(a + j * stride, a + j * stride + n, a + best * stride);
    const T* const row = a + j * stride;
    if (row[j] == T(0)) continue;  // nothing below it either
    for (int64_t i = j + 1; i < m; ++i) {
      T* const to = a + i * stride;
      const T factor = to[j] /= row[j];
      for (int64_t k = j + 1; k < n; ++k) to[k] -= factor * row[k];
    }
  }
}

/// a [m, n] with m >= n becomes L (below the diagonal, ones on it) and U; row i was swapped with
/// row pivots[i].
template <class T> void lu(int64_t m, int64_t n, T* a, int64_t stride, int64_t* pivots) {
  if (n <= kFewColumns) return eliminate(m, n, a, stride, pivots);
  const int64_t half = std::max(n / 2 / kFewColumns, int64_t{1}) * kFewColumns, rest = n - half;
  T* const right = a + half;
  T* const below = a + half * stride;
  lu(m, half, a, stride, pivots);
  swap_rows(half, pivots, rest, right, stride);
  solve_triangular(Triangle::LowerUnit, half, rest, a, stride, right, stride);
  gemm<T>(m - half, rest, half, T(-1), {below, stride, 1}, {right, stride, 1}, T(1),
          {below + half, stride, 1});
  lu(m - half, rest, below + half, stride, pivots + half);
  swap_rows(rest, pivots + half, half, below, stride);
  for (int64_t i = half; i < n; ++i) pivots[i] += half;
}

/// The decomposition of a square matrix.
template <class T> struct Lu {
  Lu(int64_t size, const T* a)
      : n(size), factors(bytes<T>(size * size)), pivots(static_cast<size_t>(size)) {
    std::copy_n(a, n * n, data());
    lu(n, n, data(), n, pivots.data());
  }
  T* data() const { return factors.as<T>(); }
  bool singular() const {
    for (int64_t i = 0; i < n; ++i)
      if (data()[i * (n + 1)] == T(0)) return true;
    return false;
  }
  /// x [n, k] = a^-1 x.
  void solve(int64_t k, T* x) const {
    swap_rows(n, pivots.data(), k, x, k);
    solve_triangular(Triangle::LowerUnit, n, k, data(), n, x, k);
    solve_triangular(Triangle::Upper, n, k, data(), n, x, k);
  }
  int64_t n;
  Scratch factors;
  std::vector<int64_t> pivots;
};

/// The lower triangle of c [n, n] less a a^T for a [n, k].
template <class T>
void subtract_square(int64_t n, int64_t k, const T* a, int64_t a_stride, T* c, int64_t c_stride) {
  if (n <= kSquare)
    return gemm<T>(n, n, k, T(-1), {a, a_stride, 1}, {a, 1, a_stride}, T(1), {c, c_stride, 1});
  const int64_t half = n / 2, rest = n - half;
  const T* const below = a + half * a_stride;
  subtract_square(half, k, a, a_stride, c, c_stride);
  gemm<T>(rest, half, k, T(-1), {below, a_stride, 1}, {a, 1, a_stride}, T(1),
          {c + half * c_stride, c_stride, 1});
  subtract_square(rest, k, below, a_stride, c + half * (c_stride + 1), c_stride);
}

/// The lower triangle of a becomes L. Returns the order of the first minor that is not positive,
/// or 0.
template <class T> int64_t factor_lower(int64_t n, T* a, int64_t stride) {
  if (n > kFewColumns) {
    const int64_t half = std::max(n / 2 / kFewColumns, int64_t{1}) * kFewColumns, rest = n - half;
    T* const below = a + half * stride;
    if (const int64_t order = factor_lower(half, a, stride)) return order;
    solve_from_right(rest, half, a, stride, below, stride);
    subtract_square(rest, half, below, stride, below + half, stride);
    const int64_t order = factor_lower(rest, below + half, stride);
    return order == 0 ? 0 : half + order;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) {
      T sum = a[i * stride + j];
      for (int64_t k = 0; k < j; ++k) sum -= a[i * stride + k] * a[j * stride + k];
      if (i > j)
        a[i * stride + j] = sum / a[j * stride + j];
      else if (sum > T(0))
        a[j * stride + j] = std::sqrt(sum);
      else
        return j + 1;
    }
  return 0;
}

}  // namespace

template <class T> bool inverse(int64_t n, const T* a, T* out) {
  const Lu<T> lu(n, a);
  if (lu.singular()) return false;
  std::fill_n(out, n * n, T(0));
  for (int64_t i = 0; i < n; ++i) out[i * (n + 1)] = T(1);
  lu.solve(n, out);
  return true;
}

template <class T> T determinant(int64_t n, const T* a) {
  const Lu<T> lu(n, a);
  T product = 1;
  for (int64_t i = 0; i < n; ++i) {
    product *= lu.data()[i * (n + 1)];
    if (lu.pivots[static_cast<size_t>(i)] != i) product = -product;
  }
  return product;
}

template <class T> bool solve(int64_t n, int64_t k, const T* a, const T* b, T* x) {
  const Lu<T> lu(n, a);
  if (lu.singular()) return false;
  std::copy_n(b, n * k, x);
  lu.solve(k, x);
  return true;
}

template <class T> int64_t cholesky(int64_t n, const T* a, T* l) {
  std::copy_n(a, n * n, l);
  const int64_t order = factor_lower(n, l, n);
  for (int64_t i = 0; i < n; ++i) std::fill(l + i * n + i + 1, l + (i + 1) * n, T(0));
  return order;
}

#define PELLUCID_INSTANTIATE(T)                                     \
  template bool inverse<T>(int64_t, const T*, T*);                  \
  template T determinant<T>(int64_t, const T*);                     \
  template bool solve<T>(int64_t, int64_t, const T*, const T*, T*); \
  template int64_t cholesky<T>(int64_t, const T*, T*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
