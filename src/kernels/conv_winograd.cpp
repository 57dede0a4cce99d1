// Forward, and the gradient of the input, which is the forward convolution of dy with the turned
// filter. 14 tiles by 32 outputs of all 16 components are made at a time, from transformed pixels
// and a transformed filter, and become outputs while they are in L1. A small filter is transformed
// as a whole, and tasks are groups of tiles that stay in L2; a large one is transformed panel by
// panel, and tasks are panels of outputs that read pixels transformed before.
#include "kernels/conv_winograd.h"

#include <algorithm>
#include <atomic>

#include "base/parallel.h"
#include "kernels/conv_winograd_tiles.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"
#include "kernels/tiles.h"

namespace pellucid::kernels::conv_winograd {

#ifdef PELLUCID_ONE_ISA

bool forward_is_faster(const ConvShape&) { return false; }
bool forward(const ConvShape&, const float*, const Weights&, const float*, float*,
             const Epilogue*) {
  return false;
}
bool forward_has_blocks(const ConvShape&) { return false; }
int64_t forward_scratch(const ConvShape&) { return 0; }
bool data_is_faster(const ConvShape&) { return false; }
bool backward_data(const ConvShape&, const float*, const Weights&, const float*, float*) {
  return false;
}
int64_t data_scratch(const ConvShape&) { return 0; }

#else

namespace {

using conv_micro::kColumns, conv_micro::kRows;

constexpr auto kSize = static_cast<int64_t>(sizeof(float));
constexpr int64_t kSmallFilter = 1 << 20;  // bytes that stay in L2 beside a group of tiles
constexpr int64_t kGroupBytes = 256 << 10;
constexpr int64_t kPixelBytes = 8 << 20;  // transformed at a time, for large filters

int64_t panel_size(int64_t depth) { return kComponents * depth * kColumns; }

/// Tiles that take so many bytes, in whole chunks of kRows.
int64_t tiles_in(int64_t bytes, int64_t channels) {
  return std::max<int64_t>(1, bytes / (kComponents * channels * kSize * kRows)) * kRows;
}

int64_t sums_bytes(int64_t tiles) { return kComponents * component_step(tiles, kColumns) * kSize; }

/// What is asked for during a product, at an even pace; without data, the pixels of the next tiles,
/// which then come from L3.
struct Ahead {
  const float* data;
  int64_t count;
};

/// Transformed pixels of some tiles.
struct Group {
  const Grid& grid;
  const float* pixels;
  int64_t step;         // between components
  int64_t first, last;  // tiles
};

/// All tiles of a group for one panel of outputs; bias (or null) and y are those of its first. A
/// component's part of the panel stays in L1 while all tiles pass.
void multiply(const Group& g, const float* panel, const float* bias, float* y, Ahead ahead,
              float* sums) {
  const int64_t C = g.grid.C, tiles = g.last - g.first, step = component_step(tiles, kColumns);
  const int64_t calls = kComponents * tile::divide_up(tiles, kRows);
  conv_micro::Forward micro{.filter_rows = 1,
                            .depth = C,
                            .a = nullptr,
                            .a_pixel = C,
                            .a_row = 0,
                            .b = nullptr,
                            .out = nullptr,
                            .out_stride = kColumns,
                            .bias = nullptr,
                            .out_pace = tile::divide_up(kRows * kColumns, C),
                            .ahead_pace = kRows,
                            .ahead = ahead.data};
  if (ahead.data != nullptr) micro.ahead_pace = (ahead.count + calls * C - 1) / (calls * C);
  int64_t asked = 0;  // tiles whose outputs were asked for
  for (int64_t i = 0; i < kComponents; ++i) {
    micro.b = panel + i * C * kColumns;
    for (int64_t t = 0; t < tiles; t += kRows) {
      micro.a = g.pixels + i * g.step + t * C;
      if (ahead.data == nullptr) micro.ahead = micro.a + kRows * C;
      micro.out = sums + i * step + t * kColumns;
      if (asked < tiles) ask_for_output(g.grid, g.first + asked++, y);
      conv_micro::run(std::min<int64_t>(kRows, tiles - t), micro);
      if (ahead.data != nullptr) micro.ahead += micro.ahead_pace * C;
    }
  }
  transform_output_v4(g.grid, sums, step, g.first, tiles, bias, y);
}

/// How filters lie in memory, for the forward convolution and for the gradient of the input.
struct FilterOrder {
  int64_t lane_step, depth_step;
  bool turned;
};

/// The filter of the panel that begins with output `o`.
Filter panel_of(const float* w, const FilterOrder& f, int64_t o) {
  return {w + o * f.lane_step, f.lane_step, f.depth_step, f.turned};
}

/// All panels of a filter, transformed.
struct TransformedFilter final : PackedForm {
  TransformedFilter(int64_t size, bool t, MemoryCategory category)
      : size_bytes(size), turned(t), memory(size, category) {}
  int64_t bytes() const override { return size_bytes; }
  const int64_t size_bytes;
  const bool turned;
  const Scratch memory;
};

int64_t filter_bytes(const Grid& g) { return g.O / kColumns * panel_size(g.C) * kSize; }

std::shared_ptr<const TransformedFilter> kept_filter(const Weights& w, bool turned) {
  return w.find<TransformedFilter>([&](const TransformedFilter& f) { return f.turned == turned; });
}

/// Null where a weight is not finite.
std::shared_ptr<const TransformedFilter> transform_filter(const Grid& g, const Weights& weights,
                                                          const FilterOrder& order) {
  const MemoryCategory category =
      weights.keeps() ? MemoryCategory::Packed : MemoryCategory::Temporary;
  auto made = std::make_shared<const TransformedFilter>(filter_bytes(g), order.turned, category);
  const float* const w = weights.as<float>();
  const int64_t panels = g.O / kColumns, size = panel_size(g.C);
  std::atomic<bool> finite{true};
  parallel_for(0, panels * g.C, std::max<int64_t>(1, 4096 / kColumns), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e;) {
      const int64_t panel = i / g.C, end = std::min(e, (panel + 1) * g.C);
      if (!transform_filter_v4(panel_of(w, order, panel * kColumns), g.C, i - panel * g.C,
                               end - panel * g.C, made->memory.as<float>() + panel * size))
        finite = false;
      i = end;
    }
  });
  if (!finite) return nullptr;
  if (weights.keeps()) weights.keep(made);
  return made;
}

