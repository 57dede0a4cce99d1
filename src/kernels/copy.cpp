#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/copy_transpose.h"
#include "kernels/pointwise.h"
#include "kernels/pointwise_plan.h"

namespace pellucid::kernels {
namespace {

/// Bytes that one thread copies in about the time of a fork and join.
constexpr int64_t kParallelBytes = 1 << 17;

void copy_bytes(char* dst, const char* src, int64_t bytes) {
  if (dst == src) return;
  parallel_for(0, bytes, kParallelBytes, [=](int64_t b, int64_t e) {
    std::memcpy(dst + b, src + b, static_cast<size_t>(e - b));
  });
}

/// Copies where the innermost dimension of dst (0) is not that of src (`fast`): a batch of
/// transposes.
template <class E>
void transpose_strided(const IterationPlan& plan, int fast, E* dst, const E* src) {
  const int64_t columns = plan.sizes[0], rows = plan.sizes[fast];
  const int64_t dst_stride = plan.strides[0][fast], src_stride = plan.strides[1][0];
  constexpr int64_t panel = 256 / sizeof(E);  // rows at a time
  const int64_t panels = (rows - 1) / panel + 1;
  const int64_t batches = plan.numel / (rows * columns);
  const int64_t panel_bytes = std::min(rows, panel) * columns * static_cast<int64_t>(sizeof(E));
  const int64_t grain = std::max<int64_t>(1, kParallelBytes / panel_bytes);
  parallel_for(0, batches * panels, grain, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      int64_t rest = t / panels, dst_offset = 0, src_offset = 0;
      for (int d = 1; d < plan.dims; ++d) {
        if (d == fast) continue;
        const int64_t i = rest % plan.sizes[d];
        rest /= plan.sizes[d];
        dst_offset += i * plan.strides[0][d];
        src_offset += i * plan.strides[1][d];
      }
      const int64_t begin = t % panels * panel;
      transpose_panel(dst + dst_offset + begin * dst_stride, dst_stride, src + src_offset + begin,
                      src_stride, std::min(panel, rows - begin), columns);
    }
  });
}

/// The dimension along which src is contiguous while dst is along dimension 0; -1 if it is not a
/// transpose.
int transposed_dimension(const IterationPlan& plan) {
  if (plan.dims < 2 || plan.strides[0][0] != 1 || plan.strides[1][0] <= 1) return -1;
  for (int d = 1; d < plan.dims; ++d) {
    if (plan.strides[1][d] == 1) return d;
  }
  return -1;
}

/// Runs of whole rows, both sides contiguous within a row.
void copy_rows(const IterationPlan& plan, char* dst, const char* src, int64_t element) {
  const int64_t row = plan.sizes[0], bytes = row * element;
  parallel_for(0, plan.numel / row, std::max<int64_t>(1, kParallelBytes / bytes),
               [&](int64_t first, int64_t last) {
                 int64_t index[kMaxDims];
                 for (int64_t r = first; r < last; ++r) {
                   plan.locate(r * row, index);
                   std::memcpy(dst + plan.offset(0, index) * element,
                               src + plan.offset(1, index) * element, static_cast<size_t>(bytes));
                 }
               });
}

}  // namespace

void copy_strided(IntArrayRef shape, void* dst, DType dst_dtype, const int64_t* dst_strides,
                  const void* src, DType src_dtype, const int64_t* src_strides) {
  char* const to = static_cast<char*>(dst);
  const char* const from = static_cast<const char*>(src);
  if (dst_dtype == src_dtype) {
    const int64_t* strides[] = {dst_strides, src_strides};
    const IterationPlan plan(shape, strides);
    const int64_t element = element_size(dst_dtype);
    if (plan.numel == 0) return;
    if (plan.dims == 0) {
      if (to != from) std::memcpy(to, from, static_cast<size_t>(element));
      return;
    }
    if (plan.dims == 1 && plan.strides[0][0] == 1 && plan.strides[1][0] == 1)
      return copy_bytes(to, from, plan.numel * element);
    if (const int fast = transposed_dimension(plan); fast >= 0) {
      return by_element_size(element, [&](auto e) {
        using E = decltype(e);
        transpose_strided(plan, fast, reinterpret_cast<E*>(dst), static_cast<const E*>(src));
      });
    }
    if (plan.strides[0][0] == 1 && plan.strides[1][0] == 1 && plan.sizes[0] * element >= 256 &&
        to != from) {
      return copy_rows(plan, to, from, element);
    }
  }
  const Operand out{.data = to, .dtype = dst_dtype, .compute = dst_dtype, .strides = dst_strides};
  const Operand in{.data = const_cast<char*>(from),
                   .dtype = src_dtype,
                   .compute = dst_dtype,
                   .strides = src_strides};
  run_pointwise(nullptr, nullptr, shape, out, {&in, 1}, 1.0);
}

void fill_strided(IntArrayRef shape, void* dst, DType dtype, const int64_t* strides,
                  const void* value) {
  const int64_t* all[] = {strides};
  const IterationPlan plan(shape, all);
  if (plan.numel == 0) return;
  by_element_size(element_size(dtype), [&](auto type) {
    using E = decltype(type);
    E v;
    std::memcpy(&v, value, sizeof(E));
    E* const base = static_cast<E*>(dst);
    if (plan.dims <= 1 && (plan.dims == 0 || plan.strides[0][0] == 1)) {
      parallel_for(0, plan.numel, kParallelBytes / static_cast<int64_t>(sizeof(E)),
                   [=](int64_t b, int64_t e) { std::fill(base + b, base + e, v); });
      return;
    }
    const int64_t row = plan.sizes[0], stride = plan.strides[0][0];
    const int64_t grain =
        std::max<int64_t>(1, kParallelBytes / static_cast<int64_t>(sizeof(E)) / row);
    parallel_for(0, plan.numel / row, grain, [&](int64_t first, int64_t last) {
      int64_t index[kMaxDims];
      for (int64_t r = first; r < last; ++r) {
        plan.locate(r * row, index);
        E* const p = base + plan.offset(0, index);
        for (int64_t i = 0; i < row; ++i) p[i * stride] = v;
      }
    });
  });
}

}  // namespace pellucid::kernels
