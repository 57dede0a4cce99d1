// Windows of images as columns and back.
#include "kernels/fold.h"

#include <algorithm>

#include "base/parallel.h"

namespace pellucid::kernels {
namespace {

/// The output columns whose tap kw lies inside a row of W pixels: [first, last).
struct Inside {
  int64_t first, last;
};

Inside inside_row(const ConvShape& s, int64_t kw) {
  const int64_t shift = kw * s.dilation_w - s.pad_w;  // pixel of output 0
  const auto reach = [&](int64_t pixel) {             // the first output at or beyond the pixel
    const int64_t way = pixel - shift;
    return way <= 0 ? 0 : (way + s.stride_w - 1) / s.stride_w;
  };
  const int64_t first = std::min(reach(0), s.OW());
  return {first, std::max(first, std::min(reach(s.W), s.OW()))};
}

/// Calls f(row of the image or null, row of the columns, kw) for each output row of tap `tap`.
template <class Image, class Columns, class F>
void for_each_row(const ConvShape& s, int64_t tap, Image* plane, Columns* columns, F f) {
  const int64_t kh = tap / s.KW, kw = tap % s.KW, oh = s.OH(), ow = s.OW();
  for (int64_t i = 0; i < oh; ++i, columns += ow) {
    const int64_t h = i * s.stride_h - s.pad_h + kh * s.dilation_h;
    f(h >= 0 && h < s.H ? plane + h * s.W : nullptr, columns, kw);
  }
}

int64_t grain(int64_t each) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(each, 1)); }

}  // namespace

template <class T> void image_to_columns(const ConvShape& s, const T* image, T* columns) {
  const int64_t taps = s.KH * s.KW, row = s.OH() * s.OW();
  parallel_for(0, s.N * s.C * taps, grain(row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for_each_row(s, r % taps, image + r / taps * s.H * s.W, columns + r * row,
                   [&](const T* from, T* to, int64_t kw) {
                     if (from == nullptr) return void(std::fill_n(to, s.OW(), T(0)));
                     const Inside in = inside_row(s, kw);
                     const T* const first = from + kw * s.dilation_w - s.pad_w;
                     std::fill(to, to + in.first, T(0));
                     for (int64_t j = in.first; j < in.last; ++j) to[j] = first[j * s.stride_w];
                     std::fill(to + in.last, to + s.OW(), T(0));
                   });
  });
}

template <class T> void columns_to_image(const ConvShape& s, const T* columns, T* image) {
  const int64_t taps = s.KH * s.KW, row = s.OH() * s.OW(), plane = s.H * s.W;
  parallel_for(0, s.N * s.C, grain(taps * row + plane), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* const out = image + p * plane;
      std::fill_n(out, plane, T(0));
      for (int64_t tap = 0; tap < taps; ++tap)
        for_each_row(s, tap, out, columns + (p * taps + tap) * row,
                     [&](T* to, const T* from, int64_t kw) {
                       if (to == nullptr) return;
                       const Inside in = inside_row(s, kw);
                       T* const first = to + kw * s.dilation_w - s.pad_w;
                       for (int64_t j = in.first; j < in.last; ++j)
                         first[j * s.stride_w] += from[j];
                     });
    }
  });
}

template void image_to_columns<float>(const ConvShape&, const float*, float*);
template void image_to_columns<double>(const ConvShape&, const double*, double*);
template void columns_to_image<float>(const ConvShape&, const float*, float*);
template void columns_to_image<double>(const ConvShape&, const double*, double*);

}  // namespace pellucid::kernels
