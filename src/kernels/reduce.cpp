// The driver of the reductions: it orders and joins dims, decides between folding along rows and
// folding across columns, cuts the work into chunks that depend on the shape alone, and merges
// states in a tree. What is folded lives in reduce_ops.cpp.
#include "kernels/reduce.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/pointwise_plan.h"
#include "kernels/reduce_convert.h"
#include "kernels/reduce_fold.h"
#include "kernels/reduce_lanes.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kRowChunk = 32 * kFoldBlock;  // elements of one output that one task folds
constexpr int64_t kColumnElements = 262144;     // elements of a tile that one task folds
constexpr int64_t kTaskElements = 32768;        // below this a task is not worth a thread
constexpr int64_t kShortRow = 16;               // rows this short are folded side by side
constexpr int64_t kNarrow = 8;                  // fewer columns than this are folded one by one
constexpr int kLevels = 8;                      // a chunk has at most 2^(kLevels-1) blocks

struct Dim {
  int64_t size, in, out;
};

/// A few dims, outermost first.
struct Dims {
  std::array<Dim, kMaxDims> d;
  int n = 0;
  Dims() {}  // d stays unset: zeroing it would cost more than a small reduction
  int64_t count() const {
    int64_t c = 1;
    for (int i = 0; i < n; ++i) c *= d[i].size;
    return c;
  }
  /// In- and out-offsets of the element with this row-major position.
  std::array<int64_t, 2> offsets(int64_t position) const {
    int64_t in = 0, out = 0;
    for (int i = n - 1; i >= 0 && position > 0; --i) {
      const int64_t at = position % d[i].size;
      position /= d[i].size;
      in += at * d[i].in;
      out += at * d[i].out;
    }
    return {in, out};
  }
  void add(Dim dim, bool sorted) {
    int at = n++;
    for (; sorted && at > 0 && d[at - 1].in < dim.in; --at) d[at] = d[at - 1];
    d[at] = dim;
  }
  /// Joins neighbours that one stride walks.
  void coalesce() {
    int kept = 0;
    for (int i = 0; i < n; ++i) {
      Dim& last = d[kept ? kept - 1 : 0];
      if (kept && last.in == d[i].in * d[i].size && last.out == d[i].out * d[i].size)
        last = {last.size * d[i].size, d[i].in, d[i].out};
      else
        d[kept++] = d[i];
    }
    n = kept;
  }
};

struct Plan {
  const ReduceArgs& args;
  const Fold& fold;
  Dims kept, reduced;
  int64_t outputs, count;  // outputs, and elements folded into each
  int64_t in_size = element_size(args.in_type);
  bool same_type =
      args.in_type == fold.compute || (element_size(args.in_type) == 1 && fold.compute == kUInt8);

  const std::byte* at(int64_t offset) const {
    return static_cast<const std::byte*>(args.in) + offset * in_size;
  }
  int64_t state_size(int64_t pitch) const { return fold.parts * fold.part_size * pitch; }
};

Plan make_plan(const ReduceArgs& args) {
  Plan p{.args = args, .fold = fold_for(args), .kept = {}, .reduced = {}, .outputs = 1, .count = 1};
  const bool positions =
      args.op == ReduceOp::ArgMax || args.op == ReduceOp::ArgMin;  // need the logical order
  for (size_t i = 0; i < args.sizes.size(); ++i) {
    const bool fold = args.reduced >> i & 1;
    (fold ? p.count : p.outputs) *= args.sizes[i];
    if (args.sizes[i] == 1) continue;
    if (fold)
      p.reduced.add({args.sizes[i], args.in_strides[i], 0}, !positions);
    else
      p.kept.add({args.sizes[i], args.in_strides[i], args.out_strides[i]}, true);
  }
  // The out-stride of a reduced dim means nothing: give it what lets neighbours join.
  for (int i = 0; i < p.reduced.n; ++i) p.reduced.d[i].out = p.reduced.d[i].in;
  p.kept.coalesce();
  p.reduced.coalesce();
  if (p.reduced.n == 0) p.reduced.add({1, 1, 1}, false);
  if (p.kept.n == 0) p.kept.add({1, 1, 1}, false);
  return p;
}

