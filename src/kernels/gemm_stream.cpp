// A tile of 14 rows by two vectors of C stays in registers, summed over a block of k in order, from
// packed panels of A and B.
// Few rows: a panel of B is copied into L1 by the first tile of rows while it multiplies, and the
// other tiles read the copy. Short k: all of B is packed in L2, and a panel of A meets all of it,
// so that C is written in whole rows. What comes from main memory next is asked for meanwhile, a
// line or two at a time: a burst would keep the loads waiting.
#include "kernels/gemm_stream.h"

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "base/parallel.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::stream {

#ifdef PELLUCID_ONE_ISA

bool available() { return false; }
void multiply_few_rows(const Task&) {}
void multiply_short(const Task&) {}
int64_t few_rows_scratch(int64_t, int64_t, int64_t) { return 0; }
int64_t short_scratch(int64_t, int64_t, int64_t) { return 0; }

#else

namespace {

constexpr int kRows = 14;  // of a full tile
constexpr int kLanes = 16;
constexpr int kWidth = 2 * kLanes;  // columns of a full tile
// The most of k in a panel: one of B then takes 32 kB of L1. C is the sum of the blocks' products
// in order, so bits depend on this and on kSection.
constexpr int64_t kBlock = 256;
// Few rows: the most of k for which A is packed at a time, and the most rows: 1 MiB of L2.
constexpr int64_t kSection = 1024, kBand = 256;
// Few rows: the least rows of a task, below which copying B would cost too much.
constexpr int64_t kLeastRows = 64;
// Short k: the most columns of B that are packed at a time, 0.75 MiB of L2.
constexpr int64_t kGroup = 768;
// Tiles of rows that an epilogue gets at a time: 172 kB of C.
constexpr int64_t kTogether = 4;
// The least steps of k between two calls for what comes from main memory.
constexpr int64_t kPace = 8;
// Elements that are worth a thread's while to pack.
constexpr int64_t kPackTogether = 16384;
// Steps of k ahead of its use that a row of B is called from L2 to L1.
constexpr int64_t kSoon = 8;
constexpr auto kSize = static_cast<int64_t>(sizeof(float));

/// One call of a micro-kernel: c[r, :] = alpha sum_p a[p, r] b[p, :] + beta c[r, :].
struct Micro {
  int64_t depth;
  const float* a;  // packed
  const float* b;  // in rows of ldb, read by a tile of Source::Rows
  int64_t ldb;
  float* panel;  // b packed in rows of one or two vectors: written by Source::Rows, else read
  float* c;
  int64_t ldc;
  float alpha, beta;
  int columns;                             // valid ones
  const float* soon;                       // the part of C to ask for
  const char* ahead;                       // rows of what will be read next:
  int64_t ahead_stride, ahead_rows, pace;  // so many are asked for every `pace` steps of k

