// The transformations of Winograd's F(2x2, 3x3), kLanes channels at a time, and which shapes they
// serve. With the matrices
//     B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]    G = [1 0 0; ½ ½ ½; ½ -½ ½; 0 0 1]
//     A^T = [1 1 1 0; 0 1 -1 -1]
// a tile of outputs is A^T [(G g G^T) ⊙ (B^T d B)] A of 4x4 pixels d and a filter g, summed over
// input channels between the brackets, and the filter's gradient G^T [(B^T d B) ⊙ (A dy A^T)] G,
// summed over tiles. Each of the 16 elements between the brackets is a component: a matrix product
// of its own.
// Transformations of pixels, gradients and filters return whether all that they read was finite: an
// inf or NaN would reach outputs whose windows do not hold it.
#pragma once

#include <cstdint>

#include "kernels/conv.h"
#include "kernels/conv_micro.h"

namespace pellucid::kernels::conv_winograd {

inline constexpr int kComponents = 16;

/// The tiles of all images, row by row: each has 2x2 pixels of [N, OH, OW, O] and reads 4x4 of
/// [N, H, W, C].
struct Grid {
  explicit Grid(const ConvShape& s)
      : C(s.C),
        H(s.H),
        W(s.W),
        O(s.O),
        OH(s.OH()),
        OW(s.OW()),
        pad_h(s.pad_h),
        pad_w(s.pad_w),
        columns((OW + 1) / 2),
        image((OH + 1) / 2 * columns),
        count(s.N * image) {}
  int64_t C, H, W, O, OH, OW, pad_h, pad_w;
  int64_t columns, image, count;  // tiles in a row, in an image, of all
};

/// From one component to the next in memory, where each is [tiles, channels]: a little more than
/// that, or all 16 would fall into the same lines of L1.
inline int64_t component_step(int64_t tiles, int64_t channels) {
  return tiles * channels + 2 * conv_micro::kLanes;
}

/// Where the tiles from `tile` on begin to read x, about: what lies before the place of a later
/// tile is asked for ahead.
inline int64_t input_place(const Grid& g, int64_t tile) {
  return (tile / g.image * g.H + 2 * (tile % g.image / g.columns)) * g.W * g.C;
}
inline int64_t output_place(const Grid& g, int64_t tile) {
  return (tile / g.image * g.OH + 2 * (tile % g.image / g.columns)) * g.OW * g.O;
}

/// Asks for the outputs of a tile, kColumns of them, which will be written; y is that of the first.
void ask_for_output(const Grid& grid, int64_t tile, const float* y);

/// to[component][t][c] = B^T d B of the tiles [first, last), t counting from `first`.
bool transform_input_v4(const Grid& grid, const float* x, int64_t first, int64_t last, float* to,
                        int64_t step);

/// to[component][t][o] = A dy A^T of the tiles [first, last) and `outputs` channels; dy is that of
/// the first of these.
bool transform_gradient_v4(const Grid& grid, const float* dy, int64_t outputs, int64_t first,
                           int64_t last, float* to, int64_t step);

/// y = A^T m A + bias of `tiles` tiles from `first` on, for kColumns outputs; m is
/// [component][tile][kColumns], and y and bias (or null) are those of the first output.
void transform_output_v4(const Grid& grid, const float* m, int64_t step, int64_t first,
                         int64_t tiles, const float* bias, float* y);

/// How a filter lies in memory: w[lane * lane_step + d * depth_step + tap].
struct Filter {
  const float* w;
  int64_t lane_step, depth_step;
  bool turned;  // by 180 degrees, for the gradient of the input
};

/// to[component][d][lane] = G g G^T for kColumns lanes and d in [first, last) of `depth`.
bool transform_filter_v4(const Filter& filter, int64_t depth, int64_t first, int64_t last,
                         float* to);

/// dw[o][c][tap] = G^T m G for kColumns outputs and c in [first, last), where m is the sum of
/// `parts` arrays [component][C][outputs], part_step apart.
void transform_sums_v4(const float* m, int64_t parts, int64_t part_step, int64_t C, int64_t outputs,
                       int64_t first, int64_t last, float* dw);

/// Whether the shape is one of these and Winograd was not turned off.
bool serves(const ConvShape& shape);

}  // namespace pellucid::kernels::conv_winograd
