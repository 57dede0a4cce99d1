// For one row of the filter, what the pixels of an output row read of the input is a matrix whose
// rows overlap: kw and c together run through consecutive memory. So dw is, row of the filter by
// row of the filter, the product of that matrix with dy, and nothing is unfolded. A tile of up to
// 14 inputs by 32 outputs stays in registers while pixels stream past; blocks of output rows stay
// in L2 while all tiles of a task read them.
#include "kernels/conv_direct.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/conv_micro.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_tile.h"
#include "kernels/isa.h"

namespace pellucid::kernels::conv_direct {

#ifdef PELLUCID_ONE_ISA

bool weights_are_faster(const ConvShape&) { return false; }
int64_t weights_scratch(const ConvShape&) { return 0; }
void backward_weights(const ConvShape&, const float*, const float*, float*, float*) {}

#else

namespace {

using conv_micro::kColumns, conv_micro::kLanes, conv_micro::kRows;
using Micro = conv_micro::Weights;
constexpr int64_t kBlockBytes = 192 << 10;  // of dy, which stay in L2

/// x with zeros around it, [N, H, W, C].
struct Image {
  const float* data;
  int64_t H, W;
};

Image padded(const ConvShape& s, const float* x, Scratch& memory) {
  const Image to{memory.as<float>(), s.H + 2 * s.pad_h, s.W + 2 * s.pad_w};
  const int64_t side = s.pad_w * s.C, width = s.W * s.C;
  parallel_for(0, s.N * to.H, std::max<int64_t>(1, 32768 / (to.W * s.C)),
               [&](int64_t first, int64_t last) {
                 for (int64_t r = first; r < last; ++r) {
                   float* const row = memory.as<float>() + r * to.W * s.C;
                   const int64_t h = r % to.H - s.pad_h;
                   if (h < 0 || h >= s.H) {
                     std::fill_n(row, to.W * s.C, 0.0f);
                     continue;
                   }
                   std::fill_n(row, side, 0.0f);
                   std::copy_n(x + (r / to.H * s.H + h) * width, width, row + side);
                   std::fill_n(row + side + width, side, 0.0f);
                 }
               });
  return to;
}

constexpr auto kSize = static_cast<int64_t>(sizeof(float));

int64_t padded_bytes(const ConvShape& s) {
  const bool pads = s.pad_h != 0 || s.pad_w != 0;
  return pads ? s.N * (s.H + 2 * s.pad_h) * (s.W + 2 * s.pad_w) * s.C * kSize : 0;
}

int64_t sums_bytes(const ConvShape& s) { return (s.KH * s.KW * s.C + 1) * s.O * kSize; }

/// The tiles of dw: by row of the filter, by inputs of that row, by outputs. One more for each
/// kColumns outputs is the bias's.
struct Tiles {
  Tiles(const ConvShape& s, bool bias)
      : inputs(s.KW * s.C, kRows),
        weights(s.KH * inputs.count),
        by_input(weights + (bias ? 1 : 0)),
        count(by_input * (s.O / kColumns)) {}
  tile::Parts inputs;
  int64_t weights, by_input, count;
};

struct Range {
  const float* data;
  int64_t count;
};

/// Lets the micro-kernel ask for the lines from `asked` on of two ranges one after the other.
void look_ahead(const Range (&next)[2], int64_t asked, Micro& micro) {
  micro.ahead_step = kLanes;
  int64_t at = asked * kLanes;
  for (const Range& range : next) {
    micro.ahead = range.data + at;
    if (at < range.count) return;
    at -= (range.count + kLanes - 1) / kLanes * kLanes;
  }
  micro.ahead = next[0].data;
  micro.ahead_step = 0;
}

/// Tiles [first, last) of `sums`, which is [KH, KW, C, O] and then the bias's [O].
void sum_tiles(const ConvShape& s, const Tiles& tiles, const Image& x, const float* dy, float* sums,
               int64_t first, int64_t last) {
  static constexpr float kOne = 1;
  const int64_t oh = s.OH(), ow = s.OW(), inputs = s.KW * s.C;
  const int64_t block =
      std::clamp<int64_t>(kBlockBytes / (ow * s.O * static_cast<int64_t>(sizeof(float))), 1, oh);
  Micro micro{.rows = 0,
              .pixels = ow,
              .a = nullptr,
              .a_pixel = s.stride_w * s.C,
              .a_row = s.stride_h * x.W * s.C,
              .b = nullptr,
              .b_pixel = s.O,
              .b_row = ow * s.O,
              .out = nullptr,
              .out_stride = s.O,
              .adds = false,
              .ahead = nullptr,
              .ahead_step = 0};
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t row = 0; row < oh; row += block) {
      micro.rows = std::min(block, oh - row);
      const float* const from = x.data + (n * x.H + row * s.stride_h) * x.W * s.C;
      const float* const grad = dy + (n * oh + row) * ow * s.O;
      // The next block, or the next image, follows in memory.
      const Range next[2] = {
          {grad + micro.rows * ow * s.O, micro.rows * ow * s.O},
          {from + (row + block < oh ? micro.rows * micro.a_row : x.H * x.W * s.C),
           micro.rows * micro.a_row}};
      int64_t asked = 0;  // lines
      for (int64_t t = first; t < last; ++t) {
        look_ahead(next, asked, micro);
        asked += micro.rows * ow;
        const int64_t output = t / tiles.by_input * kColumns, rest = t % tiles.by_input;
        micro.b = grad + output;
        if (rest == tiles.weights) {
          Micro ones = micro;
          ones.a = &kOne;
          ones.a_pixel = ones.a_row = 0;
          ones.out = sums + s.KH * inputs * s.O + output;
          conv_micro::run(1, ones);
          continue;
        }
        const int64_t kh = rest / tiles.inputs.count, i = rest % tiles.inputs.count;
        const int64_t input = i * tiles.inputs.least + std::min(i, tiles.inputs.longer);
        micro.a = from + kh * x.W * s.C + input;
        micro.out = sums + (kh * inputs + input) * s.O + output;
        conv_micro::run(tiles.inputs.length(i), micro);
      }
      micro.adds = true;
    }
}

}  // namespace

