// One row of outputs of NCHW pooling. Where windows follow each other at a constant distance and
// are all alike (all but those at the borders), the loops run over outputs, tap by tap, which is
// what the compiler vectorises; the others are taken one by one. Internal to pool.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/pool.h"
#include "kernels/reduce_lanes.h"

namespace pellucid::kernels {

/// Outputs [first, last) of a row whose windows are alike: output j begins at base + (j - first) *
/// stride.
struct AlikeWindows {
  int64_t first = 0, last = 0, base = 0, stride = 1, reach = 0;
};

/// The longest such run around the middle of a row.
inline AlikeWindows alike_windows(const std::vector<PoolWindow>& all) {
  const auto count = static_cast<int64_t>(all.size());
  if (count < 8) return {};  // too few to vectorise
  const auto at = [&](int64_t i) -> const PoolWindow& { return all[static_cast<size_t>(i)]; };
  const int64_t middle = count / 2, stride = at(middle).begin - at(middle - 1).begin,
                reach = at(middle).end - at(middle).begin;
  if (reach <= 0) return {};
  const auto alike = [&](int64_t i) {
    return at(i).end - at(i).begin == reach && at(i).with_padding == at(middle).with_padding &&
           at(i).begin == at(middle).begin + (i - middle) * stride;
  };
  int64_t first = middle, last = middle + 1;
  while (first > 0 && alike(first - 1)) --first;
  while (last < count && alike(last)) ++last;
  return {first, last, at(first).begin, stride, reach};
}

/// Calls f with the stride as an integral constant where loads at that distance are vectorised.
template <class F> [[gnu::always_inline]] inline void with_stride(int64_t stride, const F& f) {
  if (stride == 1)
    f(std::integral_constant<int64_t, 1>{});
  else if (stride == 2)
    f(std::integral_constant<int64_t, 2>{});
  else if (stride == 3)
    f(std::integral_constant<int64_t, 3>{});
  else
    f(stride);
}

inline constexpr int64_t kPoolBlock = 256;  // outputs whose states stay in the first-level cache

/// y[j] (and its position) for outputs [first, first + n), n <= kPoolBlock, whose windows are
/// alike. A NaN stays the largest: nothing compares greater.
template <class T, class Index, bool kPositions, class Stride>
[[gnu::always_inline]] inline void max_alike(const PoolPlan& p, const PoolWindow& rows,
                                             const AlikeWindows& a, int64_t first, int64_t n,
                                             Stride stride, const T* plane, T* __restrict y,
                                             int64_t* indices) {
  Index where[kPoolBlock];
  const int64_t base = a.base + (first - a.first) * stride;
  const T* const start = plane + rows.begin * p.W + base;
  y += first;
  for (int64_t j = 0; j < n; ++j) y[j] = start[j * stride];
  if constexpr (kPositions)
    for (int64_t j = 0; j < n; ++j)
      where[j] = static_cast<Index>(rows.begin * p.W + base + j * stride);
  for (int64_t h = rows.begin; h < rows.end; h += p.dilation_h)
    for (int64_t w = h == rows.begin ? p.dilation_w : 0; w < a.reach; w += p.dilation_w) {
      const int64_t offset = h * p.W + base + w;
      const T* const x = plane + offset;
      const auto here = static_cast<Index>(offset);
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) {
        const T v = x[j * stride];
        const bool better = (v > y[j]) | (v != v);
        y[j] = better ? v : y[j];
        if constexpr (kPositions)
          where[j] = better ? static_cast<Index>(here + static_cast<Index>(j * stride)) : where[j];
      }
    }
  if constexpr (kPositions)
    for (int64_t j = 0; j < n; ++j) indices[first + j] = where[j];
}

