// The tiles of attention: which ones there are, the products in them, and who computes what.
// Forward: a task is a block of queries of one head. Backward: a task is one head of k and v with
// all heads of q that share it, so that each gradient is summed by one thread in a fixed order.
#include "kernels/attention.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/attention_rows.h"
#include "kernels/gemm.h"
#include "kernels/gemm_gemv.h"
#include "kernels/gemm_scratch.h"

namespace pellucid::kernels {
namespace {

using namespace attention;

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// The largest tile; a multiple of the lanes in columns, so that tiles begin at a multiple of 4.
struct TileSize {
  int64_t rows, columns;
};
TileSize forward_tile(const AttentionShape& s) {
  const int64_t rows = s.T >= 768 ? 256 : s.T >= 256 ? 128 : 64;
  return {rows, std::min<int64_t>(512, round_up(s.S, kLanes))};
}
TileSize backward_tile(const AttentionShape& s) {
  return {128, std::min<int64_t>(256, round_up(s.S, kLanes))};
}

template <class T> int64_t bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(T)); }

/// The problem with the loops of the ISA level in use.
template <class T> struct Problem {
  const AttentionShape& shape;
  const AttentionOptions<T>& options;
  HeadTensor<const T> q, k, v;
  Isa level = isa();

  int64_t kv_head(int64_t h) const { return h / (shape.H / shape.Hkv); }

  /// Columns that rows [row, row + rows) can see.
  int64_t visible(int64_t row, int64_t rows) const {
    return options.is_causal ? std::min(shape.S, row + rows) : shape.S;
  }

  /// Scaled and masked scores of one tile. A single query is bound by memory: its keys are
  /// followed by a look at the values.
  void scores(int64_t b, int64_t h, const TileView<T>& tile) const {
    const T *const query = q.at(b, h, tile.row), *const keys = k.at(b, kv_head(h), tile.column);
    if (tile.rows == 1)
      gemv<T>(tile.columns, shape.D, static_cast<T>(options.scale), {keys, k.strides[2], 1}, query,
              1, T(0), tile.data, 1, v.at(b, kv_head(h), tile.column));
    else
      gemm_one_thread<T>(false, true, tile.rows, tile.columns, shape.D,
                         static_cast<T>(options.scale), query, q.strides[2], keys, k.strides[2],
                         T(0), tile.data, tile.stride);
    const auto& step = options.mask_strides;
    const int64_t first = b * step[0] + h * step[1] + tile.row * step[2] + tile.column * step[3];
    const MaskView<T> mask{options.mask == nullptr ? nullptr : options.mask + first,
                           options.bool_mask == nullptr ? nullptr : options.bool_mask + first,
                           step[2], step[3], options.is_causal};
    IsaLoops<MaskRows<T>, const TileView<T>&, const MaskView<T>&>::at(level)(tile, mask);
  }

  /// sums = weights of the tile times its values + keep_sum sums. For a single query, what follows
  /// is asked for meanwhile: the keys of the next tile or head.
  void add_values(int64_t b, int64_t h, const TileView<T>& tile, T keep_sum, T* sums) const {
    const T* const values = v.at(b, kv_head(h), tile.column);
    if (tile.rows > 1)
      return gemm_one_thread<T>(false, false, tile.rows, shape.Dv, tile.columns, T(1), tile.data,
                                tile.stride, values, v.strides[2], keep_sum, sums, shape.Dv);
    const bool more = tile.column + tile.columns < shape.S, heads = h + 1 < shape.H;
    const T* const then = more    ? k.at(b, kv_head(h), tile.column + tile.columns)
                          : heads ? k.at(b, kv_head(h + 1), 0)
                                  : nullptr;
    gemv<T>(shape.Dv, tile.columns, T(1), {values, 1, v.strides[2]}, tile.data, 1, keep_sum, sums,
            1, then);
  }

  /// Writes the weights that dropout keeps, scaled, to `out`.
  void drop(int64_t b, int64_t h, const TileView<T>& tile, T* out) const {
    IsaLoops<DropoutRows<T>, const TileView<T>&, T*, uint64_t, uint64_t, int64_t, int64_t,
             double>::at(level)(tile, out, options.seed, options.offset,
                                (b * shape.H + h) * shape.T + tile.row, (shape.S + 3) / 4,
                                options.dropout);
  }
};

