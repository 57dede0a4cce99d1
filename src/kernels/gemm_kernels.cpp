// The micro-kernels of the matrix product at each ISA level: a tile of C stays in registers while A
// and B stream past. Packing and the loops around them are in gemm_tile.h.
#include <immintrin.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::tile {
namespace {

#ifndef PELLUCID_ONE_ISA
// Where A is in rows, three rows share one pointer, so that a tile of 14 needs 5 of them.
constexpr int kRowsPerPointer = 3;
constexpr int pointer_count(int rows) { return (rows + kRowsPerPointer - 1) / kRowsPerPointer; }

// g++ 12 takes the "undefined" operand of its own unpack intrinsics for an uninitialised variable.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace v4 {
#define PELLUCID_V4 [[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline
PELLUCID_V4 __m512d load(const double* p) { return _mm512_loadu_pd(p); }
PELLUCID_V4 __m512 load(const float* p) { return _mm512_loadu_ps(p); }
PELLUCID_V4 __m512d load(const double* p, int n) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
}
PELLUCID_V4 __m512 load(const float* p, int n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
PELLUCID_V4 void store(double* p, __m512d v) { _mm512_storeu_pd(p, v); }
PELLUCID_V4 void store(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
PELLUCID_V4 void store(double* p, __m512d v, int n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
}
PELLUCID_V4 void store(float* p, __m512 v, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
}
PELLUCID_V4 __m512d splat(double x) { return _mm512_set1_pd(x); }
PELLUCID_V4 __m512 splat(float x) { return _mm512_set1_ps(x); }
PELLUCID_V4 __m512d fma(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
PELLUCID_V4 __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
PELLUCID_V4 __m512d mul(__m512d a, __m512d b) { return _mm512_mul_pd(a, b); }
PELLUCID_V4 __m512 mul(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }

template <class T, int Rows, int Vectors, bool InRows>
[[gnu::target("arch=x86-64-v4")]] void kernel(const Micro<T>& m) {
  constexpr int lanes = 64 / sizeof(T);
  decltype(splat(T())) sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][v] = splat(T(0));
  // Copies, because a store to out might change m.
  const T* b = m.b;
  const int64_t row = m.a_row, step = m.a_step, b_step = m.b_step, depth = m.depth,
                row_stride = m.row_stride;
  const T alpha = m.alpha, beta = m.beta;
  const int last = m.columns - (Vectors - 1) * lanes;  // valid columns of the last vector
  T* out = m.out;
  const T* a[pointer_count(Rows)];
  for (int i = 0; i < pointer_count(Rows); ++i) a[i] = m.a + i * kRowsPerPointer * row;
  // The rows of C are asked for one at a time: all at once they would keep the loads of A waiting.
  // A short product does without: it would lose more to the ends of these loops.
  const T* ahead = out;
  const int64_t share = depth / Rows;
  int64_t p = 0;
#pragma GCC unroll 1
  for (int part = depth < 128 ? Rows - 1 : 0; part < Rows; ++part) {
    for (int v = 0; v < Vectors; ++v) __builtin_prefetch(ahead + v * lanes, 1);
    ahead += row_stride;
    const int64_t end = part + 1 < Rows ? p + share : depth;
#pragma GCC unroll 1
    for (; p < end; ++p) {
      decltype(splat(T())) y[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) y[v] = load(b + v * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const auto x = splat(InRows ? a[r / kRowsPerPointer][r % kRowsPerPointer * row] : a[0][r]);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[r][v] = fma(x, y[v], sum[r][v]);
      }
      b += b_step;
      if constexpr (InRows) {
        for (int i = 0; i < pointer_count(Rows); ++i) ++a[i];
      } else {
        __builtin_prefetch(a[0] + 16 * Rows);  // packed A comes from L2
        a[0] += step;
      }
    }
  }
  // Hides that the rows' addresses could be computed before the loop: g++ 12 would do so, and give
  // them vector registers that the sums need.
  __asm__("" : "+r"(out));
  const auto scale = splat(alpha), keep = splat(beta);
  decltype(splat(T())) add[Vectors];
#pragma GCC unroll 2
  for (int v = 0; v < Vectors; ++v)
    add[v] = m.bias == nullptr ? splat(T(-0.0))  // changes nothing, not even -0
             : v + 1 < Vectors ? load(m.bias + v * lanes)
                               : load(m.bias + v * lanes, last);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r, out += row_stride) {
    if constexpr (Vectors == 2) {
      auto x = mul(scale, sum[r][0]);
      if (beta != T(0)) x = fma(keep, load(out), x);
      store(out, x + add[0]);
    }
    T* const tail = out + (Vectors - 1) * lanes;
    auto x = mul(scale, sum[r][Vectors - 1]);
    if (beta != T(0)) x = fma(keep, load(tail, last), x);
    store(tail, x + add[Vectors - 1], last);
  }
}

/// Blocks of 16 x 16: inserted 128 bits at a time, so that only the transposition of 4 x 4 within
/// them is left to the one port that shuffles.
[[gnu::target("arch=x86-64-v4")]] void transpose(const float* in, int64_t stride, int64_t count,
                                                 int64_t depth, float* out, int64_t step) {
  constexpr int64_t kLater = 64;  // elements of a row until a line is read
  const float* row[16];           // those that are missing: the last one again
  for (int64_t r = 0; r < 16; ++r) row[r] = in + (r < count ? r : count - 1) * stride;
  int64_t p = 0;
  for (; p + 16 <= depth; p += 16) {
    // The rows are many, short and far apart: the processor alone does not look ahead in them.
    for (int64_t r = 0; r < count; ++r) __builtin_prefetch(row[r] + p + kLater);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g, out += 4 * step) {
      __m512 x[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        x[i] = _mm512_castps128_ps512(_mm_loadu_ps(row[i] + p + 4 * g));
        x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[i + 4] + p + 4 * g), 1);
        x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[i + 8] + p + 4 * g), 2);
        x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[i + 12] + p + 4 * g), 3);
      }
      const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1])),
                    b = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1])),
                    c = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3])),
                    d = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
      store(out, _mm512_castpd_ps(_mm512_unpacklo_pd(a, c)));
      store(out + step, _mm512_castpd_ps(_mm512_unpackhi_pd(a, c)));
      store(out + 2 * step, _mm512_castpd_ps(_mm512_unpacklo_pd(b, d)));
      store(out + 3 * step, _mm512_castpd_ps(_mm512_unpackhi_pd(b, d)));
    }
  }
  for (; p < depth; ++p, out += step)
    for (int64_t c = 0; c < count; ++c) out[c] = row[c][p];
}

