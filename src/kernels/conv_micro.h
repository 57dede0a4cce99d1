// The two micro-kernels of our own convolutions, float at ISA level v4 alone. Both keep a tile of
// up to kRows by kColumns sums in registers. Used by conv_direct and conv_winograd.
#pragma once

#include <cstdint>

namespace pellucid::kernels::conv_micro {

inline constexpr int kRows = 14, kLanes = 16, kColumns = 2 * kLanes;

/// out[r, :] = the sum over rows of the filter and depth of a b, + bias; r are pixels.
struct Forward {
  int64_t filter_rows, depth;
  const float* a;
  int64_t a_pixel, a_row;  // steps to the next pixel of the tile, and row of the filter
  const float* b;          // [filter_rows, depth, kColumns]
  float* out;
  int64_t out_stride;
  const float* bias;  // or null
  // What is written now and read later is asked for meanwhile, at an even pace.
  int64_t out_pace, ahead_pace;
  const float* ahead;
};

/// out[r, :] (+)= the sum over pixels of a[r] b[:]; r are inputs.
struct Weights {
  int64_t rows, pixels;    // of outputs, and in each of them
  const float* a;          // consecutive for r
  int64_t a_pixel, a_row;  // steps
  const float* b;          // of kColumns
  int64_t b_pixel, b_row;
  float* out;
  int64_t out_stride;
  bool adds;
  const float* ahead;  // what the next block will read: a line of it a pixel
  int64_t ahead_step;  // 0 to ask for nothing new
};

/// `rows` is at least 1 and at most kRows.
void run(int64_t rows, const Forward& micro);
void run(int64_t rows, const Weights& micro);

}  // namespace pellucid::kernels::conv_micro
