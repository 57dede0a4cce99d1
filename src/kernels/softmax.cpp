// Rows are handled one at a time in cache: largest value, exponentials, scaling. A strided dim is
// handled a tile of columns at a time, in the same three passes, without a copy. Bits do not depend
// on threads.
#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/lane.h"
#include "kernels/math.h"
#include "kernels/reduce_lanes.h"
#include "kernels/reduce_rows.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kTaskElements = 16384;
constexpr int64_t kTile = 128;  // columns handled side by side

int64_t rows_per_task(int64_t row) {
  return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, row));
}

/// The larger as the instruction has it. A NaN may get lost, but it comes back with the sum of the
/// exponentials.
struct QuickMax {
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};

template <class T> [[gnu::always_inline]] inline T largest_of(const T* x, int64_t n) {
  return fold_lanes<T>(
      n, -std::numeric_limits<T>::infinity(), [=](int64_t i) { return x[i]; }, QuickMax{});
}

/// exp of a difference to the largest value, so that it cannot overflow; below the normal range it
/// is 0.
template <Isa I, class T> [[gnu::always_inline]] inline T exp_below(T x) {
  using V = Lane<T, I>;
  const T least = std::is_same_v<T, float> ? T(-87.3) : T(-708.3);
  const auto e = detail::reduce_exp(max(V(least), V(x)));
  const T value = ((V(1) + detail::expm1_poly(e.r)) * detail::pow2_shifted(e.shifted)).v;
  return x < least ? T(0) : value;
}

/// e[i] = exp(x[i] - shift); returns their sum, with the bits of sum_lanes. e may be x. Fetches
/// what lies `ahead` elements further, if that is not 0: the next row, which the machine's own
/// prefetching does not reach where rows are whole pages.
template <Isa I, class T>
[[gnu::always_inline]] inline T exponentials(const T* x, T shift, T* e, int64_t n,
                                             int64_t ahead = 0) {
  constexpr int64_t lanes = kLanes<T>;
  return sum_blocks<T>(n, [=](int64_t first, int64_t count) {
    const T* from = x + first;
    T* to = e + first;
    T acc[lanes] = {};
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      if (ahead != 0)
        for (int64_t line = 0; line < 4; ++line) {  // lanes are four cache lines
          __builtin_prefetch(from + i + ahead + line * lanes / 4);
          __builtin_prefetch(to + i + ahead + line * lanes / 4, 1);
        }
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) to[i + l] = exp_below<I>(from[i + l] - shift);
      for (int64_t l = 0; l < lanes; ++l) acc[l] += to[i + l];
    }
    for (int64_t l = 0; i + l < count; ++l) acc[l] += to[i + l] = exp_below<I>(from[i + l] - shift);
    for (int64_t width = lanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) acc[l] += acc[l + width];
    return acc[0];
  });
}

/// The sum of exp(x[i] - shift), without an array to keep them.
template <Isa I, class T>
[[gnu::always_inline]] inline T sum_of_exponentials(const T* x, T shift, int64_t n) {
  T sum = 0;
  for (int64_t first = 0; first < n; first += kFoldBlock) {
    T e[kFoldBlock];
    sum += exponentials<I>(x + first, shift, e, std::min(kFoldBlock, n - first));
  }
  return sum;
}

template <Isa I, class T>
[[gnu::always_inline]] inline void softmax_row(const T* x, T* y, int64_t n, bool log) {
  const T shift = largest_of(x, n);
  if (log) {
    const T sum = sum_of_exponentials<I>(x, shift, n), log_sum = std::log(sum);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - shift) - log_sum;
  } else {
    const T scale = T(1) / exponentials<I>(x, shift, y, n, n);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}

/// The sum of a[i] b[i], with the bits of sum_lanes.
template <class T>
[[gnu::always_inline]] inline T sum_of_products(const T* a, const T* b, int64_t n) {
  constexpr int64_t lanes = kLanes<T>;
  return sum_blocks<T>(n, [=](int64_t first, int64_t count) {
    T acc[lanes] = {};
    int64_t i = first;
    for (; i + lanes <= first + count; i += lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l) acc[l] += a[i + l] * b[i + l];
    }
    for (int64_t l = 0; i + l < first + count; ++l) acc[l] += a[i + l] * b[i + l];
    for (int64_t width = lanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) acc[l] += acc[l + width];
    return acc[0];
  });
}