/// The largest of one window.
template <class T>
[[gnu::always_inline]] inline void max_window(const PoolPlan& p, const PoolWindow& rows,
                                              const PoolWindow& columns, const T* plane, T* y,
                                              int64_t* index) {
  T best = -std::numeric_limits<T>::infinity();
  int64_t where = rows.begin * p.W + columns.begin;
  for (int64_t h = rows.begin; h < rows.end; h += p.dilation_h)
    for (int64_t w = columns.begin; w < columns.end; w += p.dilation_w) {
      const T v = plane[h * p.W + w];
      const bool better = (v > best) | (v != v);
      best = better ? v : best;
      where = better ? h * p.W + w : where;
    }
  *y = best;
  if (index != nullptr) *index = where;
}

/// A row of maxima of one plane; indices may be null. `Index` holds every position of a plane.
template <class T, class Index>
[[gnu::always_inline]] inline void max_row(const PoolPlan& p, const PoolWindow& rows,
                                           const AlikeWindows& a, const T* plane, T* y,
                                           int64_t* indices) {
  const auto one = [&](int64_t j) {
    max_window(p, rows, p.columns[static_cast<size_t>(j)], plane, y + j,
               indices == nullptr ? nullptr : indices + j);
  };
  if (rows.begin >= rows.end) {  // the padding alone
    for (int64_t j = 0; j < p.OW(); ++j) one(j);
    return;
  }
  for (int64_t j = 0; j < a.first; ++j) one(j);
  with_stride(a.stride, [&](auto stride) {
    for (int64_t j = a.first; j < a.last; j += kPoolBlock) {
      const int64_t n = std::min(kPoolBlock, a.last - j);
      if (indices == nullptr)
        max_alike<T, Index, false>(p, rows, a, j, n, stride, plane, y, indices);
      else
        max_alike<T, Index, true>(p, rows, a, j, n, stride, plane, y, indices);
    }
  });
  for (int64_t j = a.last; j < p.OW(); ++j) one(j);
}

/// The sum of a short run: eight lanes, joined in a tree, and what is left one by one.
template <class T> [[gnu::always_inline]] inline T sum_short(const T* x, int64_t n) {
  constexpr int64_t lanes = 8;
  T acc[lanes] = {}, rest = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) acc[l] += x[i + l];
  for (; i < n; ++i) rest += x[i];
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) acc[l] += acc[l + width];
  return acc[0] + rest;
}

/// The sum of one window of a plane. Whole rows of the plane are one run of memory.
template <class T>
[[gnu::always_inline]] inline T sum_window(const PoolPlan& p, const PoolWindow& rows,
                                           const PoolWindow& columns, const T* plane) {
  if (columns.begin == 0 && columns.end == p.W && rows.end > rows.begin) {
    const T* const x = plane + rows.begin * p.W;
    const int64_t n = (rows.end - rows.begin) * p.W;
    return n < 256 ? sum_short(x, n) : sum_lanes<T>(n, [=](int64_t i) { return x[i]; });
  }
  T sum = 0;
  for (int64_t h = rows.begin; h < rows.end; ++h)
    for (int64_t w = columns.begin; w < columns.end; ++w) sum += plane[h * p.W + w];
  return sum;
}

/// A row of sums of one plane, without dilation.
template <class T>
[[gnu::always_inline]] inline void sum_row(const PoolPlan& p, const PoolWindow& rows,
                                           const AlikeWindows& a, const T* plane, T* y) {
  const auto one = [&](int64_t j) {
    y[j] = sum_window(p, rows, p.columns[static_cast<size_t>(j)], plane);
  };
  for (int64_t j = 0; j < a.first; ++j) one(j);
  with_stride(a.stride, [&](auto stride) {
    for (int64_t j = a.first; j < a.last; j += kPoolBlock) {
      const int64_t n = std::min(kPoolBlock, a.last - j);
      T sum[kPoolBlock] = {};
      for (int64_t h = rows.begin; h < rows.end; ++h)
        for (int64_t w = 0; w < a.reach; ++w) {
          const T* const x = plane + h * p.W + a.base + (j - a.first) * stride + w;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) sum[i] += x[i * stride];
        }
      for (int64_t i = 0; i < n; ++i) y[j + i] = sum[i];
    }
  });
  for (int64_t j = a.last; j < p.OW(); ++j) one(j);
}

}  // namespace pellucid::kernels
