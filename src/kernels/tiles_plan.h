// A program of tiles made ready to run: how large a tile is, where its values lie, how operands
// come to it. Internal to tiles.cpp and tiles_plan.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/gemm_scratch.h"
#include "kernels/pointwise_plan.h"
#include "kernels/tiles.h"

namespace pellucid::kernels::tiling {

/// Bytes of a tile over all that it touches: half of a first-level cache, with room for the rest.
inline constexpr int64_t kTileBytes = 24 << 10;
/// Operands of so many bytes come from beyond the second-level cache: tiles ask for them one tile
/// ahead, so that they arrive while the loops work.
inline constexpr int64_t kPrefetchBytes = 2 << 20;
/// Buffers up to so many bytes lie on the stack.
inline constexpr int64_t kLocalBytes = 32 << 10;
inline constexpr int64_t kLeastTile = 256, kMostTile = 4096, kLongTile = 1 << 16;

/// How tiles reach one operand.
struct Access {
  const TileOperand* operand;
  int64_t element;
  bool dense;     // a tile of it is contiguous
  bool repeated;  // every tile has the same content
};

/// One input of a call, as a tile needs it.
struct Feed {
  int source;
  ConvertBlock convert = nullptr;
  alignas(8) char number[8];  // a converted 0-dim operand, to be repeated
  bool is_number = false;
  int64_t element = 0;  // bytes in the type that the loop reads
  int slot = -1;        // the buffer of converted or repeated values
  int64_t spread = 0;   // a value of rows, each element of which is repeated so often
};

/// A fold: where its input lies, which is all of a block before it is folded.
struct FoldUse {
  size_t call;
  int64_t element;     // bytes
  const char* whole;   // the input as a whole, null where it lies in tiles alone;
  int64_t block = -1;  // then the place of the block, in a thread's blocks,
  int home = -1;       // and the value that is made there, if one is
};

/// A program made ready: what each tile needs to know.
struct Plan {
  const TileProgram& program;
  const IterationPlan plan;
  std::vector<Access> accesses;
  std::vector<std::array<Feed, TileStep::kMostInputs>> feeds;
  std::vector<ConvertBlock> stores;  // of each call, from what its loop writes to what is kept
  int buffers = 0;                   // in a thread's workspace
  int gathers = 0;                   // the buffers of operands come first
  int scratch = -1;                  // the buffer of a loop's result before conversion
  int64_t tile = 0, row = 0, tiles_per_row = 1, tiles = 0;
  int64_t widest = 1;
  bool asks_ahead = false;        // for the next tile of operands that come from memory
  std::vector<int> row_slots;     // of each value of rows without memory, else -1
  int row_buffers = kRowBuffers;  // buffers with an element for each row of a tile
  std::vector<FoldUse> folds;
  PieceFold::Shape folded;  // of all of them
  int64_t width = 1;        // columns of a task
  int64_t block_bytes = 0;  // of the folds' blocks

  /// The first buffers of rows: results that nobody needs, and values on their way.
  static constexpr int kRowBuffers = static_cast<int>(TileStep::kMostOutputs), kConvertedRows = 2;

  /// `whole`: all tiles are run, so that results may be written past the caches.
  Plan(TileProgram& p, bool whole);
  double work_per_element() const {
    double sum = 0;
    for (const TileCall& c : program.calls)
      sum += c.step->work / static_cast<double>(std::max<int64_t>(c.row, 1));
    return sum;
  }