bool weights_are_faster(const ConvShape& s) {
  // Measured: without padding, which must be copied, or with few channels, whose rows are short for
  // others. Larger weights spend too long on being turned.
  return isa() == Isa::V4 && s.groups == 1 && s.dilation_h == 1 && s.dilation_w == 1 &&
         s.O % kColumns == 0 && s.KH * s.KW > 1 && s.KW * s.C >= 9 &&
         s.weight_count() <= (1 << 16) && ((s.pad_h == 0 && s.pad_w == 0) || s.C <= 4) &&
         s.N * s.OH() * s.OW() >= 2048;
}

int64_t weights_scratch(const ConvShape& s) { return padded_bytes(s) + sums_bytes(s); }

void backward_weights(const ConvShape& s, const float* x, const float* dy, float* dw,
                      float* dbias) {
  const bool pads = s.pad_h != 0 || s.pad_w != 0;
  Scratch memory(padded_bytes(s));
  const Image image = pads ? padded(s, x, memory) : Image{x, s.H, s.W};
  const Tiles tiles(s, dbias != nullptr);
  const int64_t inputs = s.KW * s.C;
  const Scratch sums(sums_bytes(s));
  parallel_for(0, tiles.count, 1, [&](int64_t first, int64_t last) {
    sum_tiles(s, tiles, image, dy, sums.as<float>(), first, last);
  });
  const int64_t taps = s.KH * s.KW;
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t c = 0; c < s.C; ++c) {
      const float* const from = sums.as<float>() + (tap * s.C + c) * s.O;
      for (int64_t o = 0; o < s.O; ++o) dw[(o * s.C + c) * taps + tap] = from[o];
    }
  if (dbias != nullptr) std::copy_n(sums.as<float>() + s.KH * inputs * s.O, s.O, dbias);
}

#endif

}  // namespace pellucid::kernels::conv_direct
