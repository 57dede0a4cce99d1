// Pooling. In NHWC the loops run over channels, which is what the compiler vectorises; in NCHW over
// the outputs of a row. Forward: a task is some rows of outputs. Backward: a task is an image (or
// some of its channels), so that overlapping windows are added by one thread in a fixed order.
#include "kernels/pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/isa.h"
#include "kernels/pool_channels.h"
#include "kernels/pool_rows.h"

namespace pellucid::kernels {

int64_t PoolShape::output_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad,
                               int64_t dilation, bool ceil_mode) {
  const int64_t room = size + 2 * pad - dilation * (kernel - 1) - 1;
  if (room < 0) return ceil_mode && room + stride > 0 ? 1 : 0;
  int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + pad)
    --count;  // a window must begin inside the input
  return count;
}

namespace {

std::vector<PoolWindow> windows(int64_t size, int64_t count, int64_t kernel, int64_t stride,
                                int64_t pad, int64_t dilation) {
  std::vector<PoolWindow> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t begin = i * stride - pad;
    const int64_t end = begin + dilation * (kernel - 1) + 1;
    const int64_t with_padding = std::min(end, size + pad) - begin;
    if (begin < 0) begin += (-begin + dilation - 1) / dilation * dilation;
    all[static_cast<size_t>(i)] = {begin, std::min(end, size), with_padding};
  }
  return all;
}

std::vector<PoolWindow> adaptive_windows(int64_t size, int64_t count) {
  std::vector<PoolWindow> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
    all[static_cast<size_t>(i)] = {begin, end, end - begin};
  }
  return all;
}

template <class T> struct MaxForward {
  /// Output rows [first, last) of all images (NHWC) or planes (NCHW).
  template <Isa level>
  [[gnu::always_inline]] static void run(const PoolPlan& p, PoolLayout layout, const T* x, T* y,
                                         int64_t* indices, int64_t first, int64_t last) {
    using Narrow = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    const bool fits = p.H * p.W <= std::numeric_limits<Narrow>::max();
    const int64_t oh = p.OH(), ow = p.OW();
    const AlikeWindows alike = alike_windows(p.columns);
    for (int64_t r = first; r < last; ++r) {
      const PoolWindow& rows = p.rows[static_cast<size_t>(r % oh)];
      if (layout == PoolLayout::NHWC) {
        const T* const image = x + r / oh * p.H * p.W * p.C;
        for (int64_t j = 0; j < ow; ++j) {
          const int64_t to = (r * ow + j) * p.C;
          const PoolWindow& columns = p.columns[static_cast<size_t>(j)];
          max_channels(p, rows, columns, image, y + to,
                       indices == nullptr ? nullptr : indices + to);
        }
      } else {
        const T* const plane = x + r / oh * p.H * p.W;
        int64_t* const positions = indices == nullptr ? nullptr : indices + r * ow;
        if (fits)
          max_row<T, Narrow>(p, rows, alike, plane, y + r * ow, positions);
        else
          max_row<T, int64_t>(p, rows, alike, plane, y + r * ow, positions);
      }
    }
  }
};

template <class T>
[[gnu::always_inline]] inline void fill_zero(const PoolPlan& p, int64_t channels, T* dx,
                                             int64_t first, int64_t last) {
  if (last - first == channels) {
    std::fill_n(dx, p.H * p.W * channels, T(0));
    return;
  }
  for (int64_t i = 0; i < p.H * p.W; ++i)
    std::fill_n(dx + i * channels + first, last - first, T(0));
}

/// The windows, in their order, that may hold the next position: without dilation both ends of
/// windows only grow.
struct Covering {
  int64_t begin = 0, end = 0;
  void move_to(int64_t position, const std::vector<PoolWindow>& all) {
    const auto count = static_cast<int64_t>(all.size());
    while (end < count && all[static_cast<size_t>(end)].begin <= position) ++end;
    while (begin < end && all[static_cast<size_t>(begin)].end <= position) ++begin;
  }
};

