// Rows are taken four at a time. One thread: a reflection's pass over the matrix is so short that a
// team which meets after each of them loses more, where other programs run, than it wins.
#include "kernels/condense.h"

#include <algorithm>

#include "kernels/isa.h"
#include "kernels/reflections.h"
#include "kernels/wide.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kRows = 4;  // that are updated together

/// a -= left below^T + more beside^T for four rows of a and all columns from `first` on, and then
/// either the rows' products with x, or the sum of rows times x's entries.
template <class T> struct Pass {
  T* a;
  int64_t stride, first;                  // in lines of 64 bytes
  const T *left, *below, *more, *beside;  // null: there is no update
  const T* x;
};

template <class T, Isa I> struct Rows {
  using V = Wide<T, I>;
  static constexpr int64_t kVectors = kLine<T> / kWide<T, I>;

  /// `line` at j less the update there, which it keeps.
  template <bool kUpdate>
  __attribute__((always_inline)) static void update(const Pass<T>& p, V& line, int64_t j, T left,
                                                    T more) {
    if constexpr (kUpdate)
      line -= left * reinterpret_cast<const V*>(p.below)[j] +
              more * reinterpret_cast<const V*>(p.beside)[j];
  }

  /// y[i] = a[i] x for rows [row, row + kRows).
  template <bool kUpdate>
  __attribute__((always_inline)) static void multiply(const Pass<T>& p, int64_t row, T* y) {
    V sums[kRows] = {};
    V* lines[kRows];
    T left[kRows] = {}, more[kRows] = {};
    for (int64_t r = 0; r < kRows; ++r) {
      lines[r] = reinterpret_cast<V*>(p.a) + (row + r) * p.stride * kVectors;
      if (kUpdate) left[r] = p.left[row + r], more[r] = p.more[row + r];
    }
    const V* const x = reinterpret_cast<const V*>(p.x);
    for (int64_t j = p.first * kVectors; j < p.stride * kVectors; ++j)
      for (int64_t r = 0; r < kRows; ++r) {
        update<kUpdate>(p, lines[r][j], j, left[r], more[r]);
        sums[r] += lines[r][j] * x[j];
      }
    for (int64_t r = 0; r < kRows; ++r) {
      T sum = 0;
      for (int64_t lane = 0; lane < kWide<T, I>; ++lane) sum += sums[r][lane];
      y[row + r] = sum;
    }
  }

  /// y += the sum of x[i] a[i] over rows [row, row + kRows).
  template <bool kUpdate>
  __attribute__((always_inline)) static void gather(const Pass<T>& p, int64_t row, T* y) {
    V* lines[kRows];
    T left[kRows] = {}, more[kRows] = {}, factor[kRows];
    for (int64_t r = 0; r < kRows; ++r) {
      lines[r] = reinterpret_cast<V*>(p.a) + (row + r) * p.stride * kVectors;
      factor[r] = p.x[row + r];
      if (kUpdate) left[r] = p.left[row + r], more[r] = p.more[row + r];
    }
    V* const sums = reinterpret_cast<V*>(y);
    for (int64_t j = p.first * kVectors; j < p.stride * kVectors; ++j) {
      V sum = sums[j];
      for (int64_t r = 0; r < kRows; ++r) {
        update<kUpdate>(p, lines[r][j], j, left[r], more[r]);
        sum += factor[r] * lines[r][j];
      }
      sums[j] = sum;
    }
  }
};

template <class T> struct MultiplyRows {
  template <Isa I>
  __attribute__((always_inline)) static void run(const Pass<T>& p, int64_t first, int64_t last,
                                                 T* y) {
    if (p.left != nullptr)
      for (int64_t row = first; row < last; row += kRows)
        Rows<T, I>::template multiply<true>(p, row, y);
    else
      for (int64_t row = first; row < last; row += kRows)
        Rows<T, I>::template multiply<false>(p, row, y);
  }
};

template <class T> struct GatherRows {
  template <Isa I>
  __attribute__((always_inline)) static void run(const Pass<T>& p, int64_t first, int64_t last,
                                                 T* y) {
    if (p.left != nullptr)
      for (int64_t row = first; row < last; row += kRows)
        Rows<T, I>::template gather<true>(p, row, y);
    else
      for (int64_t row = first; row < last; row += kRows)
        Rows<T, I>::template gather<false>(p, row, y);
  }
};

/// The first of the rows that are taken together with `row`.
int64_t first_row(int64_t row) { return row / kRows * kRows; }

}  // namespace

template <class T> PaddedSize padded_size(int64_t n) {
  const int64_t rows = first_row(n + kRows - 1);
  int64_t stride = padded<T>(std::max(n, rows));
  // Rows whose distance has so many factors of two share a few lines of a cache.
  if (stride % (8 * kLine<T>) == 0) stride += kLine<T>;
  return {rows, stride};
}

template <class T> int64_t condense_scratch(int64_t n) { return 3 * padded_size<T>(n).stride; }

