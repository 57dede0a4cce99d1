// QR by Householder's reflections, in blocks: a few columns are reflected one after the other, and
// their reflections, as one product, applied to the rest by matrix products (reflections.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/decompose.h"
#include "kernels/gemm_scratch.h"
#include "kernels/isa.h"
#include "kernels/reflections.h"
#include "kernels/spectral.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 32;  // columns whose reflections are applied together

template <class T> int64_t bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(T)); }

/// A few columns, as dense rows of h.v, which become the reflections' vectors, with ones on the
/// diagonal and zeros before it. Row j of r gets the entries of R in column j.
template <class T> struct Panel {
  Reflections<T> h;
  T* r;
};

template <class T> struct ReflectPanel {
  /// Reflects the panel's columns; `tau` of each reflection goes to the diagonal of t.
  template <Isa> __attribute__((always_inline)) static void run(const Panel<T>& p) {
    const auto& [m, count, v, stride, t] = p.h;
    for (int64_t j = 0; j < count; ++j) {
      T* const x = v + j * stride;
      std::copy_n(x, j, p.r + j * count);
      std::fill_n(x, j, T(0));
      const auto [beta, tau] = make_reflection(m - j, x + j);
      p.r[j * count + j] = beta;
      t[j * (count + 1)] = tau;
      for (int64_t k = j + 1; k < count; ++k) {
        T* const y = v + k * stride;
        T dots[16] = {};  // sums in a fixed order, whatever the ISA
        int64_t i = j;
        for (; i + 16 <= m; i += 16)
          for (int64_t lane = 0; lane < 16; ++lane) dots[lane] += x[i + lane] * y[i + lane];
        for (; i < m; ++i) dots[0] += x[i] * y[i];
        T dot = 0;
        for (const T d : dots) dot += d;
        const T factor = tau * dot;
        for (i = j; i < m; ++i) y[i] -= factor * x[i];
      }
    }
  }
};

}  // namespace

template <class T> void qr(int64_t m, int64_t n, int64_t columns, const T* a, T* q, T* r) {
  const int64_t steps = std::min(m, n), blocks = (steps + kBlock - 1) / kBlock;
  const Scratch work(bytes<T>(m * n)), vectors(bytes<T>(m * steps)),
      triangles(bytes<T>(blocks * kBlock * kBlock)), corner(bytes<T>(kBlock * kBlock));
  T* const x = work.as<T>();
  // Squares of the entries must neither overflow nor vanish. What is not finite stays so.
  T scale = unit_scale(m * n, a);
  if (std::isnan(scale)) scale = T(1);
  for (int64_t i = 0; i < m * n; ++i) x[i] = a[i] * scale;
  std::vector<Reflections<T>> blocks_done;
  const auto reflect = IsaLoops<ReflectPanel<T>, const Panel<T>&>::at(isa());
  T* next = vectors.as<T>();
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t k = b * kBlock;
    const int64_t rows = m - k, count = std::min(kBlock, steps - k);
    const Panel<T> p{{rows, count, next, rows, triangles.as<T>() + b * kBlock * kBlock},
                     corner.as<T>()};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < count; ++j) next[j * rows + i] = x[(k + i) * n + k + j];
    next += rows * count;
    reflect(p);
    fill_triangle(p.h);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = 0; i < count; ++i)
        x[(k + i) * n + k + j] = i <= j ? p.r[j * count + i] : T(0);
    apply(p.h, true, n - k - count, x + k * n + k + count, n);
    blocks_done.push_back(p.h);
  }
  std::fill_n(r, columns * n, T(0));
  for (int64_t i = 0; i < std::min(columns, steps); ++i)
    for (int64_t j = i; j < n; ++j) r[i * n + j] = x[i * n + j] / scale;
  if (q == nullptr) return;
  std::fill_n(q, m * columns, T(0));
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * (columns + 1)] = T(1);
  // From the last block on, so that the columns before a block are still those of the identity.
  for (int64_t b = blocks; b-- > 0;) {
    const int64_t k = b * kBlock;
    apply(blocks_done[static_cast<size_t>(b)], false, columns - k, q + k * columns + k, columns);
  }
}

template void qr<float>(int64_t, int64_t, int64_t, const float*, float*, float*);
template void qr<double>(int64_t, int64_t, int64_t, const double*, double*, double*);

}  // namespace pellucid::kernels
