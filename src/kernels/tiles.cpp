#include "kernels/tiles.h"

#include <emmintrin.h>

#include <algorithm>
#include <mutex>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/copy_transpose.h"
#include "kernels/gemm_scratch.h"
#include "kernels/pointwise_plan.h"

namespace pellucid::kernels {
namespace {

/// Bytes of a tile over all that it touches: half of a first-level cache, with room for the rest.
constexpr int64_t kTileBytes = 24 << 10;
/// Operands of so many bytes come from beyond the second-level cache: tiles ask for them one tile
/// ahead, so that they arrive while the loops work.
constexpr int64_t kPrefetchBytes = 2 << 20;
/// Buffers up to so many bytes lie on the stack.
constexpr int64_t kLocalBytes = 32 << 10;
constexpr int64_t kLeastTile = 256, kMostTile = 4096, kLongTile = 1 << 16;

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

  /// `whole`: all tiles are run, so that results may be written past the caches.
  Plan(TileProgram& p, bool whole);
  double work_per_element() const {
    double sum = 0;
    for (const TileCall& c : program.calls) sum += c.step->work;
    return sum;
  }

 private:
  Plan(TileProgram& p, bool whole, const std::vector<const int64_t*>& strides);
  void choose_streamed(TileProgram& p);
  void feed(const TileProgram& p);
  void place(TileProgram& p);
  void choose_tile();
  void find_repeated();
};

/// Statistics of rows that nobody keeps: at most one a row of the tile.
int64_t most_rows(const Plan& p) {
  int64_t rows = 0;
  for (const TileCall& c : p.program.calls)
    if (c.step->row > 0) rows = std::max(rows, p.tile / c.step->row);
  return rows;
}

/// Bytes from one buffer to the next: not all on the same cache sets.
int64_t buffer_stride(const Plan& p) { return (p.tile * p.widest + 63) / 64 * 64 + 64; }

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
    const int64_t rows = most_rows(p) * 8 * static_cast<int64_t>(TileStep::kMostOutputs);
    return buffer_stride(p) * p.buffers + (rows + 63) / 64 * 64;
  }
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

 private:
  void fetch(int64_t count);
  void fetch_lent(int64_t place, int64_t count) const;
  void store_streamed(const TileValue& v, int64_t count) const;
  void prefetch(int64_t position, int64_t count, size_t step) const;
  char* value_at(int v) const {
    const TileValue& value = program_.values[static_cast<size_t>(v)];
    return value.buffer >= 0 ? buffer(value.buffer)
                             : value.memory + place_ * element_size(value.dtype);
  }
  char* buffer(int k) const { return base_ + k * stride_; }

  const Plan& p_;
  const TileProgram& program_;
  const int64_t stride_, row_elements_;
  WorkspaceMemory& from_;
  char* const given_;
  char* const base_;
  char* const unwanted_;  // behind the buffers
  const char* blocks_[kMaxPlanned];
  struct Held {
    int64_t begin = -1, count = 0;  // along the innermost dimension
  };
  Held held_[kMaxPlanned];
  int64_t index_[kMaxDims];
  int64_t place_ = 0;
  // Threads that begin at once would wait for each other in the allocator.
  alignas(64) char local_[kLocalBytes];
};

// Buffers of values that only live in a tile: one is free again after the last step that reads it.
void Plan::place(TileProgram& p) {
  std::vector<int> free;
  for (const Access& a : accesses) gathers += a.dense || a.operand->number ? 0 : 1;
  buffers = gathers;
  for (TileValue& v : p.values)
    if (v.lent || v.streamed) v.buffer = buffers++;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    const TileCall& call = p.calls[i];
    TileValue* const made = call.value < 0 ? nullptr : &p.values[static_cast<size_t>(call.value)];
    if (made && !made->memory) {
      if (free.empty()) {
        made->buffer = buffers++;
      } else {
        made->buffer = free.back();
        free.pop_back();
      }
    }
    for (const TileValue& v : p.values)
      if (v.buffer >= 0 && !v.memory && v.last_use == static_cast<int>(i)) free.push_back(v.buffer);
  }
  // Converted inputs of one step are needed only while it runs; repeated numbers stay.
  int most = 0;
  bool stored = false;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    const TileStep& step = *p.calls[i].step;
    const DType kept =
        step.loop ? p.values[static_cast<size_t>(p.calls[i].value)].dtype : step.out_computed;
    stores.push_back(kept != step.out_computed ? block_converter(kept, step.out_computed)
                                               : nullptr);
    stored |= stores.back() != nullptr;
    int converted = 0;
    for (size_t k = 0; k < step.input_count; ++k)
      if (feeds[i][k].convert && !feeds[i][k].is_number) ++converted;
    most = std::max(most, converted);
  }
  const int first_converted = buffers;
  buffers += most;
  if (stored) scratch = buffers++;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    int next = first_converted;
    for (size_t k = 0; k < p.calls[i].step->input_count; ++k) {
      Feed& f = feeds[i][k];
      if (f.is_number)
        f.slot = buffers++;
      else if (f.convert)
        f.slot = next++;
    }
  }
}