/// A binary counter of states: level k holds 2^k blocks, so that sums are pairwise in a fixed
/// order.
class Tree {
 public:
  Tree(const Fold& fold, int64_t pitch, int64_t width, std::byte* memory)
      : fold_(fold),
        pitch_(pitch),
        width_(width),
        bytes_(fold.parts * fold.part_size * pitch),
        memory_(memory) {}
  /// Where the next block's state goes.
  std::byte* next() { return memory_ + top_ * bytes_; }
  /// Takes the state at next(), of n elements.
  void push(int64_t n) {
    counts_[top_++] = n;
    for (int64_t b = blocks_++; b & 1; b >>= 1) join();
  }
  /// The state of all.
  const std::byte* root() {
    while (top_ > 1) join();
    return memory_;
  }

 private:
  void join() {
    --top_;
    fold_.merge(memory_ + (top_ - 1) * bytes_, memory_ + top_ * bytes_, pitch_, width_,
                counts_[top_ - 1], counts_[top_]);
    counts_[top_ - 1] += counts_[top_];
  }
  const Fold& fold_;
  int64_t pitch_, width_, bytes_;
  std::byte* memory_;
  std::array<int64_t, kLevels + 1> counts_{};
  int64_t blocks_ = 0;
  int top_ = 0;
};

/// Joins the states of neighbouring chunks, `unit` elements each, pairwise into the first.
void merge_chunks(const Plan& p, std::byte* states, int64_t chunks, int64_t unit, int64_t pitch,
                  int64_t width) {
  const int64_t bytes = p.state_size(pitch);
  const auto held = [&](int64_t chunk, int64_t step) {
    return std::min(step * unit, p.count - chunk * unit);
  };
  for (int64_t step = 1; step < chunks; step *= 2)
    for (int64_t c = 0; c + step < chunks; c += 2 * step)
      p.fold.merge(states + c * bytes, states + (c + step) * bytes, pitch, width, held(c, step),
                   held(c + step, step));
}

/// Writes the results of `width` neighbouring outputs, `stride` apart.
void store(const Plan& p, const void* state, int64_t pitch, int64_t width, int64_t out_offset,
           int64_t stride) {
  alignas(64) std::byte values[kFoldTile * 8];
  alignas(64) std::byte means[kFoldTile * 8];
  int64_t indices[kFoldTile];
  p.fold.finish(state, pitch, width, p.count, p.args.parameter, values, means, indices);
  const int64_t bytes = out_offset * element_size(p.args.out_type);
  const auto write = [&](void* to, const void* from) {
    if (to)
      convert(p.fold.compute, from, 1, p.args.out_type, static_cast<std::byte*>(to) + bytes, stride,
              width);
  };
  write(p.args.out, values);
  write(p.args.mean, means);
  if (p.args.indices)
    for (int64_t i = 0; i < width; ++i) p.args.indices[out_offset + i * stride] = indices[i];
}

/// Elements [first, first + n) of the folded space as contiguous compute values: the input itself
/// if it is that.
const void* load_row(const Plan& p, int64_t base, int64_t first, int64_t n, std::byte* buffer) {
  const Dim& inner = p.reduced.d[p.reduced.n - 1];
  int64_t within = first % inner.size, offset = base + p.reduced.offsets(first)[0];
  if (p.same_type && inner.in == 1 && within + n <= inner.size) return p.at(offset);
  const int64_t compute_size = element_size(p.fold.compute);
  const DType from = p.same_type ? p.fold.compute : p.args.in_type;
  for (int64_t done = 0;;) {
    const int64_t run = std::min(n - done, inner.size - within);
    convert(from, p.at(offset), inner.in, p.fold.compute, buffer + done * compute_size, 1, run);
    if ((done += run) == n) return buffer;
    within = 0;
    offset = base + p.reduced.offsets(first + done)[0];
  }
}

