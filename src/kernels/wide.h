// Vectors as wide as the registers of a level, for loops over rows that are padded to 64 bytes.
#pragma once

#include <cstdint>

#include "kernels/isa.h"

namespace pellucid::kernels {

template <class T, Isa I> struct WideType {
  static constexpr int kBytes = I == Isa::V4 ? 64 : I == Isa::V3 ? 32 : 16;
  typedef T type __attribute__((vector_size(kBytes), may_alias));
};
template <class T, Isa I> using Wide = typename WideType<T, I>::type;

/// How many T a Wide<T, I> has.
template <class T, Isa I> inline constexpr int64_t kWide = sizeof(Wide<T, I>) / sizeof(T);

/// How many T 64 bytes have: rows are that long, or a multiple of it, on every level.
template <class T> inline constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));

/// n, made longer to a multiple of kLine.
template <class T> constexpr int64_t padded(int64_t n) {
  return (n + kLine<T> - 1) / kLine<T> * kLine<T>;
}

}  // namespace pellucid::kernels