template <Isa I, class T>
[[gnu::always_inline]] inline void backward_row(const T* dy, const T* y, T* dx, int64_t n,
                                                bool log) {
  if (log) {
    const T sum = sum_lanes<T>(n, [=](int64_t i) { return dy[i]; });
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - exp(Lane<T, I>(y[i])).v * sum;
  } else {
    const T sum = sum_of_products(dy, y, n);
    for (int64_t first = 0; first < n; first += kTile) {
      const int64_t end = std::min(n, first + kTile);
      for (int64_t i = first; i < end; i += 64 / static_cast<int64_t>(sizeof(T))) {
        __builtin_prefetch(dy + n + i);  // the next row, as in exponentials
        __builtin_prefetch(y + n + i);
      }
#pragma omp simd
      for (int64_t i = first; i < end; ++i) dx[i] = y[i] * (dy[i] - sum);
    }
  }
}

/// A [rows, width] tile whose rows are `pitch` apart; width <= kTile. Loops over rows are kept
/// apart from the vectorised loop over columns by the barrier, or g++ jams them together.
struct Tile {
  int64_t rows, width, pitch;
};
[[gnu::always_inline]] inline void next_row() { asm volatile("" ::: "memory"); }

template <Isa I, class T>
[[gnu::always_inline]] inline void softmax_tile(const T* x, T* y, Tile t, bool log) {
  T shift[kTile], sum[kTile];
  for (int64_t c = 0; c < t.width; ++c) shift[c] = -std::numeric_limits<T>::infinity(), sum[c] = 0;
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* row = x + r * t.pitch;
    next_row();
#pragma omp simd
    for (int64_t c = 0; c < t.width; ++c) shift[c] = QuickMax{}(shift[c], row[c]);
  }
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* row = x + r * t.pitch;
    T* out = y + r * t.pitch;
    next_row();
    if (log) {
#pragma omp simd
      for (int64_t c = 0; c < t.width; ++c) sum[c] += exp_below<I>(row[c] - shift[c]);
    } else {
#pragma omp simd
      for (int64_t c = 0; c < t.width; ++c) sum[c] += out[c] = exp_below<I>(row[c] - shift[c]);
    }
  }
  for (int64_t c = 0; c < t.width; ++c) sum[c] = log ? std::log(sum[c]) : T(1) / sum[c];
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* row = x + r * t.pitch;
    T* out = y + r * t.pitch;
    next_row();
    if (log) {
#pragma omp simd
      for (int64_t c = 0; c < t.width; ++c) out[c] = (row[c] - shift[c]) - sum[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < t.width; ++c) out[c] *= sum[c];
    }
  }
}

template <Isa I, class T>
[[gnu::always_inline]] inline void backward_tile(const T* dy, const T* y, T* dx, Tile t, bool log) {
  T sum[kTile];
  for (int64_t c = 0; c < t.width; ++c) sum[c] = 0;
  for (int64_t r = 0; r < t.rows; ++r) {
    const T *g = dy + r * t.pitch, *v = y + r * t.pitch;
    next_row();
#pragma omp simd
    for (int64_t c = 0; c < t.width; ++c) sum[c] += g[c] * (log ? T(1) : v[c]);
  }
  for (int64_t r = 0; r < t.rows; ++r) {
    const T *g = dy + r * t.pitch, *v = y + r * t.pitch;
    T* d = dx + r * t.pitch;
    next_row();
    if (log) {
#pragma omp simd
      for (int64_t c = 0; c < t.width; ++c) d[c] = g[c] - exp(Lane<T, I>(v[c])).v * sum[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < t.width; ++c) d[c] = v[c] * (g[c] - sum[c]);
    }
  }
}

