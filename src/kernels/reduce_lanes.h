// The order in which every reduction of the library adds: a fixed number of lanes over a block,
// then a fixed tree over the lanes. The same loops run at every ISA level, so the bits do not
// depend on it. Inline helpers for kernel files only; threads and strides are the callers'
// business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/isa.h"

namespace pellucid::kernels {

template <class F> struct CallAt {
  template <Isa I> [[gnu::always_inline]] static void run(const F& f) {
    f(std::integral_constant<Isa, I>{});
  }
};

/// Calls f(level), whose argument is an integral_constant, compiled for the ISA level in use.
template <class F> void at_isa(const F& f) { IsaLoops<CallAt<F>, const F&>::at(isa())(f); }

/// Lanes of a fold: 256 bytes of accumulators are four AVX-512 or eight AVX2 registers, enough
/// chains to hide the latency of an addition, or of a comparison that lets NaN win.
template <class T>
inline constexpr int64_t kLanes = sizeof(T) == 1 ? 64 : 256 / static_cast<int64_t>(sizeof(T));

/// Elements that one fold takes at most before states are merged in a tree.
inline constexpr int64_t kFoldBlock = 1024;

/// Folds map(0) … map(n-1) into one value: element i goes to lane i mod kLanes, lanes join in a
/// tree.
template <class T, class Map, class Combine>
[[gnu::always_inline]] inline T fold_lanes(int64_t n, T identity, const Map& map,
                                           const Combine& combine) {
  constexpr int64_t lanes = kLanes<T>;
  T acc[lanes];
  for (int64_t l = 0; l < lanes; ++l) acc[l] = identity;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) acc[l] = combine(acc[l], static_cast<T>(map(i + l)));
  for (int64_t l = 0; i + l < n; ++l) acc[l] = combine(acc[l], static_cast<T>(map(i + l)));
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) acc[l] = combine(acc[l], acc[l + width]);
  return acc[0];
}

/// a + b, wrapping for integers.
struct AddCombine {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};
/// a * b, wrapping for integers.
struct MulCombine {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
/// The larger; a NaN wins.
struct MaxCombine {
  template <class T> T operator()(T a, T b) const {
    const T larger = a > b ? a : b;  // b if either is NaN, as the instruction has it
    return a != a ? a : larger;
  }
};
/// The smaller; a NaN wins.
struct MinCombine {
  template <class T> T operator()(T a, T b) const {
    const T smaller = a < b ? a : b;
    return a != a ? a : smaller;
  }
};

/// Sum of blocks: block_sum(first, n) over [0, n) in blocks of kFoldBlock, joined by a binary
/// counter (level k holds the sum of 2^k blocks).
template <class T, class BlockSum>
[[gnu::always_inline]] inline T sum_blocks(int64_t n, const BlockSum& block_sum) {
  T levels[48];
  int64_t block = 0;
  for (int64_t first = 0; first < n; first += kFoldBlock, ++block) {
    T s = block_sum(first, std::min(kFoldBlock, n - first));
    int level = 0;
    for (int64_t b = block; b & 1; b >>= 1) s = levels[level++] + s;
    levels[level] = s;
  }
  T total = T(0);
  bool any = false;
  for (int level = 0; block >> level; ++level)
    if ((block >> level) & 1) {
      total = any ? levels[level] + total : levels[level];
      any = true;
    }
  return total;
}

/// Sum of map(i) over [0, n), pairwise above a block.
template <class T, class Map> [[gnu::always_inline]] inline T sum_lanes(int64_t n, const Map& map) {
  return sum_blocks<T>(n, [&](int64_t first, int64_t count) {
    return fold_lanes<T>(
        count, T(0), [&](int64_t i) { return map(first + i); }, AddCombine{});
  });
}

/// The same bits, by way of a buffer: for maps too long for g++ to vectorise within the lanes.
template <class T, class Map>
[[gnu::always_inline]] inline T sum_mapped(int64_t n, const Map& map) {
  return sum_blocks<T>(n, [&](int64_t first, int64_t count) {
    T values[kFoldBlock];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) values[i] = map(first + i);
    return fold_lanes<T>(
        count, T(0), [&](int64_t i) { return values[i]; }, AddCombine{});
  });
}

}  // namespace pellucid::kernels
