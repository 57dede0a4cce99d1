// The register-tiled matrix product for float and double: C = alpha A B + beta C over operands of
// any strides, on one thread. It packs the parts of B (and of A, where that pays) into panels which
// a micro-kernel of the machine's ISA level reads in order. Each element of C is summed in order of
// k. The cut of a large product into such tasks is in gemm.cpp; other kernels call gemm.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/tiles.h"

namespace pellucid::kernels::tile {

/// One call of a micro-kernel: out[r, 0..columns) = alpha sum_p a(r, p) b[p, :] + beta out + bias.
/// Either a_row is 1 (packed or transposed A) or a_step is (A in rows); beta == 0 never reads out.
template <class T> struct Micro {
  int64_t depth;
  const T* a;
  int64_t a_row, a_step;  // a(r, p) = a[r * a_row + p * a_step]
  const T* b;
  int64_t b_step;  // between rows of b
  T* out;
  int64_t row_stride;
  T alpha, beta;
  int columns;    // valid ones; the panel of b is padded to the tile's width
  const T* bias;  // added to each row at last, or null
};

template <class T> using MicroKernel = void (*)(const Micro<T>&);

/// The micro-kernels of one ISA level, by [A in rows][one vector wide][rows].
template <class T> struct Tile {
  int rows;     // of a full tile
  int columns;  // of a full tile: two vectors
  MicroKernel<T> kernel[2][2][16];
  /// out[p * step + c] = in[c * stride + p] for c < count <= lanes, p < depth; may write up to a
  /// vector past the end of each row.
  void (*transpose)(const T* in, int64_t stride, int64_t count, int64_t depth, T* out,
                    int64_t step);
  /// out[p * step + c] = in[p * stride + c] for c < count <= columns, p < depth.
  void (*copy)(const T* in, int64_t stride, int64_t count, int64_t depth, T* out, int64_t step);
};

/// The tile of the ISA level in use.
template <class T> const Tile<T>& current_tile();

/// a / b of positive numbers, rounded up; small products would feel a division.
inline int64_t divide_up(int64_t a, int64_t b) { return a <= b ? 1 : (a + b - 1) / b; }

/// `total` cut into as few parts of at most `most` as can be, whose lengths differ by one at most.
struct Parts {
  Parts(int64_t total, int64_t most)
      : count(divide_up(total, most)),
        least(count == 1 ? total : total / count),
        longer(count == 1 ? 0 : total % count) {}
  int64_t length(int64_t i) const { return least + (i < longer ? 1 : 0); }
  int64_t begin(int64_t i) const { return i * least + std::min(i, longer); }
  int64_t count, least, longer;  // the first `longer` ones have one more than `least`
};

// The most columns of A in a block. A panel of B then takes 32 kB and stays in L1 while panels of A
// come from L2. C is the sum of the blocks' products in order, so bits depend on this.
inline constexpr int64_t kDepth = 256;
// The most rows of a block of A, which stays in L2 (0.75 MiB).
inline constexpr int64_t kBand = 768;
// Up to so many times an operand is read where it is; beyond that, a packed copy is quicker.
inline constexpr int64_t kReadsOfA = 16, kReadsOfB = 4;

/// Packs `rows` rows of A into [panel][p][row of panel]; needs a vector of slack.
template <class T>
void pack_a(const Tile<T>& tile, const MatrixView<const T>& a, const Parts& rows, int64_t depth,
            T* out) {
  const int lanes = tile.columns / 2;
  const T* source = a.data;
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t width = rows.length(i);
    if (a.col_stride == 1) {
      // Right to left, because a narrow transposition spills into the first columns of the next
      // row.
      for (int64_t r = (width - 1) / lanes * lanes; r >= 0; r -= lanes)
        tile.transpose(source + r * a.row_stride, a.row_stride, std::min<int64_t>(lanes, width - r),
                       depth, out + r, width);
    } else if (a.row_stride == 1) {
      tile.copy(source, a.col_stride, width, depth, out, width);
    } else {
      for (int64_t p = 0; p < depth; ++p)
        for (int64_t r = 0; r < width; ++r)
          out[p * width + r] = source[r * a.row_stride + p * a.col_stride];
    }
    source += width * a.row_stride;
    out += width * depth;
  }
}

