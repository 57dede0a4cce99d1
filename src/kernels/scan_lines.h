// Walking the lines of a strided array along one dim: the geometry that scans, sorts and scatters
// share.
#pragma once

#include <array>
#include <cstdint>

#include "pellucid/array_ref.h"

namespace pellucid::kernels {

/// The lines along `dim` of an array, numbered in row-major order of the other dims. `N` arrays are
/// walked together, each with its own strides (in elements).
template <int N> class Lines {
 public:
  Lines(IntArrayRef sizes, int64_t dim, const std::array<IntArrayRef, N>& strides)
      : sizes_(sizes), strides_(strides), dim_(dim) {
    length = sizes.empty() ? 1 : sizes[static_cast<size_t>(dim)];
    count = 1;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (static_cast<int64_t>(i) != dim) count *= sizes[i];
    for (int k = 0; k < N; ++k) step[k] = sizes.empty() ? 1 : strides[k][static_cast<size_t>(dim)];
  }
  /// Where line `number` starts in each array.
  std::array<int64_t, N> start(int64_t number) const {
    std::array<int64_t, N> at{};
    for (size_t i = sizes_.size(); i-- > 0 && number > 0;) {
      if (static_cast<int64_t>(i) == dim_) continue;
      const int64_t position = number % sizes_[i];
      number /= sizes_[i];
      for (int k = 0; k < N; ++k) at[k] += position * strides_[k][i];
    }
    return at;
  }
  int64_t length;               ///< elements of a line
  int64_t count;                ///< lines
  std::array<int64_t, N> step;  ///< stride along a line

 private:
  IntArrayRef sizes_;
  std::array<IntArrayRef, N> strides_;
  int64_t dim_;
};

}  // namespace pellucid::kernels
