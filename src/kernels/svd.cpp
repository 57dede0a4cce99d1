// Singular values and vectors: QR for what is not square, a bidiagonal matrix by reflections
// (condense.h), its singular values by implicit QR as Demmel and Kahan do it (a sweep without a
// shift where a shift would lose the small ones), and the vectors from the rotations of that and
// the reflections.
#include "kernels/condense.h"
#include "kernels/decompose.h"
#include "kernels/gemm.h"
#include "kernels/reflections.h"
#include "kernels/spectral.h"

namespace pellucid::kernels {
namespace {

/// The sweep's view of the bidiagonal matrix, and the vectors that its rotations turn: in a sweep
/// upwards, left and right change places.
template <class T> struct Sides { Rotations<T>*left, *right; };

/// The smaller singular value of [[f, g], [0, h]].
double smaller_singular(double f, double g, double h) {
  const double sum = std::hypot(std::abs(f) + std::abs(h), g),
               difference = std::hypot(std::abs(f) - std::abs(h), g);
  const double greater = (sum + difference) / 2;
  return greater == 0 ? 0 : std::abs(f) * (std::abs(h) / greater);
}

template <class T>
void sweep_without_shift(const Block& block, double* diagonal, double* above,
                         const Sides<T>& sides) {
  const int64_t m = block.count();
  const auto d = [&](int64_t i) -> double& { return block.at(diagonal, i); };
  const auto e = [&](int64_t i) -> double& { return block.beside(above, i); };
  Turn right{1, 0}, left{1, 0};
  for (int64_t i = 0; i < m; ++i) {
    double r;
    right = make_turn(d(i) * right.c, e(i), r);
    sides.right->add(right);
    if (i > 0) e(i - 1) = left.s * r;
    left = make_turn(left.c * r, d(i + 1) * right.s, d(i));
    sides.left->add(left);
  }
  const double last = d(m) * right.c;
  d(m) = last * left.c;
  e(m - 1) = last * left.s;
}

template <class T>
void sweep_with_shift(const Block& block, double shift, double* diagonal, double* above,
                      const Sides<T>& sides) {
  const int64_t m = block.count();
  const auto d = [&](int64_t i) -> double& { return block.at(diagonal, i); };
  const auto e = [&](int64_t i) -> double& { return block.beside(above, i); };
  double f = (std::abs(d(0)) - shift) * (std::copysign(1.0, d(0)) + shift / d(0)), g = e(0);
  for (int64_t i = 0; i < m; ++i) {
    double r;
    const Turn right = make_turn(f, g, r);
    sides.right->add(right);
    if (i > 0) e(i - 1) = r;
    f = right.c * d(i) + right.s * e(i);
    e(i) = right.c * e(i) - right.s * d(i);
    g = right.s * d(i + 1);
    d(i + 1) *= right.c;
    const Turn left = make_turn(f, g, d(i));
    sides.left->add(left);
    f = left.c * e(i) + left.s * d(i + 1);
    d(i + 1) = left.c * d(i + 1) - left.s * e(i);
    if (i + 1 == m) break;
    g = left.s * e(i + 1);
    e(i + 1) *= left.c;
  }
  e(m - 1) = f;
}

template <class T>
void take_step(const Block& block, double* diagonal, double* above, Rotations<T>& left,
               Rotations<T>& right) {
  const Sides<T> sides = block.up() ? Sides<T>{&right, &left} : Sides<T>{&left, &right};
  left.sweep(block.first(), block.step());
  right.sweep(block.first(), block.step());
  const int64_t m = block.count();
  const double first = std::abs(block.at(diagonal, 0));
  const double shift = smaller_singular(block.at(diagonal, m - 1), block.beside(above, m - 1),
                                        block.at(diagonal, m));
  const double ratio = shift / first;  // NaN or infinite where first is 0
  if (!(ratio * ratio > std::numeric_limits<double>::epsilon()) || first == 0)
    sweep_without_shift(block, diagonal, above, sides);
  else
    sweep_with_shift(block, shift, diagonal, above, sides);
}

/// a [n, n] = u diag(s) v^T; u and v may be null.
template <class T> bool square_svd(int64_t n, const T* a, T* u, T* s, T* v) {
  const auto [rows, stride] = padded_size<T>(n);
  const int64_t size = rows * stride;
  const Scratch memory((4 * size + 2 * stride + condense_scratch<T>(n)) *
                       static_cast<int64_t>(sizeof(T))),
      numbers(n * static_cast<int64_t>(2 * sizeof(double) + sizeof(int64_t)));
  T *const x = memory.as<T>(), *const other = x + size, *const q = other + size,
           *const p = q + size, *const q_tau = p + size, *const p_tau = q_tau + stride;
  std::fill_n(x, size, T(0));
  for (int64_t i = 0; i < n; ++i) std::copy_n(a + i * n, n, x + i * stride);
  double *const diagonal = numbers.as<double>(), *const above = diagonal + n;
  condense_square(n, x, q, q_tau, p, p_tau, diagonal, above, p_tau + stride);

  if (u != nullptr) {
    set_identity(n, rows, stride, x);
    set_identity(n, rows, stride, other);
  }
  Rotations<T> left(u == nullptr ? nullptr : x, rows, stride),
      right(u == nullptr ? nullptr : other, rows, stride);
  Block block;
  if (!for_blocks<T>(n, diagonal, above, [&](int64_t low, int64_t high) {
        block.set(low, high, diagonal);
        take_step(block, diagonal, above, left, right);
      }))
    return false;
  left.apply();
  right.apply();
  auto* const order = reinterpret_cast<int64_t*>(above + n);
  fill_order(n, order,
             [&](int64_t i, int64_t j) { return std::abs(diagonal[i]) > std::abs(diagonal[j]); });
  for (int64_t i = 0; i < n; ++i) s[i] = static_cast<T>(std::abs(diagonal[order[i]]));
  if (u == nullptr) return true;
  for (int64_t i = 0; i < n; ++i)
    if (diagonal[i] < 0)
      for (int64_t j = 0; j < n; ++j) other[i * stride + j] = -other[i * stride + j];
  take_rows_as_columns(n, order, x, stride, u);
  apply_all(n, n, 0, q, stride, q_tau, n, u, n);
  take_rows_as_columns(n, order, other, stride, v);
  apply_all(n, n - 1, 1, p, stride, p_tau, n, v, n);
  return true;
}

/// a [m, n] with m >= n: u [m, columns], and v [n, n], whose columns are the right vectors.
template <class T>
bool tall_svd(int64_t m, int64_t n, int64_t columns, const T* a, T* u, T* s, T* v) {
  if (m == n) return square_svd(n, a, u, s, v);
  const int64_t q_size = u == nullptr ? 0 : m * columns;
  const Scratch memory((q_size + columns * n + n * n) * static_cast<int64_t>(sizeof(T)));
  T *const q = memory.as<T>(), *const r = q + q_size, *const inner = r + columns * n;
  qr(m, n, columns, a, u == nullptr ? nullptr : q, r);
  if (!square_svd(n, r, u == nullptr ? nullptr : inner, s, v)) return false;
  if (u == nullptr) return true;
  gemm<T>(m, n, n, T(1), {q, columns, 1}, {inner, n, 1}, T(0), {u, columns, 1});
  for (int64_t i = 0; i < m; ++i)
    std::copy(q + i * columns + n, q + (i + 1) * columns, u + i * columns + n);
  return true;
}

template <class T> void transpose(int64_t rows, int64_t columns, const T* a, T* out) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[j * rows + i] = a[i * columns + j];
}

}  // namespace