template <class T>
void condense_symmetric(int64_t n, T* a, T* v, T* tau, double* diagonal, double* beside,
                        T* scratch) {
  const PaddedSize size = padded_size<T>(n);
  const int64_t rows = size.rows, stride = size.stride;
  T* const y = scratch;
  T* const w = y + stride;
  std::fill_n(scratch, 2 * stride, T(0));
  std::fill_n(v, rows * stride, T(0));
  const auto multiply = IsaLoops<MultiplyRows<T>, const Pass<T>&, int64_t, int64_t, T*>::at(isa());

  const auto line = [&](int64_t k) { return k < 0 ? nullptr : v + k * stride; };

  const auto begin_step = [&](int64_t k) {  // row k as the last step leaves it, and its reflection
    T* const row = a + k * stride;
    const T* const last = line(k - 1);
    if (k > 0)
      for (int64_t j = k; j < n; ++j) row[j] -= last[k] * w[j] + w[k] * last[j];
    diagonal[k] = static_cast<double>(row[k]);
    if (k + 1 == n) return;
    T* const next = line(k);
    std::copy(row + k + 1, row + n, next + k + 1);
    const auto [beta, of_it] = make_reflection(n - k - 1, next + k + 1);
    beside[k] = static_cast<double>(beta);
    tau[k] = of_it;
  };
  const auto end_step = [&](int64_t k) {  // w = tau y - tau / 2 (tau y . v) v
    const T* const x = line(k);
    double dot = 0;
    for (int64_t j = k + 1; j < n; ++j)
      dot += static_cast<double>(y[j]) * static_cast<double>(x[j]);
    const T half =
        static_cast<T>(0.5 * static_cast<double>(tau[k]) * static_cast<double>(tau[k]) * dot);
    for (int64_t j = k + 1; j < n; ++j) w[j] = tau[k] * y[j] - half * x[j];
    w[k] = T(0);
  };

  for (int64_t k = 0; k < n; ++k) {
    begin_step(k);
    if (k + 1 == n) return;
    const T* const last = line(k - 1);
    multiply({a, stride / kLine<T>, (k + 1) / kLine<T>, last, w, w, last, line(k)},
             first_row(k + 1), rows, y);
    end_step(k);
  }
}

template <class T>
void condense_square(int64_t n, T* a, T* q, T* q_tau, T* p, T* p_tau, double* diagonal,
                     double* above, T* scratch) {
  const PaddedSize size = padded_size<T>(n);
  const int64_t rows = size.rows, stride = size.stride;
  T* const x = scratch;        // a p
  T* const y = x + stride;     // q^T a
  T* const sums = y + stride;  // the next y
  std::fill_n(scratch, 2 * stride, T(0));
  std::fill_n(q, rows * stride, T(0));
  std::fill_n(p, rows * stride, T(0));
  const auto multiply = IsaLoops<MultiplyRows<T>, const Pass<T>&, int64_t, int64_t, T*>::at(isa());
  const auto gather = IsaLoops<GatherRows<T>, const Pass<T>&, int64_t, int64_t, T*>::at(isa());
  const auto line = [&](T* m, int64_t k) { return k < 0 ? nullptr : m + k * stride; };

  const auto take_column = [&](int64_t k) {
    T* const to = line(q, k);
    const T *const left = line(q, k - 1), *const beside = line(p, k - 1);
    for (int64_t i = k; i < n; ++i) {
      to[i] = a[i * stride + k];
      if (k > 0) to[i] -= left[i] * y[k] + x[i] * beside[k];
    }
    const auto [beta, tau] = make_reflection(n - k, to + k);
    diagonal[k] = static_cast<double>(beta);
    q_tau[k] = tau;
  };
  double dot = 0;
  const auto take_row = [&](int64_t k) {  // after the column's reflection
    const T tau = q_tau[k];
    T* const to = line(p, k);
    std::fill_n(y, k + 1, T(0));
    for (int64_t j = k + 1; j < n; ++j) {
      y[j] = tau * sums[j];
      to[j] = a[k * stride + j] - y[j];
    }
    const auto [beta, of_it] = make_reflection(n - k - 1, to + k + 1);
    above[k] = static_cast<double>(beta);
    p_tau[k] = of_it;
    dot = 0;
    for (int64_t j = k + 1; j < n; ++j)
      dot += static_cast<double>(y[j]) * static_cast<double>(to[j]);
  };
  const auto end_step = [&](int64_t k) {
    const T tau = p_tau[k], less = tau * static_cast<T>(dot);
    const T* const left = line(q, k);
    std::fill(x + first_row(k), x + k + 1, T(0));
    for (int64_t i = k + 1; i < n; ++i) x[i] = tau * x[i] - less * left[i];
  };

  const int64_t width = stride / kLine<T>;
  for (int64_t k = 0; k < n; ++k) {
    take_column(k);
    if (k + 1 == n) return;
    const int64_t first = (k + 1) / kLine<T>;
    std::fill_n(sums, stride, T(0));
    gather({a, width, first, line(q, k - 1), y, x, line(p, k - 1), line(q, k)}, first_row(k), rows,
           sums);
    take_row(k);
    multiply({a, width, first, nullptr, nullptr, nullptr, nullptr, line(p, k)}, first_row(k), rows,
             x);
    end_step(k);
  }
}

#define PELLUCID_INSTANTIATE(T)                                                   \
  template PaddedSize padded_size<T>(int64_t);                                    \
  template int64_t condense_scratch<T>(int64_t);                                  \
  template void condense_symmetric<T>(int64_t, T*, T*, T*, double*, double*, T*); \
  template void condense_square<T>(int64_t, T*, T*, T*, T*, T*, double*, double*, T*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
