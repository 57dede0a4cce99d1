// See conv_micro.h.
#include "kernels/conv_micro.h"

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/isa.h"

namespace pellucid::kernels::conv_micro {

#ifdef PELLUCID_ONE_ISA

void run(int64_t, const Forward&) {}
void run(int64_t, const Weights&) {}

#else

namespace {

template <int Rows> [[gnu::target("arch=x86-64-v4")]] void forward_v4(const Forward& m) {
  constexpr int kShared = 3, kPointers = (Rows + kShared - 1) / kShared;  // pixels per pointer
  __m512 sum[Rows][2];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  const int64_t pixel = m.a_pixel, depth = m.depth, out_pace = m.out_pace,
                ahead_pace = m.ahead_pace;
  const float *b = m.b, *to = m.out, *ahead = m.ahead;
  for (int64_t row = 0; row < m.filter_rows; ++row) {
    const float* a[kPointers];
    for (int i = 0; i < kPointers; ++i) a[i] = m.a + row * m.a_row + i * kShared * pixel;
#pragma GCC unroll 1
    for (int64_t p = 0; p < depth; ++p) {
      __builtin_prefetch(to, 1);
      _mm_prefetch(ahead, _MM_HINT_T1);
      to += out_pace;
      ahead += ahead_pace;
      const __m512 y0 = _mm512_loadu_ps(b), y1 = _mm512_loadu_ps(b + kLanes);
      b += kColumns;
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512 x = _mm512_set1_ps(a[r / kShared][r % kShared * pixel]);
        sum[r][0] = _mm512_fmadd_ps(x, y0, sum[r][0]);
        sum[r][1] = _mm512_fmadd_ps(x, y1, sum[r][1]);
      }
      for (int i = 0; i < kPointers; ++i) ++a[i];
    }
  }
  float* out = m.out;
  __asm__("" : "+r"(out));  // or g++ 12 keeps the rows' addresses in registers that the sums need
  const __m512 none = _mm512_set1_ps(-0.0f);  // changes nothing, not even -0
  const __m512 bias[2] = {m.bias == nullptr ? none : _mm512_loadu_ps(m.bias),
                          m.bias == nullptr ? none : _mm512_loadu_ps(m.bias + kLanes)};
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r, out += m.out_stride) {
    _mm512_storeu_ps(out, sum[r][0] + bias[0]);
    _mm512_storeu_ps(out + kLanes, sum[r][1] + bias[1]);
  }
}

template <int Rows> [[gnu::target("arch=x86-64-v4")]] void weights_v4(const Weights& m) {
  __m512 sum[Rows][2];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  const int64_t a_pixel = m.a_pixel, b_pixel = m.b_pixel, pixels = m.pixels,
                ahead_step = m.ahead_step;
  const float* ahead = m.ahead;
  // Pixels from now that a and b are asked for: they come from L2.
  constexpr int64_t kSoon = 8;
  for (int64_t i = 0; i < m.rows; ++i) {
    const float *a = m.a + i * m.a_row, *b = m.b + i * m.b_row;
#pragma GCC unroll 1
    for (int64_t p = 0; p < pixels; ++p, a += a_pixel, b += b_pixel, ahead += ahead_step) {
      _mm_prefetch(ahead, _MM_HINT_T1);
      _mm_prefetch(a + kSoon * a_pixel, _MM_HINT_T0);
      _mm_prefetch(b + kSoon * b_pixel, _MM_HINT_T0);
      _mm_prefetch(b + kSoon * b_pixel + kLanes, _MM_HINT_T0);
      const __m512 y0 = _mm512_loadu_ps(b), y1 = _mm512_loadu_ps(b + kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512 x = _mm512_set1_ps(a[r]);
        sum[r][0] = _mm512_fmadd_ps(x, y0, sum[r][0]);
        sum[r][1] = _mm512_fmadd_ps(x, y1, sum[r][1]);
      }
    }
  }
  float* out = m.out;
  __asm__("" : "+r"(out));  // or g++ 12 keeps the rows' addresses in registers that the sums need
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r, out += m.out_stride)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      float* const to = out + v * kLanes;
      _mm512_storeu_ps(to, m.adds ? _mm512_loadu_ps(to) + sum[r][v] : sum[r][v]);
    }
}

template <int... R>
constexpr std::array<void (*)(const Forward&), kRows> forward_kernels(
    std::integer_sequence<int, R...>) {
  return {forward_v4<R + 1>...};
}
template <int... R>
constexpr std::array<void (*)(const Weights&), kRows> weights_kernels(
    std::integer_sequence<int, R...>) {
  return {weights_v4<R + 1>...};
}
constexpr auto kForward = forward_kernels(std::make_integer_sequence<int, kRows>());
constexpr auto kWeights = weights_kernels(std::make_integer_sequence<int, kRows>());

}  // namespace

void run(int64_t rows, const Forward& micro) { kForward[static_cast<size_t>(rows - 1)](micro); }
void run(int64_t rows, const Weights& micro) { kWeights[static_cast<size_t>(rows - 1)](micro); }

#endif

}  // namespace pellucid::kernels::conv_micro
