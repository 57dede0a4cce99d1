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

constexpr int64_t kFetchBlock = 128;
/// Fetches n elements from p on: the next row, which the machine's own prefetching does not reach
/// where rows are whole pages.
template <class T> [[gnu::always_inline]] inline void fetch(const T* p, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(p + i);
}

template <class T>
[[gnu::always_inline]] inline void apply(const T* x, Moments<T> m, const T* w, const T* b, T* y,
                                         int64_t n) {
  if (w && b) {
    for (int64_t first = 0; first < n; first += kFetchBlock) {
      const int64_t end = std::min(n, first + kFetchBlock);
      fetch(x + n + first, end - first);
#pragma omp simd
      for (int64_t i = first; i < end; ++i) y[i] = (x[i] - m.mean) * m.rstd * w[i] + b[i];
    }
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

/// Two sums over a row that are taken together: of g xhat and of g.
template <class T> struct RowSums {
  T along, all;
  RowSums() = default;
  RowSums(T a, T b) : along(a), all(b) {}
  explicit RowSums(int) : along(0), all(0) {}
  friend RowSums operator+(RowSums a, RowSums b) { return {a.along + b.along, a.all + b.all}; }
};

/// The sums of g = dy w (w may be null), each in half of sum_lanes' lanes, so that both stay in
/// registers. On the way, unless `scale` is null, scale += dy xhat and shift += dy.
template <bool kWeight, bool kParameters, class T>
[[gnu::always_inline]] inline RowSums<T> row_sums(const T* x, const T* dy, const T* w, Moments<T> m,
                                                  T* scale, T* shift, int64_t n) {
  constexpr int64_t lanes = kLanes<T> / 2;
  return sum_blocks<RowSums<T>>(n, [=](int64_t first, int64_t count) {
    T along[lanes] = {}, all[lanes] = {};
    const auto add = [&](int64_t i, int64_t l) __attribute__((always_inline)) {
      const T xhat = (x[i] - m.mean) * m.rstd, d = dy[i], g = kWeight ? d * w[i] : d;
      along[l] += g * xhat;
      all[l] += g;
      if constexpr (kParameters) {
        scale[i] += d * xhat;
        shift[i] += d;
      }
    };
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) add(first + i + l, l);
    }
    for (int64_t l = 0; i + l < count; ++l) add(first + i + l, l);
    for (int64_t width = lanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) along[l] += along[l + width], all[l] += all[l + width];
    return RowSums<T>(along[0], all[0]);
  });
}

/// dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy w; without mean(g) where x was not
/// centred.
template <bool kWeight, class T>
[[gnu::always_inline]] inline void row_gradient(const T* x, const T* dy, const T* w, Moments<T> m,
                                                RowSums<T> sums, bool centred, T* dx, int64_t n) {
  const T along = sums.along / static_cast<T>(n),
          average = centred ? sums.all / static_cast<T>(n) : T(0);
  for (int64_t first = 0; first < n; first += kFetchBlock) {
    const int64_t end = std::min(n, first + kFetchBlock);
    fetch(x + n + first, end - first);
    fetch(dy + n + first, end - first);
#pragma omp simd
    for (int64_t i = first; i < end; ++i) {
      const T g = kWeight ? dy[i] * w[i] : dy[i];
      dx[i] = m.rstd * (g - average - (x[i] - m.mean) * m.rstd * along);
    }
  }
}

/// One row of backward; dx may be dy, or null, as may w and scale.
template <class T>
[[gnu::always_inline]] inline void backward_row(const T* x, const T* dy, const T* w, Moments<T> m,
                                                T* scale, T* shift, bool centred, T* dx,
                                                int64_t n) {
  const RowSums<T> sums = w       ? scale ? row_sums<true, true>(x, dy, w, m, scale, shift, n)
                                          : row_sums<true, false>(x, dy, w, m, scale, shift, n)
                                : scale ? row_sums<false, true>(x, dy, w, m, scale, shift, n)
                                  : row_sums<false, false>(x, dy, w, m, scale, shift, n);
  if (dx && w)
    row_gradient<true>(x, dy, w, m, sums, centred, dx, n);
  else if (dx)
    row_gradient<false>(x, dy, w, m, sums, centred, dx, n);
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
        T* const scale = sums_wanted ? sums.of(part) : nullptr;
        backward_row(x, g, w, m, scale, scale ? scale + n : nullptr, centred, out, n);
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
