// QR by Householder's reflections, in blocks: a few columns are reflected one after the other, and
// their reflections, as one product I - V T V^T (Schreiber and Van Loan), applied to the rest by
// matrix products.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/decompose.h"
#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/isa.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 32;  // columns whose reflections are applied together

template <class T> int64_t bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(T)); }

/// `count` columns of length m as dense rows of v; they become the reflections' vectors, with ones
/// on the diagonal and zeros before it. Row j of r gets the entries of R in column j, t the
/// triangle T [count, count].
template <class T> struct Panel {
  int64_t m, count;
  T *v, *r, *t;
};

template <class T> struct ReflectPanel {
  /// Reflects the panel's columns; `tau` of each reflection goes to the diagonal of t.
  template <Isa> __attribute__((always_inline)) static void run(const Panel<T>& p) {
    for (int64_t j = 0; j < p.count; ++j) {
      T* const x = p.v + j * p.m;
      std::copy_n(x, j, p.r + j * p.count);
      double tail = 0;
      for (int64_t i = j + 1; i < p.m; ++i)
        tail += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      const T head = x[j];
      const auto norm =
          static_cast<T>(std::sqrt(static_cast<double>(head) * static_cast<double>(head) + tail));
      const T beta = head >= T(0) ? -norm : norm;
      const bool none = tail == 0;
      const T tau = none ? T(0) : (beta - head) / beta;
      p.r[j * p.count + j] = none ? head : beta;
      p.t[j * (p.count + 1)] = tau;
      const T scale = none ? T(0) : T(1) / (head - beta);
      std::fill_n(x, j, T(0));
      x[j] = T(1);
      for (int64_t i = j + 1; i < p.m; ++i) x[i] *= scale;
      for (int64_t k = j + 1; k < p.count; ++k) {
        T* const y = p.v + k * p.m;
        T dots[16] = {};  // sums in a fixed order, whatever the ISA
        int64_t i = j;
        for (; i + 16 <= p.m; i += 16)
          for (int64_t lane = 0; lane < 16; ++lane) dots[lane] += x[i + lane] * y[i + lane];
        for (; i < p.m; ++i) dots[0] += x[i] * y[i];
        T dot = 0;
        for (const T d : dots) dot += d;
        const T factor = tau * dot;
        for (i = j; i < p.m; ++i) y[i] -= factor * x[i];
      }
    }
  }
};

/// T of the reflections from their tau on its diagonal: column j is -tau_j T (V^T v_j) above it.
template <class T> void fill_triangle(const Panel<T>& p) {
  const Scratch products(bytes<T>(p.count * p.count));
  T* const w = products.as<T>();
  gemm<T>(p.count, p.count, p.m, T(1), {p.v, p.m, 1}, {p.v, 1, p.m}, T(0), {w, p.count, 1});
  for (int64_t j = 0; j < p.count; ++j) {
    const T tau = p.t[j * (p.count + 1)];
    for (int64_t i = 0; i < j; ++i) {
      T sum = 0;
      for (int64_t k = i; k < j; ++k) sum += p.t[i * p.count + k] * w[k * p.count + j];
      p.t[i * p.count + j] = -tau * sum;
    }
    for (int64_t i = j + 1; i < p.count; ++i) p.t[i * p.count + j] = T(0);
  }
}

/// c [m, n] = (I - V T V^T) c, or with T^T in its place, which undoes it.
template <class T> void apply(const Panel<T>& p, bool transposed, int64_t n, T* c, int64_t stride) {
  if (n == 0) return;
  const Scratch first(bytes<T>(p.count * n)), second(bytes<T>(p.count * n));
  gemm<T>(p.count, n, p.m, T(1), {p.v, p.m, 1}, {c, stride, 1}, T(0), {first.as<T>(), n, 1});
  const MatrixView<const T> t{p.t, p.count, 1};
  gemm<T>(p.count, n, p.count, T(1), transposed ? t.transposed() : t, {first.as<T>(), n, 1}, T(0),
          {second.as<T>(), n, 1});
  gemm<T>(p.m, n, p.count, T(-1), {p.v, 1, p.m}, {second.as<T>(), n, 1}, T(1), {c, stride, 1});
}

}  // namespace

template <class T> void qr(int64_t m, int64_t n, int64_t columns, const T* a, T* q, T* r) {
  const int64_t steps = std::min(m, n), blocks = (steps + kBlock - 1) / kBlock;
  const Scratch work(bytes<T>(m * n)), vectors(bytes<T>(m * steps)),
      triangles(bytes<T>(blocks * kBlock * kBlock)), corner(bytes<T>(kBlock * kBlock));
  T* const x = work.as<T>();
  std::copy_n(a, m * n, x);
  std::vector<Panel<T>> panels;
  const auto reflect = IsaLoops<ReflectPanel<T>, const Panel<T>&>::at(isa());
  T* next = vectors.as<T>();
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t k = b * kBlock;
    const Panel<T> p{m - k, std::min(kBlock, steps - k), next, corner.as<T>(),
                     triangles.as<T>() + b * kBlock * kBlock};
    next += p.m * p.count;
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.count; ++j) p.v[j * p.m + i] = x[(k + i) * n + k + j];
    reflect(p);
    fill_triangle(p);
    for (int64_t j = 0; j < p.count; ++j)
      for (int64_t i = 0; i < p.count; ++i)
        x[(k + i) * n + k + j] = i <= j ? p.r[j * p.count + i] : T(0);
    apply(p, true, n - k - p.count, x + k * n + k + p.count, n);
    panels.push_back(p);
  }
  std::fill_n(r, columns * n, T(0));
  for (int64_t i = 0; i < std::min(columns, steps); ++i)
    std::copy(x + i * n + i, x + (i + 1) * n, r + i * n + i);
  if (q == nullptr) return;
  std::fill_n(q, m * columns, T(0));
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * (columns + 1)] = T(1);
  // From the last block on, so that the columns before a block are still those of the identity.
  for (int64_t b = blocks; b-- > 0;) {
    const int64_t k = b * kBlock;
    apply(panels[static_cast<size_t>(b)], false, columns - k, q + k * columns + k, columns);
  }
}

template void qr<float>(int64_t, int64_t, int64_t, const float*, float*, float*);
template void qr<double>(int64_t, int64_t, int64_t, const double*, double*, double*);

}  // namespace pellucid::kernels
