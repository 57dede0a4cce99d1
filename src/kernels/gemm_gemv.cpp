// Matrix times vector, and dot. Sums run in a fixed number of lanes over fixed parts of k, and the
// parts are added in order, so the bits depend neither on the threads nor on the ISA level.
#include "kernels/gemm_gemv.h"

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/gemm_scratch.h"
#include "kernels/isa.h"
#include "kernels/lane_halves.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kPart = 8192;       // elements of a dot product that one chunk sums
constexpr int64_t kParallel = 32768;  // matrix elements from which a second thread pays
constexpr int64_t kStreamed = 65536;  // elements from which several streams pay
constexpr int kLanes = 64;

// How far ahead of its use a matrix is asked for: 4 kB, over the end of a page, where the processor
// itself stops looking ahead. Into L2: the few places for lines on their way to L1 are left to
// loads.
template <class T> constexpr int64_t kAhead = static_cast<int64_t>(4096 / sizeof(T));

/// Asks for the next kLanes elements at `p`, which may lie past the end of the matrix.
template <class T> [[gnu::always_inline]] inline void prefetch(const T* p) {
#pragma GCC unroll 8
  for (size_t line = 0; line < kLanes * sizeof(T); line += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(p) + line, 0, 2);
}

/// sum[l] = the sum of a[i] b[i] over i that are l modulo kLanes. Meanwhile asks for ahead[i].
template <class T>
[[gnu::always_inline]] inline void sum_products(const T* a, const T* b, int64_t n, T* sum,
                                                const T* ahead) {
  for (int l = 0; l < kLanes; ++l) sum[l] = T(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    prefetch(ahead + i);
    for (int l = 0; l < kLanes; ++l) sum[l] += a[i + l] * b[i + l];
  }
  for (int l = 0; i < n; ++i, ++l) sum[l] += a[i] * b[i];
}

/// *out = sum of a[i] b[i].
template <class T> struct DotLoop {
  template <Isa level>
  [[gnu::always_inline]] static void run(const T* a, const T* b, int64_t n, T* out) {
    T sum[kLanes];
    sum_products(a, b, n, sum, a + kAhead<T>);
    *out = sum_halves<kLanes / 2>(sum);
  }
};

template <class T> [[gnu::always_inline]] inline void store(T alpha, T sum, T beta, T* y) {
  *y = beta == T(0) ? alpha * sum : alpha * sum + beta * *y;
}

constexpr int kStreams = 4;

/// Whether rows are read in several streams; so much of T alone, and of no other level.
template <class T> bool streams(int64_t rows, int64_t k) {
  return std::is_same_v<T, float> && rows * k >= kStreamed && k % kLanes == 0;
}

/// What the ends of the rows ask for: `data`, or with streams `data + s * step` for stream s; null
/// for what lies behind them.
template <class T> struct Ahead {
  const T* data;
  int64_t step;
};

#ifndef PELLUCID_ONE_ISA

// g++ 12 takes the "undefined" operand of its own intrinsics for an uninitialised variable.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

/// Four rows at a time, of which each is a stream of its own to the processor's look-ahead: they
/// lie a part of the matrix apart, rows s * part + i for i < part. What is known of them stays in
/// registers until it is stored, so that nothing keeps the next loads waiting. With the bits of
/// DotLoop; k is a multiple of kLanes.
[[gnu::target("arch=x86-64-v4"), gnu::noinline]] void sum_streams_v4(
    int64_t part, const float* a, int64_t lda, const float* x, int64_t k, float alpha, float beta,
    float* y, int64_t y_stride, Ahead<float> next) {
  const int64_t stream = part * lda;
  for (int64_t i = 0; i < part; ++i) {
    __m512 total[kStreams][4];
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) total[s][v] = _mm512_setzero_ps();
    for (int64_t c = 0; c < k; c += kLanes) {
      const int64_t far = i * lda + c + kAhead<float>;
      const Ahead<float> ahead = far < stream ? Ahead<float>{a + far, stream}
                                              : Ahead<float>{next.data + far - stream, next.step};
#pragma GCC unroll 4
      for (int s = 0; s < kStreams; ++s)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const float* const at = a + s * stream + i * lda + c + 16 * v;
          _mm_prefetch(ahead.data + s * ahead.step + 16 * v, _MM_HINT_T1);
          total[s][v] = total[s][v] + _mm512_loadu_ps(at) * _mm512_loadu_ps(x + c + 16 * v);
        }
    }
    __m512 lanes[kStreams];
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s)
      lanes[s] = (total[s][0] + total[s][2]) + (total[s][1] + total[s][3]);
    // Halves are added to halves, two rows in a vector, then four.
    const __m512 first = _mm512_shuffle_f32x4(lanes[0], lanes[1], 0x44) +
                         _mm512_shuffle_f32x4(lanes[0], lanes[1], 0xee),
                 second = _mm512_shuffle_f32x4(lanes[2], lanes[3], 0x44) +
                          _mm512_shuffle_f32x4(lanes[2], lanes[3], 0xee);
    __m512 sum =
        _mm512_shuffle_f32x4(first, second, 0x88) + _mm512_shuffle_f32x4(first, second, 0xdd);
    sum = sum + _mm512_permute_ps(sum, 0x4e);
    sum = sum + _mm512_permute_ps(sum, 0xb1);
    float sums[16];
    _mm512_storeu_ps(sums, sum);
    for (int s = 0; s < kStreams; ++s)
      store(alpha, sums[4 * s], beta, y + (s * part + i) * y_stride);
  }
}