/// Folds [first, last) of the output whose input starts at `base`; the state has pitch 1.
void fold_row(const Plan& p, int64_t base, int64_t first, int64_t last, std::byte* state) {
  alignas(64) std::byte buffer[kFoldBlock * 8];
  if (last - first <= kFoldBlock) {
    p.fold.row(load_row(p, base, first, last - first, buffer), last - first, first,
               p.args.parameter, state);
    return;
  }
  alignas(64) std::byte memory[(kLevels + 1) * 16];
  Tree tree(p.fold, 1, 1, memory);
  // Where all lies together, finding a block must not cost as much as folding it.
  const bool together = p.same_type && p.reduced.n == 1 && p.reduced.d[0].in == 1;
  for (int64_t i = first; i < last; i += kFoldBlock) {
    const int64_t n = std::min(kFoldBlock, last - i);
    p.fold.row(together ? p.at(base + i) : load_row(p, base, i, n, buffer), n, i, p.args.parameter,
               tree.next());
    tree.push(n);
  }
  std::copy_n(tree.root(), p.state_size(1), state);
}

void reduce_rows(const Plan& p) {
  const int64_t chunks = (p.count - 1) / kRowChunk + 1, bytes = p.state_size(1);
  if (chunks == 1) {
    const Dim inner = p.kept.d[p.kept.n - 1];
    parallel_for(
        0, p.outputs, std::max<int64_t>(1, kTaskElements / p.count),
        [&](int64_t begin, int64_t end) {
          alignas(64) std::byte states[2 * 8 * kFoldTile];
          for (int64_t i = begin; i < end;) {
            // A run of outputs along the innermost kept dim is stored together.
            const int64_t run = std::min({end - i, inner.size - i % inner.size, kFoldTile});
            const auto [in, out] = p.kept.offsets(i);
            for (int64_t k = 0; k < run; ++k) {
              alignas(16) std::byte state[16];
              fold_row(p, in + k * inner.in, 0, p.count, state);
              for (int64_t part = 0; part < p.fold.parts; ++part)
                std::copy_n(state + part * p.fold.part_size, p.fold.part_size,
                            states + (part * kFoldTile + k) * p.fold.part_size);
            }
            store(p, states, kFoldTile, run, out, inner.out);
            i += run;
          }
        });
    return;
  }
  std::vector<std::byte> partial(static_cast<size_t>(p.outputs * chunks * bytes));
  parallel_chunks(p.outputs * chunks, [&](int64_t task) {
    const int64_t first = task % chunks * kRowChunk;
    fold_row(p, p.kept.offsets(task / chunks)[0], first, std::min(first + kRowChunk, p.count),
             partial.data() + task * bytes);
  });
  for (int64_t i = 0; i < p.outputs; ++i) {
    std::byte* states = partial.data() + i * chunks * bytes;
    merge_chunks(p, states, chunks, kRowChunk, 1, 1);
    store(p, states, 1, 1, p.kept.offsets(i)[1], 1);
  }
}

/// Folds rows [first, last) of the tile of `width` columns that starts at `base`; the result is in
/// the tree.
void fold_tile(const Plan& p, int64_t base, int64_t column_stride, int64_t width, int64_t first,
               int64_t last, std::byte* buffer, Tree& tree) {
  const bool direct = p.same_type && column_stride == 1;
  const int64_t row_bytes = kFoldTile * element_size(p.fold.compute);
  const Dim& inner = p.reduced.d[p.reduced.n - 1];
  for (int64_t r = first; r < last; r += kFoldRows) {
    const void* rows[kFoldRows];
    const int64_t n = std::min(kFoldRows, last - r);
    int64_t offset = 0, within = inner.size;
    for (int64_t k = 0; k < n; ++k, ++within, offset += inner.in) {
      if (within >= inner.size) {  // the outer dims have moved
        within = (r + k) % inner.size;
        offset = base + p.reduced.offsets(r + k)[0];
      }
      rows[k] = p.at(offset);
      if (direct) continue;
      convert(p.same_type ? p.fold.compute : p.args.in_type, rows[k], column_stride, p.fold.compute,
              buffer + k * row_bytes, 1, width);
      rows[k] = buffer + k * row_bytes;
    }
    p.fold.columns(rows, n, width, r, p.args.parameter, tree.next());
    tree.push(n);
  }
}

