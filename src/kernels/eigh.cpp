// Eigenvalues and eigenvectors of symmetric matrices: a tridiagonal matrix by reflections
// (condense.h), its eigenvalues by implicit QR with Wilkinson's shift, and the eigenvectors from
// the rotations of that and the reflections.
#include "kernels/condense.h"
#include "kernels/decompose.h"
#include "kernels/reflections.h"
#include "kernels/spectral.h"

namespace pellucid::kernels {
namespace {

/// One implicit QR step; the rotations turn the eigenvectors.
template <class T>
void take_step(const Block& block, double* diagonal, double* beside, Rotations<T>& vectors) {
  const int64_t m = block.count();
  const auto d = [&](int64_t i) -> double& { return block.at(diagonal, i); };
  const auto e = [&](int64_t i) -> double& { return block.beside(beside, i); };
  const double half = (d(m - 1) - d(m)) / 2, last = e(m - 1);
  const double root = std::hypot(half, last);
  const double shift = d(m) - last * (last / (half + (half < 0 ? -root : root)));
  vectors.sweep(block.first(), block.step());
  double g = d(0) - shift, lost = 0;
  Turn turn{1, 1};
  for (int64_t i = 0; i < m; ++i) {
    const double f = turn.s * e(i), b = turn.c * e(i);
    double r;
    turn = make_turn(g, f, r);
    vectors.add(turn);
    if (i > 0) e(i - 1) = r;
    g = d(i) - lost;
    r = (d(i + 1) - g) * turn.s + 2 * turn.c * b;
    lost = turn.s * r;
    d(i) = g + lost;
    g = turn.c * r - b;
  }
  d(m) -= lost;
  e(m - 1) = g;
}

}  // namespace

template <class T> bool eigh(int64_t n, bool lower, const T* a, T* values, T* v) {
  if (n == 0) return true;
  const auto [rows, stride] = padded_size<T>(n);
  const int64_t size = rows * stride;
  const Scratch memory((2 * size + stride + condense_scratch<T>(n)) *
                       static_cast<int64_t>(sizeof(T))),
      numbers(n * static_cast<int64_t>(2 * sizeof(double) + sizeof(int64_t)));
  T *const x = memory.as<T>(), *const reflections = x + size, *const tau = reflections + size;
  double *const diagonal = numbers.as<double>(), *const beside = diagonal + n;
  std::fill_n(x, size, T(0));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j)
      x[i * stride + j] = x[j * stride + i] = lower ? a[i * n + j] : a[j * n + i];
  const T scale = unit_scale(n * stride, x);
  if (std::isnan(scale)) return false;
  for (int64_t i = 0; i < n * stride; ++i) x[i] *= scale;
  condense_symmetric(n, x, reflections, tau, diagonal, beside, tau + stride);

  if (v != nullptr) set_identity(n, rows, stride, x);
  Rotations<T> vectors(v == nullptr ? nullptr : x, rows, stride);
  Block block;
  if (!for_blocks<T>(n, diagonal, beside, [&](int64_t low, int64_t high) {
        block.set(low, high, diagonal);
        take_step(block, diagonal, beside, vectors);
      }))
    return false;
  vectors.apply();
  auto* const order = reinterpret_cast<int64_t*>(beside + n);
  fill_order(n, order, [&](int64_t i, int64_t j) { return diagonal[i] < diagonal[j]; });
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<T>(diagonal[order[i]]) / scale;
  if (v == nullptr) return true;
  take_rows_as_columns(n, order, x, stride, v);
  apply_all(n, n - 1, 1, reflections, stride, tau, n, v, n);
  T* const signs = x;
  column_signs(n, n, v, signs);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) v[i * n + j] *= signs[j];
  return true;
}

template bool eigh<float>(int64_t, bool, const float*, float*, float*);
template bool eigh<double>(int64_t, bool, const double*, double*, double*);

}  // namespace pellucid::kernels
