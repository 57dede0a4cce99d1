#include "kernels/tiles.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/copy_transpose.h"
#include "kernels/gemm_scratch.h"
#include "kernels/pointwise_plan.h"

namespace pellucid::kernels {
namespace {

/// Bytes of a tile over all that it touches: half of a first-level cache, with room for the rest.
constexpr int64_t kTileBytes = 24 << 10;
/// The same where tiles are whole rows; these may lie in the second-level cache.
constexpr int64_t kRowTileBytes = 128 << 10;
constexpr int64_t kLeastTile = 256, kMostTile = 4096;
constexpr double kParallelWork = 32768;  // as run_pointwise

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

struct Run {
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

  Run(TileProgram& p, std::span<const int64_t* const> strides)
      : program(p), plan(p.shape, strides) {}
  void place(TileProgram& p);
  void choose_tile();
  void work(int64_t first, int64_t last) const;
  double work_per_element() const {
    double sum = 0;
    for (const TileCall& c : program.calls) sum += c.step->work;
    return sum;
  }
};

// Buffers of values that only live in a tile: one is free again after the last step that reads it.
void Run::place(TileProgram& p) {
  std::vector<int> free;
  for (const Access& a : accesses) gathers += a.dense || a.operand->number ? 0 : 1;
  buffers = gathers;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    const TileCall& call = p.calls[i];
    TileValue& made = p.values[static_cast<size_t>(call.value)];
    if (!made.memory) {
      if (free.empty()) {
        made.buffer = buffers++;
      } else {
        made.buffer = free.back();
        free.pop_back();
      }
    }
    for (const TileValue& v : p.values)
      if (v.buffer >= 0 && v.last_use == static_cast<int>(i)) free.push_back(v.buffer);
  }
  // Converted inputs of one step are needed only while it runs; repeated numbers stay.
  int most = 0;
  bool stored = false;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    const TileStep& step = *p.calls[i].step;
    const DType kept = p.values[static_cast<size_t>(p.calls[i].value)].dtype;
    stores.push_back(step.loop && kept != step.out_computed
                         ? block_converter(kept, step.out_computed)
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

void Run::choose_tile() {
  int64_t streams = buffers + 1;
  for (const TileValue& v : program.values) streams += v.memory ? 1 : 0;
  for (const Access& a : accesses) streams += a.dense ? 1 : 0;
  for (const TileCall& c : program.calls) row = std::max(row, c.step->row);
  if (row > 0) {
    tile = std::max<int64_t>(1, kRowTileBytes / (streams * widest * row)) * row;
    row = plan.numel;
    tiles_per_row = (row - 1) / tile + 1;
    tiles = tiles_per_row;
    return;
  }
  tile = std::clamp(kTileBytes / (streams * widest) & ~int64_t{63}, kLeastTile, kMostTile);
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

void Run::work(int64_t first, int64_t last) const {
  const int64_t stride = (tile * widest + 63) / 64 * 64 + 64;  // not all on the same cache sets
  const Scratch memory(stride * std::max(buffers, 1) + 64);
  char* const base = memory.as<char>();
  const auto buffer = [&](int k) { return base + k * stride; };
  for (size_t i = 0; i < program.calls.size(); ++i)
    for (size_t k = 0; k < program.calls[i].step->input_count; ++k) {
      const Feed& f = feeds[i][k];
      if (!f.is_number) continue;
      by_element_size(f.element, [&](auto type) {
        using E = decltype(type);
        E value;
        std::memcpy(&value, f.number, sizeof(E));
        std::fill_n(reinterpret_cast<E*>(buffer(f.slot)), tile, value);
      });
    }
  // Statistics of rows that nobody keeps: at most one a row of the tile.
  int64_t row_elements = 0;
  for (const TileCall& c : program.calls)
    if (c.step->row > 0) row_elements = std::max(row_elements, tile / c.step->row);
  const Scratch unwanted(row_elements * 8 * static_cast<int64_t>(TileStep::kMostOutputs));

  std::vector<const char*> blocks(accesses.size());
  std::vector<bool> held(accesses.size(), false);
  int64_t index[kMaxDims];
  for (int64_t t = first; t < last; ++t) {
    const int64_t within = t % tiles_per_row * tile;
    const int64_t position = t / tiles_per_row * row + within;
    const int64_t count = std::min({tile, row - within, plan.numel - position});
    plan.locate(position, index);
    int gathered = 0;
    for (size_t k = 0; k < accesses.size(); ++k) {
      const Access& a = accesses[k];
      if (a.operand->number) {
        blocks[k] = a.operand->data;
        continue;
      }
      if (a.dense) {
        blocks[k] = a.operand->data + plan.offset(static_cast<int>(k + 1), index) * a.element;
        continue;
      }
      char* const into = buffer(gathered++);
      if (!held[k])
        gather_block(a.element, into, a.operand->data, plan, plan.strides[k + 1], index, count);
      held[k] = a.repeated && count == tile;
      blocks[k] = into;
    }
    const int64_t place = plan.offset(0, index);
    const auto value_at = [&](int v) {
      const TileValue& value = program.values[static_cast<size_t>(v)];
      return value.memory ? value.memory + place * element_size(value.dtype) : buffer(value.buffer);
    };
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const TileCall& call = program.calls[i];
      const TileStep& step = *call.step;
      const void* in[TileStep::kMostInputs];
      for (size_t k = 0; k < step.input_count; ++k) {
        const Feed& f = feeds[i][k];
        if (f.is_number) {
          in[k] = buffer(f.slot);
          continue;
        }
        const char* from =
            f.source >= 0 ? value_at(f.source) : blocks[static_cast<size_t>(-1 - f.source)];
        if (f.convert) {
          f.convert(buffer(f.slot), from, count);
          from = buffer(f.slot);
        }
        in[k] = from;
      }
      char* const to = value_at(call.value);
      if (step.loop) {
        char* const written = stores[i] ? buffer(scratch) : to;
        step.loop(step.context, written, in, count);
        if (stores[i]) stores[i](to, written, count);
      } else {
        void* out[TileStep::kMostOutputs] = {to};
        for (size_t k = 0; k < call.row_results.size(); ++k)
          out[k + 1] = call.row_results[k]
                           ? call.row_results[k] + position / step.row * call.row_element[k]
                           : unwanted.as<char>() + static_cast<int64_t>(k) * row_elements * 8;
        step.rows(step.context, {in, out, count / step.row});
      }
    }
  }
}

}  // namespace

void run_tiles(TileProgram& p) {
  std::vector<const int64_t*> strides{p.strides.data()};
  for (const TileOperand& o : p.operands) strides.push_back(o.strides.data());
  Run r(p, strides);
  if (r.plan.numel == 0) return;
  bool by_rows = false;
  for (const TileCall& c : p.calls) by_rows |= c.step->row > 0;

  for (size_t k = 0; k < p.operands.size(); ++k) {
    const TileOperand& o = p.operands[k];
    r.accesses.push_back({&o, element_size(o.dtype), false, false});
    r.widest = std::max(r.widest, element_size(o.dtype));
  }
  for (const TileValue& v : p.values) r.widest = std::max(r.widest, element_size(v.dtype));
  for (const TileCall& c : p.calls) {
    auto& feeds = r.feeds.emplace_back();
    r.widest = std::max(r.widest, element_size(c.step->out_computed));
    for (size_t k = 0; k < c.step->input_count; ++k) {
      const TileStep::Input& want = c.step->inputs[k];
      Feed& f = feeds[k];
      f.source = c.sources[k];
      f.element = element_size(want.computed);
      r.widest = std::max(r.widest, f.element);
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
  // Which operands are contiguous in a tile depends on the tiles, and their size on how many
  // operands need a buffer: at first those count that are contiguous as a whole.
  for (size_t k = 0; k < r.accesses.size(); ++k)
    r.accesses[k].dense = r.plan.linear(static_cast<int>(k + 1));
  r.place(p);
  r.choose_tile();
  const bool in_rows = !by_rows && r.plan.dims > 0 && r.row == r.plan.sizes[0];
  for (size_t k = 0; k < r.accesses.size(); ++k) {
    Access& a = r.accesses[k];
    if (a.dense) continue;
    const int64_t* s = r.plan.strides[k + 1];
    bool same = true;  // along all but the innermost dimension
    for (int d = 1; d < r.plan.dims; ++d) same &= s[d] == 0;
    const int64_t n0 = r.plan.dims > 0 ? r.plan.sizes[0] : 1;
    if (r.plan.dims > 0 && s[0] == 1 && (in_rows || r.tile == n0))
      a.dense = true;
    else if (in_rows)
      a.repeated = same && (s[0] == 0 || r.tiles_per_row == 1);
    else
      a.repeated = same && r.tile % n0 == 0;
  }

  const double work = r.work_per_element();
  if (static_cast<double>(r.plan.numel) * work < kParallelWork) return r.work(0, r.tiles);
  const double per_tile = static_cast<double>(r.plan.numel) / static_cast<double>(r.tiles) * work;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kParallelWork / 2 / per_tile));
  parallel_for(0, r.tiles, grain, [&](int64_t b, int64_t e) { r.work(b, e); });
}

}  // namespace pellucid::kernels
