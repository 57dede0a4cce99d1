// Convolution as matrix products: an image (or volume) of one group is unfolded into rows of
// patches [OD OH OW, KD KH KW C] and multiplied with the weights in the order [O, KD KH KW C]. A
// 1x1 convolution needs no unfolding. Images run in parallel where each writes its own output; the
// weights' gradient adds images in order.
#include "kernels/conv_gemm.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"

namespace pellucid::kernels::conv_gemm {
namespace {

/// Sizes of one image and one group.
struct Sizes {
  explicit Sizes(const ConvShape& s)
      : channels(s.C / s.groups),
        outputs(s.O / s.groups),
        pixels(s.out_pixels()),
        patch(s.taps() * channels),
        plain(s.taps() == 1 && s.stride_d == 1 && s.stride_h == 1 && s.stride_w == 1 &&
              s.pad_d == 0 && s.pad_h == 0 && s.pad_w == 0) {}
  int64_t channels, outputs, pixels, patch;
  bool plain;  // the image is its own unfolding
};

/// Calls f(place in the patches, channels in the image or null for padding) for each tap of each
/// pixel in the output rows [first, last), which count through the depths; `patches` are those of
/// the first.
template <class Image, class Patches, class F>
void for_each_tap(const ConvShape& s, const Sizes& z, Image* image, Patches* patches, int64_t first,
                  int64_t last, F f) {
  const int64_t oh = s.OH(), ow = s.OW();
  for (int64_t i = first; i < last; ++i)
    for (int64_t j = 0; j < ow; ++j)
      for (int64_t kd = 0; kd < s.KD; ++kd) {
        const int64_t d = i / oh * s.stride_d - s.pad_d + kd * s.dilation_d;
        for (int64_t kh = 0; kh < s.KH; ++kh) {
          const int64_t h = i % oh * s.stride_h - s.pad_h + kh * s.dilation_h;
          const bool row = d >= 0 && d < s.D && h >= 0 && h < s.H;
          for (int64_t kw = 0; kw < s.KW; ++kw, patches += z.channels) {
            const int64_t v = j * s.stride_w - s.pad_w + kw * s.dilation_w;
            const bool inside = row && v >= 0 && v < s.W;
            f(patches, inside ? image + ((d * s.H + h) * s.W + v) * s.C : nullptr);
          }
        }
      }
}

template <class T>
void unfold(const ConvShape& s, const Sizes& z, const T* image, T* patches, int64_t first,
            int64_t last) {
  for_each_tap(s, z, image, patches, first, last, [&](T* to, const T* from) {
    if (from != nullptr)
      std::copy_n(from, z.channels, to);
    else
      std::fill_n(to, z.channels, T(0));
  });
}

template <class T> void fold(const ConvShape& s, const Sizes& z, const T* patches, T* image) {
  for_each_tap(s, z, image, patches, 0, s.OD() * s.OH(), [&](const T* from, T* to) {
    if (to == nullptr) return;
    for (int64_t c = 0; c < z.channels; ++c) to[c] += from[c];
  });
}

/// [O, C, KD, KH, KW] to [O, KD, KH, KW, C], or back.
template <class T> void reorder_weights(const ConvShape& s, const T* from, T* to, bool back) {
  const int64_t channels = s.C / s.groups, taps = s.taps();
  for (int64_t o = 0; o < s.O; ++o, from += channels * taps, to += channels * taps)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = 0; t < taps; ++t) {
        if (back)
          to[c * taps + t] = from[t * channels + c];
        else
          to[t * channels + c] = from[c * taps + t];
      }
}

template <class T> int64_t bytes_of(int64_t count) {
  return count * static_cast<int64_t>(sizeof(T));
}

/// The weights in that order.
template <class T> struct Ordered final : PackedForm {
  Ordered(const ConvShape& s, MemoryCategory category)
      : size(bytes_of<T>(s.weight_count())), memory(size, category) {}
  int64_t bytes() const override { return size; }
  const int64_t size;
  const Scratch memory;
};

template <class T>
std::shared_ptr<const Ordered<T>> ordered_weights(const ConvShape& s, const Weights& w) {
  // The order depends on the weights' sizes alone.
  if (auto kept = w.find<Ordered<T>>([](const Ordered<T>&) { return true; })) return kept;
  auto form = std::make_shared<const Ordered<T>>(
      s, w.keeps() ? MemoryCategory::Packed : MemoryCategory::Temporary);
  reorder_weights(s, w.as<T>(), form->memory.template as<T>(), false);
  if (w.keeps()) w.keep(form);
  return form;
}

/// Images of the weights' gradient go together, as one product, until their patches take 16 MiB.
template <class T> int64_t images_together(const ConvShape& s, const Sizes& z) {
  return std::clamp<int64_t>(
      (int64_t{1} << 24) / std::max<int64_t>(1, bytes_of<T>(z.pixels * z.patch)), 1,
      std::max<int64_t>(s.N, 1));
}

}  // namespace