void Plan::choose_tile() {
  int64_t streams = buffers + 1;
  for (const TileValue& v : program.values) streams += v.memory ? 1 : 0;
  for (const Access& a : accesses) streams += a.dense ? 1 : 0;
  for (const TileCall& c : program.calls)
    for (const char* array : c.step->changed) streams += array ? 1 : 0;
  for (const TileCall& c : program.calls) row = std::max(row, c.step->row);
  if (row > 0) {
    tile = std::max<int64_t>(1, kTileBytes / (streams * widest * row)) * row;
    tile = std::min(tile, plan.numel);
    row = plan.numel;
    tiles_per_row = (row - 1) / tile + 1;
    tiles = tiles_per_row;
    return;
  }
  tile = std::clamp(kTileBytes / (streams * widest) & ~int64_t{63}, kLeastTile, kMostTile);
  if (program.calls.size() == 1 && buffers == 0) tile = kLongTile;  // nothing is read again
  tile = std::min(tile, (plan.numel + 63) & ~int64_t{63});
  const int64_t n0 = plan.dims > 0 ? plan.sizes[0] : 1;
  if (n0 > tile / 2) {  // tiles are parts of the innermost dimension, or of all if it is merged
    row = n0;
    tiles_per_row = (n0 - 1) / tile + 1;
    tiles = plan.numel / n0 * tiles_per_row;
  } else {
    tile = tile / n0 * n0;
    row = plan.numel;
    tiles_per_row = (row - 1) / tile + 1;
    tiles = tiles_per_row;
  }
}

Workspace::Workspace(const Plan& p, WorkspaceMemory& memory)
    : p_(p),
      program_(p.program),
      stride_(buffer_stride(p)),
      row_elements_(most_rows(p)),
      from_(memory),
      given_(memory.take()),
      base_(given_ ? given_ : local_),
      unwanted_(base_ + stride_ * p.buffers) {
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
    if (a.operand->number) {
      blocks_[k] = a.operand->data;
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
  const TileValue& root = program_.values[0];  // no other is
  if (!root.lent) return;
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

void Workspace::run(int64_t position, int64_t count) {
  p_.plan.locate(position, index_);
  place_ = p_.plan.offset(0, index_);
  fetch(count);
  for (size_t i = 0; i < program_.calls.size(); ++i) {
    const TileCall& call = program_.calls[i];
    const TileStep& step = *call.step;
    prefetch(position + count, count, i);
    const void* in[TileStep::kMostInputs];
    for (size_t k = 0; k < step.input_count; ++k) {
      const Feed& f = p_.feeds[i][k];
      if (f.is_number) {
        in[k] = buffer(f.slot);
        continue;
      }
      const char* from =
          f.source >= 0 ? value_at(f.source) : blocks_[static_cast<size_t>(-1 - f.source)];
      if (f.convert) {
        f.convert(buffer(f.slot), from, count);
        from = buffer(f.slot);
      }
      in[k] = from;
    }
    if (step.update) {
      step.update(step.context, place_, count, in[0]);
      continue;
    }
    char* const to = value_at(call.value);
    if (step.loop) {
      const ConvertBlock store = p_.stores[i];
      char* const written = store ? buffer(p_.scratch) : to;
      step.loop(step.context, written, in, count);
      if (store) store(to, written, count);
    } else {
      void* out[TileStep::kMostOutputs] = {to};
      for (size_t k = 0; k < call.row_results.size(); ++k)
        out[k + 1] = call.row_results[k]
                         ? call.row_results[k] + position / step.row * call.row_element[k]
                         : unwanted_ + static_cast<int64_t>(k) * row_elements_ * 8;
      step.rows(step.context, {in, out, count / step.row});
    }
  }
  for (const TileValue& v : program_.values)
    if (v.streamed) store_streamed(v, count);
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
    return {value_at(v), of.buffer >= 0 ? 0 : row_stride * element_size(of.dtype)};
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
      const ConvertBlock store = p_.stores[i];
      char* const written = store ? buffer(p_.scratch) : line.out.at;
      step.loop(step.context, written, in, count);
      if (store) store(line.out.at, written, count);
      line.out.at += line.out.step;
    }
  }
  return true;
}