template <class T> bool svd(int64_t m, int64_t n, bool full, const T* a, T* u, T* s, T* vt) {
  const T scale = unit_scale(m * n, a);
  if (std::isnan(scale)) return false;
  const bool wide = m < n;  // then its transpose is decomposed
  const int64_t most = std::max(m, n), k = std::min(m, n), columns = full ? most : k;
  const int64_t u_size = u == nullptr ? 0 : most * columns, v_size = u == nullptr ? 0 : k * k;
  const Scratch memory((m * n + u_size + v_size + 2 * most) * static_cast<int64_t>(sizeof(T)));
  T* const x = memory.as<T>();
  T* const tall = u == nullptr ? nullptr : x + m * n;
  T* const small = u == nullptr ? nullptr : tall + u_size;
  if (wide)
    transpose(m, n, a, x);
  else
    std::copy_n(a, m * n, x);
  for (int64_t i = 0; i < m * n; ++i) x[i] *= scale;
  if (!tall_svd(most, k, columns, x, tall, s, small)) return false;
  for (int64_t i = 0; i < k; ++i) s[i] /= scale;
  if (u == nullptr) return true;

  // Signs follow the left vectors, and the right ones that have none beside them.
  T* const left = wide ? small : tall;
  T* const right = wide ? tall : small;
  const int64_t left_columns = wide ? k : columns, right_columns = wide ? columns : k;
  T *const signs = small + v_size, *const right_signs = signs + most;
  column_signs(m, left_columns, left, signs);
  column_signs(n, right_columns, right, right_signs);
  std::copy_n(signs, k, right_signs);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < left_columns; ++j)
      u[i * left_columns + j] = left[i * left_columns + j] * signs[j];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < right_columns; ++j)
      vt[j * n + i] = right[i * right_columns + j] * right_signs[j];
  return true;
}

#define PELLUCID_INSTANTIATE(T) template bool svd<T>(int64_t, int64_t, bool, const T*, T*, T*, T*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
