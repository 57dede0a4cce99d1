// See conv_winograd_tiles.h.
#include "kernels/conv_winograd_tiles.h"

#include <immintrin.h>

#include <algorithm>

#include "base/env.h"
#include "kernels/isa.h"

namespace pellucid::kernels::conv_winograd {

bool serves(const ConvShape& s) {
  static const bool on = env_bool("PELLUCID_WINOGRAD", true);
  return on && !kOneIsa && isa() == Isa::V4 && s.groups == 1 && !s.is_volume() && s.KH == 3 &&
         s.KW == 3 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 &&
         s.dilation_w == 1 && s.pad_h <= 2 && s.pad_w <= 2;
}

#ifndef PELLUCID_ONE_ISA

namespace {

using conv_micro::kColumns, conv_micro::kLanes, conv_micro::kRows;

// g++ 12 takes the "undefined" operand of its own gather intrinsic for an uninitialised variable.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

constexpr int kTaps = 9;
constexpr int64_t kFiltersAhead = 6;

/// A line of four vectors, before or after a transformation.
struct Four {
  __m512 v[4];
};
struct Three {
  __m512 v[3];
};

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Four input_line(const Four& d) {
  return {{d.v[0] - d.v[2], d.v[1] + d.v[2], d.v[2] - d.v[1], d.v[1] - d.v[3]}};
}

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Four gradient_line(__m512 a,
                                                                                __m512 b) {
  return {{a, a + b, a - b, _mm512_setzero_ps() - b}};
}

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Four filter_line(const Three& g) {
  const __m512 half = _mm512_set1_ps(0.5f), outer = (g.v[0] + g.v[2]) * half, inner = g.v[1] * half;
  return {{g.v[0], outer + inner, outer - inner, g.v[2]}};
}

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Three sums_line(const Four& m) {
  const __m512 half = _mm512_set1_ps(0.5f), sum = (m.v[1] + m.v[2]) * half;
  return {{m.v[0] + sum, (m.v[1] - m.v[2]) * half, sum + m.v[3]}};
}

/// The place of a tile in its image, and how many from it on are in its row.
struct Place {
  Place(const Grid& g, int64_t tile, int64_t last)
      : n(tile / g.image),
        row(tile % g.image / g.columns),
        column(tile % g.columns),
        count(std::min(g.columns - column, last - tile)) {}
  int64_t n, row, column, count;
};

/// Adds x * 0: NaN from the first value on that is inf or NaN.
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline __m512 watched(__m512 x,
                                                                            __m512& watch) {
  watch = _mm512_fmadd_ps(x, _mm512_setzero_ps(), watch);
  return x;
}

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline bool all_finite(__m512 watch) {
  return _mm512_cmp_ps_mask(watch, watch, _CMP_UNORD_Q) == 0;
}

alignas(64) constexpr float kZeros[kLanes] = {};

/// The four rows of pixels that a row of tiles reads, kLanes channels of them; rows outside the
/// image are zeros, with a step of 0.
struct PixelRows {
  PixelRows(const Grid& g, const float* x, const Place& place, int64_t c) : W(g.W) {
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t h = 2 * place.row - g.pad_h + i;
      const bool inside = h >= 0 && h < g.H;
      data[i] = inside ? x + (place.n * g.H + h) * g.W * g.C + c : kZeros;
      step[i] = inside ? g.C : 0;
    }
  }
  const float* data[4];
  int64_t step[4], W;
};

/// Column w of the pixels, after B^T.
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Four input_column(const PixelRows& r,
                                                                               int64_t w,
                                                                               __m512& watch) {
  if (w < 0 || w >= r.W) {
    const __m512 zero = _mm512_setzero_ps();
    return {{zero, zero, zero, zero}};
  }
  Four d;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) d.v[i] = watched(_mm512_loadu_ps(r.data[i] + w * r.step[i]), watch);
  return input_line(d);
}

