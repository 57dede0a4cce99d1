// Householder's reflections, several as one product (Schreiber and Van Loan): what QR, eigenvalues
// and singular values share. A reflection is I - tau v v^T; `count` of them are I - V^T T V with
// the vectors as rows of V and an upper triangle T.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/gemm_scratch.h"

namespace pellucid::kernels {

/// Vectors of length m, rows of v `stride` apart; t [count, count] has their tau on its diagonal.
template <class T> struct Reflections {
  int64_t m, count;
  T* v;
  int64_t stride;
  T* t;
};

/// T of the reflections from their tau on its diagonal.
template <class T> void fill_triangle(const Reflections<T>& h);

/// c [m, n] = (I - V^T T V) c, or with T^T in its place, which undoes it.
template <class T>
void apply(const Reflections<T>& h, bool transposed, int64_t n, T* c, int64_t stride);

/// c [n, columns] = H_0 H_1 … c for `count` reflections of length n, rows of v `stride` apart, of
/// which the i-th has zeros before entry i + offset.
template <class T>
void apply_all(int64_t n, int64_t count, int64_t offset, T* v, int64_t stride, const T* tau,
               int64_t columns, T* c, int64_t c_stride);

/// What a reflection makes of a vector: its first entry becomes beta, the others 0.
template <class T> struct Reflection { T beta, tau; };

/// Turns x [n], n > 0, into the vector of the reflection that takes it to a multiple of the first
/// unit vector. Entries are at most about 1 in magnitude.
template <class T> Reflection<T> make_reflection(int64_t n, T* x) {
  double tail = 0;
  for (int64_t i = 1; i < n; ++i) tail += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const T head = x[0];
  x[0] = T(1);
  // Squares below this have lost digits, and what they say is far below the rounding of the rest.
  constexpr double kNothing =
      std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon();
  if (tail <= kNothing) {
    std::fill(x + 1, x + n, T(0));
    return {head, T(0)};
  }
  const double wide = static_cast<double>(head), norm = std::sqrt(wide * wide + tail);
  const double beta = wide >= 0 ? -norm : norm;
  const T scale = static_cast<T>(1 / (wide - beta));
  for (int64_t i = 1; i < n; ++i) x[i] *= scale;
  return {static_cast<T>(beta), static_cast<T>((beta - wide) / beta)};
}

}  // namespace pellucid::kernels
