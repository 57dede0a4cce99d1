// Blocks of reflections, applied by matrix products.
#include "kernels/reflections.h"

#include "kernels/gemm.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 32;  // reflections that are applied together
constexpr int64_t kSmall = 16;  // so few are applied one after the other

template <class T> int64_t bytes(int64_t count) { return count * static_cast<int64_t>(sizeof(T)); }

template <class T>
void apply_one(int64_t m, const T* v, T tau, int64_t n, T* c, int64_t stride, T* sums) {
  std::fill_n(sums, n, T(0));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) sums[j] += v[i] * c[i * stride + j];
  for (int64_t i = 0; i < m; ++i) {
    const T factor = tau * v[i];
    for (int64_t j = 0; j < n; ++j) c[i * stride + j] -= factor * sums[j];
  }
}

}  // namespace

// Column j of T is -tau_j T (V v_j) above the diagonal.
template <class T> void fill_triangle(const Reflections<T>& h) {
  const Scratch products(bytes<T>(h.count * h.count));
  T* const w = products.as<T>();
  gemm<T>(h.count, h.count, h.m, T(1), {h.v, h.stride, 1}, {h.v, 1, h.stride}, T(0),
          {w, h.count, 1});
  for (int64_t j = 0; j < h.count; ++j) {
    const T tau = h.t[j * (h.count + 1)];
    for (int64_t i = 0; i < j; ++i) {
      T sum = 0;
      for (int64_t k = i; k < j; ++k) sum += h.t[i * h.count + k] * w[k * h.count + j];
      h.t[i * h.count + j] = -tau * sum;
    }
    for (int64_t i = j + 1; i < h.count; ++i) h.t[i * h.count + j] = T(0);
  }
}

template <class T>
void apply(const Reflections<T>& h, bool transposed, int64_t n, T* c, int64_t stride) {
  if (n == 0) return;
  const Scratch first(bytes<T>(h.count * n)), second(bytes<T>(h.count * n));
  gemm<T>(h.count, n, h.m, T(1), {h.v, h.stride, 1}, {c, stride, 1}, T(0), {first.as<T>(), n, 1});
  const MatrixView<const T> t{h.t, h.count, 1};
  gemm<T>(h.count, n, h.count, T(1), transposed ? t.transposed() : t, {first.as<T>(), n, 1}, T(0),
          {second.as<T>(), n, 1});
  gemm<T>(h.m, n, h.count, T(-1), {h.v, 1, h.stride}, {second.as<T>(), n, 1}, T(1), {c, stride, 1});
}

template <class T>
void apply_all(int64_t n, int64_t count, int64_t offset, T* v, int64_t stride, const T* tau,
               int64_t columns, T* c, int64_t c_stride) {
  if (n <= kSmall) {
    T sums[64];
    for (int64_t i = count; i-- > 0;)
      for (int64_t first = 0; first < columns; first += 64)
        apply_one(n - i - offset, v + i * stride + i + offset, tau[i],
                  std::min<int64_t>(columns - first, 64), c + (i + offset) * c_stride + first,
                  c_stride, sums);
    return;
  }
  T triangle[kBlock * kBlock];
  for (int64_t k = (count - 1) / kBlock * kBlock; k >= 0; k -= kBlock) {
    const Reflections<T> h{n - k - offset, std::min(kBlock, count - k), v + k * stride + k + offset,
                           stride, triangle};
    if (h.count <= 0 || h.m <= 0) continue;
    for (int64_t i = 0; i < h.count; ++i) triangle[i * (h.count + 1)] = tau[k + i];
    fill_triangle(h);
    apply(h, false, columns, c + (k + offset) * c_stride, c_stride);
  }
}

#define PELLUCID_INSTANTIATE(T)                                                             \
  template void fill_triangle<T>(const Reflections<T>&);                                    \
  template void apply<T>(const Reflections<T>&, bool, int64_t, T*, int64_t);                \
  template void apply_all<T>(int64_t, int64_t, int64_t, T*, int64_t, const T*, int64_t, T*, \
                             int64_t);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
