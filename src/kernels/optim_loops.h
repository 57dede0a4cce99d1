// What the loops of optimiser steps share: how arrays are cut between threads and streamed through
// the caches.
#pragma once

#include <cstdint>

#include "base/parallel.h"
#include "kernels/isa.h"
#include "pellucid/dtype.h"
#include "pellucid/error.h"

namespace pellucid::kernels::optim_loops {

inline constexpr int64_t kParallel = 32768;  // elements from which a second thread pays
inline constexpr int64_t kGrain = 4096;      // small, so that threads get equal shares

template <class T> [[gnu::always_inline]] inline T root(T x) {
  if constexpr (sizeof(T) == 4)
    return __builtin_sqrtf(x);
  else
    return __builtin_sqrt(x);
}

/// Calls f(first, count) for runs of [0, n).
template <class F> void cut(int64_t n, const F& f) {
  const int64_t grain = n <= kParallel ? kParallel : kGrain;
  parallel_for(0, n, grain, [&](int64_t begin, int64_t end) { f(begin, end - begin); });
}

/// Elements ahead of its use that an array is asked for: the processor alone follows several arrays
/// at once too slowly (46 GB/s of Adam's four, against 56).
inline constexpr int64_t kAhead = 512;

/// Calls f(i) for i < n, in order; before every 64 bytes it asks for what comes later of `arrays`.
template <class T, class F, class... Arrays>
[[gnu::always_inline]] inline void streamed(int64_t n, const F& f, const Arrays*... arrays) {
  constexpr int64_t line = 64 / sizeof(T);
  int64_t i = 0;
  for (; i + line <= n; i += line) {
    if (i + kAhead < n) (__builtin_prefetch(arrays + i + kAhead, 1), ...);
#pragma omp simd
    for (int64_t j = i; j < i + line; ++j) f(j);
  }
#pragma omp simd
  for (int64_t j = i; j < n; ++j) f(j);
}

template <class T> T* at(void* p, int64_t i) { return p ? static_cast<T*>(p) + i : nullptr; }
template <class T> const T* at(const void* p, int64_t i) { return static_cast<const T*>(p) + i; }

/// The function for a DType that is float32 or float64.
template <class F> F* by_type(DType type, F* for_float, F* for_double) {
  PELLUCID_ASSERT(type == kFloat32 || type == kFloat64);
  return type == kFloat32 ? for_float : for_double;
}

}  // namespace pellucid::kernels::optim_loops