/// Packs one panel of B, `width` columns in rows of `columns`; needs a vector of slack. What lies
/// beside them is never stored, but shall be no denormals.
template <class T>
void pack_b(const Tile<T>& tile, const MatrixView<const T>& b, int64_t depth, int64_t width,
            int64_t columns, T* out) {
  if (width < columns) std::fill_n(out, depth * columns, T(0));
  const int lanes = tile.columns / 2;
  if (b.col_stride == 1) {
    tile.copy(b.data, b.row_stride, width, depth, out, columns);
  } else if (b.row_stride == 1) {
    for (int64_t c = 0; c < width; c += lanes)
      tile.transpose(b.data + c * b.col_stride, b.col_stride, std::min<int64_t>(lanes, width - c),
                     depth, out + c, columns);
  } else {
    for (int64_t c = 0; c < width; ++c)
      for (int64_t p = 0; p < depth; ++p)
        out[p * columns + c] = b.data[p * b.row_stride + c * b.col_stride];
  }
}

/// Asks for a part of B, `depth` x `width`, to come near.
template <class T>
[[gnu::always_inline]] inline void prefetch_b(const MatrixView<const T>& b, int64_t depth,
                                              int64_t width) {
  if (b.col_stride != 1 && b.row_stride != 1) return;
  const bool in_rows = b.col_stride == 1;
  const int64_t rows = in_rows ? depth : width, length = in_rows ? width : depth;
  const int64_t stride = in_rows ? b.row_stride : b.col_stride;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < length; i += static_cast<int64_t>(64 / sizeof(T)))
      __builtin_prefetch(b.data + r * stride + i);
}

/// The panels of one block of B, packed one ahead of the multiplication: part by part while tiles
/// of the current panel are multiplied, so that nobody waits for memory.
template <class T> struct Panels {
  Panels(const Tile<T>& t, const MatrixView<const T>& block, int64_t block_depth, int64_t width,
         T* memory, int64_t panel_size, int64_t part_count)
      : tile(t),
        b(block),
        depth(block_depth),
        n(width),
        step(part_count == 1 ? depth : divide_up(divide_up(depth, part_count), 16) * 16),
        panel{memory, memory + panel_size} {}

  int64_t width(int64_t i) const { return std::min<int64_t>(tile.columns, n - i * tile.columns); }
  /// Of the panel's rows: one vector where that is enough.
  int64_t columns(int64_t i) const {
    return width(i) <= tile.columns / 2 ? tile.columns / 2 : tile.columns;
  }
  T* at(int64_t i) const { return panel[i % 2]; }
  void pack(int64_t i, int64_t part) const {
    const int64_t first = part * step, rows = std::min(step, depth - first);
    if (rows <= 0 || width(i) <= 0) return;
    const MatrixView<const T> from = b.at(first * b.row_stride + i * tile.columns * b.col_stride);
    if (rows < depth - first)
      prefetch_b(from.at(step * b.row_stride), std::min(step, depth - first - step), width(i));
    pack_b(tile, from, rows, width(i), columns(i), at(i) + first * columns(i));
  }

  const Tile<T>& tile;
  const MatrixView<const T> b;
  int64_t depth, n, step;  // step: the rows of a part
  T* panel[2];
};

/// One panel of B with all tiles of rows; before(r) runs before the r-th.
template <class T, class F>
void multiply_panel(const MicroKernel<T>* kernels, const Parts& rows, Micro<T> micro, bool packed_a,
                    F&& before) {
  for (int64_t r = 0; r < rows.count; ++r) {
    before(r);
    const int64_t height = rows.length(r);
    if (packed_a) micro.a_step = height;
    kernels[height](micro);
    micro.a += height * (packed_a ? micro.depth : micro.a_row);
    micro.out += height * micro.row_stride;
  }
}

/// How a product of multiply_band packs its operands.
template <class T> struct Packing {
  Packing(const Tile<T>& tile, const Parts& rows, int64_t m, int64_t n, int64_t k,
          const MatrixView<const T>& a, const MatrixView<const T>& b)
      : panels(divide_up(n, tile.columns)),
        most(k <= kDepth ? k : std::min(k, divide_up(divide_up(k, divide_up(k, kDepth)), 16) * 16)),
        packs_a((a.row_stride != 1 && a.col_stride != 1) || panels > kReadsOfA),
        packs_b(b.col_stride != 1 || rows.count > kReadsOfB),
        panel_size(tile.columns * most + tile.columns / 2),
        a_bytes((packs_a ? m * most + tile.columns / 2 : 0) * static_cast<int64_t>(sizeof(T))),
        b_bytes(2 * panel_size * static_cast<int64_t>(sizeof(T))) {}
  int64_t panels, most;  // of B; the deepest block of k
  bool packs_a;          // else A, in rows or columns, is read in place, once per panel of B
  bool packs_b;          // else B, in rows, is read in place, once per tile of rows
  int64_t panel_size, a_bytes, b_bytes;
};

