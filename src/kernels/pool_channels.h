// Max pooling of one output pixel in NHWC: many channels side by side. Included by pool.cpp alone;
// the NCHW counterpart is pool_rows.h.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/pool.h"

namespace pellucid::kernels {

/// `kLanes` neighbouring channels as one value; positions are as wide as the values they go with.
template <class T, int64_t kLanes> struct Lanes {
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef T Values __attribute__((vector_size(kLanes * sizeof(T)), aligned(sizeof(T)), may_alias));
  typedef Index Narrow __attribute__((vector_size(kLanes * sizeof(T))));
  typedef int64_t Positions
      __attribute__((vector_size(kLanes * sizeof(int64_t)), aligned(8), may_alias));

  static bool fits(const PoolPlan& p) { return p.H * p.W <= std::numeric_limits<Index>::max(); }
};

/// kLanes channels of one output pixel in NHWC; `image`, `y` and `indices` are at the first of
/// them.
template <class T, int64_t kLanes>
[[gnu::always_inline]] inline void max_lanes(const PoolPlan& p, const PoolWindow& rows,
                                             const PoolWindow& columns, const T* image, T* y,
                                             int64_t* indices) {
  using L = Lanes<T, kLanes>;
  typename L::Values best = typename L::Values{} - std::numeric_limits<T>::infinity();
  typename L::Narrow where =
      typename L::Narrow{} + static_cast<typename L::Index>(rows.begin * p.W + columns.begin);
  for (int64_t h = rows.begin; h < rows.end; h += p.dilation_h)
    for (int64_t w = columns.begin; w < columns.end; w += p.dilation_w) {
      const int64_t here = h * p.W + w;
      const auto x = *reinterpret_cast<const typename L::Values*>(image + here * p.C);
      const auto better = (x > best) | (x != x);
      best = better ? x : best;
      where = better ? typename L::Narrow{} + static_cast<typename L::Index>(here) : where;
    }
  *reinterpret_cast<typename L::Values*>(y) = best;
  if (indices != nullptr)
    *reinterpret_cast<typename L::Positions*>(indices) =
        __builtin_convertvector(where, typename L::Positions);
}

/// The same for a block of 64 channels: plain loops, because vectors of the compiler's wider than
/// the baseline's are taken apart before they are inlined where they would fit.
template <class T>
[[gnu::always_inline]] inline void max_block(const PoolPlan& p, const PoolWindow& rows,
                                             const PoolWindow& columns, const T* image, T* y,
                                             int64_t* indices) {
  using Index = typename Lanes<T, 8>::Index;
  T best[64];
  Index where[64];
  const auto start = static_cast<Index>(rows.begin * p.W + columns.begin);
  for (int c = 0; c < 64; ++c) best[c] = -std::numeric_limits<T>::infinity(), where[c] = start;
  for (int64_t h = rows.begin; h < rows.end; h += p.dilation_h)
    for (int64_t w = columns.begin; w < columns.end; w += p.dilation_w) {
      const T* const x = image + (h * p.W + w) * p.C;
      const auto here = static_cast<Index>(h * p.W + w);
      for (int c = 0; c < 64; ++c) {
        const bool better = (x[c] > best[c]) | (x[c] != x[c]);
        best[c] = better ? x[c] : best[c];
        where[c] = better ? here : where[c];
      }
    }
  for (int c = 0; c < 64; ++c) y[c] = best[c];
  if (indices != nullptr)
    for (int c = 0; c < 64; ++c) indices[c] = where[c];
}

/// All channels of one output pixel in NHWC.
template <class T>
[[gnu::always_inline]] inline void max_channels(const PoolPlan& p, const PoolWindow& rows,
                                                const PoolWindow& columns, const T* image, T* y,
                                                int64_t* indices) {
  int64_t c = 0;
  const auto at = [&](int64_t i) { return indices == nullptr ? nullptr : indices + i; };
  if (Lanes<T, 8>::fits(p)) {
    for (; c + 64 <= p.C; c += 64) max_block(p, rows, columns, image + c, y + c, at(c));
    for (; c + 8 <= p.C; c += 8) max_lanes<T, 8>(p, rows, columns, image + c, y + c, at(c));
  }
  for (; c < p.C; ++c) {
    T best = -std::numeric_limits<T>::infinity();
    int64_t where = rows.begin * p.W + columns.begin;
    for (int64_t h = rows.begin; h < rows.end; h += p.dilation_h)
      for (int64_t w = columns.begin; w < columns.end; w += p.dilation_w) {
        const T x = image[(h * p.W + w) * p.C + c];
        const bool better = (x > best) | (x != x);
        best = better ? x : best;
        where = better ? h * p.W + w : where;
      }
    y[c] = best;
    if (indices != nullptr) indices[c] = where;
  }
}

}  // namespace pellucid::kernels