  /// How many rows one tile shall ask for, so that `tiles` ask for as many as k has.
  void share_among(int64_t tiles) {
    pace = std::max(tiles, kPace);
    ahead_rows = tile::divide_up(pace, tiles);
  }
  int64_t rows_asked() const { return tile::divide_up(depth, pace) * ahead_rows; }
};

/// Where a tile reads B: from its rows, copying them into the panel, or from the panel in L1 or L2.
enum class Source { Rows, Near, Far };

template <int Rows, int Vectors, Source S>
[[gnu::target("arch=x86-64-v4")]] void kernel_v4(const Micro& m) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_setzero_ps();
  const int64_t ldb = m.ldb, ahead_stride = m.ahead_stride, ldc = m.ldc, pace = m.pace;
  const int last = m.columns - (Vectors - 1) * kLanes;  // valid columns of the last vector
  const auto valid = static_cast<__mmask16>((1u << last) - 1);
  const float *a = m.a, *b = m.b, *soon = m.soon;
  float* panel = m.panel;
  const char* ahead = m.ahead;
  int rows_of_c = Rows;
  for (int64_t left = m.depth; left > 0; left -= pace) {
    // The lines of the ends of 64 bytes: where rows do not begin with a line, the panel before has
    // asked for the first.
    for (int64_t i = m.ahead_rows; i > 0; --i) {
      _mm_prefetch(ahead + 60, _MM_HINT_T1);
      _mm_prefetch(ahead + 124, _MM_HINT_T1);
      ahead += ahead_stride;
    }
    if (rows_of_c-- > 0) {
      __builtin_prefetch(soon, 1);
      __builtin_prefetch(soon + kWidth - 1, 1);
      soon += ldc;
    }
#pragma GCC unroll 1
    for (int64_t p = std::min(left, pace); p > 0; --p) {
      __m512 y[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        if constexpr (S == Source::Rows) {
          _mm_prefetch(b + kSoon * ldb + v * kLanes, _MM_HINT_T0);
          y[v] = v + 1 < Vectors ? _mm512_loadu_ps(b + v * kLanes)
                                 : _mm512_maskz_loadu_ps(valid, b + v * kLanes);
          _mm512_store_ps(panel + v * kLanes, y[v]);
        } else {
          if constexpr (S == Source::Far)
            _mm_prefetch(panel + (kSoon * Vectors + v) * kLanes, _MM_HINT_T0);
          y[v] = _mm512_load_ps(panel + v * kLanes);
        }
      }
      if constexpr (S == Source::Rows) b += ldb;
      panel += Vectors * kLanes;
      __builtin_prefetch(a + 16 * Rows);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const __m512 x = _mm512_set1_ps(a[r]);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_fmadd_ps(x, y[v], sum[r][v]);
      }
      a += Rows;
    }
  }
  float* c = m.c;
  __asm__("" : "+r"(c));  // or g++ 12 keeps the rows' addresses in registers that the sums need
  const __m512 scale = _mm512_set1_ps(m.alpha), keep = _mm512_set1_ps(m.beta);
  const bool reads = m.beta != 0;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r, c += ldc)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const __mmask16 mask = v + 1 < Vectors ? static_cast<__mmask16>(0xffff) : valid;
      __m512 x = _mm512_mul_ps(scale, sum[r][v]);
      if (reads) x = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(mask, c + v * kLanes), x);
      _mm512_mask_storeu_ps(c + v * kLanes, mask, x);
    }
}

using Kernel = void (*)(const Micro&);
template <Source S, int... R>
constexpr Kernel kernel_of(int vectors, int64_t rows, std::integer_sequence<int, R...>) {
  constexpr Kernel kTable[2][kRows] = {{kernel_v4<R + 1, 1, S>...}, {kernel_v4<R + 1, 2, S>...}};
  return kTable[vectors - 1][rows - 1];
}
/// Runs one tile.
template <Source S> void multiply(int64_t rows, const Micro& micro) {
  kernel_of<S>(micro.columns <= kLanes ? 1 : 2, rows,
               std::make_integer_sequence<int, kRows>())(micro);
}

/// What all calls of a task have in common.
Micro micro_of(const Task& t) {
  Micro m{};
  m.ldb = t.ldb;
  m.ldc = t.ldc;
  m.alpha = t.alpha;
  return m;
}

int64_t threads_here() { return in_parallel_region() ? 1 : get_num_threads(); }

int width_at(int64_t column, int64_t n) {
  return static_cast<int>(std::min<int64_t>(kWidth, n - column));
}

/// One panel of B with all rows of A; `next` is the panel after it.
void multiply_panel(const tile::Parts& rows, Micro micro, const float* next) {
  micro.ahead = reinterpret_cast<const char*>(next);
  for (int64_t t = 0; t < rows.count; ++t) {
    const int64_t height = rows.length(t);
    micro.soon = micro.c;
    t == 0 ? multiply<Source::Rows>(height, micro) : multiply<Source::Near>(height, micro);
    micro.a += height * micro.depth;
    micro.c += height * micro.ldc;
    micro.ahead += micro.rows_asked() * micro.ahead_stride;
  }
}

