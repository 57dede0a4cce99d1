// How a reduction goes over a shape: its dims ordered and joined, the blocks of a chunk, the tree
// that joins their states. reduce.cpp runs it over whole tensors, reduce_pieces.cpp over pieces.
// Internal to these two.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/pointwise_plan.h"
#include "kernels/reduce.h"
#include "kernels/reduce_convert.h"
#include "kernels/reduce_fold.h"
#include "kernels/reduce_lanes.h"

namespace pellucid::kernels::reducing {

inline constexpr int64_t kRowChunk = 32 * kFoldBlock;  // elements of one output that one task folds
inline constexpr int64_t kColumnElements = 262144;     // elements of a tile that one task folds
inline constexpr int64_t kTaskElements = 32768;        // below this a task is not worth a thread
inline constexpr int64_t kShortRow = 16;               // rows this short are folded side by side
inline constexpr int64_t kNarrow = 8;  // fewer columns than this are folded one by one
inline constexpr int kLevels = 8;      // a chunk has at most 2^(kLevels-1) blocks

struct Dim {
  int64_t size, in, out;
};

/// A few dims, outermost first.
struct Dims {
  std::array<Dim, kMaxDims> d;
  int n = 0;
  // d stays unset: zeroing it would cost more than a small reduction.
  Dims() {}  // NOLINT(modernize-use-equals-default)
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

inline Plan make_plan(const ReduceArgs& args) {
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
inline void merge_chunks(const Plan& p, std::byte* states, int64_t chunks, int64_t unit,
                         int64_t pitch, int64_t width) {
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
inline void store(const Plan& p, const void* state, int64_t pitch, int64_t width,
                  int64_t out_offset, int64_t stride) {
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
inline const void* load_row(const Plan& p, int64_t base, int64_t first, int64_t n,
                            std::byte* buffer) {
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
inline void fold_row(const Plan& p, int64_t base, int64_t first, int64_t last, std::byte* state) {
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

/// Rows of a tile of that many columns that one task folds.
inline int64_t rows_per_chunk(int64_t columns) {
  const int64_t blocks = kColumnElements / kFoldRows / std::min(columns, kFoldTile);
  return kFoldRows * std::min(blocks, int64_t{1} << (kLevels - 1));
}

/// Whether neighbouring outputs are folded side by side, and not one by one.
inline bool by_columns(const Plan& p) {
  const Dim& column = p.kept.d[p.kept.n - 1];
  const bool rows_lie_together = p.reduced.d[p.reduced.n - 1].in <= column.in;
  return column.size >= kNarrow && (rows_lie_together ? p.count <= kShortRow : true);
}

}  // namespace pellucid::kernels::reducing
