// Values of images and volumes at places that a grid names, over raw pointers: interpolation, its
// transpose, and slopes along the grid's coordinates. Images are [N, C, sizes…], grids
// [N, points, dims] with coordinates in [-1, 1], x (the last dim's) first. Bits do not depend on
// threads.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

enum class GridMode : int { Bilinear, Nearest, Bicubic };
enum class GridPadding : int { Zeros, Border, Reflection };

/// What is sampled and how. `order` asks for derivatives: interpolation is a product of a function
/// for each coordinate, and order[d] is how often that of the grid's coordinate d is derived.
struct GridShape {
  int64_t N = 1, C = 1, points = 1;
  int dims = 2;
  int64_t sizes[3] = {1, 1, 1};  // of the image, the slowest first
  GridMode mode = GridMode::Bilinear;
  GridPadding padding = GridPadding::Zeros;
  bool align_corners = false;
  int order[3] = {0, 0, 0};

  int64_t plane() const { return sizes[0] * sizes[1] * (dims == 3 ? sizes[2] : 1); }
};

/// y [N, C, points]: x at the places of the grid.
template <class T> void grid_values(const GridShape& shape, const T* x, const T* grid, T* y);

/// dx [N, C, sizes…]: the transpose of grid_values, for values g [N, C, points].
template <class T> void grid_spread(const GridShape& shape, const T* g, const T* grid, T* dx);

/// dgrid [N, points, dims]: how the sum of g * grid_values changes with each coordinate.
template <class T>
void grid_slopes(const GridShape& shape, const T* g, const T* x, const T* grid, T* dgrid);

}  // namespace pellucid::kernels
