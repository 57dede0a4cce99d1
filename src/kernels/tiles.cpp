#include "kernels/tiles.h"

#include <emmintrin.h>

#include <cstring>

#include "base/parallel.h"
#include "kernels/copy_transpose.h"
#include "kernels/tiles_plan.h"

namespace pellucid::kernels {
namespace tiling {

Workspace::Workspace(const Plan& p, WorkspaceMemory& memory)
    : p_(p),
      program_(p.program),
      stride_(buffer_stride(p)),
      row_stride_(WorkspaceMemory::row_stride(p)),
      from_(memory),
      given_(memory.take()),
      base_(given_ ? given_ : local_) {
  for (size_t i = 0; i < program_.calls.size(); ++i)
    for (size_t k = 0; k < program_.calls[i].step->input_count; ++k) {
      const Feed& f = p.feeds[i][k];
      if (!f.is_number) continue;
      by_element_size(f.element, [&](auto type) {
        using E = decltype(type);
        E value;
        std::memcpy(&value, f.number, sizeof(E));
        std::fill_n(reinterpret_cast<E*>(buffer(f.slot)), p_.tile, value);
      });
    }
}

/// Finds the operands' parts, or brings them into buffers.
void Workspace::fetch(int64_t count) {
  const IterationPlan& plan = p_.plan;
  const bool in_row = plan.dims > 0 && index_[0] + count <= plan.sizes[0];
  const Held now{plan.dims > 0 ? index_[0] : 0, count};
  int gathered = 0;
  for (size_t k = 0; k < p_.accesses.size(); ++k) {
    const Access& a = p_.accesses[k];
    if (a.operand->number || a.operand->row > 0) {
      blocks_[k] = a.operand->data;
      if (!a.operand->number) blocks_[k] += place_ / a.operand->row * a.element;
      continue;
    }
    const int64_t* const strides = plan.strides[k + 1];
    char* const into = a.dense ? nullptr : buffer(gathered++);
    if (a.dense || (in_row && strides[0] == 1)) {
      blocks_[k] = a.operand->data + plan.offset(static_cast<int>(k + 1), index_) * a.element;
      continue;
    }
    blocks_[k] = into;
    Held& held = held_[k];
    if (a.repeated && held.begin == now.begin && held.count == count) continue;
    gather_block(a.element, into, a.operand->data, plan, strides, index_, count);
    held = now;
  }
  fetch_lent(place_, count);
}

void Workspace::fetch_lent(int64_t place, int64_t count) const {
  if (program_.values.empty() || !program_.values[0].lent) return;
  const TileValue& root = program_.values[0];  // no other is
  const int64_t element = element_size(root.dtype);
  std::memcpy(buffer(root.buffer), root.memory + place * element,
              static_cast<size_t>(count * element));
}

/// Asks for the next tile of large operands, a part before each step. (g++ 12 takes a function that
/// only prefetches for one without effects, and drops calls of it that are not inlined.)
[[gnu::always_inline]] inline void Workspace::prefetch(int64_t position, int64_t count,
                                                       size_t step) const {
  if (position + count > p_.plan.numel) return;
  const auto steps = static_cast<int64_t>(program_.calls.size()), i = static_cast<int64_t>(step);
  for (const Access& a : p_.accesses) {
    const int64_t bytes = count * a.element;
    if (!a.dense || p_.plan.numel * a.element < kPrefetchBytes) continue;
    const char* const from = a.operand->data + position * a.element;
    for (int64_t at = bytes * i / steps & ~int64_t{63}; at < bytes * (i + 1) / steps; at += 64)
      __builtin_prefetch(from + at, 0, 2);
  }
}

/// An input of a step for `count` elements of what the step goes over.
const void* Workspace::feed(const Feed& f, int64_t count) const {
  if (f.is_number) return buffer(f.slot);
  const char* from =
      f.source >= 0 ? value_at(f.source) : blocks_[static_cast<size_t>(-1 - f.source)];
  if (f.spread == 0) {
    if (!f.convert) return from;
    f.convert(buffer(f.slot), from, count);
    return buffer(f.slot);
  }
  const int64_t rows = count / f.spread;
  if (f.convert) {
    f.convert(rows_of(Plan::kConvertedRows), from, rows);
    from = rows_of(Plan::kConvertedRows);
  }
  by_element_size(f.element, [&](auto type) {
    using E = decltype(type);
    E* to = reinterpret_cast<E*>(buffer(f.slot));
    for (int64_t r = 0; r < rows; ++r, to += f.spread)
      std::fill_n(to, f.spread, reinterpret_cast<const E*>(from)[r]);
  });
  return buffer(f.slot);
}

void Workspace::run_step(size_t i, const void* const* in, int64_t count) {
  const TileCall& call = program_.calls[i];
  const TileStep& step = *call.step;
  if (step.update) return step.update(step.context, place_, count, in[0]);
  if (step.fold) {
    if (!step.loop) return keep_for_fold(i, in[0], count);
    step.loop(step.context, buffer(p_.scratch), in, count);
    return keep_for_fold(i, buffer(p_.scratch), count);
  }
  char* const to = value_at(call.value);
  if (step.loop) {
    const ConvertBlock store = p_.stores[i];
    char* const written = store ? buffer(p_.scratch) : to;
    step.loop(step.context, written, in, count);
    if (store) store(to, written, count);
    return;
  }
  void* out[TileStep::kMostOutputs] = {to};
  for (size_t k = 0; k < call.more.size(); ++k)
    out[k + 1] = call.more[k] >= 0 ? value_at(call.more[k]) : rows_of(static_cast<int>(k));
  step.rows(step.context, {in, out, count / step.row});
}

void Workspace::run(int64_t position, int64_t count) {
  p_.plan.locate(position, index_);
  place_ = p_.plan.offset(0, index_);
  fetch(count);
  for (size_t i = 0; i < program_.calls.size(); ++i) {
    const TileCall& call = program_.calls[i];
    if (p_.asks_ahead) prefetch(position + count, count, i);
    const int64_t n = call.row > 0 ? count / call.row : count;
    const void* in[TileStep::kMostInputs];
    for (size_t k = 0; k < call.step->input_count; ++k) in[k] = feed(p_.feeds[i][k], n);
    run_step(i, in, n);
  }
  for (const TileValue& v : program_.values)
    if (v.streamed) store_streamed(v, count);
}

// A fold along rows takes each tile at once; one over columns waits for a whole block.
void Workspace::keep_for_fold(size_t call, const void* x, int64_t count) {
  for (size_t k = 0; k < p_.folds.size(); ++k) {
    const FoldUse& f = p_.folds[k];
    if (f.call != call) continue;
    if (p_.folded.columns == 1)
      tasks_[k]->add(&x, count, place_ - begin_of_fold_);
    else if (!f.whole && f.home < 0)
      std::memcpy(block_of(f) + in_block_ * f.element, x, static_cast<size_t>(count * f.element));
  }
}

void Workspace::fold(const PieceFold::Place& place) {
  const PieceFold::Shape& s = p_.folded;
  tasks_.clear();
  for (const FoldUse& f : p_.folds)
    tasks_.push_back(program_.calls[f.call].step->fold->task(place));
  const int64_t first = place.chunk * s.chunk, last = std::min(first + s.chunk, s.count);
  if (s.columns == 1)
    fold_chunk(place.outer * s.count, first, last);
  else
    fold_columns(place, first, last);
  for (const auto& task : tasks_) task->end();
}

void Workspace::fold_chunk(int64_t base, int64_t first, int64_t last) {
  begin_of_fold_ = base;
  for (int64_t at = first; at < last; at += p_.tile) run(base + at, std::min(p_.tile, last - at));
}

void Workspace::fold_columns(const PieceFold::Place& place, int64_t first, int64_t last) {
  const PieceFold::Shape& s = p_.folded;
  const void* rows[64];
  PELLUCID_ASSERT(s.piece <= static_cast<int64_t>(std::size(rows)));
  for (int64_t r = first; r < last; r += s.piece) {
    const int64_t n = std::min(s.piece, last - r),
                  begin = (place.outer * s.count + r) * s.columns + place.column;
    if (place.width == s.columns) {  // the rows are one piece of memory
      for (int64_t at = 0; at < n * s.columns; at += p_.tile) {
        in_block_ = at;
        run(begin + at, std::min(p_.tile, n * s.columns - at));
      }
    } else if (in_block_ = 0; !run_rows(begin, n, place.width, s.columns)) {
      for (int64_t k = 0; k < n; ++k) {
        in_block_ = k * place.width;
        run(begin + k * s.columns, place.width);
      }
    }
    for (size_t k = 0; k < p_.folds.size(); ++k) {
      const FoldUse& f = p_.folds[k];
      for (int64_t i = 0; i < n; ++i)
        rows[i] = f.whole ? f.whole + (begin + i * s.columns) * f.element
                          : block_of(f) + i * place.width * f.element;
      tasks_[k]->add(rows, n, r);
    }
  }
}

void Workspace::store_streamed(const TileValue& v, int64_t count) const {
  const int64_t element = element_size(v.dtype);
  char* const to = v.memory + place_ * element;
  const int64_t bytes = count * element;
  if (reinterpret_cast<uintptr_t>(to) % 64 == 0)
    stream_block(to, buffer(v.buffer), bytes);
  else
    std::memcpy(to, buffer(v.buffer), static_cast<size_t>(bytes));
}

bool Workspace::run_rows(int64_t position, int64_t rows, int64_t count, int64_t row_stride) {
  const IterationPlan& plan = p_.plan;
  if (plan.dims > 2 || (plan.dims == 2 && plan.sizes[0] != row_stride)) return false;
  for (const Access& a : p_.accesses)
    if (!a.operand->number && !a.dense && plan.strides[&a - p_.accesses.data() + 1][0] != 1)
      return false;
  for (const TileCall& c : program_.calls)
    if (c.row > 0 || c.step->rows) return false;
  for (const TileValue& v : program_.values)
    if (v.streamed) return false;
  struct Pointer {
    char* at;
    int64_t step;
  };
  struct Line {
    Pointer in[TileStep::kMostInputs], out;
  };
  std::vector<Line> lines(program_.calls.size());
  plan.locate(position, index_);
  place_ = plan.offset(0, index_);
  const auto value = [&](int v) -> Pointer {
    const TileValue& of = program_.values[static_cast<size_t>(v)];
    const int64_t pitch = of.block >= 0 ? count : of.buffer >= 0 ? 0 : row_stride;
    return {value_at(v), pitch * element_size(of.dtype)};
  };
  const auto operand = [&](size_t k) -> Pointer {
    const Access& a = p_.accesses[k];
    const int64_t* const strides = plan.strides[k + 1];
    return {a.operand->data + plan.offset(static_cast<int>(k + 1), index_) * a.element,
            (plan.dims == 2 ? strides[1] : strides[0] * row_stride) * a.element};
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    const TileCall& call = program_.calls[i];
    lines[i].out = call.value < 0 ? Pointer{nullptr, 0} : value(call.value);
    for (size_t k = 0; k < call.step->input_count; ++k) {
      const Feed& f = p_.feeds[i][k];
      lines[i].in[k] = f.is_number     ? Pointer{buffer(f.slot), 0}
                       : f.source >= 0 ? value(f.source)
                                       : operand(static_cast<size_t>(-1 - f.source));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    fetch_lent(place_ + r * row_stride, count);
    for (size_t i = 0; i < lines.size(); ++i) {
      const TileStep& step = *program_.calls[i].step;
      Line& line = lines[i];
      const void* in[TileStep::kMostInputs];
      for (size_t k = 0; k < step.input_count; ++k) {
        const Feed& f = p_.feeds[i][k];
        in[k] = line.in[k].at;
        line.in[k].at += line.in[k].step;
        if (!f.convert || f.is_number) continue;
        f.convert(buffer(f.slot), in[k], count);
        in[k] = buffer(f.slot);
      }
      if (step.update) {
        step.update(step.context, place_ + r * row_stride, count, in[0]);
        continue;
      }
      if (step.fold) {
        if (step.loop) step.loop(step.context, buffer(p_.scratch), in, count);
        keep_for_fold(i, step.loop ? buffer(p_.scratch) : in[0], count);
        continue;
      }
      const ConvertBlock store = p_.stores[i];
      char* const written = store ? buffer(p_.scratch) : line.out.at;
      step.loop(step.context, written, in, count);
      if (store) store(line.out.at, written, count);
      line.out.at += line.out.step;
    }
    in_block_ += count;
  }
  return true;
}

}  // namespace tiling

using namespace tiling;

namespace {

void run_folds(const Plan& p) {
  const PieceFold::Shape& s = p.folded;
  for (const FoldUse& f : p.folds) {
    const TileCall& c = p.program.calls[f.call];
    c.step->fold->begin(c.folded[0], c.folded[1], p.width);
  }
  WorkspaceMemory memory(p);
  const int64_t across = (s.columns - 1) / p.width + 1, chunks = s.chunks(),
                tasks = s.outer * across * chunks;
  const double work = static_cast<double>(p.plan.numel) * p.work_per_element();
  const double per_task = work / static_cast<double>(tasks);
  const int64_t grain =
      work < kParallelWork
          ? tasks
          : std::max<int64_t>(1, static_cast<int64_t>(kParallelWork / 2 / per_task));
  parallel_for(0, tasks, grain, [&](int64_t first, int64_t last) {
    Workspace workspace(p, memory);
    for (int64_t t = first; t < last; ++t) {
      const int64_t column = t / chunks % across * p.width;
      workspace.fold({.outer = t / chunks / across,
                      .column = column,
                      .width = std::min(p.width, s.columns - column),
                      .chunk = t % chunks});
    }
    _mm_sfence();
  });
  for (const FoldUse& f : p.folds) p.program.calls[f.call].step->fold->finish();
}

}  // namespace

void run_tiles(TileProgram& program) {
  const Plan p(program, true);
  if (p.plan.numel == 0) return;
  if (!p.folds.empty()) return run_folds(p);
  WorkspaceMemory memory(p);
  const auto run = [&](int64_t first, int64_t last) {
    Workspace workspace(p, memory);
    for (int64_t t = first; t < last; ++t) {
      const int64_t within = t % p.tiles_per_row * p.tile;
      const int64_t position = t / p.tiles_per_row * p.row + within;
      workspace.run(position, std::min({p.tile, p.row - within, p.plan.numel - position}));
    }
    _mm_sfence();  // other threads must see streamed results after the join
  };
  const double work = p.work_per_element();
  if (static_cast<double>(p.plan.numel) * work < kParallelWork) return run(0, p.tiles);
  const double per_tile = static_cast<double>(p.plan.numel) / static_cast<double>(p.tiles) * work;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kParallelWork / 2 / per_tile));
  parallel_for(0, p.tiles, grain, run);
}

