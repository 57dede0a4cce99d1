// A tile of 14 outputs by 32 rows of the input stays in registers, summed over k in order. Elements
// of the weight are spread from where they lie, so each is loaded once per 32 rows and nothing of
// it is packed; the tile is turned when it is stored. Meanwhile the weight's next rows are asked
// for, a few lines at a time: they come from main memory, and a burst would keep the loads waiting.
#include "kernels/gemm_weight.h"

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::weight {

#ifdef PELLUCID_ONE_ISA

bool available() { return false; }
int64_t task_scratch(int64_t, int64_t) { return 0; }
void multiply_task(int64_t, int64_t, int64_t, const MatrixView<const float>&, const float*, int64_t,
                   const float*, float*, int64_t, const Epilogue*) {}

#else

namespace {

// g++ 12 takes the "undefined" operand of its own unpack intrinsics for an uninitialised variable.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

constexpr int kRows = 14;   // outputs of a full tile
constexpr int kWidth = 32;  // rows of the input in a full tile: two vectors
constexpr int kLanes = 16;
// The most columns of the weight in a block. C is the sum of the blocks' products in order, so bits
// depend on this.
constexpr int64_t kDepth = 1024;
// The most rows of the input at a time: a packed block of them takes 1 MiB of L2.
constexpr int64_t kBand = 256;
// Rows of the weight this many bytes apart (or a multiple) share the same 12 lines of L1: then a
// tile has fewer outputs, and one line is left for the input.
constexpr int64_t kSameSet = 4096;
constexpr int kFewRows = 11;

/// One call of a micro-kernel: c[t, r] = sum_p w[r, p] x[p, t] (+ c[t, r]) (+ bias[r]).
struct Micro {
  int64_t depth;
  const float* w;
  int64_t w_stride;
  const float* x;  // packed, in rows of one or two vectors
  float* c;
  int64_t ldc;
  int columns;        // valid ones of x
  bool adds;          // to what is in c
  const float* bias;  // or null
  const char* ahead;  // what will be read next: rows of `ahead_stride` bytes
  int64_t ahead_stride;
  int64_t ahead_step;  // bytes to go on after 16 columns of w
};

/// Turns the sums of a tile, 16 rows of kWidth of which `rows` count, into rows of c.
[[gnu::target("arch=x86-64-v4")]] void store_turned_v4(const float* sums, int rows,
                                                       const Micro& m) {
  const auto valid = static_cast<__mmask16>((1u << rows) - 1);
  const __m512 bias =
      m.bias == nullptr ? _mm512_set1_ps(-0.0f) : _mm512_maskz_loadu_ps(valid, m.bias);
  const float* row[16];  // those that are missing: the last one again
  for (int r = 0; r < 16; ++r) row[r] = sums + std::min(r, rows - 1) * kWidth;
  float* c = m.c;
  for (int t = 0; t < m.columns; t += 4) {
    __m512 x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm512_castps128_ps512(_mm_loadu_ps(row[i] + t));
      x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[i + 4] + t), 1);
      x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[i + 8] + t), 2);
      x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[i + 12] + t), 3);
    }
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1])),
                  b = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1])),
                  d = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3])),
                  e = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
    const __m512 turned[4] = {
        _mm512_castpd_ps(_mm512_unpacklo_pd(a, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, d)),
        _mm512_castpd_ps(_mm512_unpacklo_pd(b, e)), _mm512_castpd_ps(_mm512_unpackhi_pd(b, e))};
    const int count = std::min(4, m.columns - t);
    for (int i = 0; i < count; ++i, c += m.ldc) {
      __m512 y = turned[i];
      if (m.adds) y = _mm512_maskz_loadu_ps(valid, c) + y;
      _mm512_mask_storeu_ps(c, valid, y + bias);
    }
  }
}

template <int Rows, int Vectors> [[gnu::target("arch=x86-64-v4")]] void kernel_v4(const Micro& m) {
  constexpr int kShared = 3, kPointers = (Rows + kShared - 1) / kShared;  // rows per pointer
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_setzero_ps();
  const int64_t stride = m.w_stride, ahead_stride = m.ahead_stride, ahead_step = m.ahead_step;
  const float* x = m.x;
  const float* w[kPointers];
  for (int i = 0; i < kPointers; ++i) w[i] = m.w + i * kShared * stride;
  const char* column = m.ahead;
  const float* c = m.c;  // its rows are asked for one by one, too
  int rows_of_c = m.columns;
  for (int64_t left = m.depth; left > 0; left -= kLanes) {
    const char* ahead = column;
    column += ahead_step;
    if (rows_of_c-- > 0) {
      __builtin_prefetch(c, 1);
      __builtin_prefetch(c + Rows - 1, 1);
      c += m.ldc;
    }
#pragma GCC unroll 1
    for (int64_t p = std::min<int64_t>(left, kLanes); p > 0; --p) {
      _mm_prefetch(ahead, _MM_HINT_T1);
      ahead += ahead_stride;
      __m512 y[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) y[v] = _mm512_loadu_ps(x + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512 a = _mm512_set1_ps(w[r / kShared][r % kShared * stride]);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_fmadd_ps(a, y[v], sum[r][v]);
      }
      x += Vectors * kLanes;
      for (int i = 0; i < kPointers; ++i) ++w[i];
    }
  }
  alignas(64) float sums[Rows * kWidth];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) _mm512_store_ps(sums + r * kWidth + v * kLanes, sum[r][v]);
  store_turned_v4(sums, Rows, m);
}