#endif

/// y[i] = alpha (row i of a) x + beta y[i], with the bits of DotLoop. The last lanes of many rows
/// are added up together: one row alone would wait for each step, which short rows feel.
template <class T> struct RowsLoop {
  static constexpr int kRows = 16, kLast = 16;

  template <int Width> [[gnu::always_inline]] static void add_halves(T (*last)[kLast]) {
    for (int r = 0; r < kRows; ++r)
      for (int l = 0; l < Width; ++l) last[r][l] += last[r][l + Width];
    if constexpr (Width > 1) add_halves<Width / 2>(last);
  }

  template <Isa level>
  [[gnu::always_inline]] static void run(int64_t rows, const T* a, int64_t lda, const T* x,
                                         int64_t k, T alpha, T beta, T* y, int64_t y_stride,
                                         [[maybe_unused]] Ahead<T> next) {
    T last[kRows][kLast] = {};
    int64_t done = 0;
#ifndef PELLUCID_ONE_ISA
    if constexpr (level == Isa::V4 && std::is_same_v<T, float>) {
      if (streams<T>(rows, k)) {
        const int64_t part = rows / kStreams;
        if (next.data == nullptr) next = {a + part * lda, part * lda};
        sum_streams_v4(part, a, lda, x, k, alpha, beta, y, y_stride, next);
        done = part * kStreams;
      }
    }
#endif
    for (int64_t i = done; i < rows; i += kRows) {
      const int64_t count = std::min<int64_t>(kRows, rows - i);
      for (int64_t r = 0; r < count; ++r) {
        T sum[kLanes];
        const T* const row = a + (i + r) * lda;
        const int64_t left = (rows - i - r) * lda - kAhead<T>;  // from what is asked for to the end
        sum_products(row, x, k, sum,
                     left > 0 || next.data == nullptr ? row + kAhead<T> : next.data - left);
        for (int l = 0; l < 32; ++l) sum[l] += sum[l + 32];
        for (int l = 0; l < kLast; ++l) last[r][l] = sum[l] + sum[l + kLast];
      }
      add_halves<kLast / 2>(last);
      for (int64_t r = 0; r < count; ++r) store(alpha, last[r][0], beta, y + (i + r) * y_stride);
    }
  }
};
static_assert(kLanes == 64);

/// y[i] += sum over 4 columns of x[c] columns[c][i]; missing columns come with x = 0 and a valid
/// pointer. The last columns ask for those at `next`, if it is not null.
template <class T> struct AxpyLoop {
  template <Isa level>
  [[gnu::always_inline]] static void run(const T* a, int64_t stride, const T* x, int64_t columns,
                                         T* y, int64_t n, const T* next) {
    const int64_t far = std::max<int64_t>(4, kAhead<T> / n);  // columns
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const T *a0 = a + c * stride, *a1 = a0 + stride, *a2 = a1 + stride, *a3 = a2 + stride;
      const T x0 = x[c], x1 = x[c + 1], x2 = x[c + 2], x3 = x[c + 3];
      const T* const ahead = c + far < columns || next == nullptr
                                 ? a0 + far * stride
                                 : next + (c + far - columns) * stride;
      int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) {
        for (int64_t column = 0; column < 4; ++column) prefetch(ahead + column * stride + i);
#pragma GCC ivdep
        for (int64_t l = i; l < i + kLanes; ++l)
          y[l] += (a0[l] * x0 + a1[l] * x1) + (a2[l] * x2 + a3[l] * x3);
      }
      for (; i < n; ++i) y[i] += (a0[i] * x0 + a1[i] * x1) + (a2[i] * x2 + a3[i] * x3);
    }
    for (; c < columns; ++c) {
      const T *a0 = a + c * stride, x0 = x[c];
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) y[i] += a0[i] * x0;
    }
  }
};