template <class T>
[[gnu::target("arch=x86-64-v4")]] void copy(const T* in, int64_t stride, int64_t count,
                                            int64_t depth, T* out, int64_t step) {
  constexpr int lanes = 64 / sizeof(T);
  const int first = static_cast<int>(count < lanes ? count : lanes);
  const int second = static_cast<int>(count) - first;
  for (int64_t p = 0; p < depth; ++p, in += stride, out += step) {
    __builtin_prefetch(in + 16 * stride);
    store(out, load(in, first), first);
    if (second == 0) continue;
    __builtin_prefetch(in + 16 * stride + lanes);
    store(out + lanes, load(in + lanes, second), second);
  }
}
#undef PELLUCID_V4
}  // namespace v4

namespace v3 {
#define PELLUCID_V3 [[gnu::target("arch=x86-64-v3"), gnu::always_inline]] inline
PELLUCID_V3 __m256d load(const double* p) { return _mm256_loadu_pd(p); }
PELLUCID_V3 __m256 load(const float* p) { return _mm256_loadu_ps(p); }
PELLUCID_V3 void store(double* p, __m256d v) { _mm256_storeu_pd(p, v); }
PELLUCID_V3 void store(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
PELLUCID_V3 __m256d splat(double x) { return _mm256_set1_pd(x); }
PELLUCID_V3 __m256 splat(float x) { return _mm256_set1_ps(x); }
PELLUCID_V3 __m256d fma(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
PELLUCID_V3 __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
PELLUCID_V3 __m256d mul(__m256d a, __m256d b) { return _mm256_mul_pd(a, b); }
PELLUCID_V3 __m256 mul(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }

template <class T, int Rows, int Vectors, bool InRows>
[[gnu::target("arch=x86-64-v3")]] void kernel(const Micro<T>& m) {
  constexpr int lanes = 32 / sizeof(T);
  decltype(splat(T())) sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][v] = splat(T(0));
  const T* b = m.b;
  const int64_t row = m.a_row;
  const T* a[pointer_count(Rows)];
  for (int i = 0; i < pointer_count(Rows); ++i) a[i] = m.a + i * kRowsPerPointer * row;
  for (int64_t p = 0; p < m.depth; ++p) {
    decltype(splat(T())) y[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) y[v] = load(b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const auto x = splat(InRows ? a[r / kRowsPerPointer][r % kRowsPerPointer * row] : a[0][r]);
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sum[r][v] = fma(x, y[v], sum[r][v]);
    }
    b += m.b_step;
    if constexpr (InRows) {
      for (int i = 0; i < pointer_count(Rows); ++i) ++a[i];
    } else {
      a[0] += m.a_step;
    }
  }
  const auto scale = splat(m.alpha), keep = splat(m.beta);
  T* out = m.out;
  T bias[Vectors * lanes] = {};
  if (m.bias != nullptr)
    for (int c = 0; c < m.columns; ++c) bias[c] = m.bias[c];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r, out += m.row_stride) {
    T spill[Vectors * lanes] = {};
    const bool full = m.columns == Vectors * lanes;
    if (!full && m.beta != T(0))
      for (int c = 0; c < m.columns; ++c) spill[c] = out[c];
    T* const to = full ? out : spill;
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      auto x = mul(scale, sum[r][v]);
      if (m.beta != T(0)) x = fma(keep, load(to + v * lanes), x);
      if (m.bias != nullptr) x = x + load(bias + v * lanes);
      store(to + v * lanes, x);
    }
    if (!full)
      for (int c = 0; c < m.columns; ++c) out[c] = spill[c];
  }
}