using Kernel = void (*)(const Micro&);
template <int... R> constexpr auto kernels_of(std::integer_sequence<int, R...>) {
  struct {
    Kernel one[kRows + 1], two[kRows + 1];
  } table{{nullptr, kernel_v4<R + 1, 1>...}, {nullptr, kernel_v4<R + 1, 2>...}};
  return table;
}
constexpr auto kKernels = kernels_of(std::make_integer_sequence<int, kRows>());

/// Rows of the input, packed in panels of kWidth (the last one perhaps of one vector).
struct Panels {
  Panels(int64_t m) : rows(m), count(tile::divide_up(m, kWidth)) {}
  int64_t width(int64_t i) const { return std::min<int64_t>(kWidth, rows - i * kWidth); }
  int64_t step(int64_t i) const { return width(i) <= kLanes ? kLanes : kWidth; }
  int64_t rows, count;
};

/// All outputs for a band of rows and a block of k; after the last one, an epilogue may follow.
void multiply_block(const Panels& panels, const float* packed, int64_t n, const float* w,
                    Micro micro, const Epilogue* then) {
  const bool same_set = micro.ahead_stride % kSameSet == 0;
  const tile::Parts tiles(n, same_set ? kFewRows : kRows);
  const int64_t depth = micro.depth,
                share = depth * static_cast<int64_t>(sizeof(float)) / panels.count;
  float* const c = micro.c;
  const float* const bias = micro.bias;
  const int64_t at_a_time =
      tile::divide_up(tile::kFinishedBytes, panels.rows * static_cast<int64_t>(sizeof(float)));
  for (int64_t t = 0, done = 0, finished = 0; t < tiles.count; ++t) {
    const int64_t rows = tiles.length(t);
    micro.w = w + done * micro.w_stride;
    micro.bias = bias == nullptr ? nullptr : bias + done;
    const auto* next = reinterpret_cast<const char*>(micro.w + rows * micro.w_stride);
    for (int64_t i = 0; i < panels.count; ++i) {
      micro.x = packed + i * kWidth * depth;
      micro.c = c + i * kWidth * micro.ldc + done;
      micro.columns = static_cast<int>(panels.width(i));
      micro.ahead = next + i * share;
      (panels.step(i) == kWidth ? kKernels.two : kKernels.one)[rows](micro);
    }
    done += rows;
    if (then != nullptr && (done - finished >= at_a_time || done == n)) {
      (*then)({c + finished, panels.rows, done - finished, micro.ldc});
      finished = done;
    }
  }
}

/// Of the input's rows in a band, packed.
int64_t packed_bytes(int64_t rows, int64_t k) {
  const int64_t most = tile::Parts(k, kDepth).length(0);
  return (tile::divide_up(rows, kWidth) * kWidth * most + kLanes) *
         static_cast<int64_t>(sizeof(float));
}

void multiply_band(int64_t m, int64_t n, int64_t k, const MatrixView<const float>& a,
                   const float* w, int64_t w_stride, const float* bias, float* c, int64_t ldc,
                   const Epilogue* then) {
  const Panels panels(m);
  const tile::Parts blocks(k, kDepth);
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  const Scratch packed(packed_bytes(m, k));
  int64_t first = 0;
  for (int64_t block = 0; block < blocks.count; ++block) {
    const int64_t depth = blocks.length(block);
    for (int64_t i = 0; i < panels.count; ++i)
      tile::pack_b(tile::current_tile<float>(),
                   a.at(i * kWidth * a.row_stride + first * a.col_stride).transposed(), depth,
                   panels.width(i), panels.step(i), packed.as<float>() + i * kWidth * depth);
    const bool last = block + 1 == blocks.count;
    multiply_block(panels, packed.as<float>(), n, w + first,
                   {.depth = depth,
                    .w = nullptr,
                    .w_stride = w_stride,
                    .x = nullptr,
                    .c = c,
                    .ldc = ldc,
                    .columns = 0,
                    .adds = block > 0,
                    .bias = last ? bias : nullptr,
                    .ahead = nullptr,
                    .ahead_stride = w_stride * kSize,
                    .ahead_step = tile::divide_up(64, panels.count)},
                   last ? then : nullptr);
    first += depth;
  }
}

}  // namespace

bool available() { return isa() == Isa::V4; }

int64_t task_scratch(int64_t m, int64_t k) {
  const tile::Parts bands(tile::divide_up(m, kWidth), kBand / kWidth);
  return packed_bytes(std::min(bands.length(0) * kWidth, m), k);
}

void multiply_task(int64_t m, int64_t n, int64_t k, const MatrixView<const float>& a,
                   const float* w, int64_t w_stride, const float* bias, float* c, int64_t ldc,
                   const Epilogue* then) {
  const tile::Parts bands(tile::divide_up(m, kWidth), kBand / kWidth);
  for (int64_t i = 0, row = 0; i < bands.count; ++i) {
    const int64_t rows = std::min(bands.length(i) * kWidth, m - row);
    multiply_band(rows, n, k, a.at(row * a.row_stride), w, w_stride, bias, c + row * ldc, ldc,
                  then);
    row += rows;
  }
}

#endif

}  // namespace pellucid::kernels::weight
