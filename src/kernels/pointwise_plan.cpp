#include "kernels/pointwise_plan.h"

#include <cstdlib>
#include <utility>

#include "pellucid/error.h"

namespace pellucid::kernels {

IterationPlan::IterationPlan(IntArrayRef shape, std::span<const int64_t* const> operand_strides)
    : operands(static_cast<int>(operand_strides.size())) {
  PELLUCID_ASSERT(shape.size() <= kMaxDims && operands <= kMaxPlanned);
  for (size_t d = shape.size(); d-- > 0;) {
    numel *= shape[d];
    if (shape[d] == 1) continue;
    sizes[dims] = shape[d];
    for (int k = 0; k < operands; ++k)
      strides[k][dims] = operand_strides[static_cast<size_t>(k)][d];
    ++dims;
  }
  if (numel == 0) {
    dims = 0;
    return;
  }
  order();
  merge();
}

/// Smallest stride of the first operand innermost; among equals the next operand decides.
void IterationPlan::order() {
  const auto before = [this](int a, int b) {
    for (int k = 0; k < operands; ++k) {
      const int64_t x = std::abs(strides[k][a]), y = std::abs(strides[k][b]);
      if (x != y) return x < y;
    }
    return false;
  };
  for (int i = 1; i < dims; ++i) {  // insertion: nearly always sorted already
    for (int j = i; j > 0 && before(j, j - 1); --j) {
      std::swap(sizes[j], sizes[j - 1]);
      for (int k = 0; k < operands; ++k) std::swap(strides[k][j], strides[k][j - 1]);
    }
  }
}

void IterationPlan::merge() {
  int last = 0;  // the dimension that grows
  for (int d = 1; d < dims; ++d) {
    bool fits = true;
    for (int k = 0; k < operands; ++k) fits &= strides[k][d] == strides[k][last] * sizes[last];
    if (fits) {
      sizes[last] *= sizes[d];
      continue;
    }
    ++last;
    sizes[last] = sizes[d];
    for (int k = 0; k < operands; ++k) strides[k][last] = strides[k][d];
  }
  if (dims > 0) dims = last + 1;
}

bool IterationPlan::linear(int k) const {
  int64_t expected = 1;
  for (int d = 0; d < dims; ++d) {
    if (strides[k][d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

void IterationPlan::locate(int64_t position, int64_t* index) const {
  for (int d = 0; d + 1 < dims; ++d) {
    index[d] = position % sizes[d];
    position /= sizes[d];
  }
  if (dims > 0) index[dims - 1] = position;
}

}  // namespace pellucid::kernels