/// How each input of each call comes to the type that its loop reads.
void Plan::feed(const TileProgram& p) {
  for (const TileCall& c : p.calls) {
    auto& of_call = feeds.emplace_back();
    widest = std::max(widest, element_size(c.step->out_computed));
    for (size_t k = 0; k < c.step->input_count; ++k) {
      const TileStep::Input& want = c.step->inputs[k];
      Feed& f = of_call[k];
      f.source = c.sources[k];
      f.element = element_size(want.computed);
      widest = std::max(widest, f.element);
      const TileOperand* o =
          f.source < 0 ? &p.operands[static_cast<size_t>(-1 - f.source)] : nullptr;
      const DType dtype = o ? o->dtype : p.values[static_cast<size_t>(f.source)].dtype;
      if (o && o->number) {
        f.is_number = true;
        char through[8];
        if (dtype == want.computed) {
          std::memcpy(f.number, o->data, static_cast<size_t>(f.element));
        } else {
          block_converter(want.through, dtype)(through, o->data, 1);
          block_converter(want.computed, want.through)(f.number, through, 1);
        }
      } else if (dtype != want.computed) {
        f.convert = block_converter(want.computed, dtype);
      }
    }
  }
}

/// Results larger than the caches, in memory that nothing in the program reads.
void Plan::choose_streamed(TileProgram& p) {
  for (TileValue& v : p.values) {
    if (!v.memory || plan.numel * element_size(v.dtype) < kStreamBytes) continue;
    if (reinterpret_cast<uintptr_t>(v.memory) % 64 != 0) continue;
    v.streamed = true;
    for (const TileOperand& o : p.operands) v.streamed &= o.data != v.memory;
    for (const TileValue& other : p.values) v.streamed &= &other == &v || other.memory != v.memory;
  }
}

/// Operands that are the same all over but for the innermost dimension.
void Plan::find_repeated() {
  for (size_t k = 0; k < accesses.size(); ++k) {
    bool same = true;
    for (int d = 1; d < plan.dims; ++d) same &= plan.strides[k + 1][d] == 0;
    accesses[k].repeated = same && !accesses[k].dense;
  }
}

std::vector<const int64_t*> strides_of(const TileProgram& p) {
  std::vector<const int64_t*> strides;
  strides.reserve(p.operands.size() + 1);
  strides.push_back(p.strides.data());
  for (const TileOperand& o : p.operands) strides.push_back(o.strides.data());
  return strides;
}

Plan::Plan(TileProgram& p, bool whole) : Plan(p, whole, strides_of(p)) {}

Plan::Plan(TileProgram& p, bool whole, const std::vector<const int64_t*>& strides)
    : program(p), plan(p.shape, strides) {
  for (TileValue& v : p.values) {  // the program may have run before
    v.buffer = -1;
    v.streamed = false;
  }
  if (plan.numel == 0) return;
  accesses.reserve(p.operands.size());
  feeds.reserve(p.calls.size());
  stores.reserve(p.calls.size());
  for (size_t k = 0; k < p.operands.size(); ++k) {
    const TileOperand& o = p.operands[k];
    accesses.push_back({&o, element_size(o.dtype), plan.linear(static_cast<int>(k + 1)), false});
    widest = std::max(widest, element_size(o.dtype));
  }
  for (const TileValue& v : p.values) widest = std::max(widest, element_size(v.dtype));
  if (whole) choose_streamed(p);
  feed(p);
  place(p);
  choose_tile();
  find_repeated();
}

}  // namespace

void run_tiles(TileProgram& program) {
  const Plan p(program, true);
  if (p.plan.numel == 0) return;
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
