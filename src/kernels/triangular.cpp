// Triangular systems: halves of the triangle and a product between them, down to a few rows.
#include "kernels/triangular.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/isa.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kFew = 16;       // rows that are solved one after the other
constexpr int64_t kColumns = 128;  // of b that one task takes

template <class T> struct Block {
  Triangle which;
  int64_t n, k;
  const T* t;
  int64_t t_stride;
  T* b;
  int64_t b_stride;
};

/// Substitution, row by row.
template <class T> struct Substitute {
  template <Isa> __attribute__((always_inline)) static void run(const Block<T>& s) {
    const bool up = is_upper(s.which);
    for (int64_t step = 0; step < s.n; ++step) {
      const int64_t i = up ? s.n - 1 - step : step;
      T* const row = s.b + i * s.b_stride;
      for (int64_t j = up ? i + 1 : 0; j < (up ? s.n : i); ++j) {
        const T factor = s.t[i * s.t_stride + j];
        const T* const other = s.b + j * s.b_stride;
        for (int64_t c = 0; c < s.k; ++c) row[c] -= factor * other[c];
      }
      if (is_unit(s.which)) continue;
      const T diagonal = s.t[i * s.t_stride + i];
      for (int64_t c = 0; c < s.k; ++c) row[c] /= diagonal;
    }
  }
};

template <class T> void solve_columns(const Block<T>& s) {
  if (s.n <= kFew) return IsaLoops<Substitute<T>, const Block<T>&>::at(isa())(s);
  const int64_t half = s.n / 2 / kFew * kFew + (s.n < 2 * kFew ? kFew : 0), rest = s.n - half;
  Block<T> first = s, second = s;
  first.n = half, second.n = rest;
  second.t += half * (s.t_stride + 1), second.b += half * s.b_stride;
  if (is_upper(s.which)) {
    solve_columns(second);
    gemm<T>(half, s.k, rest, T(-1), {s.t + half, s.t_stride, 1}, {second.b, s.b_stride, 1}, T(1),
            {first.b, s.b_stride, 1});
    solve_columns(first);
  } else {
    solve_columns(first);
    gemm<T>(rest, s.k, half, T(-1), {s.t + half * s.t_stride, s.t_stride, 1},
            {first.b, s.b_stride, 1}, T(1), {second.b, s.b_stride, 1});
    solve_columns(second);
  }
}

}  // namespace

template <class T>
void solve_triangular(Triangle which, int64_t n, int64_t k, const T* t, int64_t t_stride, T* b,
                      int64_t b_stride) {
  parallel_chunks((k + kColumns - 1) / kColumns, [&](int64_t chunk) {
    const int64_t first = chunk * kColumns;
    solve_columns<T>({which, n, std::min(kColumns, k - first), t, t_stride, b + first, b_stride});
  });
}

template <class T>
void solve_from_right(int64_t m, int64_t n, const T* l, int64_t l_stride, T* b, int64_t b_stride) {
  if (n > kFew) {
    const int64_t half = n / 2 / kFew * kFew + (n < 2 * kFew ? kFew : 0), rest = n - half;
    solve_from_right(m, half, l, l_stride, b, b_stride);
    gemm<T>(m, rest, half, T(-1), {b, b_stride, 1}, {l + half * l_stride, 1, l_stride}, T(1),
            {b + half, b_stride, 1});
    return solve_from_right(m, rest, l + half * (l_stride + 1), l_stride, b + half, b_stride);
  }
  // The few columns as rows, which are long and dense.
  const Scratch rows(m * n * static_cast<int64_t>(sizeof(T)));
  T* const x = rows.as<T>();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) x[j * m + i] = b[i * b_stride + j];
  solve_columns<T>({Triangle::Lower, n, m, l, l_stride, x, m});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) b[i * b_stride + j] = x[j * m + i];
}

#define PELLUCID_INSTANTIATE(T)                                                                  \
  template void solve_triangular<T>(Triangle, int64_t, int64_t, const T*, int64_t, T*, int64_t); \
  template void solve_from_right<T>(int64_t, int64_t, const T*, int64_t, T*, int64_t);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