template <class T>
[[gnu::target("arch=x86-64-v3")]] void copy(const T* in, int64_t stride, int64_t count,
                                            int64_t depth, T* out, int64_t step) {
  constexpr int lanes = 32 / sizeof(T);
  for (int64_t p = 0; p < depth; ++p, in += stride, out += step) {
    if (count == 2 * lanes) {
      store(out, load(in));
      store(out + lanes, load(in + lanes));
    } else {
      for (int64_t c = 0; c < count; ++c) out[c] = in[c];
    }
  }
}
#undef PELLUCID_V3
}  // namespace v3
#endif

namespace baseline {
/// Two 16-byte vectors at most; multiplication and addition round separately.
template <class T, int Rows, int Vectors, bool InRows> void kernel(const Micro<T>& m) {
  constexpr int lanes = 16 / sizeof(T);
  constexpr int columns = Vectors * lanes;
  T sum[Rows][columns] = {};
  for (int64_t p = 0; p < m.depth; ++p)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const T x = InRows ? m.a[r * m.a_row + p] : m.a[p * m.a_step + r];
#pragma GCC unroll 8
      for (int c = 0; c < columns; ++c) sum[r][c] += x * m.b[p * m.b_step + c];
    }
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < m.columns; ++c) {
      T& to = m.out[r * m.row_stride + c];
      to = m.beta == T(0) ? m.alpha * sum[r][c] : m.alpha * sum[r][c] + m.beta * to;
      if (m.bias != nullptr) to += m.bias[c];
    }
}

template <class T>
void transpose(const T* in, int64_t stride, int64_t count, int64_t depth, T* out, int64_t step) {
  for (int64_t c = 0; c < count; ++c)
    for (int64_t p = 0; p < depth; ++p) out[p * step + c] = in[c * stride + p];
}

template <class T>
void copy(const T* in, int64_t stride, int64_t count, int64_t depth, T* out, int64_t step) {
  for (int64_t p = 0; p < depth; ++p) std::copy_n(in + p * stride, count, out + p * step);
}
}  // namespace baseline

#ifndef PELLUCID_ONE_ISA
// Transposition in registers: stage S swaps the off-diagonal S x S blocks of each 2S x 2S block.
template <class T, int Bytes> struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes), aligned(sizeof(T)), may_alias));
};