/// What run_by_tiles takes for itself: for all tasks together, and for each.
struct TileMemory {
  explicit TileMemory(const Grid& g)
      : most(tiles_in(kGroupBytes, g.C)),
        tasks(tile::divide_up(g.count, most)),
        step(component_step(most, g.C)),
        filter(filter_bytes(g)),
        pixels(kComponents * step * kSize),
        sums(sums_bytes(most)) {}
  int64_t most, tasks, step;     // tiles of a task
  int64_t filter, pixels, sums;  // bytes
};

/// Gives an epilogue the pixels of tiles [first, last): parts of two rows of pixels, or as many
/// whole rows as follow each other.
void finish_tiles(const Grid& g, int64_t first, int64_t last, const float* y,
                  const Epilogue& then) {
  for (int64_t t = first; t < last;) {
    const int64_t row = t % g.image / g.columns, column = t % g.columns;
    const float* const from = y + output_place(g, t) + 2 * column * g.O;
    const int64_t left = std::min(last, (t / g.image + 1) * g.image) - t;  // of the image
    if (column == 0 && left >= g.columns) {
      const int64_t rows = std::min(2 * (left / g.columns), g.OH - 2 * row);
      then({from, 1, rows * g.OW * g.O, rows * g.OW * g.O});
      t += left / g.columns * g.columns;
    } else {
      const int64_t tiles = std::min(left, g.columns - column);
      const int64_t pixels = std::min(2 * (column + tiles), g.OW) - 2 * column;
      then({from, std::min<int64_t>(2, g.OH - 2 * row), pixels * g.O, g.OW * g.O});
      t += tiles;
    }
  }
}

bool run_by_tiles(const Grid& g, const float* x, const Weights& w, const FilterOrder& order,
                  const float* bias, float* y, const Epilogue* then) {
  const TileMemory memory(g);
  const int64_t panels = g.O / kColumns, size = panel_size(g.C);
  auto filter = kept_filter(w, order.turned);
  if (!filter) filter = transform_filter(g, w, order);
  if (!filter) return false;
  std::atomic<bool> finite{true};
  const int64_t most = memory.most, step = memory.step;
  parallel_for(0, memory.tasks, 1, [&](int64_t b, int64_t e) {
    const Scratch pixels(memory.pixels), sums(memory.sums);
    for (int64_t group = b; group < e; ++group) {
      const int64_t first = group * most, last = std::min(g.count, first + most);
      if (!transform_input_v4(g, x, first, last, pixels.as<float>(), step)) finite = false;
      if (!finite) return;
      const int64_t here = input_place(g, last), next = input_place(g, last + most) - here;
      for (int64_t panel = 0; panel < panels; ++panel) {
        const int64_t o = panel * kColumns;
        multiply({g, pixels.as<float>(), step, first, last},
                 filter->memory.as<float>() + panel * size, bias == nullptr ? nullptr : bias + o,
                 y + o, {x + here + next / panels * panel, next / panels}, sums.as<float>());
      }
      if (then != nullptr) finish_tiles(g, first, last, y, *then);
    }
  });
  return finite;
}

