// The driver of the reductions: it decides between folding along rows and folding across columns,
// cuts the work into chunks that depend on the shape alone, and merges states in a tree
// (reduce_plan.h). What is folded lives in reduce_ops.cpp.
#include "kernels/reduce.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/reduce_plan.h"

namespace pellucid::kernels {

using namespace reducing;

namespace {

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
  by_columns(p) ? reduce_columns(p) : reduce_rows(p);
}

bool reduces_many(int64_t rows) { return rows >= kNarrow; }

namespace {

// Rows too short to be folded one by one: their elements become columns.
void reduce_short_rows(const Plan& p, int64_t rows) {
  constexpr int64_t kWidth = 128;
  alignas(64) std::byte columns[kShortRow * kWidth * 8];
  alignas(64) std::byte state[2 * 8 * kFoldTile];
  const DType from = p.same_type ? p.fold.compute : p.args.in_type;
  const int64_t pitch = kWidth * element_size(p.fold.compute);
  for (int64_t r = 0; r < rows; r += kWidth) {
    const int64_t width = std::min(kWidth, rows - r);
    const void* of[kShortRow];
    for (int64_t k = 0; k < p.count; ++k) {
      of[k] = columns + k * pitch;
      convert(from, p.at(r * p.count + k), p.count, p.fold.compute, columns + k * pitch, 1, width);
    }
    p.fold.columns(of, p.count, width, 0, p.args.parameter, state);
    store(p, state, kFoldTile, width, r, 1);
  }
}

}  // namespace

void reduce_some_rows(const RowReduction& r, const void* in, int64_t rows, void* out,
                      void* second) {
  ReduceArgs args;
  args.op = r.op;
  args.in_type = r.in_type;
  args.in = in;
  args.out_type = r.out_type;
  args.out = out;
  if (r.op == ReduceOp::ArgMax || r.op == ReduceOp::ArgMin)
    args.indices = static_cast<int64_t*>(second);
  else
    args.mean = second;
  args.parameter = r.parameter;
  Plan p{.args = args,
         .fold = fold_for(args),
         .kept = {},
         .reduced = {},
         .outputs = rows,
         .count = r.count};
  p.kept.add({rows, r.count, 1}, false);
  p.reduced.add({r.count, 1, 1}, false);
  if (r.many && r.count <= kShortRow) return reduce_short_rows(p, rows);
  reduce_rows(p);
}

}  // namespace pellucid::kernels
