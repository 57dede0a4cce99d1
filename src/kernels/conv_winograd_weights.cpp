// The gradient of the filter: for each component, the product of transformed pixels and transformed
// gradients over all tiles. Where the sums are small, tasks are parts of the tiles, in blocks that
// stay in L2, with sums of their own that are added in order; where they are large, tasks are
// panels of outputs that read pixels transformed before. The gradient of the bias is a sum of the
// component in which all four gradients of a tile are added.
#include <algorithm>
#include <array>
#include <atomic>

#include "base/parallel.h"
#include "kernels/conv_winograd.h"
#include "kernels/conv_winograd_tiles.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"

namespace pellucid::kernels::conv_winograd {

#ifdef PELLUCID_ONE_ISA

bool weights_are_faster(const ConvShape&) { return false; }
int64_t weights_scratch(const ConvShape&) { return 0; }
bool backward_weights(const ConvShape&, const float*, const float*, float*, float*) {
  return false;
}

#else

namespace {

using conv_micro::kColumns, conv_micro::kRows;

constexpr auto kSize = static_cast<int64_t>(sizeof(float));
constexpr int64_t kSmallSums = 1 << 20;  // bytes
constexpr int64_t kAllSums = 4 << 20;    // of all parts, which are fewer for that
constexpr int64_t kMostParts = 16;
constexpr int64_t kBlockBytes = 768 << 10;  // transformed at a time by a task
constexpr int64_t kMostPixels = 48 << 20;   // bytes transformed before, for large sums
constexpr int64_t kBlockTiles = 128;        // whose gradients, kColumns of them, stay in L1
constexpr int64_t kBiasComponent = 5;

/// Transformed tiles: pixels [component][tiles][C] and gradients [component][tiles][outputs].
struct Tiles {
  const float* pixels;
  int64_t pixel_step;
  const float* grads;
  int64_t grad_step;
  int64_t count, C, outputs;
};

/// What is asked for during the products, at an even pace.
struct Ahead {
  const float* data;
  int64_t count;
};

/// sums[component][C][outputs] (+)= pixels^T grads, and [outputs] for the bias unless null; the two
/// ranges are asked for by the first and the last components.
void multiply(const Tiles& t, bool adds, float* sums, float* bias, std::array<Ahead, 2> ahead) {
  static constexpr float kOne = 1;
  const tile::Parts inputs(t.C, kRows);
  const int64_t slots = kComponents / 2 * (t.outputs / kColumns) * inputs.count * t.count;
  conv_micro::Weights micro{.rows = 1,
                            .pixels = 0,
                            .a = nullptr,
                            .a_pixel = t.C,
                            .a_row = 0,
                            .b = nullptr,
                            .b_pixel = t.outputs,
                            .b_row = 0,
                            .out = nullptr,
                            .out_stride = t.outputs,
                            .adds = adds,
                            .ahead = nullptr,
                            .ahead_step = 0};
  for (int64_t i = 0; i < kComponents; ++i) {
    if (i % (kComponents / 2) == 0) {
      const Ahead& next = ahead[static_cast<size_t>(i / (kComponents / 2))];
      micro.ahead = next.data;
      micro.ahead_step = next.count == 0 ? 0 : tile::divide_up(next.count, slots);
    }
    for (int64_t o = 0; o < t.outputs; o += kColumns)
      for (int64_t first = 0; first < t.count; first += kBlockTiles) {
        micro.pixels = std::min(kBlockTiles, t.count - first);
        micro.b = t.grads + i * t.grad_step + first * t.outputs + o;
        micro.adds = adds || first > 0;
        for (int64_t part = 0, c = 0; part < inputs.count; ++part) {
          micro.a = t.pixels + i * t.pixel_step + first * t.C + c;
          micro.out = sums + (i * t.C + c) * t.outputs + o;
          conv_micro::run(inputs.length(part), micro);
          micro.ahead += micro.pixels * micro.ahead_step;
          c += inputs.length(part);
        }
        if (bias == nullptr || i != kBiasComponent) continue;
        conv_micro::Weights ones = micro;
        ones.a = &kOne;
        ones.a_pixel = ones.ahead_step = 0;
        ones.out = bias + o;
        conv_micro::run(1, ones);
      }
  }
}

/// What the tiles [first, last) will read.
std::array<Ahead, 2> next_block(const Grid& g, const float* x, const float* dy, int64_t first,
                                int64_t last) {
  const int64_t in = input_place(g, first), out = output_place(g, first);
  return {Ahead{x + in, input_place(g, last) - in}, Ahead{dy + out, output_place(g, last) - out}};
}

int64_t sums_size(const ConvShape& s) { return kComponents * s.C * s.O; }

/// How run_by_tiles cuts the tiles, and what it takes for itself.
struct TileMemory {
  TileMemory(const ConvShape& s, const Grid& g)
      : size(sums_size(s) + s.O),
        parts(g.count, tile::divide_up(
                           g.count, std::clamp<int64_t>(kAllSums / (size * kSize), 2, kMostParts))),
        block(std::max<int64_t>(16, kBlockBytes / (kComponents * (s.C + s.O) * kSize) / 8 * 8)),
        pixel_step(component_step(block, s.C)),
        grad_step(component_step(block, s.O)) {}
  int64_t size;  // of a part's sums, the bias's too
  tile::Parts parts;
  int64_t block, pixel_step, grad_step;  // tiles transformed at a time
  int64_t sums() const { return parts.count * size * kSize; }
  int64_t pixels() const { return kComponents * pixel_step * kSize; }
  int64_t grads() const { return kComponents * grad_step * kSize; }
};

bool run_by_tiles(const ConvShape& s, const float* x, const float* dy, float* dw, float* dbias) {
  const Grid g(s);
  const TileMemory memory(s, g);
  const tile::Parts& parts = memory.parts;
  const int64_t size = memory.size, block = memory.block, pixel_step = memory.pixel_step,
                grad_step = memory.grad_step;
  const Scratch sums(memory.sums());
  std::atomic<bool> finite{true};
  parallel_chunks(parts.count, [&](int64_t part) {
    const Scratch pixels(memory.pixels()), grads(memory.grads());
    float* const sum = sums.as<float>() + part * size;
    const int64_t begin = part * parts.least + std::min(part, parts.longer),
                  end = begin + parts.length(part);
    for (int64_t first = begin; first < end; first += block) {
      const int64_t last = std::min(end, first + block);
      if (!transform_input_v4(g, x, first, last, pixels.as<float>(), pixel_step) ||
          !transform_gradient_v4(g, dy, s.O, first, last, grads.as<float>(), grad_step))
        finite = false;
      if (!finite) return;
      multiply(
          {pixels.as<float>(), pixel_step, grads.as<float>(), grad_step, last - first, s.C, s.O},
          first != begin, sum, dbias == nullptr ? nullptr : sum + sums_size(s),
          next_block(g, x, dy, last, last + block));
    }
  });
  if (!finite) return false;
  parallel_for(0, s.O / kColumns * s.C, 64, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e;) {
      const int64_t o = i / s.C * kColumns, c = i % s.C, end = std::min(s.C, c + e - i);
      transform_sums_v4(sums.as<float>() + o, parts.count, size, s.C, s.O, c, end,
                        dw + o * s.C * 9);
      i += end - c;
    }
  });
  if (dbias == nullptr) return true;
  for (int64_t o = 0; o < s.O; ++o) {
    const float* from = sums.as<float>() + sums_size(s) + o;
    dbias[o] = *from;
    for (int64_t p = 1; p < parts.count; ++p) dbias[o] += *(from += size);
  }
  return true;
}