/// One block of queries: all that it sees, tile by tile, with a running maximum.
template <class T>
void forward_block(const Problem<T>& p, TileSize size, int64_t b, int64_t h, int64_t row,
                   HeadTensor<T> out, T* logsumexp) {
  const AttentionShape& s = p.shape;
  const int64_t rows = std::min(size.rows, s.T - row);
  const Scratch tile_memory(bytes<T>(rows * size.columns)),
      sums_memory(bytes<T>(rows * (s.Dv + 3)));
  T* const sums = sums_memory.as<T>();
  T *const top = sums + rows * s.Dv, *const total = top + rows, *const correction = total + rows;
  std::fill_n(sums, rows * s.Dv, T(0));
  std::fill_n(top, rows, kMinusInfinity<T>);
  std::fill_n(total, rows, T(0));
  const int64_t end = p.visible(row, rows);
  for (int64_t column = 0; column < end; column += size.columns) {
    const int64_t columns = std::min(size.columns, end - column);
    const TileView<T> tile{tile_memory.as<T>(),       rows, columns,
                           round_up(columns, kLanes), row,  column};
    p.scores(b, h, tile);
    IsaLoops<SoftmaxRows<T>, const TileView<T>&, T*, T*, T*>::at(p.level)(tile, top, total,
                                                                          correction);
    if (column > 0)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t d = 0; d < s.Dv; ++d) sums[i * s.Dv + d] *= correction[i];
    if (p.options.dropout > 0) p.drop(b, h, tile, tile.data);
    p.add_values(b, h, tile, column > 0 ? T(1) : T(0), sums);
  }
  for (int64_t i = 0; i < rows; ++i) {
    const T inverse = total[i] == T(0) ? T(0) : T(1) / total[i];
    T* const to = out.at(b, h, row + i);
    for (int64_t d = 0; d < s.Dv; ++d) to[d] = sums[i * s.Dv + d] * inverse;
    logsumexp[(b * s.H + h) * s.T + row + i] =
        total[i] == T(0) ? std::numeric_limits<T>::infinity()
                         : (top[i] == kMinusInfinity<T> ? T(0) : top[i]) + std::log(total[i]);
  }
}

template <class T> struct Gradients {
  HeadTensor<const T> out, dout;
  const T* logsumexp;
  HeadTensor<T> dq, dk, dv;
};

template <class T>
void fill_zero(const HeadTensor<T>& x, int64_t b, int64_t h, int64_t first, int64_t last,
               int64_t width) {
  for (int64_t t = first; t < last; ++t) std::fill_n(x.at(b, h, t), width, T(0));
}

/// The tiles of one block of queries in one head; writes dq, and adds to dk and dv, of which the
/// first `written` positions hold something so far.
template <class T>
void backward_block(const Problem<T>& p, const Gradients<T>& g, TileSize size, int64_t b, int64_t h,
                    int64_t row, int64_t& written, T* weights, T* dropped, T* grad, T* delta) {
  const AttentionShape& s = p.shape;
  const int64_t rows = std::min(size.rows, s.T - row), head = p.kv_head(h);
  const T scale = static_cast<T>(p.options.scale),
          keep = static_cast<T>(1 / (1 - p.options.dropout));
  const T* const dout = g.dout.at(b, h, row);
  const int64_t dout_step = g.dout.strides[2];
  for (int64_t i = 0; i < rows; ++i)
    delta[i] = dot<T>(s.Dv, g.out.at(b, h, row + i), 1, dout + i * dout_step, 1);
  if (s.S == 0) fill_zero(g.dq, b, h, row, row + rows, s.D);
  const int64_t end = p.visible(row, rows);
  for (int64_t column = 0; column < end; column += size.columns) {
    const int64_t columns = std::min(size.columns, end - column);
    const T keep_sum = column < written ? T(1) : T(0);
    if (column < written &&
        written < column + columns) {  // with is_causal a tile grows from block to block
      fill_zero(g.dk, b, head, written, column + columns, s.D);
      fill_zero(g.dv, b, head, written, column + columns, s.Dv);
    }
    written = std::max(written, column + columns);
    const TileView<T> tile{weights, rows, columns, round_up(columns, kLanes), row, column};
    p.scores(b, h, tile);
    IsaLoops<WeightRows<T>, const TileView<T>&, const T*>::at(p.level)(
        tile, g.logsumexp + (b * s.H + h) * s.T + row);
    if (dropped != nullptr) p.drop(b, h, tile, dropped);
    gemm_one_thread<T>(true, false, columns, s.Dv, rows, T(1),
                       dropped != nullptr ? dropped : weights, tile.stride, dout, dout_step,
                       keep_sum, g.dv.at(b, head, column), g.dv.strides[2]);
    gemm_one_thread<T>(false, true, rows, columns, s.Dv, T(1), dout, dout_step,
                       p.v.at(b, head, column), p.v.strides[2], T(0), grad, tile.stride);
    IsaLoops<GradientRows<T>, const TileView<T>&, const T*, T*, const T*, T>::at(p.level)(
        tile, dropped, grad, delta, keep);
    gemm_one_thread<T>(false, false, rows, s.D, columns, scale, grad, tile.stride,
                       p.k.at(b, head, column), p.k.strides[2], column > 0 ? T(1) : T(0),
                       g.dq.at(b, h, row), g.dq.strides[2]);
    gemm_one_thread<T>(true, false, columns, s.D, rows, scale, grad, tile.stride, p.q.at(b, h, row),
                       p.q.strides[2], keep_sum, g.dk.at(b, head, column), g.dk.strides[2]);
  }
}

}  // namespace

