// Max and average pooling, windowed or adaptive, forward and backward, over raw pointers. Tensors
// are NHWC or NCHW without gaps; 1-D pooling is the one with H = 1. A plan holds the windows, so
// that the loops do not know where they come from. Bits do not depend on the number of threads.
// float and double.
#pragma once

#include <cstdint>
#include <vector>

namespace pellucid::kernels {

enum class PoolLayout { NHWC, NCHW };

/// The sizes of a windowed pooling, with PyTorch's meaning.
struct PoolShape {
  int64_t N = 1, C = 1, H = 1, W = 1, KH = 1, KW = 1;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  bool ceil_mode = false;
  int64_t OH() const { return output_size(H, KH, stride_h, pad_h, dilation_h, ceil_mode); }
  int64_t OW() const { return output_size(W, KW, stride_w, pad_w, dilation_w, ceil_mode); }
  static int64_t output_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad,
                             int64_t dilation, bool ceil_mode);
};

/// The positions of one output along one dimension: begin, begin + dilation … below end, all inside
/// the input.
struct PoolWindow {
  int64_t begin, end;
  int64_t with_padding;  // how many positions, counting those in the padding (but none beyond it)
};

/// What to pool: the windows of each output row and column.
struct PoolPlan {
  int64_t N, C, H, W, dilation_h, dilation_w;
  std::vector<PoolWindow> rows, columns;
  int64_t OH() const { return static_cast<int64_t>(rows.size()); }
  int64_t OW() const { return static_cast<int64_t>(columns.size()); }
};

/// The plan of a windowed pooling.
PoolPlan pool_plan(const PoolShape& shape);
/// The plan that divides [H, W] into OH x OW windows as PyTorch's adaptive pooling does.
PoolPlan adaptive_pool_plan(int64_t N, int64_t C, int64_t H, int64_t W, int64_t OH, int64_t OW);

/// What an average is divided by: the positions in the window, or a given number.
struct AverageOptions {
  bool count_include_pad = true;
  int64_t divisor_override = 0;  ///< 0: none
};

/// y = the largest of each window, NaN if there is one; indices (may be null) = its position h * W
/// + w.
template <class T>
void max_pool_forward(const PoolPlan& plan, PoolLayout layout, const T* x, T* y, int64_t* indices);
/// dx from dy and the indices of forward.
template <class T>
void max_pool_backward(const PoolPlan& plan, PoolLayout layout, const T* dy, const int64_t* indices,
                       T* dx);
/// y = the average of each window.
template <class T>
void avg_pool_forward(const PoolPlan& plan, PoolLayout layout, const AverageOptions& options,
                      const T* x, T* y);
template <class T>
void avg_pool_backward(const PoolPlan& plan, PoolLayout layout, const AverageOptions& options,
                       const T* dy, T* dx);

}  // namespace pellucid::kernels
