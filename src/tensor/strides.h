// Questions about the strides of a tensor: do its elements fill their memory, and how is it walked
// over a larger shape.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "pellucid/tensor.h"

namespace pellucid::detail {

/// Whether the elements fill their memory without gaps or overlaps, in some order of dims.
inline bool is_dense(const TensorImpl& t) {
  if (t.is_contiguous()) return true;
  std::array<std::pair<int64_t, int64_t>, 16> order;  // stride, size
  size_t n = 0;
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    if (t.sizes[d] == 1) continue;
    if (n == order.size()) return false;
    order[n++] = {t.strides[d], t.sizes[d]};
  }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n));
  int64_t step = 1;
  for (size_t i = 0; i < n; ++i) {
    if (order[i].first != step) return false;
    step *= order[i].second;
  }
  return true;
}

/// The strides of a tensor over a shape that it broadcasts to: 0 where it is repeated.
inline void broadcast_strides(const TensorImpl& t, IntArrayRef shape, int64_t* out) {
  const size_t own = t.sizes.size(), added = shape.size() - own;
  for (size_t i = 0; i < added; ++i) out[i] = 0;
  for (size_t d = 0; d < own; ++d)
    out[added + d] = t.sizes[d] == 1 && shape[added + d] != 1 ? 0 : t.strides[d];
}

}  // namespace pellucid::detail
