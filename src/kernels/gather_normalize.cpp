// The loop over one channel of one row; rows are shared out to threads.
#include "kernels/gather_normalize.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/isa.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kTaskElements = 65536;  // below it a second thread costs more than it gains

template <class T> struct NormalizeLoop {
  template <Isa>
  [[gnu::always_inline]] static void run(const T* in, float scale, const float* mean,
                                         const float* stddev, float* out, int64_t n) {
    if (mean) {
      const float m = *mean, s = *stddev;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = (static_cast<float>(in[i]) / scale - m) / s;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]) / scale;
    }
  }
};

template <class T>
void gather(const void* in, const int64_t* index, int64_t n, int64_t channels, int64_t inner,
            float scale, const float* mean, const float* stddev, float* out) {
  const auto loop =
      IsaLoops<NormalizeLoop<T>, const T*, float, const float*, const float*, float*, int64_t>::at(
          isa());
  const int64_t row = channels * inner;
  const int64_t rows = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, row));
  parallel_for(0, n, rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < channels; ++c)
        loop(static_cast<const T*>(in) + index[i] * row + c * inner, scale,
             mean ? mean + c : nullptr, stddev ? stddev + c : nullptr, out + i * row + c * inner,
             inner);
  });
}

}  // namespace

void gather_normalize(DType type, const void* in, const int64_t* index, int64_t n, int64_t channels,
                      int64_t inner, float scale, const float* mean, const float* stddev,
                      float* out) {
  PELLUCID_ASSERT(type == kUInt8 || type == kFloat32);
  (type == kUInt8 ? gather<uint8_t> : gather<float>)(in, index, n, channels, inner, scale, mean,
                                                     stddev, out);
}

}  // namespace pellucid::kernels