/// Cuts a strided problem into tiles of columns. Calls run(inputs, output, tile); where values must
/// be converted, the tile is copied to a buffer of compute values first.
template <class T, int N, class Run>
void for_tiles(DType type, const void* const (&in)[N], void* out, SoftmaxShape s, const Run& run) {
  const int64_t tiles = (s.inner - 1) / kTile + 1, size = element_size(type);
  parallel_for(
      0, s.outer * tiles, rows_per_task(s.dim * std::min(s.inner, kTile)),
      [&](int64_t begin, int64_t end) {
        const RowBuffer<T> buffer(type, s.dim * kTile, N + 1);
        for (int64_t t = begin; t < end; ++t) {
          const int64_t first = t % tiles * kTile, width = std::min(kTile, s.inner - first);
          const int64_t offset = t / tiles * s.dim * s.inner + first;
          const T* from[N];
          if (type == dtype_of<T>) {
            for (int i = 0; i < N; ++i) from[i] = static_cast<const T*>(in[i]) + offset;
            run(from, static_cast<T*>(out) + offset, Tile{s.dim, width, s.inner});
            continue;
          }
          for (int i = 0; i < N; ++i) {
            from[i] = buffer.run(i);
            for (int64_t r = 0; r < s.dim; ++r)
              convert(type, static_cast<const std::byte*>(in[i]) + (offset + r * s.inner) * size, 1,
                      dtype_of<T>, buffer.run(i) + r * kTile, 1, width);
          }
          run(from, buffer.run(N), Tile{s.dim, width, kTile});
          for (int64_t r = 0; r < s.dim; ++r)
            write_row(type, out, offset + r * s.inner, width, buffer.run(N) + r * kTile);
        }
      });
}

/// Calls run(inputs, output) for each contiguous row of n values.
template <class T, int N, class Run>
void for_rows(DType type, const void* const (&in)[N], void* out, int64_t rows, int64_t n,
              const Run& run) {
  parallel_for(0, rows, rows_per_task(n), [&](int64_t begin, int64_t end) {
    const RowBuffer<T> buffer(type, n, N + 1);
    for (int64_t r = begin; r < end; ++r) {
      const T* from[N];
      for (int i = 0; i < N; ++i) from[i] = read_row<T>(type, in[i], r * n, n, buffer.run(i));
      run(from, open_row<T>(type, out, r * n, buffer.run(N)));
      write_row<T>(type, out, r * n, n, buffer.run(N));
    }
  });
}

template <class T> struct Weights {
  Weights(const CrossEntropy& c) : buffer(c.type, c.classes, 1) {
    if (c.weight) w = read_row<T>(c.type, c.weight, 0, c.classes, buffer.run(0));
    total =
        w ? sum_lanes<T>(c.classes, [&](int64_t i) { return w[i]; }) : static_cast<T>(c.classes);
  }
  RowBuffer<T> buffer;
  const T* w = nullptr;
  T total;
  T operator[](int64_t i) const { return w ? w[i] : T(1); }
};

template <class T> void store_one(DType type, void* base, int64_t at, T value) {
  convert(dtype_of<T>, &value, 1, type, static_cast<std::byte*>(base) + at * element_size(type), 1,
          1);
}

}  // namespace

void softmax(DType type, const void* x, void* y, SoftmaxShape s, bool log) {
  if (s.outer == 0 || s.dim == 0 || s.inner == 0) return;
  visit_compute(type, [&](auto zero) {
    using T = decltype(zero);
    if (s.inner == 1)
      for_rows<T, 1>(type, {x}, y, s.outer, s.dim, [&](const T* const* from, T* to) {
        at_isa([&](auto level) { softmax_row<level>(from[0], to, s.dim, log); });
      });
    else
      for_tiles<T, 1>(type, {x}, y, s, [&](const T* const* from, T* to, Tile t) {
        at_isa([&](auto level) { softmax_tile<level>(from[0], to, t, log); });
      });
  });
}

void softmax_backward(DType type, const void* dy, const void* y, void* dx, SoftmaxShape s,
                      bool log) {
  if (s.outer == 0 || s.dim == 0 || s.inner == 0) return;
  visit_compute(type, [&](auto zero) {
    using T = decltype(zero);
    if (s.inner == 1)
      for_rows<T, 2>(type, {dy, y}, dx, s.outer, s.dim, [&](const T* const* from, T* to) {
        at_isa([&](auto level) { backward_row<level>(from[0], from[1], to, s.dim, log); });
      });
    else
      for_tiles<T, 2>(type, {dy, y}, dx, s, [&](const T* const* from, T* to, Tile t) {
        at_isa([&](auto level) { backward_tile<level>(from[0], from[1], to, t, log); });
      });
  });
}