#define PELLUCID_TRANSPOSE(name, target_name, bytes)                                             \
  template <int S, class V, int... L>                                                            \
  [[gnu::target(target_name), gnu::always_inline]] inline void swap_##name(                      \
      V& a, V& b, std::integer_sequence<int, L...>) {                                            \
    constexpr int n = sizeof...(L);                                                              \
    const V x = a, y = b;                                                                        \
    a = __builtin_shufflevector(x, y, ((L & S) == 0 ? L : n + L - S)...);                        \
    b = __builtin_shufflevector(x, y, ((L & S) == 0 ? L + S : n + L)...);                        \
  }                                                                                              \
  template <int S, class V, int N>                                                               \
  [[gnu::target(target_name), gnu::always_inline]] inline void stages_##name(V(&v)[N]) {         \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; ++i) if ((i & S) == 0)                       \
        swap_##name<S>(v[i], v[i | S], std::make_integer_sequence<int, N>());                    \
    if constexpr (S > 1) stages_##name<S / 2>(v);                                                \
  }                                                                                              \
  template <class T>                                                                             \
  [[gnu::target(target_name)]] void transpose_##name(const T* in, int64_t stride, int64_t count, \
                                                     int64_t depth, T* out, int64_t step) {      \
    constexpr int lanes = bytes / sizeof(T);                                                     \
    using V = typename VectorOf<T, bytes>::type;                                                 \
    int64_t p = 0;                                                                               \
    for (; p + lanes <= depth; p += lanes, out += lanes * step) {                                \
      V v[lanes];                                                                                \
      _Pragma("GCC unroll 16") for (int c = 0; c < lanes; ++c) v[c] =                            \
          c < count ? *reinterpret_cast<const V*>(in + c * stride + p) : V{};                    \
      stages_##name<lanes / 2>(v);                                                               \
      _Pragma("GCC unroll 16") for (int c = 0; c < lanes; ++c) *                                 \
          reinterpret_cast<V*>(out + c * step) = v[c];                                           \
    }                                                                                            \
    for (int64_t q = p; q < depth; ++q)                                                          \
      for (int64_t c = 0; c < count; ++c) out[(q - p) * step + c] = in[c * stride + q];          \
  }
PELLUCID_TRANSPOSE(v4, "arch=x86-64-v4", 64)
PELLUCID_TRANSPOSE(v3, "arch=x86-64-v3", 32)
#undef PELLUCID_TRANSPOSE
#endif

#ifndef PELLUCID_ONE_ISA
template <class T, int... R> Tile<T> tile_v4(std::integer_sequence<int, R...>) {
  const auto transpose = [] {
    if constexpr (std::is_same_v<T, float>)
      return v4::transpose;
    else
      return transpose_v4<T>;
  }();
  return {
      14,
      128 / sizeof(T),
      {{{nullptr, v4::kernel<T, R + 1, 2, false>...}, {nullptr, v4::kernel<T, R + 1, 1, false>...}},
       {{nullptr, v4::kernel<T, R + 1, 2, true>...}, {nullptr, v4::kernel<T, R + 1, 1, true>...}}},
      transpose,
      v4::copy<T>};
}
template <class T, int... R> Tile<T> tile_v3(std::integer_sequence<int, R...>) {
  return {
      6,
      64 / sizeof(T),
      {{{nullptr, v3::kernel<T, R + 1, 2, false>...}, {nullptr, v3::kernel<T, R + 1, 1, false>...}},
       {{nullptr, v3::kernel<T, R + 1, 2, true>...}, {nullptr, v3::kernel<T, R + 1, 1, true>...}}},
      transpose_v3<T>,
      v3::copy<T>};
}
#endif
template <class T, int... R> Tile<T> tile_baseline(std::integer_sequence<int, R...>) {
  using namespace baseline;
  return {4,
          32 / sizeof(T),
          {{{nullptr, kernel<T, R + 1, 2, false>...}, {nullptr, kernel<T, R + 1, 1, false>...}},
           {{nullptr, kernel<T, R + 1, 2, true>...}, {nullptr, kernel<T, R + 1, 1, true>...}}},
          baseline::transpose<T>,
          baseline::copy<T>};
}

template <class T> const Tile<T>& tile_of(Isa level) {
  static const Tile<T> base = tile_baseline<T>(std::make_integer_sequence<int, 4>());
#ifndef PELLUCID_ONE_ISA
  static const Tile<T> newer[] = {tile_v3<T>(std::make_integer_sequence<int, 6>()),
                                  tile_v4<T>(std::make_integer_sequence<int, 14>())};
  if (level != Isa::Baseline) return newer[level == Isa::V4];
#endif
  static_cast<void>(level);
  return base;
}

}  // namespace

template <> const Tile<float>& current_tile<float>() { return tile_of<float>(isa()); }
template <> const Tile<double>& current_tile<double>() { return tile_of<double>(isa()); }

}  // namespace pellucid::kernels::tile