/// The same of run_by_panels.
struct PanelMemory {
  explicit PanelMemory(const Grid& g)
      : most(std::min(g.count, tiles_in(kPixelBytes, g.C))),
        group(std::min(most, tiles_in(kGroupBytes, kColumns))),
        step(component_step(most, g.C)),
        pixels(kComponents * step * kSize),
        panel(panel_size(g.C) * kSize),
        sums(sums_bytes(group)) {}
  int64_t most, group, step;    // tiles transformed at a time, multiplied at a time
  int64_t pixels, panel, sums;  // bytes
};

bool run_by_panels(const Grid& g, const float* x, const Weights& weights, const FilterOrder& order,
                   const float* bias, float* y) {
  const PanelMemory memory(g);
  auto filter = kept_filter(weights, order.turned);
  if (!filter && weights.keeps()) {
    filter = transform_filter(g, weights, order);
    if (!filter) return false;
  }
  const float* const w = filter ? nullptr : weights.as<float>();
  const int64_t most = memory.most, step = memory.step, group = memory.group;
  const Scratch pixels(memory.pixels);
  std::atomic<bool> finite{true};
  for (int64_t first = 0; finite && first < g.count; first += most) {
    const int64_t last = std::min(g.count, first + most);
    parallel_for(first, last, kRows, [&](int64_t b, int64_t e) {
      if (!transform_input_v4(g, x, b, e, pixels.as<float>() + (b - first) * g.C, step))
        finite = false;
    });
    parallel_for(0, g.O / kColumns, 1, [&](int64_t b, int64_t e) {
      const Scratch own(filter ? 0 : memory.panel), sums(memory.sums);
      for (int64_t o = b * kColumns; o < e * kColumns; o += kColumns) {
        const float* const panel =
            filter ? filter->memory.as<float>() + o / kColumns * panel_size(g.C) : own.as<float>();
        if (!filter && !transform_filter_v4(panel_of(w, order, o), g.C, 0, g.C, own.as<float>()))
          finite = false;
        if (!finite) return;
        for (int64_t t = 0; t < last - first; t += group) {
          const int64_t end = std::min(last - first, t + group);
          multiply({g, pixels.as<float>() + t * g.C, step, first + t, first + end}, panel,
                   bias == nullptr ? nullptr : bias + o, y + o, {nullptr, 0}, sums.as<float>());
        }
      }
    });
  }
  return finite;
}

/// The convolution of dy that gives dx.
ConvShape of_gradient(const ConvShape& s) {
  ConvShape t = s;
  t.C = s.O;
  t.O = s.C;
  t.H = s.OH();
  t.W = s.OW();
  t.pad_h = 2 - s.pad_h;
  t.pad_w = 2 - s.pad_w;
  return t;
}

bool has_small_filter(const ConvShape& s) {
  return s.O / kColumns * panel_size(s.C) * kSize <= kSmallFilter;
}

/// Measured: 1.3 to 1.8 times as fast with small filters, 1.1 to 1.6 with large ones, which take
/// their time to transform.
bool is_faster(const ConvShape& s) {
  return s.C % conv_micro::kLanes == 0 && s.O % kColumns == 0 &&
         Grid(s).count >= (has_small_filter(s) ? 64 : 112);
}

bool run(const ConvShape& s, const float* x, const Weights& w, const FilterOrder& order,
         const float* bias, float* y, const Epilogue* then = nullptr) {
  return has_small_filter(s) ? run_by_tiles(Grid(s), x, w, order, bias, y, then)
                             : run_by_panels(Grid(s), x, w, order, bias, y);
}

int64_t scratch(const ConvShape& s) {
  const Grid g(s);
  if (has_small_filter(s)) {
    const TileMemory m(g);
    return m.filter + std::min<int64_t>(m.tasks, get_num_threads()) * (m.pixels + m.sums);
  }
  const PanelMemory m(g);
  return m.pixels + std::min<int64_t>(g.O / kColumns, get_num_threads()) * (m.panel + m.sums);
}

}  // namespace

bool forward_is_faster(const ConvShape& s) { return serves(s) && is_faster(s); }
int64_t forward_scratch(const ConvShape& s) { return scratch(s); }

bool forward(const ConvShape& s, const float* x, const Weights& w, const float* bias, float* y,
             const Epilogue* then) {
  return run(s, x, w, {s.C * 9, 9, false}, bias, y, then);
}
bool forward_has_blocks(const ConvShape& s) { return has_small_filter(s); }

bool data_is_faster(const ConvShape& s) { return serves(s) && is_faster(of_gradient(s)); }
int64_t data_scratch(const ConvShape& s) { return scratch(of_gradient(s)); }

bool backward_data(const ConvShape& s, const float* dy, const Weights& w, const float* bias,
                   float* dx) {
  return run(of_gradient(s), dy, w, {9, s.C * 9, true}, bias, dx);
}

#endif

}  // namespace pellucid::kernels::conv_winograd
