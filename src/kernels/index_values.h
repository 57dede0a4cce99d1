// What reading and writing by index shares: values of any width, sums as a dtype adds, sizes of
// tasks, and looking whether indices are good.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/reduce_lanes.h"

namespace pellucid::kernels {

inline constexpr int64_t kTaskElements = 16384;
inline constexpr int64_t kColumns = 256;  // columns of a row that one task owns

/// Runs f with a zero of the unsigned type of that width.
template <class F> void visit_width(int64_t element_bytes, const F& f) {
  element_bytes == 1   ? f(uint8_t{})
  : element_bytes == 2 ? f(uint16_t{})
  : element_bytes == 4 ? f(uint32_t{})
                       : f(uint64_t{});
}

/// a + b as the dtype adds: integers wrap, bool is or, 16-bit floats go through float32.
template <class T> T add_values(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return static_cast<T>(a + b);
}

template <class T> T multiply_values(T a, T b) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return static_cast<T>(a * b);
}

inline int64_t per_task(int64_t line) {
  return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, line));
}

/// Whether n indices, `step` apart, are all in [least, limit).
inline bool within(const int64_t* line, int64_t n, int64_t step, int64_t least, int64_t limit) {
  int64_t outside = 0;
  at_isa([&, line, n, step, least, limit](auto) {
    int64_t found = 0;
    if (step == 1) {
#pragma omp simd reduction(| : found)
      for (int64_t i = 0; i < n; ++i)
        found |= static_cast<int64_t>((line[i] < least) | (line[i] >= limit));
    } else {
      for (int64_t i = 0; i < n; ++i)
        found |= static_cast<int64_t>((line[i * step] < least) | (line[i * step] >= limit));
    }
    outside = found;
  });
  return outside == 0;
}

}  // namespace pellucid::kernels