struct TileEpilogue::Run : Plan {
  explicit Run(TileProgram& program) : Plan(program, false) {}
  int64_t begin_of(const ResultBlock& block) const;
  WorkspaceMemory memory{*this};
};

TileEpilogue::TileEpilogue(TileProgram& program) : run_(std::make_unique<Run>(program)) {}
TileEpilogue::~TileEpilogue() = default;

int64_t TileEpilogue::Run::begin_of(const ResultBlock& block) const {
  const TileValue& root = program.values[0];
  return (static_cast<const char*>(block.data) - root.memory) / element_size(root.dtype);
}

namespace {

[[gnu::always_inline]] inline void prefetch_rows(const char* first, int64_t element,
                                                 const ResultBlock& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const char* const row = first + r * block.row_stride * element;
    for (int64_t at = 0; at < block.columns * element; at += 64)
      __builtin_prefetch(row + at, 0, 2);  // the first level is the product's
  }
}

}  // namespace

void TileEpilogue::ahead(const ResultBlock& block) const {
  const int64_t begin = run_->begin_of(block);
  for (const Access& a : run_->accesses)
    if (a.dense) prefetch_rows(a.operand->data + begin * a.element, a.element, block);
  for (const TileCall& c : run_->program.calls)
    for (const char* array : c.step->changed) {
      const int64_t element = element_size(c.step->inputs[0].computed);
      if (array) prefetch_rows(array + begin * element, element, block);
    }
}

void TileEpilogue::operator()(const ResultBlock& block) const {
  const int64_t begin = run_->begin_of(block);
  Workspace workspace(*run_, run_->memory);
  // Rows that follow each other without a gap are one.
  const bool joined = block.columns == block.row_stride;
  const int64_t rows = joined ? 1 : block.rows;
  const int64_t columns = joined ? block.rows * block.columns : block.columns;
  if (!joined && columns <= run_->tile &&
      workspace.run_rows(begin, rows, columns, block.row_stride))
    return;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = begin + r * block.row_stride, last = first + columns;
    for (int64_t at = first, count = 0; at < last; at += count) {
      count = std::min({run_->tile, last - at, run_->row - at % run_->row});
      workspace.run(at, count);
    }
  }
}

}  // namespace pellucid::kernels
