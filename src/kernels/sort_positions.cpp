// nonzero and masked_select: count, then fill. Rows along the last dim are tested a block at a
// time.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/parallel.h"
#include "kernels/reduce_convert.h"
#include "kernels/scan_lines.h"
#include "kernels/sort.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kPartElements = 65536;

/// A strided array of truth values, cut into parts of whole rows.
struct Truth {
  Truth(DType t, const void* p, IntArrayRef sizes, IntArrayRef strides)
      : type(t), in(p), rows(sizes, static_cast<int64_t>(sizes.size()) - 1, {strides}) {
    per_part = std::max<int64_t>(1, kPartElements / std::max<int64_t>(1, rows.length));
    parts = rows.length == 0 || rows.count == 0 ? 0 : (rows.count - 1) / per_part + 1;
  }
  /// Calls f(row, column) for each true element of a part, in order.
  template <class F> void visit(int64_t part, const F& f) const {
    for (int64_t row = part * per_part; row < std::min(rows.count, (part + 1) * per_part); ++row)
      for (int64_t first = 0; first < rows.length; first += kBlock) {
        uint8_t flags[kBlock];
        const int64_t n = std::min(kBlock, rows.length - first),
                      offset = rows.start(row)[0] + first * rows.step[0];
        convert(type, static_cast<const std::byte*>(in) + offset * element_size(type), rows.step[0],
                kBool, flags, 1, n);
        for (int64_t i = 0; i < n; ++i)
          if (flags[i]) f(row, first + i);
      }
  }
  /// For each part the number of true elements before it, and last the number of all.
  std::vector<int64_t> starts() const {
    std::vector<int64_t> counts(static_cast<size_t>(parts) + 1, 0);
    parallel_chunks(parts, [&](int64_t part) {
      int64_t n = 0;
      visit(part, [&](int64_t, int64_t) { ++n; });
      counts[static_cast<size_t>(part) + 1] = n;
    });
    for (size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
    return counts;
  }
  DType type;
  const void* in;
  Lines<1> rows;
  int64_t per_part, parts;
};

template <class T>
void select(const T* in, IntArrayRef in_strides, const Truth& mask, IntArrayRef sizes, T* out) {
  const Lines<1> rows(sizes, static_cast<int64_t>(sizes.size()) - 1, {in_strides});
  const std::vector<int64_t> starts = mask.starts();
  parallel_chunks(mask.parts, [&](int64_t part) {
    T* to = out + starts[static_cast<size_t>(part)];
    int64_t row = -1, base = 0;
    mask.visit(part, [&](int64_t r, int64_t column) {
      if (r != row) row = r, base = rows.start(r)[0];
      *to++ = in[base + column * rows.step[0]];
    });
  });
}

}  // namespace

int64_t count_nonzero(DType type, const void* in, IntArrayRef sizes, IntArrayRef strides) {
  return Truth(type, in, sizes, strides).starts().back();
}

void nonzero(DType type, const void* in, IntArrayRef sizes, IntArrayRef strides, int64_t* out) {
  const Truth truth(type, in, sizes, strides);
  const std::vector<int64_t> starts = truth.starts();
  const auto dims = static_cast<int64_t>(sizes.size());
  parallel_chunks(truth.parts, [&](int64_t part) {
    int64_t* to = out + starts[static_cast<size_t>(part)] * dims;
    truth.visit(part, [&](int64_t row, int64_t column) {
      if (dims == 0) return;
      to[dims - 1] = column;
      for (int64_t d = dims - 2; d >= 0; --d) to[d] = row % sizes[d], row /= sizes[d];
      to += dims;
    });
  });
}

void masked_select(int64_t element_bytes, const void* in, IntArrayRef in_strides, const bool* mask,
                   IntArrayRef mask_strides, IntArrayRef sizes, void* out) {
  const Truth truth(kBool, mask, sizes, mask_strides);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    select<T>(static_cast<const T*>(in), in_strides, truth, sizes, static_cast<T*>(out));
  };
  element_bytes == 1   ? run(uint8_t{})
  : element_bytes == 2 ? run(uint16_t{})
  : element_bytes == 4 ? run(uint32_t{})
                       : run(uint64_t{});
}

}  // namespace pellucid::kernels
