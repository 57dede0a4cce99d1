// Sums over rows into columns, in an order fixed by the shape: rows are cut into parts, each part
// keeps its own sums, and the parts are added pairwise. Shared by the backward passes of the norms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "kernels/reduce_lanes.h"
#include "kernels/reduce_rows.h"

namespace pellucid::kernels {

/// `width` sums over `rows` rows that are cut into at most 256 parts of at least `least` rows.
template <class T> class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t width, int64_t least)
      : rows_(rows),
        width_(width),
        step_(std::max({least, (rows + 255) / 256, int64_t{1}})),
        parts_(rows ? (rows - 1) / step_ + 1 : 0),
        sums_(static_cast<size_t>(std::max<int64_t>(1, parts_) * width), T(0)) {}
  int64_t parts() const { return parts_; }
  int64_t begin(int64_t part) const { return part * step_; }
  int64_t end(int64_t part) const { return std::min(rows_, (part + 1) * step_); }
  T* of(int64_t part) { return sums_.data() + part * width_; }
  /// Adds the parts up; the result is of(0).
  const T* total() {
    for (int64_t step = 1; step < parts_; step *= 2)
      for (int64_t p = 0; p + step < parts_; p += 2 * step) {
        T* into = of(p);
        const T* from = of(p + step);
        for (int64_t i = 0; i < width_; ++i) into[i] += from[i];
      }
    return of(0);
  }

 private:
  int64_t rows_, width_, step_, parts_;
  std::vector<T> sums_;
};

/// Stores n compute values as `type`, unless `out` is null.
template <class T> void store_values(DType type, void* out, const T* values, int64_t n) {
  if (out) convert(dtype_of<T>, values, 1, type, out, 1, n);
}

/// The n values of an optional parameter as compute values, or `otherwise` for each.
template <class T>
std::vector<T> parameter_values(DType type, const void* p, int64_t n, T otherwise) {
  std::vector<T> v(static_cast<size_t>(n), otherwise);
  if (p) convert(type, p, 1, dtype_of<T>, v.data(), 1, n);
  return v;
}

/// The same where null stays null, without a copy if the type is right.
template <class T> class Parameter {
 public:
  Parameter(DType type, const void* p, int64_t n)
      : buffer_(type, p ? n : 0, 1),
        values_(p ? read_row<T>(type, p, 0, n, buffer_.run(0)) : nullptr) {}
  const T* get() const { return values_; }

 private:
  RowBuffer<T> buffer_;
  const T* values_;
};

}  // namespace pellucid::kernels
