// The micro-kernels of the matrix product at each ISA level: a tile of C stays in registers while A
// and B stream past. Packing and the loops around them are in gemm_tile.h.
#include <immintrin.h>

#include <utility>

#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::tile {
namespace {

#ifndef PELLUCID_ONE_ISA
// Where A is in rows, three rows share one pointer, so that a tile of 14 needs 5 of them.
constexpr int kRowsPerPointer = 3;
constexpr int pointer_count(int rows) { return (rows + kRowsPerPointer - 1) / kRowsPerPointer; }

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
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) __builtin_prefetch(out + r * row_stride + v * lanes, 1);
  const T* a[pointer_count(Rows)];
  for (int i = 0; i < pointer_count(Rows); ++i) a[i] = m.a + i * kRowsPerPointer * row;
  for (int64_t p = 0; p < depth; ++p) {
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
      a[0] += step;
    }
  }
  const auto scale = splat(alpha), keep = splat(beta);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r, out += row_stride) {
    if constexpr (Vectors == 2) {
      auto x = mul(scale, sum[r][0]);
      if (beta != T(0)) x = fma(keep, load(out), x);
      store(out, x);
    }
    T* const tail = out + (Vectors - 1) * lanes;
    auto x = mul(scale, sum[r][Vectors - 1]);
    if (beta != T(0)) x = fma(keep, load(tail, last), x);
    store(tail, x, last);
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
      store(to + v * lanes, x);
    }
    if (!full)
      for (int c = 0; c < m.columns; ++c) out[c] = spill[c];
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
    }
}

template <class T>
void transpose(const T* in, int64_t stride, int64_t count, int64_t depth, T* out, int64_t step) {
  for (int64_t c = 0; c < count; ++c)
    for (int64_t p = 0; p < depth; ++p) out[p * step + c] = in[c * stride + p];
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
  return {
      14,
      128 / sizeof(T),
      {{{nullptr, v4::kernel<T, R + 1, 2, false>...}, {nullptr, v4::kernel<T, R + 1, 1, false>...}},
       {{nullptr, v4::kernel<T, R + 1, 2, true>...}, {nullptr, v4::kernel<T, R + 1, 1, true>...}}},
      transpose_v4<T>};
}
template <class T, int... R> Tile<T> tile_v3(std::integer_sequence<int, R...>) {
  return {
      6,
      64 / sizeof(T),
      {{{nullptr, v3::kernel<T, R + 1, 2, false>...}, {nullptr, v3::kernel<T, R + 1, 1, false>...}},
       {{nullptr, v3::kernel<T, R + 1, 2, true>...}, {nullptr, v3::kernel<T, R + 1, 1, true>...}}},
      transpose_v3<T>};
}
#endif
template <class T, int... R> Tile<T> tile_baseline(std::integer_sequence<int, R...>) {
  using namespace baseline;
  return {4,
          32 / sizeof(T),
          {{{nullptr, kernel<T, R + 1, 2, false>...}, {nullptr, kernel<T, R + 1, 1, false>...}},
           {{nullptr, kernel<T, R + 1, 2, true>...}, {nullptr, kernel<T, R + 1, 1, true>...}}},
          baseline::transpose<T>};
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
