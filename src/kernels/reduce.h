// Reductions of a strided array over any set of its dimensions: sum, mean, prod, max, min, argmax,
// argmin, any, all, var, std, p-norm, logsumexp. Bits depend on shape and strides alone, never on
// the number of threads. Checks of dims, and errors for empty max/min, are the caller's.
#pragma once

#include <cstdint>
#include <memory>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// What to fold with. Max, Min, ArgMax and ArgMin let NaN win; ArgMax and ArgMin give the first
/// index.
enum class ReduceOp : uint8_t {
  Sum,
  Mean,
  Prod,
  Max,
  Min,
  ArgMax,
  ArgMin,
  Any,
  All,
  Var,
  Std,
  Norm,
  LogSumExp
};

/// One reduction. Strides count elements; out_strides has one entry per input dim, ignored where
/// reduced.
struct ReduceArgs {
  ReduceOp op = ReduceOp::Sum;
  DType in_type = kFloat32;
  const void* in = nullptr;
  DType out_type = kFloat32;
  void* out = nullptr;   ///< values; for ArgMax and ArgMin the extreme itself, or null
  void* mean = nullptr;  ///< Var, Std: the means too, of out_type, unless null
  int64_t* indices =
      nullptr;  ///< ArgMax, ArgMin: the position in row-major order of the reduced dims
  IntArrayRef sizes;
  IntArrayRef in_strides;
  IntArrayRef out_strides;  ///< of `out`, `mean` and `indices` alike
  uint64_t reduced = 0;     ///< bit d set: dim d is folded
  double parameter = 0;     ///< Var, Std: the correction; Norm: p (may be +-infinity)
};

/// Runs the reduction. Integers fold in int64, 16-bit floats in float32; an output of float64 folds
/// in float64. Without elements: 0 for Sum and Norm, 1 for Prod, -inf for LogSumExp, NaN for Mean
/// and Var.
void reduce(const ReduceArgs& args);

/// The reduction of rows that lie one after the other, of which a caller has some at a time.
struct RowReduction {
  ReduceOp op = ReduceOp::Sum;
  DType in_type = kFloat32, out_type = kFloat32;
  bool many = true;      ///< reduces_many() of how many rows there are in all
  int64_t count = 1;     ///< elements of a row, at most kMostInRow
  double parameter = 0;  ///< as in ReduceArgs
};
inline constexpr int64_t kMostInRow = 32768;
/// Short rows are folded in another order where there are many of them.
bool reduces_many(int64_t rows);
/// The same bits as reduce() of all rows at once. `second`: means or places, or null. `out` may be
/// null for ArgMax and ArgMin.
void reduce_some_rows(const RowReduction& r, const void* in, int64_t rows, void* out, void* second);

/// A reduction whose input lies densely and comes in pieces, from any thread: whoever makes the
/// input block by block need not keep it. The bits are those of reduce().
class PieceFold {
 public:
  virtual ~PieceFold() = default;
  /// The input in memory order: [outer][count][columns], of which `count` is folded. A task folds
  /// `chunk` of it; pieces of it are `piece`, from the task's first on.
  struct Shape {
    int64_t outer = 1, count = 0, columns = 1, chunk = 0, piece = 0;
    bool operator==(const Shape&) const = default;
    int64_t chunks() const { return (count - 1) / chunk + 1; }
  };
  Shape shape;
  DType computed = kFloat32;  ///< of the pieces
  double work = 1;            ///< an element's, as in run_pointwise

  /// What one task folds: columns [column, column + width) of one `outer`, one chunk of `count`.
  struct Place {
    int64_t outer = 0, column = 0, width = 1, chunk = 0;
  };
  /// The task of one thread.
  class Task {
   public:
    virtual ~Task() = default;
    /// Folds [first, first + n) of `count`. With columns: n <= piece rows of `width` values each.
    /// Without: n values at rows[0], a multiple of `piece` unless they are the task's last.
    virtual void add(const void* const* rows, int64_t n, int64_t first) = 0;
    virtual void end() = 0;
  };
  /// Before a run: where the op's results go, null where nobody needs them. All tasks have this
  /// width, but for the last ones of each `outer`.
  virtual void begin(void* first, void* second, int64_t width) = 0;
  virtual std::unique_ptr<Task> task(const Place& place) = 0;
  /// After all tasks.
  virtual void finish() = 0;
};
/// Null where the order in which `args` folds cannot be followed by pieces. `args.out` need only
/// tell whether there are values; memory is given by begin().
std::shared_ptr<PieceFold> piece_fold(const ReduceArgs& args);

}  // namespace pellucid::kernels