template <class T>
void forward(const ConvShape& s, const T* x, const Weights& w, const T* bias, T* y) {
  const Sizes z(s);
  const auto form = ordered_weights<T>(s, w);
  const Scratch& ordered = form->memory;
  parallel_chunks(s.N, [&](int64_t n) {
    const Scratch patches(z.plain ? 0 : bytes_of<T>(z.pixels * z.patch));
    T* const out = y + n * z.pixels * s.O;
    if (bias != nullptr)
      for (int64_t p = 0; p < z.pixels; ++p) std::copy_n(bias, s.O, out + p * s.O);
    for (int64_t g = 0; g < s.groups; ++g) {
      const T* const image = x + n * s.in_pixels() * s.C + g * z.channels;
      if (!z.plain) unfold(s, z, image, patches.as<T>(), 0, s.OD() * s.OH());
      gemm<T>(z.pixels, z.outputs, z.patch, T(1),
              z.plain ? MatrixView<const T>{image, s.C, 1}
                      : MatrixView<const T>{patches.as<T>(), z.patch, 1},
              {ordered.as<T>() + g * z.outputs * z.patch, 1, z.patch},
              bias != nullptr ? T(1) : T(0), {out + g * z.outputs, s.O, 1});
    }
  });
}

template <class T>
void backward_data(const ConvShape& s, const T* dy, const Weights& w, const T* bias, T* dx) {
  const Sizes z(s);
  const auto form = ordered_weights<T>(s, w);
  const Scratch& ordered = form->memory;
  parallel_chunks(s.N, [&](int64_t n) {
    const Scratch patches(bytes_of<T>(z.pixels * z.patch));
    T* const out = dx + n * s.in_pixels() * s.C;
    for (int64_t p = 0; p < s.in_pixels(); ++p) {
      if (bias != nullptr)
        std::copy_n(bias, s.C, out + p * s.C);
      else
        std::fill_n(out + p * s.C, s.C, T(0));
    }
    for (int64_t g = 0; g < s.groups; ++g) {
      gemm<T>(z.pixels, z.patch, z.outputs, T(1), {dy + n * z.pixels * s.O + g * z.outputs, s.O, 1},
              {ordered.as<T>() + g * z.outputs * z.patch, z.patch, 1}, T(0),
              {patches.as<T>(), z.patch, 1});
      fold(s, z, static_cast<const T*>(patches.as<T>()), out + g * z.channels);
    }
  });
}

template <class T>
void backward_weights(const ConvShape& s, const T* x, const T* dy, T* dw, T* dbias) {
  const Sizes z(s);
  if (dbias != nullptr) bias_gradient(s, dy, dbias);
  const int64_t together = images_together<T>(s, z);
  const bool in_place = z.plain && s.groups == 1;
  const int64_t rows = s.OD() * s.OH();
  const Scratch ordered(bytes_of<T>(s.weight_count()));
  const Scratch patches(in_place ? 0 : bytes_of<T>(together * z.pixels * z.patch));
  if (s.N == 0) std::fill_n(ordered.as<T>(), s.weight_count(), T(0));
  for (int64_t n = 0; n < s.N; n += together) {
    const int64_t images = std::min(together, s.N - n);
    for (int64_t g = 0; g < s.groups; ++g) {
      const T* const image = x + n * s.in_pixels() * s.C + g * z.channels;
      if (!in_place)
        parallel_chunks(images * rows, [&](int64_t r) {
          const int64_t i = r / rows, row = r % rows;
          unfold(s, z, image + i * s.in_pixels() * s.C, patches.as<T>() + r * s.OW() * z.patch, row,
                 row + 1);
        });
      gemm<T>(z.outputs, z.patch, images * z.pixels, T(1),
              {dy + n * z.pixels * s.O + g * z.outputs, 1, s.O},
              {in_place ? image : patches.as<T>(), z.patch, 1}, n == 0 ? T(0) : T(1),
              {ordered.as<T>() + g * z.outputs * z.patch, z.patch, 1});
    }
  }
  reorder_weights<T>(s, ordered.as<T>(), dw, true);
}

template <class T> int64_t scratch(const ConvShape& s, bool of_weights) {
  const Sizes z(s);
  const bool in_place = z.plain && (of_weights ? s.groups == 1 : true);
  const int64_t images =
      of_weights ? images_together<T>(s, z) : std::min<int64_t>(s.N, get_num_threads());
  return bytes_of<T>(s.weight_count() + (in_place ? 0 : images * z.pixels * z.patch));
}

template <class T> void bias_gradient(const ConvShape& s, const T* dy, T* dbias) {
  const int64_t rows = s.N * s.out_pixels();
  constexpr int64_t kPart = 1024;  // rows that one chunk sums
  const int64_t parts = (rows + kPart - 1) / kPart;
  const Scratch sums(bytes_of<T>(parts * s.O));
  parallel_chunks(parts, [&](int64_t p) {
    T* const sum = sums.as<T>() + p * s.O;
    std::fill_n(sum, s.O, T(0));
    const int64_t end = std::min(rows, (p + 1) * kPart);
    for (int64_t r = p * kPart; r < end; ++r)
      for (int64_t o = 0; o < s.O; ++o) sum[o] += dy[r * s.O + o];
  });
  std::fill_n(dbias, s.O, T(0));
  for (int64_t p = 0; p < parts; ++p)
    for (int64_t o = 0; o < s.O; ++o) dbias[o] += sums.as<T>()[p * s.O + o];
}

#define PELLUCID_INSTANTIATE(T)                                                             \
  template void forward<T>(const ConvShape&, const T*, const Weights&, const T*, T*);       \
  template void backward_data<T>(const ConvShape&, const T*, const Weights&, const T*, T*); \
  template void backward_weights<T>(const ConvShape&, const T*, const T*, T*, T*);          \
  template int64_t scratch<T>(const ConvShape&, bool);                                      \
  template void bias_gradient<T>(const ConvShape&, const T*, T*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels::conv_gemm
