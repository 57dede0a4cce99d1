// Triangular systems over raw pointers, row-major, in place. Recursive: nearly all of the work is
// matrix products. The bits of a result depend on the sizes alone.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

/// Which triangle of a square matrix is read, and whether its diagonal is taken to be ones.
enum class Triangle { LowerUnit, Lower, UpperUnit, Upper };
inline bool is_upper(Triangle t) { return t == Triangle::Upper || t == Triangle::UpperUnit; }
inline bool is_unit(Triangle t) { return t == Triangle::LowerUnit || t == Triangle::UpperUnit; }

/// b [n, k] = t^-1 b for a triangle t [n, n]; rows lie `t_stride` and `b_stride` elements apart.
template <class T>
void solve_triangular(Triangle which, int64_t n, int64_t k, const T* t, int64_t t_stride, T* b,
                      int64_t b_stride);

/// b [m, n] = b l^-T for a lower triangle l [n, n].
template <class T>
void solve_from_right(int64_t m, int64_t n, const T* l, int64_t l_stride, T* b, int64_t b_stride);

}  // namespace pellucid::kernels
