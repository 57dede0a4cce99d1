#include "kernels/tiles_plan.h"

#include <cstring>
#include <numeric>

#include "base/cpu.h"

namespace pellucid::kernels::tiling {

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
      const TileValue* v = o ? nullptr : &p.values[static_cast<size_t>(f.source)];
      const DType dtype = o ? o->dtype : v->dtype;
      if (v && v->row > 0 && c.row == 0) f.spread = v->row;
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

// Buffers of values that only live in a tile: one is free again after the last step that reads it.
void Plan::place(TileProgram& p) {
  std::vector<int> free;
  for (const Access& a : accesses)
    gathers += a.dense || a.operand->number || a.operand->row > 0 ? 0 : 1;
  buffers = gathers;
  for (TileValue& v : p.values)
    if (v.lent || v.streamed) v.buffer = buffers++;
  const auto lies_in_block = [&](int value) {
    return std::any_of(folds.begin(), folds.end(),
                       [&](const FoldUse& f) { return f.home == value; });
  };
  row_slots.assign(p.values.size(), -1);
  for (size_t v = 0; v < p.values.size(); ++v)
    if (p.values[v].row > 0 && !p.values[v].memory) row_slots[v] = row_buffers++;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    const TileCall& call = p.calls[i];
    TileValue* const made = call.value < 0 ? nullptr : &p.values[static_cast<size_t>(call.value)];
    if (made && !made->memory && made->row == 0 && !lies_in_block(p.calls[i].value)) {
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
    const int value = p.calls[i].value;
    const DType kept =
        step.loop && value >= 0 ? p.values[static_cast<size_t>(value)].dtype : step.out_computed;
    stores.push_back(kept != step.out_computed ? block_converter(kept, step.out_computed)
                                               : nullptr);
    stored |= stores.back() != nullptr || (step.loop && step.fold);
    int converted = 0;
    for (size_t k = 0; k < step.input_count; ++k)
      if (feeds[i][k].convert || feeds[i][k].spread > 0) ++converted;
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
      else if (f.convert || f.spread > 0)
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
  if (!folds.empty()) return choose_fold_tile(kTileBytes / (streams * widest));
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

/// Results larger than the caches, in memory that nothing in the program reads.
void Plan::choose_streamed(TileProgram& p) {
  for (TileValue& v : p.values) {
    if (!v.memory || v.row > 0 || plan.numel * element_size(v.dtype) < kStreamBytes) continue;
    if (reinterpret_cast<uintptr_t>(v.memory) % 64 != 0) continue;
    v.streamed = true;
    for (const TileOperand& o : p.operands) v.streamed &= o.data != v.memory;
    for (const TileValue& other : p.values) v.streamed &= &other == &v || other.memory != v.memory;
  }
}

/// Which folds there are, and whether their inputs are there as a whole.
void Plan::find_folds() {
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const TileCall& c = program.calls[i];
    if (!c.step->fold) continue;
    folded = c.step->fold->shape;
    FoldUse f{.call = i, .element = element_size(c.step->fold->computed), .whole = nullptr};
    const Feed& from = feeds[i][0];
    if (!c.step->loop && !from.convert && from.spread == 0) {
      if (from.source >= 0) {
        const TileValue& v = program.values[static_cast<size_t>(from.source)];
        if (v.buffer < 0) f.whole = v.memory;
      } else {
        const Access& a = accesses[static_cast<size_t>(-1 - from.source)];
        if (a.dense) f.whole = a.operand->data;
      }
    }
    // A step that changes it in place must not come before a block of it is folded.
    for (size_t v = 0; v < program.values.size(); ++v)
      if (static_cast<int>(v) != from.source && program.values[v].memory == f.whole)
        f.whole = nullptr;
    if (folded.columns > 1 && !c.step->loop && !from.convert && from.source >= 0) {
      const TileValue& v = program.values[static_cast<size_t>(from.source)];
      if (!v.memory) f.home = from.source;
    }
    folds.push_back(f);
  }
}

/// Where folds over columns keep a block of their input.
void Plan::place_folds(TileProgram& p) {
  for (FoldUse& f : folds) {
    if (f.whole || folded.columns == 1) continue;
    TileValue* const home = f.home < 0 ? nullptr : &p.values[static_cast<size_t>(f.home)];
    if (home && home->block >= 0) {
      f.block = home->block;
      continue;
    }
    f.block = block_bytes;
    if (home) home->block = f.block;
    block_bytes += (std::min(folded.piece, folded.count) * width * f.element + 63) / 64 * 64 + 64;
  }
}

/// Tiles that folds can take: whole blocks of them, or rows of a block of columns. Columns do not
/// depend on each other, so few tasks may have fewer columns each.
void Plan::choose_fold_tile(int64_t elements) {
  constexpr int64_t kWidest = 1024, kLeastWidth = 192, kTasks = 6;
  const PieceFold::Shape& s = folded;
  if (s.columns == 1) {
    const int64_t unit = std::lcm(std::max<int64_t>(row, 1), s.piece);
    tile = std::max(unit, std::min(elements, kMostTile) / unit * unit);
    return;
  }
  width = std::min(s.columns, kWidest);
  const int64_t others = s.outer * s.chunks();
  if (row == 0 && others * ((s.columns - 1) / width + 1) < kTasks) {
    int64_t parts = std::min((kTasks - 1) / others + 1, s.columns / kLeastWidth);
    if (others * parts > 1 && others * parts % 2 == 1) ++parts;
    const int64_t even = (s.columns - 1) / std::max<int64_t>(parts, 1) + 1;
    width = std::min(width, (even + 15) / 16 * 16);
  }
  tile =
      width < s.columns ? width : std::clamp<int64_t>(elements / s.columns, 1, s.piece) * s.columns;
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
    v.block = -1;
    v.streamed = false;
  }
  if (plan.numel == 0) return;
  accesses.reserve(p.operands.size());
  feeds.reserve(p.calls.size());
  stores.reserve(p.calls.size());
  for (size_t k = 0; k < p.operands.size(); ++k) {
    const TileOperand& o = p.operands[k];
    accesses.push_back(
        {&o, element_size(o.dtype), o.row == 0 && plan.linear(static_cast<int>(k + 1)), false});
    widest = std::max(widest, element_size(o.dtype));
  }
  for (const TileValue& v : p.values) widest = std::max(widest, element_size(v.dtype));
  // Intel's processors gain by it; on AMD's Zen 4 groups take a fifth longer (docs/notes).
  static const bool intel = cpu_info().model.find("Intel") != std::string::npos;
  asks_ahead = intel;
  if (whole) choose_streamed(p);
  feed(p);
  find_folds();
  place(p);
  choose_tile();
  place_folds(p);
  find_repeated();
}

}  // namespace pellucid::kernels::tiling