template <class T>
void attention_forward(const AttentionShape& s, const AttentionOptions<T>& options,
                       HeadTensor<const T> q, HeadTensor<const T> k, HeadTensor<const T> v,
                       HeadTensor<T> out, T* logsumexp) {
  if (s.B == 0 || s.H == 0 || s.T == 0) return;
  const TileSize size = forward_tile(s);
  const Problem<T> problem{s, options, q, k, v};
  const int64_t blocks = (s.T + size.rows - 1) / size.rows;
  // Small heads go several to a chunk: a parallel region costs as much as 100,000 multiply-adds. A
  // few queries cost as much as 8, because k and v must be read.
  const double work = static_cast<double>(std::clamp<int64_t>(s.T, 8, size.rows)) *
                      static_cast<double>(s.S) * static_cast<double>(s.D + s.Dv);
  const auto grain = static_cast<int64_t>(std::max(1.0, kTaskWork / std::max(work, 1.0)));
  parallel_for(0, s.B * s.H * blocks, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      // Long rows first: with is_causal the last block of queries sees most.
      const int64_t block = blocks - 1 - i % blocks, head = i / blocks;
      forward_block(problem, size, head / s.H, head % s.H, block * size.rows, out, logsumexp);
    }
  });
}

template <class T>
void attention_backward(const AttentionShape& s, const AttentionOptions<T>& options,
                        HeadTensor<const T> q, HeadTensor<const T> k, HeadTensor<const T> v,
                        HeadTensor<const T> out, const T* logsumexp, HeadTensor<const T> dout,
                        HeadTensor<T> dq, HeadTensor<T> dk, HeadTensor<T> dv) {
  if (s.B == 0 || s.H == 0 || s.Hkv == 0) return;
  const TileSize size = backward_tile(s);
  const Problem<T> problem{s, options, q, k, v};
  const Gradients<T> gradients{out, dout, logsumexp, dq, dk, dv};
  const int64_t group = s.H / s.Hkv, area = size.rows * size.columns;
  parallel_chunks(s.B * s.Hkv, [&](int64_t i) {
    const int64_t b = i / s.Hkv, head = i % s.Hkv;
    const Scratch memory(bytes<T>(area * (options.dropout > 0 ? 3 : 2) + size.rows));
    T* const weights = memory.as<T>();
    T *const grad = weights + area, *const delta = grad + area;
    T* const dropped = options.dropout > 0 ? delta + size.rows : nullptr;
    int64_t written = 0;
    for (int64_t h = head * group; h < (head + 1) * group; ++h)
      for (int64_t row = 0; row < s.T; row += size.rows)
        backward_block(problem, gradients, size, b, h, row, written, weights, dropped, grad, delta);
    fill_zero(dk, b, head, written, s.S, s.D);  // what no query sees
    fill_zero(dv, b, head, written, s.S, s.Dv);
  });
}

template <class T> int64_t attention_scratch(const AttentionShape& s) {
  const TileSize size = forward_tile(s);
  const int64_t rows = std::min(size.rows, s.T), blocks = (s.T + size.rows - 1) / size.rows;
  return std::min<int64_t>(s.B * s.H * blocks, get_num_threads()) *
         bytes<T>(rows * (size.columns + s.Dv + 3));
}

template <class T> int64_t attention_backward_scratch(const AttentionShape& s, bool dropout) {
  const TileSize size = backward_tile(s);
  return std::min<int64_t>(s.B * s.Hkv, get_num_threads()) *
         bytes<T>(size.rows * (size.columns * (dropout ? 3 : 2) + 1));
}

#define PELLUCID_INSTANTIATE(T)                                                                    \
  template int64_t attention_scratch<T>(const AttentionShape&);                                    \
  template int64_t attention_backward_scratch<T>(const AttentionShape&, bool);                     \
  template void attention_forward<T>(const AttentionShape&, const AttentionOptions<T>&,            \
                                     HeadTensor<const T>, HeadTensor<const T>,                     \
                                     HeadTensor<const T>, HeadTensor<T>, T*);                      \
  template void attention_backward<T>(                                                             \
      const AttentionShape&, const AttentionOptions<T>&, HeadTensor<const T>, HeadTensor<const T>, \
      HeadTensor<const T>, HeadTensor<const T>, const T*, HeadTensor<const T>, HeadTensor<T>,      \
      HeadTensor<T>, HeadTensor<T>);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
