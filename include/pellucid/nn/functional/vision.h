// Resizing and sampling pictures, and their windows as columns, as functions.
#pragma once

#include "pellucid/nn/options/vision.h"
#include "pellucid/tensor.h"

namespace pellucid::nn::functional {

/// [N, C, …] resized along the dims after the second, to `size` or by `scale_factor`.
PELLUCID_API Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& options = {});
/// The windows of [N, C, H, W] as columns [N, C * kernel, windows].
PELLUCID_API Tensor unfold(const Tensor& input, const UnfoldFuncOptions& options);
/// Columns added up to a picture where their windows overlap: the transpose of unfold.
PELLUCID_API Tensor fold(const Tensor& input, const FoldFuncOptions& options);
/// The values of a picture at the places of a grid, whose last dim holds x and y in [-1, 1].
PELLUCID_API Tensor grid_sample(const Tensor& input, const Tensor& grid,
                                const GridSampleFuncOptions& options = {});
/// The grid of an affine map for each picture of [N, C, H, W] or [N, C, D, H, W].
PELLUCID_API Tensor affine_grid(const Tensor& theta, IntArrayRef size, bool align_corners = false);

}  // namespace pellucid::nn::functional
