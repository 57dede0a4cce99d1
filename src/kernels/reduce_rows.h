// Reading and writing rows of any floating dtype as compute values: float32 and float64 in place,
// 16-bit floats through a buffer. Inline helpers for the kernels that work row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/reduce_convert.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// Room for `runs` runs of n values, one block for a whole task; empty where nothing is converted.
template <class T> class RowBuffer {
 public:
  RowBuffer(DType type, int64_t n, int runs)
      : n_(n), memory_(type == dtype_of<T> ? nullptr : new T[static_cast<size_t>(n * runs)]) {}
  T* run(int i) const { return memory_ ? memory_.get() + i * n_ : nullptr; }

 private:
  int64_t n_;
  std::unique_ptr<T[]> memory_;
};

/// Values [offset, offset + n) of a contiguous array as T: the array itself if it has that type.
template <class T>
inline const T* read_row(DType type, const void* base, int64_t offset, int64_t n, T* buffer) {
  if (type == dtype_of<T>) return static_cast<const T*>(base) + offset;
  convert(type, static_cast<const std::byte*>(base) + offset * element_size(type), 1, dtype_of<T>,
          buffer, 1, n);
  return buffer;
}

/// Where to compute the values that write_row will store.
template <class T> inline T* open_row(DType type, void* base, int64_t offset, T* buffer) {
  return type == dtype_of<T> ? static_cast<T*>(base) + offset : buffer;
}
template <class T>
inline void write_row(DType type, void* base, int64_t offset, int64_t n, const T* buffer) {
  if (type == dtype_of<T>) return;
  convert(dtype_of<T>, buffer, 1, type, static_cast<std::byte*>(base) + offset * element_size(type),
          1, n);
}

/// Calls f with a value of the type that floats of `type` are computed in.
template <class F> decltype(auto) visit_compute(DType type, const F& f) {
  return type == kFloat64 ? f(double{}) : f(float{});
}

}  // namespace pellucid::kernels
