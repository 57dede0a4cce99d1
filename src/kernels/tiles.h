// Several ops over one shape in one pass: a tile of the shape goes through all of them while it is
// in the caches, and only results that somebody needs go to memory. The loops are those that the
// ops run alone, on shorter pieces, so the bits are the same. Nothing here checks shapes, dtypes or
// overlap (core/fuse.h does).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/pointwise.h"
#include "kernels/reduce.h"
#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// The rows of a tile for a loop that works by rows.
struct TileRows {
  const void* const* in;
  void* const* out;
  int64_t rows;
};
using RowLoop = void (*)(const void* context, const TileRows& tile);
/// Changes elements [begin, begin + count) of arrays that the context knows; `in` is at the first.
using UpdateLoop = void (*)(const void* context, int64_t begin, int64_t count, const void* in);

/// A part of a result that is complete: rows of `columns` elements each, `row_stride` elements
/// apart.
struct ResultBlock {
  const void* data;
  int64_t rows, columns, row_stride;
};

/// What follows an op that computes blocks, as products and batch norm do: its kernel calls it once
/// on every element of the result, block by block, as soon as a block is in memory and while it is
/// in a cache; from any thread.
class Epilogue {
 public:
  virtual ~Epilogue() = default;
  virtual void operator()(const ResultBlock& block) const = 0;
  /// Asks for what it will read of other arrays there; a kernel calls it some time before.
  virtual void ahead(const ResultBlock& block) const = 0;
};

/// What an op would run: its kernel fills it in (Call::described). Neither a loop nor a root: it
/// cannot tell.
struct TileStep {
  static constexpr size_t kMostInputs = 4, kMostOutputs = 3, kContextBytes = 112;

  InnerLoop loop = nullptr;  ///< for each element,
  RowLoop rows = nullptr;    ///< or for each row of `row` elements, the last ones of the shape
  int64_t row = 0;
  bool reduces = false;  ///< of a loop by rows: output 0, too, has one element a row
  /// Or a fold over all: of what `loop` gives, or of input 0 where there is no loop.
  std::shared_ptr<PieceFold> fold;
  UpdateLoop update = nullptr;  ///< or a change of arrays by input 0, which has no result
  std::array<const char*, 4> changed = {};  ///< these arrays, of the result's sizes and row-major
  bool begins = false;  ///< of an update: the group runs now, and other changes are to be made too
  bool root = false;    ///< or blocks of the result, in an order of its own;
  bool whole_rows = false;  ///< then whether no block ends within a row
  bool repeats = false;     ///< and whether it may compute a block again, and call for it again
  const Epilogue* epilogue = nullptr;  ///< of a root: the kernel is to run now, and to call this
  alignas(16) char context[kContextBytes];  ///< the loop's functor
  double work = 1;                          ///< as run_pointwise's work_per_element
  DType out_computed = kFloat32;            ///< what the loop writes for output 0

  struct Input {
    uint8_t number = 0;         ///< which input of the call
    DType computed = kFloat32;  ///< the type that the loop reads
    DType through = kFloat32;   ///< a 0-dim tensor of another type passes through this one
    bool operator==(const Input&) const = default;
  };
  std::array<Input, kMostInputs> inputs;
  uint8_t input_count = 0;

  /// Copies a functor or a context; false if it is too large.
  bool set_context(const void* from, size_t bytes) {
    if (bytes > kContextBytes) return false;
    std::memcpy(context, from, bytes);
    return true;
  }
  template <class C> bool by_rows(RowLoop f, int64_t row_elements, const C& c) {
    static_assert(sizeof(C) <= kContextBytes);
    rows = f;
    row = row_elements;
    return set_context(&c, sizeof(C));
  }
};

/// A tensor that the steps read and did not make.
struct TileOperand {
  char* data;
  DType dtype;
  std::vector<int64_t> strides;  ///< over the shape, in elements; 0 repeats
  bool number = false;           ///< a 0-dim tensor
  int64_t row = 0;               ///< as a value's; then it lies densely
};

/// A result of a step, or of the root. All of them have the shape and its dense layout, or one
/// element for each row of it.
struct TileValue {
  DType dtype;
  char* memory;           ///< null where nobody but later steps needs it
  int last_use;           ///< the last step that reads it, counted as `calls` are
  int64_t row = 0;        ///< how many elements of the shape it has one for; 0 for all
  bool lent = false;      ///< a step writes another value there while it reads this one
  int buffer = -1;        ///< for run_tiles
  int64_t block = -1;     ///< for run_tiles: it lies in the block of a fold, so far from its begin
  bool streamed = false;  ///< for run_tiles: it goes from its buffer to memory past the caches
};

struct TileCall {
  const TileStep* step;
  /// Of each input: a value if it is at least 0, else operand -1 - source.
  std::array<int, TileStep::kMostInputs> sources;
  int value;  ///< the result; -1 for an update and a fold
  std::array<int, TileStep::kMostOutputs - 1> more = {-1,
                                                      -1};  ///< further results of loops by rows
  int64_t row = 0;  ///< the step goes over what has one element for so many; 0: over the shape
  std::array<char*, 2> folded = {};  ///< results of a fold; null where nobody needs them
};

/// All folds of a program have the same shape.
struct TileProgram {
  std::vector<int64_t> shape, strides;  ///< strides: those of every result
  std::vector<TileOperand> operands;
  std::vector<TileValue> values;
  std::vector<TileCall> calls;
};

void run_tiles(TileProgram& program);

/// A program whose value 0 is made by a root, and which no call of it makes: run on each block.
class TileEpilogue final : public Epilogue {
 public:
  explicit TileEpilogue(TileProgram& program);
  ~TileEpilogue() override;
  TileEpilogue(const TileEpilogue&) = delete;
  void operator()(const ResultBlock& block) const override;
  void ahead(const ResultBlock& block) const override;

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace pellucid::kernels