template <class T> T dot_contiguous(const T* a, const T* b, int64_t n) {
  const auto loop = IsaLoops<DotLoop<T>, const T*, const T*, int64_t, T*>::at(isa());
  if (n <= kPart) {
    T sum;
    loop(a, b, n, &sum);
    return sum;
  }
  const int64_t parts = (n + kPart - 1) / kPart;
  const Scratch partial(parts * static_cast<int64_t>(sizeof(T)));
  parallel_for(0, parts, kParallel / kPart, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p)
      loop(a + p * kPart, b + p * kPart, std::min(kPart, n - p * kPart), partial.as<T>() + p);
  });
  T sum = partial.as<T>()[0];
  for (int64_t p = 1; p < parts; ++p) sum += partial.as<T>()[p];
  return sum;
}

template <class T>
using RowsEntry = IsaLoops<RowsLoop<T>, int64_t, const T*, int64_t, const T*, int64_t, T, T, T*,
                           int64_t, Ahead<T>>;

/// Rows in memory: a dot product each.
template <class T>
void gemv_rows(int64_t m, int64_t k, T alpha, const T* a, int64_t lda, const T* x, T beta, T* y,
               int64_t y_stride, const T* then) {
  if (k > 8 * kPart && m < 64) {  // few long rows: the threads share each
    for (int64_t i = 0; i < m; ++i)
      store(alpha, dot_contiguous(a + i * lda, x, k), beta, y + i * y_stride);
    return;
  }
  const auto loop = RowsEntry<T>::at(isa());
  // Small grains, once a second thread pays at all: two threads get equal shares of 768 rows.
  const int64_t grain = m * k <= kParallel ? m : std::max<int64_t>(1, kParallel / k / 8);
  parallel_for(0, m, grain, [&](int64_t i0, int64_t i1) {
    loop(i1 - i0, a + i0 * lda, lda, x, k, alpha, beta, y + i0 * y_stride, y_stride,
         Ahead<T>{i1 == m ? then : nullptr, kAhead<T>});
  });
}

/// Columns in memory: a weighted sum of columns, over fixed parts of k and of m.
template <class T>
void gemv_columns(int64_t m, int64_t k, T alpha, const T* a, int64_t lda, const T* x, T beta, T* y,
                  int64_t y_stride, const T* then) {
  // Of y at most: they stay in L1, and are enough to hide the change of column.
  constexpr int64_t kRows = 2048;
  const auto loop =
      IsaLoops<AxpyLoop<T>, const T*, int64_t, const T*, int64_t, T*, int64_t, const T*>::at(isa());
  const auto round_up = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
  const int64_t least_blocks = (m + kRows - 1) / kRows;
  const int64_t block = round_up((m + least_blocks - 1) / least_blocks, 64);  // of equal size
  const int64_t blocks = (m + block - 1) / block;
  // Enough parts for 8 threads, but each of at least 16384 elements; a multiple of the 4 columns at
  // a time.
  const int64_t least = std::max<int64_t>(64, 16384 / std::min(m, block));
  const int64_t wanted = std::max<int64_t>(1, 8 / blocks);
  const int64_t part = round_up(std::max(least, (k + wanted - 1) / wanted), 4);
  const int64_t parts = (k + part - 1) / part;
  const Scratch sums(parts * m * static_cast<int64_t>(sizeof(T)));
  const int64_t grain = std::max<int64_t>(1, kParallel / (part * std::min(m, block)));
  parallel_for(0, blocks * parts, grain, [&](int64_t t0, int64_t t1) {
    for (int64_t t = t0; t < t1; ++t) {
      const int64_t row = t / parts * block, column = t % parts * part;
      const int64_t rows = std::min(block, m - row);
      T* const sum = sums.as<T>() + t % parts * m + row;
      std::fill_n(sum, rows, T(0));
      loop(a + column * lda + row, lda, x + column, std::min(part, k - column), sum, rows,
           t + 1 == blocks * parts ? then : nullptr);
    }
  });
  for (int64_t i = 0; i < m; ++i) {
    T sum = sums.as<T>()[i];
    for (int64_t p = 1; p < parts; ++p) sum += sums.as<T>()[p * m + i];
    store(alpha, sum, beta, y + i * y_stride);
  }
}

}  // namespace

