// Forward, for images without padding. A tile of up to 14 pixels of an output row by 32 outputs
// stays in registers; elements of the image are spread from where they lie (for one row of the
// filter, kw and c together run through consecutive memory), the filter is packed in panels of 32
// outputs.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_micro.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::conv_direct {

#ifdef PELLUCID_ONE_ISA

bool forward_is_faster(const ConvShape&) { return false; }
void forward(const ConvShape&, const float*, const Weights&, const float*, float*,
             const Epilogue*) {}

#else

namespace {

using conv_micro::kColumns, conv_micro::kRows;
using Micro = conv_micro::Forward;

/// [panel of outputs][KH][KW][C][kColumns].
void pack_filter(const ConvShape& s, const float* w, float* packed) {
  const int64_t taps = s.KH * s.KW;
  parallel_for(0, s.O / kColumns * s.KH, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float* const from = w + i / s.KH * kColumns * s.C * taps + i % s.KH * s.KW;
      float* to = packed + i * s.KW * s.C * kColumns;
      for (int64_t kw = 0; kw < s.KW; ++kw)
        for (int64_t c = 0; c < s.C; ++c)
          for (int64_t o = 0; o < kColumns; ++o) *to++ = from[(o * s.C + c) * taps + kw];
    }
  });
}

struct PackedFilter final : PackedForm {
  PackedFilter(int64_t size, MemoryCategory category) : size_bytes(size), memory(size, category) {}
  int64_t bytes() const override { return size_bytes; }
  const int64_t size_bytes;
  const Scratch memory;
};

std::shared_ptr<const PackedFilter> packed_filter(const ConvShape& s, const Weights& w) {
  // The order depends on the weights' sizes alone.
  if (auto kept = w.find<PackedFilter>([](const PackedFilter&) { return true; })) return kept;
  auto made = std::make_shared<const PackedFilter>(
      forward_scratch(s), w.keeps() ? MemoryCategory::Packed : MemoryCategory::Temporary);
  pack_filter(s, w.as<float>(), made->memory.as<float>());
  if (w.keeps()) w.keep(made);
  return made;
}

/// One image; the next one follows it.
void run_image(const ConvShape& s, const float* x, const float* filter, const float* bias,
               float* y) {
  const int64_t oh = s.OH(), ow = s.OW(), depth = s.KW * s.C, steps = s.KH * depth;
  const tile::Parts tiles(ow, kRows);
  const int64_t calls = oh * tiles.count * (s.O / kColumns), size = s.H * s.W * s.C;
  Micro m{.filter_rows = s.KH,
          .depth = depth,
          .a = nullptr,
          .a_pixel = s.C,
          .a_row = s.W * s.C,
          .b = nullptr,
          .out = nullptr,
          .out_stride = s.O,
          .bias = nullptr,
          .out_pace = tile::divide_up(kRows * s.O, steps),
          .ahead_pace = tile::divide_up(size, calls * steps),
          .ahead = x + size};
  for (int64_t o = 0; o < s.O; o += kColumns) {
    m.b = filter + o * steps;
    m.bias = bias == nullptr ? nullptr : bias + o;
    for (int64_t row = 0; row < oh; ++row) {
      m.a = x + row * m.a_row;
      m.out = y + row * ow * s.O + o;
      for (int64_t t = 0; t < tiles.count; ++t) {
        const int64_t pixels = tiles.length(t);
        conv_micro::run(pixels, m);
        m.a += pixels * s.C;
        m.out += pixels * s.O;
        m.ahead += m.ahead_pace * steps;
      }
    }
  }
}

}  // namespace

bool forward_is_faster(const ConvShape& s) {
  // Measured: by 4 % for small images without padding, of few channels. Beyond that oneDNN is as
  // fast or faster.
  return isa() == Isa::V4 && s.groups == 1 && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1 && s.pad_h == 0 && s.pad_w == 0 && s.C >= 16 &&
         s.O % kColumns == 0 && s.KH * s.KW > 1 && s.weight_count() <= (1 << 16) &&
         s.H * s.W * s.C <= (1 << 16) && s.OH() * s.OW() * s.O <= (1 << 16) && s.OW() >= 10 &&
         s.N >= 8;
}

void forward(const ConvShape& s, const float* x, const Weights& w, const float* bias, float* y,
             const Epilogue* then) {
  const auto form = packed_filter(s, w);
  const Scratch& filter = form->memory;
  parallel_for(0, s.N, 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const int64_t size = s.OH() * s.OW() * s.O;
      run_image(s, x + n * s.H * s.W * s.C, filter.as<float>(), bias, y + n * size);
      if (then != nullptr) (*then)({y + n * size, 1, size, size});
    }
  });
}

#endif

}  // namespace pellucid::kernels::conv_direct