/// Rows of a tile of that many columns that one task folds.
int64_t rows_per_chunk(int64_t columns) {
  const int64_t blocks = kColumnElements / kFoldRows / std::min(columns, kFoldTile);
  return kFoldRows * std::min(blocks, int64_t{1} << (kLevels - 1));
}

void reduce_columns(const Plan& p) {
  Plan outer = p;  // its kept dims are those around the columns
  const Dim columns = outer.kept.d[--outer.kept.n];
  const int64_t chunk = rows_per_chunk(columns.size);
  const int64_t tiles = (columns.size - 1) / kFoldTile + 1, chunks = (p.count - 1) / chunk + 1;
  const int64_t groups = p.outputs / columns.size, bytes = p.state_size(kFoldTile);
  std::vector<std::byte> partial(
      static_cast<size_t>(chunks > 1 ? groups * tiles * chunks * bytes : 0));
  const auto tile_at = [&](int64_t tile) {
    struct {
      int64_t in, out, width;
    } t{};
    const auto [in, out] = outer.kept.offsets(tile / tiles);
    const int64_t first = tile % tiles * kFoldTile;
    t = {in + first * columns.in, out + first * columns.out,
         std::min(kFoldTile, columns.size - first)};
    return t;
  };
  const int64_t converted =
      p.same_type && columns.in == 1 ? 0 : kFoldRows * kFoldTile * element_size(p.fold.compute);
  const int64_t task_elements = std::min(columns.size, kFoldTile) * std::min(p.count, chunk);
  parallel_for(0, groups * tiles * chunks, std::max<int64_t>(1, kTaskElements / task_elements),
               [&](int64_t begin, int64_t end) {
                 // States and converted rows are too large for a small stack; one block a run.
                 const int64_t states = (kLevels + 1) * bytes;
                 const std::unique_ptr<std::byte[]> memory(
                     new std::byte[static_cast<size_t>(states + converted)]);
                 std::byte* buffer = memory.get() + states;
                 for (int64_t task = begin; task < end; ++task) {
                   const auto tile = tile_at(task / chunks);
                   const int64_t first = task % chunks * chunk;
                   Tree tree(p.fold, kFoldTile, tile.width, memory.get());
                   fold_tile(p, tile.in, columns.in, tile.width, first,
                             std::min(first + chunk, p.count), buffer, tree);
                   if (chunks == 1)
                     store(p, tree.root(), kFoldTile, tile.width, tile.out, columns.out);
                   else
                     std::copy_n(tree.root(), bytes, partial.data() + task * bytes);
                 }
               });
  if (chunks == 1) return;
  parallel_for(0, groups * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      std::byte* states = partial.data() + t * chunks * bytes;
      const auto tile = tile_at(t);
      merge_chunks(p, states, chunks, chunk, kFoldTile, tile.width);
      store(p, states, kFoldTile, tile.width, tile.out, columns.out);
    }
  });
}

/// Every output gets the result of folding nothing.
void fill_empty(const Plan& p) {
  const double value = empty_result(p.args);
  const auto write = [&](void* to, double result, int64_t at) {
    if (to)
      convert(kFloat64, &result, 1, p.args.out_type,
              static_cast<std::byte*>(to) + at * element_size(p.args.out_type), 1, 1);
  };
  for (int64_t i = 0; i < p.outputs; ++i) {
    const int64_t at = p.kept.offsets(i)[1];
    write(p.args.out, value, at);
    write(p.args.mean, std::numeric_limits<double>::quiet_NaN(), at);
  }
}

}  // namespace

void reduce(const ReduceArgs& args) {
  const Plan p = make_plan(args);
  if (p.outputs == 0) return;
  if (p.count == 0) return fill_empty(p);
  const Dim& column = p.kept.d[p.kept.n - 1];
  const bool rows_lie_together = p.reduced.d[p.reduced.n - 1].in <= column.in;
  const bool by_columns =
      column.size >= kNarrow && (rows_lie_together ? p.count <= kShortRow : true);
  by_columns ? reduce_columns(p) : reduce_rows(p);
}

}  // namespace pellucid::kernels