 private:
  Plan(TileProgram& p, bool whole, const std::vector<const int64_t*>& strides);
  void choose_streamed(TileProgram& p);
  void feed(const TileProgram& p);
  void place(TileProgram& p);
  void find_folds();
  void place_folds(TileProgram& p);
  void choose_tile();
  void choose_fold_tile(int64_t elements);
  void find_repeated();
};

/// Rows of a tile, at most: what buffers of rows have room for.
inline int64_t most_rows(const Plan& p) {
  int64_t rows = 0;
  for (const TileCall& c : p.program.calls)
    if (c.step->row > 0) rows = std::max(rows, p.tile / c.step->row);
  return rows;
}

/// Bytes from one buffer to the next: not all on the same cache sets.
inline int64_t buffer_stride(const Plan& p) { return (p.tile * p.widest + 63) / 64 * 64 + 64; }

/// Memory for the buffers of all threads, where they are too large for the stack. It is taken
/// before anything runs: a program that changes tensors in place must not stop halfway.
class WorkspaceMemory {
 public:
  explicit WorkspaceMemory(const Plan& p)
      : each_(bytes_of(p) > kLocalBytes ? bytes_of(p) : 0),
        slots_(each_ > 0 ? get_num_threads() : 0),
        memory_(each_ * slots_),
        taken_(static_cast<size_t>(slots_), false) {}
  static int64_t bytes_of(const Plan& p) {
    return buffer_stride(p) * p.buffers + row_stride(p) * p.row_buffers + p.block_bytes;
  }
  static int64_t row_stride(const Plan& p) { return (most_rows(p) * 8 + 63) / 64 * 64; }
  /// The buffers of one thread until give(); null where they fit on its stack.
  char* take() {
    if (each_ == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    PELLUCID_ASSERT(free != taken_.end());  // no more parts run at once than there are threads
    *free = true;
    return memory_.as<char>() + (free - taken_.begin()) * each_;
  }
  void give(const char* buffers) {
    if (!buffers) return;
    const std::lock_guard lock(mutex_);
    taken_[static_cast<size_t>((buffers - memory_.as<char>()) / each_)] = false;
  }

 private:
  const int64_t each_, slots_;
  const Scratch memory_;
  std::mutex mutex_;
  std::vector<bool> taken_;
};

/// The buffers of one thread, and what they hold from one tile to the next.
class Workspace {
 public:
  Workspace(const Plan& p, WorkspaceMemory& memory);
  ~Workspace() { from_.give(given_); }
  Workspace(const Workspace&) = delete;
  /// Elements [position, position + count) of the shape, in memory order; at most a tile.
  void run(int64_t position, int64_t count);
  /// The same for rows of `count` elements, `row_stride` apart, if every operand goes along with
  /// them: then only pointers move from one row to the next. Whether that was so.
  bool run_rows(int64_t position, int64_t rows, int64_t count, int64_t row_stride);
  /// A task of the folds, from its first element to its last.
  void fold(const PieceFold::Place& place);

 private:
  void fetch(int64_t count);
  const void* feed(const Feed& f, int64_t count) const;
  void run_step(size_t i, const void* const* in, int64_t count);
  void keep_for_fold(size_t call, const void* x, int64_t count);
  void fold_chunk(int64_t base, int64_t first, int64_t last);
  void fold_columns(const PieceFold::Place& place, int64_t first, int64_t last);

  void fetch_lent(int64_t place, int64_t count) const;
  void store_streamed(const TileValue& v, int64_t count) const;
  void prefetch(int64_t position, int64_t count, size_t step) const;
  char* value_at(int v) const {
    const TileValue& value = program_.values[static_cast<size_t>(v)];
    const int64_t element = element_size(value.dtype);
    if (value.block >= 0) return rows_of(p_.row_buffers) + value.block + in_block_ * element;
    if (value.row > 0)
      return value.memory ? value.memory + place_ / value.row * element
                          : rows_of(p_.row_slots[static_cast<size_t>(v)]);
    return value.buffer >= 0 ? buffer(value.buffer) : value.memory + place_ * element;
  }
  char* buffer(int k) const { return base_ + k * stride_; }
  char* rows_of(int k) const { return base_ + stride_ * p_.buffers + k * row_stride_; }
  char* block_of(const FoldUse& f) const { return rows_of(p_.row_buffers) + f.block; }

  const Plan& p_;
  const TileProgram& program_;
  const int64_t stride_, row_stride_;
  WorkspaceMemory& from_;
  char* const given_;
  char* const base_;
  const char* blocks_[kMaxPlanned];
  struct Held {
    int64_t begin = -1, count = 0;  // along the innermost dimension
  };
  Held held_[kMaxPlanned];
  int64_t index_[kMaxDims];
  int64_t place_ = 0;
  std::vector<std::unique_ptr<PieceFold::Task>> tasks_;  // of the folds, while one runs
  int64_t begin_of_fold_ = 0;                            // where the folded elements begin
  int64_t in_block_ = 0;                                 // where a piece lies in the folds' blocks
  // Threads that begin at once would wait for each other in the allocator.
  alignas(64) char local_[kLocalBytes];
};

}  // namespace pellucid::kernels::tiling