template <class T> struct MaxBackward {
  /// NHWC: channels [first, last) of one image. NCHW: one plane, with first = 0 and last = 1.
  template <Isa level>
  [[gnu::always_inline]] static void run(const PoolPlan& p, int64_t channels, const T* dy,
                                         const int64_t* indices, T* dx, int64_t first,
                                         int64_t last) {
    if (channels > 1 && p.dilation_h == 1 && p.dilation_w == 1 && Lanes<T, 8>::fits(p)) {
      first = gather<16>(p, channels, dy, indices, dx, first, last);
      first = gather<8>(p, channels, dy, indices, dx, first, last);
      if (first == last) return;
    }
    fill_zero(p, channels, dx, first, last);
    const int64_t pixels = p.OH() * p.OW();
    for (int64_t o = 0; o < pixels; ++o)
      for (int64_t c = first; c < last; ++c)
        dx[indices[o * channels + c] * channels + c] += dy[o * channels + c];
  }

 private:
  /// Each input pixel collects from the windows around it, kLanes channels at a time: dx is written
  /// once. Returns the first channel that is left.
  template <int64_t kLanes>
  [[gnu::always_inline]] static int64_t gather(const PoolPlan& p, int64_t channels, const T* dy,
                                               const int64_t* indices, T* dx, int64_t first,
                                               int64_t last) {
    using L = Lanes<T, kLanes>;
    const int64_t whole = first + (last - first) / kLanes * kLanes;
    if (whole == first) return first;
    Covering rows;
    for (int64_t h = 0; h < p.H; ++h) {
      rows.move_to(h, p.rows);
      Covering columns;
      for (int64_t w = 0; w < p.W; ++w) {
        columns.move_to(w, p.columns);
        const int64_t here = h * p.W + w;
        for (int64_t c = first; c < whole; c += kLanes) {
          typename L::Values sum = {};
          for (int64_t i = rows.begin; i < rows.end; ++i)
            for (int64_t j = columns.begin; j < columns.end; ++j) {
              const int64_t from = (i * p.OW() + j) * channels + c;
              const auto where = __builtin_convertvector(
                  *reinterpret_cast<const typename L::Positions*>(indices + from),
                  typename L::Narrow);
              const auto grad = *reinterpret_cast<const typename L::Values*>(dy + from);
              sum += where == static_cast<typename L::Index>(here) ? grad : typename L::Values{};
            }
          *reinterpret_cast<typename L::Values*>(dx + here * channels + c) = sum;
        }
      }
    }
    return whole;
  }
};

template <class T>
T divisor(const AverageOptions& o, const PoolPlan& p, const PoolWindow& rows,
          const PoolWindow& columns) {
  if (o.divisor_override != 0) return static_cast<T>(o.divisor_override);
  if (o.count_include_pad) return static_cast<T>(rows.with_padding * columns.with_padding);
  const int64_t h = (rows.end - rows.begin + p.dilation_h - 1) / p.dilation_h;
  const int64_t w = (columns.end - columns.begin + p.dilation_w - 1) / p.dilation_w;
  return static_cast<T>(h * w);
}