template <class T>
void gemv(int64_t m, int64_t k, T alpha, const MatrixView<const T>& a, const T* x, int64_t x_stride,
          T beta, T* y, int64_t y_stride, const T* then) {
  const Scratch x_copy(x_stride == 1 ? 0 : k * static_cast<int64_t>(sizeof(T)));
  if (x_stride != 1) {
    for (int64_t i = 0; i < k; ++i) x_copy.as<T>()[i] = x[i * x_stride];
    x = x_copy.as<T>();
  }
  if (a.col_stride == 1 || k == 1)
    return gemv_rows(m, k, alpha, a.data, a.row_stride, x, beta, y, y_stride, then);
  if (a.row_stride == 1 || m == 1) {
    return gemv_columns(m, k, alpha, a.data, a.col_stride, x, beta, y, y_stride, then);
  }
  const Scratch copy(m * k * static_cast<int64_t>(sizeof(T)));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      copy.as<T>()[i * k + p] = a.data[i * a.row_stride + p * a.col_stride];
  gemv_rows<T>(m, k, alpha, copy.as<T>(), k, x, beta, y, y_stride, then);
}

template <class T>
void gemv_one_thread(const RowsView<T>& a, const T* x, T* y, const RowsView<T>& next) {
  const bool apart = streams<T>(next.rows, next.k);
  const Ahead<T> ahead{next.data, apart ? next.rows / kStreams * next.k : kAhead<T>};
  RowsEntry<T>::at(isa())(a.rows, a.data, a.k, x, a.k, T(1), T(0), y, 1, ahead);
}

template <class T> T dot(int64_t n, const T* x, int64_t x_stride, const T* y, int64_t y_stride) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (n > 0 && x_stride == 1 && y_stride == 1) return dot_contiguous(x, y, n);
  }
  T sum{};
  gemm<T>(1, 1, n, T(1), {x, 0, x_stride}, {y, y_stride, 0}, T(0), {&sum, 1, 1});
  return sum;
}

template void gemv<float>(int64_t, int64_t, float, const MatrixView<const float>&, const float*,
                          int64_t, float, float*, int64_t, const float*);
template void gemv<double>(int64_t, int64_t, double, const MatrixView<const double>&, const double*,
                           int64_t, double, double*, int64_t, const double*);
template void gemv_one_thread<float>(const RowsView<float>&, const float*, float*,
                                     const RowsView<float>&);
template void gemv_one_thread<double>(const RowsView<double>&, const double*, double*,
                                      const RowsView<double>&);
template float dot<float>(int64_t, const float*, int64_t, const float*, int64_t);
template double dot<double>(int64_t, const double*, int64_t, const double*, int64_t);
template Half dot<Half>(int64_t, const Half*, int64_t, const Half*, int64_t);
template BFloat16 dot<BFloat16>(int64_t, const BFloat16*, int64_t, const BFloat16*, int64_t);
template int64_t dot<int64_t>(int64_t, const int64_t*, int64_t, const int64_t*, int64_t);
template int32_t dot<int32_t>(int64_t, const int32_t*, int64_t, const int32_t*, int64_t);
template int16_t dot<int16_t>(int64_t, const int16_t*, int64_t, const int16_t*, int64_t);
template int8_t dot<int8_t>(int64_t, const int8_t*, int64_t, const int8_t*, int64_t);
template uint8_t dot<uint8_t>(int64_t, const uint8_t*, int64_t, const uint8_t*, int64_t);
template bool dot<bool>(int64_t, const bool*, int64_t, const bool*, int64_t);

}  // namespace pellucid::kernels
