// Overlap of strided tensors: exact for views with the same strides, by address ranges otherwise.
#include "core/overlap.h"

#include <algorithm>
#include <vector>

namespace pellucid {
namespace {

struct Range {
  intptr_t first, end;
};

Range range_of(const detail::TensorImpl& t) {
  const auto bytes = static_cast<intptr_t>(element_size(t.dtype));
  const intptr_t start = reinterpret_cast<intptr_t>(t.storage->data) + t.offset * bytes;
  Range r{start, start + bytes};
  for (size_t d = 0; d < t.sizes.size(); ++d)
    (t.strides[d] < 0 ? r.first : r.end) += t.strides[d] * (t.sizes[d] - 1) * bytes;
  return r;
}

// One dim of two views: an index of a less one of b lies in [low, high].
struct Steps {
  int64_t stride, low, high;
};

// Whether `distance` elements can be gone with the steps of the dims from `d` on. Exact; gives up
// with "yes" after `budget` attempts.
bool reaches(const std::vector<Steps>& dims, size_t d, int64_t distance, int& budget) {
  if (d == dims.size()) return distance == 0;
  if (--budget < 0) return true;
  int64_t least = 0, most = 0;  // what the dims after d can add
  for (size_t i = d + 1; i < dims.size(); ++i) {
    least += dims[i].stride * dims[i].low;
    most += dims[i].stride * dims[i].high;
  }
  const Steps& s = dims[d];
  for (int64_t k = std::max(s.low, (distance - most) / s.stride - 1);
       k <= std::min(s.high, (distance - least) / s.stride + 1); ++k)
    if (reaches(dims, d + 1, distance - k * s.stride, budget)) return true;
  return false;
}

// Views with the same strides, such as the even and the odd columns of a matrix.
bool share_elements(const detail::TensorImpl& a, const detail::TensorImpl& b) {
  if (a.dtype != b.dtype || a.storage != b.storage || a.sizes.size() != b.sizes.size()) return true;
  std::vector<Steps> dims;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] == 1 && b.sizes[d] == 1) continue;
    if (a.strides[d] != b.strides[d] || a.strides[d] <= 0) return true;
    dims.push_back({a.strides[d], 1 - b.sizes[d], a.sizes[d] - 1});
  }
  std::sort(dims.begin(), dims.end(),
            [](const Steps& x, const Steps& y) { return x.stride > y.stride; });
  int budget = 1000;
  return reaches(dims, 0, b.offset - a.offset, budget);
}

}  // namespace

Overlap compare_memory(const detail::TensorImpl& a, const detail::TensorImpl& b) {
  if (a.numel == 0 || b.numel == 0) return Overlap::None;
  if (a.storage != b.storage && !(a.storage->data && b.storage->data)) return Overlap::None;
  const Range x = range_of(a), y = range_of(b);
  if (x.end <= y.first || y.end <= x.first) return Overlap::None;
  if (x.first == y.first && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides)
    return Overlap::Same;
  return share_elements(a, b) ? Overlap::Some : Overlap::None;
}

}  // namespace pellucid