template <class T> struct AverageForward {
  template <Isa level>
  [[gnu::always_inline]] static void run(const PoolPlan& p, PoolLayout layout,
                                         const AverageOptions& options, const T* x, T* y,
                                         int64_t first, int64_t last) {
    const int64_t oh = p.OH(), ow = p.OW();
    const int64_t channels = layout == PoolLayout::NHWC ? p.C : 1;
    const AlikeWindows alike = alike_windows(p.columns);
    if (layout == PoolLayout::NCHW && oh == 1 && ow == 1) {  // often all of the plane: kept short
      const T by = divisor<T>(options, p, p.rows[0], p.columns[0]);
      for (int64_t r = first; r < last; ++r)
        y[r] = sum_window(p, p.rows[0], p.columns[0], x + r * p.H * p.W) / by;
      return;
    }
    for (int64_t r = first; r < last; ++r) {
      const PoolWindow& rows = p.rows[static_cast<size_t>(r % oh)];
      const T* const image = x + r / oh * p.H * p.W * channels;
      if (layout == PoolLayout::NCHW) {
        T* const to = y + r * ow;
        sum_row(p, rows, alike, image, to);
        for (int64_t j = 0; j < ow; ++j)
          to[j] /= divisor<T>(options, p, rows, p.columns[static_cast<size_t>(j)]);
        continue;
      }
      for (int64_t j = 0; j < ow; ++j) {
        const PoolWindow& columns = p.columns[static_cast<size_t>(j)];
        const T by = divisor<T>(options, p, rows, columns);
        T* const to = y + (r * ow + j) * channels;
        constexpr int64_t kBlock = 64;
        for (int64_t c0 = 0; c0 < channels; c0 += kBlock) {
          const int64_t n = std::min(kBlock, channels - c0);
          T sum[kBlock];
          for (int64_t c = 0; c < n; ++c) sum[c] = T(0);
          for (int64_t h = rows.begin; h < rows.end; ++h)
            for (int64_t w = columns.begin; w < columns.end; ++w) {
              const T* const from = image + (h * p.W + w) * channels + c0;
              for (int64_t c = 0; c < n; ++c) sum[c] += from[c];
            }
          for (int64_t c = 0; c < n; ++c) to[c0 + c] = sum[c] / by;
        }
      }
    }
  }
};

template <class T> struct AverageBackward {
  template <Isa level>
  [[gnu::always_inline]] static void run(const PoolPlan& p, int64_t channels,
                                         const AverageOptions& options, const T* dy, T* dx,
                                         int64_t first, int64_t last) {
    fill_zero(p, channels, dx, first, last);
    for (int64_t i = 0; i < p.OH(); ++i)
      for (int64_t j = 0; j < p.OW(); ++j) {
        const PoolWindow &rows = p.rows[static_cast<size_t>(i)],
                         &columns = p.columns[static_cast<size_t>(j)];
        const T by = divisor<T>(options, p, rows, columns);
        const T* const from = dy + (i * p.OW() + j) * channels;
        if (channels == 1) {  // a plane of NCHW: rows of the window are runs of memory
          const T share = from[0] / by;
          for (int64_t h = rows.begin; h < rows.end; ++h) {
            T* const to = dx + h * p.W;
            for (int64_t w = columns.begin; w < columns.end; ++w) to[w] += share;
          }
          continue;
        }
        for (int64_t h = rows.begin; h < rows.end; ++h)
          for (int64_t w = columns.begin; w < columns.end; ++w) {
            T* const to = dx + (h * p.W + w) * channels;
#pragma GCC ivdep
            for (int64_t c = first; c < last; ++c) to[c] += from[c] / by;
          }
      }
  }
};

/// Output rows that one chunk takes: about 16,384 input elements.
int64_t row_grain(const PoolPlan& p, int64_t channels) {
  const int64_t taps = std::max<int64_t>(1, p.H * p.W / std::max<int64_t>(1, p.OH()));
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, taps * channels));
}

/// Calls f(offset of the image or plane in dy, in dx, channels, first, last) for each task of a
/// backward pass.
template <class F> void for_each_image(const PoolPlan& p, PoolLayout layout, F f) {
  const int64_t in = p.H * p.W, out = p.OH() * p.OW();
  if (layout == PoolLayout::NCHW) {
    parallel_for(0, p.N * p.C, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, in)),
                 [&](int64_t b, int64_t e) {
                   for (int64_t i = b; i < e; ++i)
                     f(i * out, i * in, int64_t{1}, int64_t{0}, int64_t{1});
                 });
    return;
  }
  // Few images: the channels are shared out too, in whole cache lines.
  const int64_t width = p.N >= 8 ? p.C : std::max<int64_t>(16, (p.C / 8 + 15) / 16 * 16);
  const int64_t parts = width == 0 ? 0 : (p.C + width - 1) / width;
  parallel_for(0, p.N * parts, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, in * width)),
               [&](int64_t b, int64_t e) {
                 for (int64_t i = b; i < e; ++i) {
                   const int64_t n = i / parts, c = i % parts * width;
                   f(n * out * p.C, n * in * p.C, p.C, c, std::min(p.C, c + width));
                 }
               });
}

}  // namespace