/// kLanes elements of dy, or zeros outside of it.
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline __m512 gradient_pixel(const Grid& g,
                                                                                   const float* row,
                                                                                   int64_t w,
                                                                                   __m512& watch) {
  if (row == nullptr || w >= g.OW) return _mm512_setzero_ps();
  return watched(_mm512_loadu_ps(row + w * g.O), watch);
}

}  // namespace

void ask_for_output(const Grid& g, int64_t tile, const float* y) {
  const int64_t w = 2 * (tile % g.columns);
  const float* const at = y + output_place(g, tile) + w * g.O;
  for (int64_t i = 0; i < 2; ++i)  // past the border they do no harm
    for (int64_t j = 0; j < 2; ++j)
      for (int64_t v = 0; v < 2; ++v) __builtin_prefetch(at + (i * g.OW + j) * g.O + v * kLanes, 1);
}

[[gnu::target("arch=x86-64-v4")]] bool transform_input_v4(const Grid& g, const float* x,
                                                          int64_t first, int64_t last, float* to,
                                                          int64_t step) {
  __m512 watch = _mm512_setzero_ps();
  for (int64_t tile = first; tile < last;) {
    const Place place(g, tile, last);
    for (int64_t c = 0; c < g.C; c += kLanes) {
      const PixelRows rows(g, x, place, c);
      float* out = to + (tile - first) * g.C + c;
      int64_t w = 2 * place.column - g.pad_w;
      // Half of a tile's columns are those of the one before.
      Four a = input_column(rows, w, watch), b = input_column(rows, w + 1, watch);
      for (int64_t t = 0; t < place.count; ++t, out += g.C) {
        w += 2;
        const Four d = input_column(rows, w, watch), e = input_column(rows, w + 1, watch);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const Four line = input_line({{a.v[i], b.v[i], d.v[i], e.v[i]}});
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) _mm512_storeu_ps(out + (i * 4 + j) * step, line.v[j]);
        }
        a = d;
        b = e;
      }
    }
    tile += place.count;
  }
  return all_finite(watch);
}

[[gnu::target("arch=x86-64-v4")]] bool transform_gradient_v4(const Grid& g, const float* dy,
                                                             int64_t outputs, int64_t first,
                                                             int64_t last, float* to,
                                                             int64_t step) {
  __m512 watch = _mm512_setzero_ps();
  for (int64_t tile = first; tile < last;) {
    const Place place(g, tile, last);
    for (int64_t o = 0; o < outputs; o += kLanes) {
      const float* const top = dy + (place.n * g.OH + 2 * place.row) * g.OW * g.O + o;
      const float* const bottom = 2 * place.row + 1 < g.OH ? top + g.OW * g.O : nullptr;
      float* out = to + (tile - first) * outputs + o;
      for (int64_t t = 0; t < place.count; ++t, out += outputs) {
        const int64_t w = 2 * (place.column + t);
        const Four left =
            gradient_line(gradient_pixel(g, top, w, watch), gradient_pixel(g, bottom, w, watch));
        const Four right = gradient_line(gradient_pixel(g, top, w + 1, watch),
                                         gradient_pixel(g, bottom, w + 1, watch));
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const Four line = gradient_line(left.v[i], right.v[i]);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) _mm512_storeu_ps(out + (i * 4 + j) * step, line.v[j]);
        }
      }
    }
    tile += place.count;
  }
  return all_finite(watch);
}