/// A section of k, for which A is packed: all blocks of it for some columns, then the next columns.
void multiply_section(const Task& task, const tile::Parts& rows, const tile::Parts& blocks,
                      const float* packed, float* panel) {
  Micro micro = micro_of(task);
  micro.panel = panel;
  micro.ahead_stride = task.ldb * kSize;
  micro.share_among(rows.count);
  for (int64_t column = 0; column < task.n; column += kWidth) {
    micro.columns = width_at(column, task.n);
    micro.a = packed;
    micro.b = task.b + column;
    micro.c = task.c + column;
    for (int64_t i = 0; i < blocks.count; ++i) {
      micro.depth = blocks.length(i);
      micro.beta = i == 0 ? task.beta : 1;
      const float* const below = micro.b + micro.depth * task.ldb;
      const bool turns = i + 1 == blocks.count && column + kWidth < task.n;
      multiply_panel(rows, micro, turns ? task.b + column + kWidth : below);
      micro.a += micro.depth * task.m;
      micro.b = below;
    }
  }
}

/// What a product of few rows is cut into. Rows are cut rather than columns: packing costs more
/// than reading B twice, and rows that another thread has packed would come from its cache.
struct Bands {
  Bands(int64_t m, int64_t n) : Bands(m, n, threads_here()) {}
  int64_t count() const { return rows.count * column_tasks; }

  int64_t row_tasks, columns, column_tasks;
  tile::Parts rows;

 private:
  static int64_t row_tasks_of(int64_t m, int64_t threads) {
    int64_t tasks = std::clamp<int64_t>(m / kLeastRows, 1, threads);
    while (threads % tasks != 0) --tasks;
    return tasks;
  }
  // No more than kBand rows in a part, and as many parts for each thread.
  Bands(int64_t m, int64_t n, int64_t threads)
      : row_tasks(row_tasks_of(m, threads)),
        columns(tile::divide_up(tile::divide_up(n, threads / row_tasks), kWidth) * kWidth),
        column_tasks(tile::divide_up(n, columns)),
        rows(m, tile::divide_up(m, row_tasks * tile::divide_up(m, row_tasks * kBand))) {}
};

int64_t packed_bytes(int64_t rows, int64_t depth) { return (rows * depth + kLanes) * kSize; }

void multiply_band(Task task) {
  const tile::Parts rows(task.m, kRows), sections(task.k, kSection);
  const Scratch packed(packed_bytes(task.m, sections.length(0)));
  const Scratch panel(kBlock * kWidth * kSize);
  for (int64_t s = 0; s < sections.count; ++s) {
    const tile::Parts blocks(sections.length(s), kBlock);
    float* out = packed.as<float>();
    for (int64_t i = 0; i < blocks.count; ++i) {
      tile::pack_a(tile::current_tile<float>(), task.a, rows, blocks.length(i), out);
      task.a.data += blocks.length(i) * task.a.col_stride;
      out += blocks.length(i) * task.m;
    }
    multiply_section(task, rows, blocks, packed.as<float>(), panel.as<float>());
    task.b += sections.length(s) * task.ldb;
    task.beta = 1;
  }
  if (task.then != nullptr) (*task.then)({task.c, task.m, task.n, task.ldc});
}

/// A block of k with some columns of B, packed in panels that stay in L2. The operands of an
/// epilogue are asked for one tile of rows ahead, evenly while it is multiplied: so they cost no
/// time.
void multiply_rows(const Task& task, float* panels) {
  const Scratch packed(packed_bytes(kRows, task.k));
  const tile::Parts rows(task.m, kRows);
  Micro micro = micro_of(task);
  micro.depth = task.k;
  micro.a = packed.as<float>();
  micro.beta = task.beta;
  micro.ahead_stride = task.a.col_stride * kSize;
  micro.share_among(tile::divide_up(task.n, kWidth));
  for (int64_t t = 0; t < rows.count; ++t) {
    const int64_t height = rows.length(t);
    const MatrixView<const float> a = task.a.at(rows.begin(t) * task.a.row_stride);
    tile::pack_a(tile::current_tile<float>(), a, tile::Parts(height, kRows), task.k,
                 packed.as<float>());
    float* const c = task.c + rows.begin(t) * task.ldc;
    micro.ahead = reinterpret_cast<const char*>(a.data + height * a.row_stride);
    for (int64_t column = 0; column < task.n; column += kWidth) {
      micro.columns = width_at(column, task.n);
      micro.panel = panels + column * task.k;
      micro.c = c + column;
      micro.soon = column + kWidth < task.n ? micro.c + kWidth : c + height * task.ldc;
      if (task.then != nullptr) {
        if (t == 0) task.then->ahead({micro.c, height, micro.columns, task.ldc});
        if (t + 1 < rows.count)
          task.then->ahead(
              {micro.c + height * task.ldc, rows.length(t + 1), micro.columns, task.ldc});
      }
      multiply<Source::Far>(height, micro);
      micro.ahead += micro.rows_asked() * micro.ahead_stride;
    }
    if (task.then != nullptr && ((t + 1) % kTogether == 0 || t + 1 == rows.count)) {
      const int64_t first = rows.begin(t / kTogether * kTogether);
      (*task.then)({task.c + first * task.ldc, rows.begin(t) + height - first, task.n, task.ldc});
    }
  }
}