int64_t first_bad_target(const CrossEntropy& c) {
  for (int64_t r = 0; r < c.rows; ++r)
    if (c.target[r] != c.ignore_index && (c.target[r] < 0 || c.target[r] >= c.classes)) return r;
  return -1;
}

void cross_entropy(const CrossEntropy& c, void* loss, void* logsumexp, void* row_weight) {
  visit_compute(c.type, [&](auto zero) {
    using T = decltype(zero);
    const Weights<T> weights(c);
    const T smoothing = static_cast<T>(c.label_smoothing),
            share = smoothing / static_cast<T>(c.classes);
    parallel_for(0, c.rows, rows_per_task(c.classes), [&](int64_t begin, int64_t end) {
      const RowBuffer<T> buffer(c.type, c.classes, 1);
      for (int64_t r = begin; r < end; ++r) {
        const T* x = read_row<T>(c.type, c.logits, r * c.classes, c.classes, buffer.run(0));
        T log_sum = 0, weighted = 0;
        at_isa([&, n = c.classes](auto level) {
          const T largest = largest_of(x, n), shift = std::isinf(largest) ? T(0) : largest;
          log_sum = std::log(sum_of_exponentials<level>(x, shift, n)) + shift;
          if (smoothing == 0) return;
          const T* w = weights.w;
          weighted = w ? sum_mapped<T>(n, [=](int64_t i) { return w[i] * x[i]; })
                       : sum_lanes<T>(n, [=](int64_t i) { return x[i]; });
        });
        static_cast<T*>(logsumexp)[r] = log_sum;
        const bool used = c.target[r] != c.ignore_index;
        const T w = used ? weights[c.target[r]] : T(0);
        static_cast<T*>(row_weight)[r] = w;
        T value = 0;
        if (used) value = (T(1) - smoothing) * w * (log_sum - x[c.target[r]]);
        if (used && smoothing != 0) value += share * (weights.total * log_sum - weighted);
        store_one(c.type, loss, r, value);
      }
    });
  });
}

void cross_entropy_backward(const CrossEntropy& c, const void* logsumexp, const void* dloss,
                            void* dlogits) {
  visit_compute(c.type, [&](auto zero) {
    using T = decltype(zero);
    const Weights<T> weights(c);
    const T smoothing = static_cast<T>(c.label_smoothing),
            share = smoothing / static_cast<T>(c.classes);
    parallel_for(0, c.rows, rows_per_task(c.classes), [&](int64_t begin, int64_t end) {
      const RowBuffer<T> buffer(c.type, c.classes, 2);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t n = c.classes, at = r * n;
        T* out = open_row<T>(c.type, dlogits, at, buffer.run(1));
        T g_buffer;
        const T g = *read_row<T>(c.type, dloss, r, 1, &g_buffer);
        if (c.target[r] == c.ignore_index) {
          std::fill_n(out, n, T(0));
        } else {
          const T* x = read_row<T>(c.type, c.logits, at, n, buffer.run(0));
          const T hit = (T(1) - smoothing) * weights[c.target[r]] *
                        g;  // what softmax and one-hot are scaled by
          const T scale = hit + share * weights.total * g, spread = share * g,
                  log_sum = static_cast<const T*>(logsumexp)[r];
          at_isa([=, w = weights.w](auto level) {
            if (w) {
#pragma omp simd
              for (int64_t i = 0; i < n; ++i)
                out[i] = scale * exp(Lane<T, level>(x[i] - log_sum)).v - spread * w[i];
            } else {
#pragma omp simd
              for (int64_t i = 0; i < n; ++i)
                out[i] = scale * exp(Lane<T, level>(x[i] - log_sum)).v - spread;
            }
          });
          out[c.target[r]] -= hit;
        }
        write_row<T>(c.type, dlogits, at, n, out);
      }
    });
  });
}

}  // namespace pellucid::kernels
