// Forward, for images without padding. A tile of up to 14 pixels of an output row by 32 outputs
// stays in registers; elements of the image are spread from where they lie (for one row of the
// filter, kw and c together run through consecutive memory), the filter is packed in panels of 32
// outputs.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/parallel.h"
#include "kernels/conv_direct.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::conv_direct {

#ifdef PELLUCID_ONE_ISA

bool forward_is_faster(const ConvShape&) { return false; }
void forward(const ConvShape&, const float*, const float*, const float*, float*) {}

#else

namespace {

constexpr int kRows = 14, kLanes = 16, kColumns = 2 * kLanes;

/// One call of a micro-kernel: out[r, :] = sum over rows of the filter and depth of a b + bias.
struct Micro {
  int64_t filter_rows, depth;
  const float* a;
  int64_t a_pixel, a_row;  // steps to the next pixel of the tile, and row of the filter
  const float* b;          // [filter_rows, depth, kColumns]
  float* out;
  int64_t out_stride;
  const float* bias;  // or null
  // What is written now and read later is asked for meanwhile, at an even pace.
  int64_t out_pace, ahead_pace;
  const float* ahead;
};

template <int Rows> [[gnu::target("arch=x86-64-v4")]] void kernel_v4(const Micro& m) {
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

using Kernel = void (*)(const Micro&);
template <int... R>
constexpr std::array<Kernel, kRows + 1> kernels_of(std::integer_sequence<int, R...>) {
  return {nullptr, kernel_v4<R + 1>...};
}
constexpr auto kKernels = kernels_of(std::make_integer_sequence<int, kRows>());

/// [panel of outputs][KH][KW][C][kColumns].
void pack_filter(const ConvShape& s, const float* w, float* packed) {
  const int64_t taps = s.KH * s.KW;
  parallel_for(0, s.O / kColumns * s.KH, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float* const from = w + i / s.KH * kColumns * s.C * taps + i % s.KH * s.KW;
      float* to = packed + i * s.KW * s.C * kColumns;
      for (int64_t kw = 0; kw < s.KW; ++kw)
        for (int64_t c = 0; c < s.C; ++c)
          for (int64_t o = 0; o < kColumns; ++o) *to++ = from[(o * s.C + c) * taps + kw];
    }
  });
}

/// One image; the next one follows it.
void run_image(const ConvShape& s, const float* x, const float* filter, const float* bias,
               float* y) {
  const int64_t oh = s.OH(), ow = s.OW(), depth = s.KW * s.C, steps = s.KH * depth;
  const tile::Parts tiles(ow, kRows);
  const int64_t calls = oh * tiles.count * (s.O / kColumns), size = s.H * s.W * s.C;
  Micro m{.filter_rows = s.KH,
          .depth = depth,
          .a = nullptr,
          .a_pixel = s.C,
          .a_row = s.W * s.C,
          .b = nullptr,
          .out = nullptr,
          .out_stride = s.O,
          .bias = nullptr,
          .out_pace = tile::divide_up(kRows * s.O, steps),
          .ahead_pace = tile::divide_up(size, calls * steps),
          .ahead = x + size};
  for (int64_t o = 0; o < s.O; o += kColumns) {
    m.b = filter + o * steps;
    m.bias = bias == nullptr ? nullptr : bias + o;
    for (int64_t row = 0; row < oh; ++row) {
      m.a = x + row * m.a_row;
      m.out = y + row * ow * s.O + o;
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t pixels = tiles.length(t);
        kKernels[static_cast<size_t>(pixels)](m);
        m.a += pixels * s.C;
        m.out += pixels * s.O;
        m.ahead += m.ahead_pace * steps;
      }
    }
  }
}

}  // namespace

bool forward_is_faster(const ConvShape& s) {
  // Measured: by 4 % for small images without padding, of few channels. Beyond that oneDNN is as
  // fast or faster.
  return isa() == Isa::V4 && s.groups == 1 && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.pad_h == 0 && s.pad_w == 0 && s.C >= 16 &&
         s.O % kColumns == 0 && s.KH * s.KW > 1 && s.weight_count() <= (1 << 16) &&
         s.H * s.W * s.C <= (1 << 16) && s.OH() * s.OW() * s.O <= (1 << 16) && s.OW() >= 10 &&
         s.N >= 8;
}

void forward(const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const Scratch filter(s.weight_count() * static_cast<int64_t>(sizeof(float)));
  pack_filter(s, w, filter.as<float>());
  parallel_for(0, s.N, 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
      run_image(s, x + n * s.H * s.W * s.C, filter.as<float>(), bias,
                y + n * s.OH() * s.OW() * s.O);
  });
}

#endif

}  // namespace pellucid::kernels::conv_direct