bool run_by_panels(const ConvShape& s, const float* x, const float* dy, float* dw, float* dbias) {
  const Grid g(s);
  const int64_t pixel_step = component_step(g.count, s.C),
                grad_step = component_step(g.count, kColumns);
  const Scratch pixels(kComponents * pixel_step * kSize);
  std::atomic<bool> finite{true};
  parallel_for(0, g.count, kRows, [&](int64_t b, int64_t e) {
    if (!transform_input_v4(g, x, b, e, pixels.as<float>() + b * s.C, pixel_step)) finite = false;
  });
  parallel_for(0, s.O / kColumns, 1, [&](int64_t b, int64_t e) {
    const Scratch grads(kComponents * grad_step * kSize),
        sums(kComponents * s.C * kColumns * kSize);
    for (int64_t o = b * kColumns; o < e * kColumns; o += kColumns) {
      if (!transform_gradient_v4(g, dy + o, kColumns, 0, g.count, grads.as<float>(), grad_step))
        finite = false;
      if (!finite) return;
      multiply(
          {pixels.as<float>(), pixel_step, grads.as<float>(), grad_step, g.count, s.C, kColumns},
          false, sums.as<float>(), dbias == nullptr ? nullptr : dbias + o,
          {Ahead{x, 0}, Ahead{x, 0}});
      transform_sums_v4(sums.as<float>(), 1, 0, s.C, kColumns, 0, s.C, dw + o * s.C * 9);
    }
  });
  return finite;
}

bool has_small_sums(const ConvShape& s) { return sums_size(s) * kSize <= kSmallSums; }

}  // namespace

bool weights_are_faster(const ConvShape& s) {
  if (!serves(s) || s.C % conv_micro::kLanes != 0 || s.O % kColumns != 0) return false;
  const int64_t tiles = Grid(s).count;
  // Measured: 1.5 to 1.6 times as fast with small sums, 1.2 to 1.5 with large ones.
  if (has_small_sums(s)) return tiles >= 64;
  return tiles >= 112 && kComponents * tiles * s.C * kSize <= kMostPixels;
}

int64_t weights_scratch(const ConvShape& s) {
  const Grid g(s);
  const int64_t threads = get_num_threads();
  if (has_small_sums(s)) {
    const TileMemory m(s, g);
    return m.sums() + std::min(m.parts.count, threads) * (m.pixels() + m.grads());
  }
  // As run_by_panels: the pixels, and a panel's gradients and sums for each task.
  return kComponents * kSize *
         (component_step(g.count, s.C) +
          std::min(s.O / kColumns, threads) * (component_step(g.count, kColumns) + s.C * kColumns));
}

bool backward_weights(const ConvShape& s, const float* x, const float* dy, float* dw,
                      float* dbias) {
  return has_small_sums(s) ? run_by_tiles(s, x, dy, dw, dbias) : run_by_panels(s, x, dy, dw, dbias);
}

#endif

}  // namespace pellucid::kernels::conv_winograd