/// A block of k with at most kGroup columns. The threads share the packing, then each has rows of
/// its own.
void multiply_group(const Task& task, float* panels) {
  parallel_for(0, tile::divide_up(task.n, kWidth), tile::divide_up(kPackTogether, kWidth * task.k),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) {
                   const int width = width_at(i * kWidth, task.n);
                   tile::pack_b(tile::current_tile<float>(),
                                MatrixView<const float>{task.b + i * kWidth, task.ldb, 1}, task.k,
                                width, width <= kLanes ? kLanes : kWidth,
                                panels + i * kWidth * task.k);
                 }
               });
  const tile::Parts shares(task.m, tile::divide_up(task.m, threads_here()));
  parallel_chunks(shares.count, [&](int64_t i) {
    Task part = task;
    part.m = shares.length(i);
    part.a.data += shares.begin(i) * task.a.row_stride;
    part.c += shares.begin(i) * task.ldc;
    multiply_rows(part, panels);
  });
}

int64_t panels_bytes(int64_t n, const tile::Parts& blocks) {
  return tile::divide_up(std::min(n, kGroup), kWidth) * kWidth * blocks.length(0) * kSize;
}

}  // namespace

bool available() { return isa() == Isa::V4; }

int64_t few_rows_scratch(int64_t m, int64_t n, int64_t k) {
  const Bands bands(m, n);
  return std::min<int64_t>(bands.count(), threads_here()) *
         (packed_bytes(bands.rows.length(0), tile::Parts(k, kSection).length(0)) +
          kBlock * kWidth * kSize);
}

int64_t short_scratch(int64_t m, int64_t n, int64_t k) {
  const tile::Parts blocks(k, kBlock);
  return panels_bytes(n, blocks) +
         std::min<int64_t>(m, threads_here()) * packed_bytes(kRows, blocks.length(0));
}

void multiply_few_rows(const Task& task) {
  const Bands bands(task.m, task.n);
  parallel_chunks(bands.count(), [&](int64_t i) {
    const int64_t row = i / bands.column_tasks, column = i % bands.column_tasks * bands.columns;
    Task part = task;
    part.m = bands.rows.length(row);
    part.n = std::min(bands.columns, task.n - column);
    part.a.data += bands.rows.begin(row) * task.a.row_stride;
    part.b += column;
    part.c += bands.rows.begin(row) * task.ldc + column;
    multiply_band(part);
  });
}

void multiply_short(const Task& task) {
  const tile::Parts blocks(task.k, kBlock);
  const Scratch panels(panels_bytes(task.n, blocks));
  for (int64_t first = 0; first < task.n; first += kGroup) {
    Task part = task;
    part.n = std::min(kGroup, task.n - first);
    part.b += first;
    part.c += first;
    for (int64_t i = 0; i < blocks.count; ++i) {
      part.k = blocks.length(i);
      part.then = i + 1 == blocks.count ? task.then : nullptr;
      multiply_group(part, panels.as<float>());
      part.a.data += part.k * task.a.col_stride;
      part.b += part.k * task.ldb;
      part.beta = 1;
    }
  }
}

#endif

}  // namespace pellucid::kernels::stream