[[gnu::target("arch=x86-64-v4")]] void transform_output_v4(const Grid& g, const float* m,
                                                           int64_t step, int64_t first,
                                                           int64_t tiles, const float* bias,
                                                           float* y) {
  const __m512 none = _mm512_set1_ps(-0.0f);  // changes nothing, not even -0
  const __m512 biases[2] = {bias == nullptr ? none : _mm512_loadu_ps(bias),
                            bias == nullptr ? none : _mm512_loadu_ps(bias + kLanes)};
  for (int64_t done = 0; done < tiles;) {
    const Place place(g, first + done, first + tiles);
    float* const row = y + (place.n * g.OH + 2 * place.row) * g.OW * g.O;
    const bool two_rows = 2 * place.row + 1 < g.OH;
    for (int64_t t = 0; t < place.count; ++t) {
      const int64_t w = 2 * (place.column + t);
      const bool two_columns = w + 1 < g.OW;
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const float* const from = m + (done + t) * kColumns + v * kLanes;
        __m512 top[4], bottom[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const __m512 a = _mm512_loadu_ps(from + j * step),
                       b = _mm512_loadu_ps(from + (4 + j) * step),
                       c = _mm512_loadu_ps(from + (8 + j) * step),
                       d = _mm512_loadu_ps(from + (12 + j) * step);
          top[j] = a + b + c;
          bottom[j] = b - c - d;
        }
        float* const out = row + w * g.O + v * kLanes;
        _mm512_storeu_ps(out, top[0] + top[1] + top[2] + biases[v]);
        if (two_columns) _mm512_storeu_ps(out + g.O, top[1] - top[2] - top[3] + biases[v]);
        if (!two_rows) continue;
        float* const below = out + g.OW * g.O;
        _mm512_storeu_ps(below, bottom[0] + bottom[1] + bottom[2] + biases[v]);
        if (two_columns)
          _mm512_storeu_ps(below + g.O, bottom[1] - bottom[2] - bottom[3] + biases[v]);
      }
    }
    done += place.count;
  }
}

[[gnu::target("arch=x86-64-v4")]] bool transform_filter_v4(const Filter& f, int64_t depth,
                                                           int64_t first, int64_t last, float* to) {
  const __m512i lanes =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(static_cast<int>(f.lane_step)));
  __m512 watch = _mm512_setzero_ps();
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t d = first; d < last; ++d) {
      const float* const from = f.w + half * kLanes * f.lane_step + d * f.depth_step;
      for (int64_t lane = 0; lane < kLanes; ++lane)
        __builtin_prefetch(from + lane * f.lane_step + kFiltersAhead * f.depth_step);
      Four columns[3];  // after G: columns[j].v[i] is element (i, j) of G g
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        Three g;
#pragma GCC unroll 3
        for (int i = 0; i < 3; ++i) {
          const int tap = i * 3 + j;
          const float* const at = from + (f.turned ? kTaps - 1 - tap : tap);
          g.v[i] = watched(_mm512_i32gather_ps(lanes, at, 4), watch);
        }
        columns[j] = filter_line(g);
      }
      float* const out = to + d * kColumns + half * kLanes;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const Four line = filter_line({{columns[0].v[i], columns[1].v[i], columns[2].v[i]}});
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j)
          _mm512_storeu_ps(out + (i * 4 + j) * depth * kColumns, line.v[j]);
      }
    }
  return all_finite(watch);
}

[[gnu::target("arch=x86-64-v4")]] void transform_sums_v4(const float* m, int64_t parts,
                                                         int64_t part_step, int64_t C,
                                                         int64_t outputs, int64_t first,
                                                         int64_t last, float* dw) {
  alignas(64) float taps[kTaps][kLanes];
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t c = first; c < last; ++c) {
      Three rows[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        Four line;
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const float* from = m + ((i * 4 + j) * C + c) * outputs + half * kLanes;
          line.v[j] = _mm512_loadu_ps(from);
          for (int64_t p = 1; p < parts; ++p)
            line.v[j] = line.v[j] + _mm512_loadu_ps(from += part_step);
        }
        rows[i] = sums_line(line);
      }
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        const Three column = sums_line({{rows[0].v[j], rows[1].v[j], rows[2].v[j], rows[3].v[j]}});
#pragma GCC unroll 3
        for (int i = 0; i < 3; ++i) _mm512_store_ps(taps[i * 3 + j], column.v[i]);
      }
      float* to = dw + (half * kLanes * C + c) * kTaps;
      for (int64_t lane = 0; lane < kLanes; ++lane, to += C * kTaps)
        for (int64_t tap = 0; tap < kTaps; ++tap) to[tap] = taps[tap][lane];
    }
}

#endif

}  // namespace pellucid::kernels::conv_winograd
