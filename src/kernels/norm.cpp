// Layer norm and root-mean-square norm: a row is read into cache once and gone over two or three
// times there. Batch and group norm are in norm_batch.cpp.
#include "kernels/norm.h"

#include <cmath>

#include "kernels/norm_sums.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kTaskElements = 16384;
int64_t rows_per_task(int64_t n) {
  return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, n));
}

/// What scales and shifts a row: x -> (x - mean) * rstd.
template <class T> struct Moments { T mean, rstd; };

template <class T>
[[gnu::always_inline]] inline Moments<T> moments(const T* x, int64_t n, double eps, bool centred) {
  const T mean =
      centred ? sum_lanes<T>(n, [=](int64_t i) { return x[i]; }) / static_cast<T>(n) : T(0);
  const T square =
      sum_lanes<T>(n, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / static_cast<T>(n);
  return {mean, T(1) / std::sqrt(square + static_cast<T>(eps))};
}

template <class T>
[[gnu::always_inline]] inline void apply(const T* x, Moments<T> m, const T* w, const T* b, T* y,
                                         int64_t n) {
  if (w && b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.rstd * w[i] + b[i];
  } else if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.rstd * w[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.rstd + (b ? b[i] : T(0));
  }
}

template <class T> void forward(const LayerNorm& l, bool centred, void* y, void* mean, void* rstd) {
  const Parameter<T> w(l.type, l.weight, l.n), b(l.type, l.bias, l.n);
  const T *weight = w.get(), *bias = b.get();
  parallel_for(0, l.rows, rows_per_task(l.n), [&](int64_t begin, int64_t end) {
    const RowBuffer<T> buffer(l.type, l.n, 2);
    for (int64_t r = begin; r < end; ++r) {
      const T* x = read_row<T>(l.type, l.x, r * l.n, l.n, buffer.run(0));
      T* out = open_row<T>(l.type, y, r * l.n, buffer.run(1));
      Moments<T> m{};
      at_isa([&, n = l.n, eps = l.eps](auto) {
        m = moments(x, n, eps, centred);
        apply(x, m, weight, bias, out, n);
      });
      if (mean) static_cast<T*>(mean)[r] = m.mean;
      if (rstd) static_cast<T*>(rstd)[r] = m.rstd;
      write_row<T>(l.type, y, r * l.n, l.n, out);
    }
  });
}

/// dx = rstd (g - mean(g) - xhat mean(g xhat)) with g(i) = dy weight; without mean(g) where x was
/// not centred.
template <class T, class G>
[[gnu::always_inline]] inline void row_gradient(const T* x, const G& g, Moments<T> m, T* dx,
                                                int64_t n, bool centred) {
  const T along = sum_mapped<T>(n, [=](int64_t i) { return g(i) * ((x[i] - m.mean) * m.rstd); }) /
                  static_cast<T>(n);
  const T average = centred ? sum_mapped<T>(n, g) / static_cast<T>(n) : T(0);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    dx[i] = m.rstd * (g(i) - average - (x[i] - m.mean) * m.rstd * along);
}

/// sums[0, n) += dy xhat and sums[n, 2n) += dy.
template <class T>
[[gnu::always_inline]] inline void add_parameter_gradients(const T* x, const T* dy, Moments<T> m,
                                                           T* sums, int64_t n) {
  T* scale = sums;
  T* shift = sums + n;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    scale[i] += dy[i] * ((x[i] - m.mean) * m.rstd);
    shift[i] += dy[i];
  }
}

template <class T>
void backward(const LayerNorm& l, bool centred, const void* dy, const void* mean, const void* rstd,
              void* dx, void* dweight, void* dbias) {
  const Parameter<T> weight(l.type, l.weight, l.n);
  const bool sums_wanted = dweight || dbias;
  ColumnSums<T> sums(l.rows, sums_wanted ? 2 * l.n : 0, rows_per_task(l.n));
  parallel_chunks(sums.parts(), [&](int64_t part) {
    const RowBuffer<T> buffer(l.type, l.n, 3);
    for (int64_t r = sums.begin(part); r < sums.end(part); ++r) {
      const T* x = read_row<T>(l.type, l.x, r * l.n, l.n, buffer.run(0));
      const T* g = read_row<T>(l.type, dy, r * l.n, l.n, buffer.run(1));
      T* out = dx ? open_row<T>(l.type, dx, r * l.n, buffer.run(2)) : nullptr;
      const Moments<T> m{mean ? static_cast<const T*>(mean)[r] : T(0),
                         static_cast<const T*>(rstd)[r]};
      at_isa([&, n = l.n, w = weight.get()](auto) {
        // First, because dx may be dy.
        if (sums_wanted) add_parameter_gradients(x, g, m, sums.of(part), n);
        if (out && w)
          row_gradient(
              x, [g, w](int64_t i) { return g[i] * w[i]; }, m, out, n, centred);
        else if (out)
          row_gradient(
              x, [g](int64_t i) { return g[i]; }, m, out, n, centred);
      });
      if (out) write_row<T>(l.type, dx, r * l.n, l.n, out);
    }
  });
  if (!sums_wanted) return;
  const T* total = sums.total();
  store_values(l.type, dweight, total, l.n);
  store_values(l.type, dbias, total + l.n, l.n);
}

}  // namespace

void layer_norm(const LayerNorm& l, void* y, void* mean, void* rstd) {
  visit_compute(l.type, [&](auto zero) { forward<decltype(zero)>(l, true, y, mean, rstd); });
}
void layer_norm_backward(const LayerNorm& l, const void* dy, const void* mean, const void* rstd,
                         void* dx, void* dweight, void* dbias) {
  visit_compute(l.type, [&](auto zero) {
    backward<decltype(zero)>(l, true, dy, mean, rstd, dx, dweight, dbias);
  });
}
void rms_norm(const LayerNorm& l, void* y, void* rstd) {
  LayerNorm plain = l;
  plain.bias = nullptr;
  visit_compute(l.type,
                [&](auto zero) { forward<decltype(zero)>(plain, false, y, nullptr, rstd); });
}
void rms_norm_backward(const LayerNorm& l, const void* dy, const void* rstd, void* dx,
                       void* dweight) {
  visit_compute(l.type, [&](auto zero) {
    backward<decltype(zero)>(l, false, dy, nullptr, rstd, dx, dweight, nullptr);
  });
}

}  // namespace pellucid::kernels