/// Panels of C, complete, that an epilogue gets at a time: at least these bytes, which L2 holds.
inline constexpr int64_t kFinishedBytes = 256 << 10;

/// A product on one thread, whose rows of A fit into L2 as blocks of kDepth columns.
template <class T>
void multiply_band(const Tile<T>& tile, int64_t m, int64_t n, int64_t k, T alpha,
                   const MatrixView<const T>& a, const MatrixView<const T>& b, T beta,
                   const T* bias, T* c, int64_t row_stride, const Epilogue* then) {
  const int lanes = tile.columns / 2;
  const Parts rows(m, tile.rows);
  const Packing<T> how(tile, rows, m, n, k, a, b);
  const int64_t panels = how.panels, most = how.most;
  const bool packs_a = how.packs_a, packs_b = how.packs_b;
  const Scratch a_block(how.a_bytes), b_panels(how.b_bytes);
  const int64_t at_a_time =
      divide_up(kFinishedBytes, m * tile.columns * static_cast<int64_t>(sizeof(T)));  // panels of C
  for (int64_t k0 = 0; k0 < k; k0 += most) {
    const int64_t depth = std::min(most, k - k0);
    const MatrixView<const T> a_columns = a.at(k0 * a.col_stride);
    if (packs_a) pack_a(tile, a_columns, rows, depth, a_block.as<T>());
    const Panels<T> packed(tile, b.at(k0 * b.row_stride), depth, n, b_panels.as<T>(),
                           how.panel_size, rows.count);
    Micro<T> micro{.depth = depth,
                   .a = nullptr,
                   .a_row = packs_a ? 1 : a.row_stride,
                   .a_step = packs_a ? 0 : a.col_stride,
                   .b = nullptr,
                   .b_step = 0,
                   .out = nullptr,
                   .row_stride = row_stride,
                   .alpha = alpha,
                   .beta = k0 == 0 ? beta : T(1),
                   .columns = 0,
                   .bias = nullptr};
    const auto needs_packing = [&](int64_t i) {
      return packs_b || packed.width(i) < packed.columns(i);
    };
    // Columns outside: the panel of B stays in L1 while panels of A come from L2.
    for (int64_t i = 0; i < panels; ++i) {
      if (needs_packing(i) && (i == 0 || !packs_b))
        for (int64_t part = 0; part < rows.count; ++part) packed.pack(i, part);
      micro.b = needs_packing(i) ? packed.at(i) : packed.b.data + i * tile.columns;
      micro.b_step = needs_packing(i) ? packed.columns(i) : b.row_stride;
      micro.columns = static_cast<int>(packed.width(i));
      if (bias != nullptr && k0 + depth == k) micro.bias = bias + i * tile.columns;
      micro.a = packs_a ? a_block.as<T>() : a_columns.data;
      micro.out = c + i * tile.columns;
      multiply_panel(tile.kernel[micro.a_row != 1][packed.columns(i) == lanes], rows, micro,
                     packs_a, [&](int64_t r) {
                       if (packs_b) packed.pack(i + 1, r);
                     });
      if (then != nullptr && k0 + depth == k && ((i + 1) % at_a_time == 0 || i + 1 == panels)) {
        const int64_t first = i / at_a_time * at_a_time * tile.columns;
        (*then)({c + first, m, std::min((i + 1) * tile.columns, n) - first, row_stride});
      }
    }
  }
}

/// Bytes that multiply_task takes for itself.
template <class T>
int64_t task_scratch(const Tile<T>& tile, int64_t m, int64_t n, int64_t k,
                     const MatrixView<const T>& a, const MatrixView<const T>& b) {
  const int64_t band = Parts(m, kBand).length(0);
  const Packing<T> how(tile, Parts(band, tile.rows), band, n, k, a, b);
  return how.a_bytes + how.b_bytes;
}

/// One task: the block of C at (0, 0) of the views, `m` x `n`, on one thread. An element's sum runs
/// in order of k in blocks that depend on k alone: its bits do not depend on the task that it is
/// in. `bias` and the epilogue may be null.
template <class T>
void multiply_task(const Tile<T>& tile, int64_t m, int64_t n, int64_t k, T alpha,
                   MatrixView<const T> a, const MatrixView<const T>& b, T beta, const T* bias, T* c,
                   int64_t row_stride, const Epilogue* then = nullptr) {
  const Parts bands(m, kBand);
  for (int64_t i = 0; i < bands.count; ++i) {
    const int64_t rows = bands.length(i);
    multiply_band(tile, rows, n, k, alpha, a, b, beta, bias, c, row_stride, then);
    a.data += rows * a.row_stride;
    c += rows * row_stride;
  }
}

}  // namespace pellucid::kernels::tile
