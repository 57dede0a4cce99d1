// What eigenvalues and singular values share: how matrices come in and go out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "kernels/gemm_scratch.h"
#include "kernels/rotations.h"

namespace pellucid::kernels {

/// The power of two that brings the greatest of the entries to [0.5, 1); 1 if all are 0, NaN if one
/// is not finite.
template <class T> T unit_scale(int64_t count, const T* a) {
  T greatest = 0, zero = 0;
  for (int64_t i = 0; i < count; ++i) {
    greatest = std::max(greatest, std::abs(a[i]));
    zero += a[i] * T(0);  // NaN for what is not finite
  }
  if (!(zero == T(0))) return std::numeric_limits<T>::quiet_NaN();
  if (greatest == T(0)) return T(1);
  // The power itself must be finite: the least entries then come to less than 1, which is near
  // enough.
  constexpr int kLimit = std::numeric_limits<T>::max_exponent - 2;
  return std::ldexp(T(1), std::clamp(-std::ilogb(greatest) - 1, -kLimit, kLimit));
}

/// The block of a matrix with few diagonals that a sweep works on: rows [low, high]. A sweep begins
/// at the end with the greater entries, so that the small ones keep their digits; it keeps its
/// direction until it meets a block that is another one.
class Block {
 public:
  void set(int64_t low, int64_t high, const double* diagonal) {
    if (low > high_ || high < low_) up_ = std::abs(diagonal[low]) < std::abs(diagonal[high]);
    low_ = low, high_ = high;
  }
  int64_t count() const { return high_ - low_; }
  bool up() const { return up_; }
  int64_t first() const { return up_ ? high_ : low_; }
  int64_t step() const { return up_ ? -1 : 1; }
  /// The i-th entry of the diagonal and of the one beside it, in the sweep's direction.
  double& at(double* diagonal, int64_t i) const { return diagonal[first() + i * step()]; }
  double& beside(double* entries, int64_t i) const {
    return entries[up_ ? high_ - 1 - i : low_ + i];
  }

 private:
  int64_t low_ = 0, high_ = -1;
  bool up_ = false;
};

/// Calls f(low, high) for blocks of more than one row until every entry beside the diagonal is
/// negligible in T. False if that takes too long.
template <class T, class F>
bool for_blocks(int64_t n, const double* diagonal, double* beside, F&& f) {
  constexpr double kSmall = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  constexpr double kNothing = std::numeric_limits<double>::min() / kSmall;
  const auto negligible = [&](int64_t i) {
    const double size = std::abs(diagonal[i]) + std::abs(diagonal[i + 1]);
    if (std::abs(beside[i]) > kSmall * size + kNothing) return false;
    beside[i] = 0;
    return true;
  };
  int64_t left = 60 * n;  // two sweeps for each value are usual
  for (int64_t high = n - 1; high > 0;) {
    if (negligible(high - 1)) {
      --high;
      continue;
    }
    int64_t low = high - 1;
    while (low > 0 && !negligible(low - 1)) --low;
    if (left-- == 0) return false;
    f(low, high);
  }
  return true;
}

/// The identity in padded rows.
template <class T> void set_identity(int64_t n, int64_t rows, int64_t stride, T* x) {
  std::fill_n(x, rows * stride, T(0));
  for (int64_t i = 0; i < n; ++i) x[i * stride + i] = T(1);
}

/// Fills order [n] with the numbers from 0 on, sorted by `less`; equal ones keep their order.
template <class Less> void fill_order(int64_t n, int64_t* order, Less&& less) {
  std::iota(order, order + n, int64_t{0});
  std::sort(order, order + n,
            [&](int64_t i, int64_t j) { return less(i, j) || (i < j && !less(j, i)); });
}

/// out [n, n], whose column i is row order[i] of x.
template <class T>
void take_rows_as_columns(int64_t n, const int64_t* order, const T* x, int64_t stride, T* out) {
  constexpr int64_t kTile = 16;
  for (int64_t from = 0; from < n; from += kTile)
    for (int64_t c = 0; c < n; ++c) {
      const T* const row = x + order[c] * stride;
      for (int64_t i = from; i < std::min(n, from + kTile); ++i) out[i * n + c] = row[i];
    }
}

/// signs [columns] becomes -1 for each column of x [rows, columns] whose entry of greatest
/// magnitude, the first of them, is negative, else 1. The sign of a singular or an eigenvector is
/// free; with these turned, results do not depend on the algorithm.
template <class T> void column_signs(int64_t rows, int64_t columns, const T* x, T* signs) {
  std::fill_n(signs, columns, T(0));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const T value = x[i * columns + j];
      signs[j] = std::abs(value) > std::abs(signs[j]) ? value : signs[j];
    }
  for (int64_t j = 0; j < columns; ++j) signs[j] = signs[j] < 0 ? T(-1) : T(1);
}

}  // namespace pellucid::kernels
