// The type-erased face of a fold: how one reduction op treats a block of a row, a block of rows
// across columns, and two partial states. reduce_ops.cpp fills the tables, reduce.cpp walks the
// shapes.
#pragma once

#include <cstdint>

#include "kernels/reduce.h"

namespace pellucid::kernels {

/// Columns that are folded side by side: a page of floats, because memory comes 1.2x sooner by
/// whole rows than by halves of them, and no more, so that states stay in the first-level cache.
inline constexpr int64_t kFoldTile = 1024;
/// Rows that one call of `columns` takes at most.
inline constexpr int64_t kFoldRows = 32;

/// One op at one compute type and ISA level. A state is `parts` runs of numbers, `pitch` apart.
struct Fold {
  int64_t parts;
  int64_t part_size;  ///< bytes of one number of a state
  DType compute;      ///< the type of the values that row and columns read and finish writes
  /// Folds n <= kFoldBlock contiguous values, the first of which has position `first`; pitch 1.
  void (*row)(const void* x, int64_t n, int64_t first, double parameter, void* state);
  /// Folds n <= kFoldRows rows of `width` values, column by column; pitch kFoldTile.
  void (*columns)(const void* const* rows, int64_t n, int64_t width, int64_t first,
                  double parameter, void* state);
  /// into = into joined with from, which hold counts of n_into and n_from and follow each other.
  void (*merge)(void* into, const void* from, int64_t pitch, int64_t width, int64_t n_into,
                int64_t n_from);
  /// The results of `count` folded values per column; a state without elements is never passed.
  void (*finish)(const void* state, int64_t pitch, int64_t width, int64_t count, double parameter,
                 void* values, void* means, int64_t* indices);
};

/// The table for args' op and types at the current ISA level.
const Fold& fold_for(const ReduceArgs& args);
/// What `args` gives when no element is folded.
double empty_result(const ReduceArgs& args);

}  // namespace pellucid::kernels