PoolPlan pool_plan(const PoolShape& s) {
  return {s.N,
          s.C,
          s.H,
          s.W,
          s.dilation_h,
          s.dilation_w,
          windows(s.H, s.OH(), s.KH, s.stride_h, s.pad_h, s.dilation_h),
          windows(s.W, s.OW(), s.KW, s.stride_w, s.pad_w, s.dilation_w)};
}

PoolPlan adaptive_pool_plan(int64_t N, int64_t C, int64_t H, int64_t W, int64_t OH, int64_t OW) {
  return {N, C, H, W, 1, 1, adaptive_windows(H, OH), adaptive_windows(W, OW)};
}

template <class T>
void max_pool_forward(const PoolPlan& p, PoolLayout layout, const T* x, T* y, int64_t* indices) {
  const auto loop = IsaLoops<MaxForward<T>, const PoolPlan&, PoolLayout, const T*, T*, int64_t*,
                             int64_t, int64_t>::at(isa());
  const bool last = layout == PoolLayout::NHWC;
  parallel_for(0, p.N * p.OH() * (last ? 1 : p.C), row_grain(p, last ? p.C : 1),
               [&](int64_t b, int64_t e) { loop(p, layout, x, y, indices, b, e); });
}

template <class T>
void max_pool_backward(const PoolPlan& p, PoolLayout layout, const T* dy, const int64_t* indices,
                       T* dx) {
  const auto loop = IsaLoops<MaxBackward<T>, const PoolPlan&, int64_t, const T*, const int64_t*, T*,
                             int64_t, int64_t>::at(isa());
  for_each_image(p, layout,
                 [&](int64_t out, int64_t in, int64_t channels, int64_t first, int64_t last) {
                   loop(p, channels, dy + out, indices + out, dx + in, first, last);
                 });
}

template <class T>
void avg_pool_forward(const PoolPlan& p, PoolLayout layout, const AverageOptions& options,
                      const T* x, T* y) {
  const auto loop = IsaLoops<AverageForward<T>, const PoolPlan&, PoolLayout, const AverageOptions&,
                             const T*, T*, int64_t, int64_t>::at(isa());
  const bool last = layout == PoolLayout::NHWC;
  parallel_for(0, p.N * p.OH() * (last ? 1 : p.C), row_grain(p, last ? p.C : 1),
               [&](int64_t b, int64_t e) { loop(p, layout, options, x, y, b, e); });
}

template <class T>
void avg_pool_backward(const PoolPlan& p, PoolLayout layout, const AverageOptions& options,
                       const T* dy, T* dx) {
  const auto loop = IsaLoops<AverageBackward<T>, const PoolPlan&, int64_t, const AverageOptions&,
                             const T*, T*, int64_t, int64_t>::at(isa());
  for_each_image(p, layout,
                 [&](int64_t out, int64_t in, int64_t channels, int64_t first, int64_t last) {
                   loop(p, channels, options, dy + out, dx + in, first, last);
                 });
}

#define PELLUCID_INSTANTIATE(T)                                                                    \
  template void max_pool_forward<T>(const PoolPlan&, PoolLayout, const T*, T*, int64_t*);          \
  template void max_pool_backward<T>(const PoolPlan&, PoolLayout, const T*, const int64_t*, T*);   \
  template void avg_pool_forward<T>(const PoolPlan&, PoolLayout, const AverageOptions&, const T*,  \
                                    T*);                                                           \
  template void avg_pool_backward<T>(const PoolPlan&, PoolLayout, const AverageOptions&, const T*, \
                                     T*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
