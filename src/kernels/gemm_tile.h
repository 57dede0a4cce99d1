// The register-tiled matrix product for float and double: C = alpha A B + beta C over operands of
// any strides, on one thread. It packs the parts of B (and of A, where that pays) into panels which
// a micro-kernel of the machine's ISA level reads in order. Each element of C is summed in order of
// k. The cut of a large product into such tasks is in gemm.cpp; other kernels call gemm.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"

namespace pellucid::kernels::tile {

/// One call of a micro-kernel: out[r, 0..columns) = alpha sum_p a(r, p) b[p, :] + beta out.
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
  int columns;  // valid ones; the panel of b is padded to the tile's width
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
};

/// The tile of the ISA level in use.
template <class T> const Tile<T>& current_tile();

// Of a packed block: a panel of B takes 32 kB and stays in L1 while panels of A come from L2.
inline constexpr int64_t kDepth = 256;

/// Packs `rows` rows of A from (row, k) into [panel][p][row of panel]; needs a vector of slack.
template <class T>
void pack_a(const Tile<T>& tile, const MatrixView<const T>& a, int64_t rows, int64_t depth,
            T* out) {
  const int lanes = tile.columns / 2;
  for (int64_t r0 = 0; r0 < rows; r0 += tile.rows) {
    const int64_t width = std::min<int64_t>(tile.rows, rows - r0);
    const T* source = a.data + r0 * a.row_stride;
    if (a.col_stride == 1) {
      // Right to left, because a narrow transposition spills into the first columns of the next
      // row.
      for (int64_t r = (width - 1) / lanes * lanes; r >= 0; r -= lanes)
        tile.transpose(source + r * a.row_stride, a.row_stride, std::min<int64_t>(lanes, width - r),
                       depth, out + r, width);
    } else {
      for (int64_t p = 0; p < depth; ++p)
        for (int64_t r = 0; r < width; ++r)
          out[p * width + r] = source[r * a.row_stride + p * a.col_stride];
    }
    out += width * depth;
  }
}

/// Packs one panel of B, `width` columns padded with zeros to `columns`; needs a vector of slack.
template <class T>
void pack_b(const Tile<T>& tile, const MatrixView<const T>& b, int64_t depth, int64_t width,
            int64_t columns, T* out) {
  if (width < columns) std::fill_n(out, depth * columns, T(0));
  const int lanes = tile.columns / 2;
  if (b.row_stride == 1 && width == columns) {
    for (int64_t c = 0; c < width; c += lanes)
      tile.transpose(b.data + c * b.col_stride, b.col_stride, lanes, depth, out + c, columns);
  } else if (b.col_stride == 1) {
    for (int64_t p = 0; p < depth; ++p)
      std::copy_n(b.data + p * b.row_stride, width, out + p * columns);
  } else {
    for (int64_t c = 0; c < width; ++c)
      for (int64_t p = 0; p < depth; ++p)
        out[p * columns + c] = b.data[p * b.row_stride + c * b.col_stride];
  }
}

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One task: the block of C at (0, 0) of the views, `m` x `n`.
template <class T>
void multiply_task(const Tile<T>& tile, int64_t m, int64_t n, int64_t k, T alpha,
                   const MatrixView<const T>& a, const MatrixView<const T>& b, T beta, T* c,
                   int64_t row_stride) {
  const int lanes = tile.columns / 2;
  const int64_t block = std::min(k, kDepth);
  const int64_t panels = divide_up(n, tile.columns);
  // A that is in rows or columns can be read in place; read many times, a packed copy is better.
  const bool packs_a =
      (a.row_stride != 1 && a.col_stride != 1) || panels > 6 || (panels > 1 && k > block);
  // B in rows can be read in place as well, but is read once per tile of rows.
  const bool packs_b = b.col_stride != 1 || m > 2 * tile.rows;
  const Scratch a_block((packs_a ? m * block + lanes : 0) * static_cast<int64_t>(sizeof(T)));
  const Scratch b_block((tile.columns * block + lanes) * static_cast<int64_t>(sizeof(T)));
  for (int64_t k0 = 0; k0 < k; k0 += block) {
    const int64_t depth = std::min(block, k - k0);
    if (packs_a) pack_a(tile, a.at(k0 * a.col_stride), m, depth, a_block.as<T>());
    const MatrixView<const T> b_rows = b.at(k0 * b.row_stride);
    Micro<T> micro{.depth = depth,
                   .a = nullptr,
                   .a_row = 1,
                   .a_step = 0,
                   .b = nullptr,
                   .b_step = 0,
                   .out = nullptr,
                   .row_stride = row_stride,
                   .alpha = alpha,
                   .beta = k0 == 0 ? beta : T(1),
                   .columns = 0};
    // Columns outside: the panel of B stays in L1 while panels of A come from L2.
    for (int64_t c0 = 0; c0 < n; c0 += tile.columns) {
      const int64_t width = std::min<int64_t>(tile.columns, n - c0);
      const bool narrow = width <= lanes;
      const int64_t columns = narrow ? lanes : tile.columns;
      const bool packed = packs_b || width < columns;
      T* const panel = b_block.as<T>();
      if (packed) pack_b(tile, b_rows.at(c0 * b.col_stride), depth, width, columns, panel);
      micro.b = packed ? panel : b_rows.data + c0;
      micro.b_step = packed ? columns : b.row_stride;
      micro.columns = static_cast<int>(width);
      for (int64_t r0 = 0; r0 < m; r0 += tile.rows) {
        const int64_t height = std::min<int64_t>(tile.rows, m - r0);
        if (packs_a) {
          micro.a = a_block.as<T>() + r0 * depth;
          micro.a_step = height;
        } else {
          micro.a = a.data + r0 * a.row_stride + k0 * a.col_stride;
          micro.a_row = a.row_stride;
          micro.a_step = a.col_stride;
        }
        micro.out = c + r0 * row_stride + c0;
        tile.kernel[micro.a_row != 1][narrow][height](micro);
      }
    }
  }
}

}  // namespace pellucid::kernels::tile
