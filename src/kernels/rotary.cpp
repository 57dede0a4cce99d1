// Rotation of neighbouring pairs.
#include "kernels/rotary.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/isa.h"

namespace pellucid::kernels {

namespace {

template <class T> struct Args {
  RotaryShape shape;
  const T *x, *cos, *sin;
  T* y;
};

/// Rows [first, last) of [B * L * H, D].
template <class T> struct RotaryRows {
  template <Isa>
  __attribute__((always_inline)) static void run(const Args<T>& a, int64_t first, int64_t last) {
    const RotaryShape& s = a.shape;
    const int64_t pairs = s.D / 2;
    for (int64_t row = first; row < last; ++row) {
      const int64_t head = row % s.H, position = row / s.H % s.L, batch = row / (s.H * s.L);
      const T* const x =
          a.x + batch * s.batch_stride + position * s.position_stride + head * s.head_stride;
      const T* const c = a.cos + position * pairs;
      const T* const t = a.sin + position * pairs;
      T* const y = a.y + row * s.D;
      for (int64_t i = 0; i < pairs; ++i) {
        const T x0 = x[2 * i], x1 = x[2 * i + 1];
        y[2 * i] = x0 * c[i] - x1 * t[i];
        y[2 * i + 1] = x0 * t[i] + x1 * c[i];
      }
    }
  }
};

}  // namespace

template <class T>
void rotary(const RotaryShape& shape, const T* x, const T* cos, const T* sin, T* y) {
  const Args<T> args{shape, x, cos, sin, y};
  const auto loop = IsaLoops<RotaryRows<T>, const Args<T>&, int64_t, int64_t>::at(isa());
  constexpr int64_t kElements = 32768;  // below this one thread is faster
  const int64_t grain = std::max<int64_t>(kElements / std::max<int64_t>(shape.D, 1), 1);
  parallel_for(0, shape.B * shape.L * shape.H, grain,
               [&](int64_t first, int64_t last) { loop(args, first, last); });
}

template void rotary(const RotaryShape&, const float*, const float*, const float*, float*);
template void rotary(const RotaryShape&, const double*, const double*, const double*, double*);

}  // namespace pellucid::kernels
