// Batch norm in both layouts, and group norm. A "line" is a contiguous run: the values of one
// channel of one image where channels come first, the channels of one pixel where they come last.
#include <cmath>

#include "kernels/norm.h"
#include "kernels/norm_sums.h"
#include "kernels/reduce.h"
#include "kernels/tiles.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kTaskElements = 16384;
int64_t lines_per_task(int64_t n) {
  return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, n));
}

/// [batch, channels] without spatial extent is a matrix of pixels.
bool pixels(const BatchNorm& b) { return b.channels_last || b.spatial == 1; }
int64_t line_length(const BatchNorm& b) { return pixels(b) ? b.channels : b.spatial; }
int64_t line_count(const BatchNorm& b) {
  return pixels(b) ? b.batch * b.spatial : b.batch * b.channels;
}

/// Calls f(line, count) for blocks of lines that a task takes at once: lines are often as short as
/// 64 values, too short to choose the ISA for each.
template <class F> void for_blocks(int64_t begin, int64_t end, int64_t n, const F& f) {
  const int64_t step = lines_per_task(n);
  for (int64_t line = begin; line < end; line += step) f(line, std::min(step, end - line));
}

/// Per channel: y = x scale + shift.
template <class T> struct Affine {
  Affine(const BatchNorm& b, const T* mean, const T* rstd)
      : scale(parameter_values<T>(b.type, b.weight, b.channels, 1)),
        shift(parameter_values<T>(b.type, b.bias, b.channels, 0)) {
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] *= rstd[c];
      shift[c] -= mean[c] * scale[c];
    }
  }
  std::vector<T> scale, shift;
};

/// y = x scale[i] + shift[i]: of one channel, or of a pixel's channels.
template <class T>
[[gnu::always_inline]] inline void scale_line(const T* x, const T* scale, const T* shift, T* y,
                                              int64_t n, bool pixel) {
  if (pixel) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale[i] + shift[i];
  } else {
    const T a = *scale, b = *shift;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a + b;
  }
}

/// dx = dy scale - (x - mean) slope - level.
template <class T> struct Gradient {
  explicit Gradient(int64_t channels)
      : mean(channels), scale(channels), slope(channels), level(channels) {}
  std::vector<T> mean, scale, slope, level;
};

template <class T>
[[gnu::always_inline]] inline void gradient_line(const T* x, const T* dy, const T* mean,
                                                 const T* scale, const T* slope, const T* level,
                                                 T* dx, int64_t n, bool pixel) {
  if (pixel) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      dx[i] = dy[i] * scale[i] - (x[i] - mean[i]) * slope[i] - level[i];
  } else {
    const T m = *mean, a = *scale, s = *slope, l = *level;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * a - (x[i] - m) * s - l;
  }
}

/// The sums of dy and of dy (x - mean) over a line of one channel.
template <class T> struct LineSums { T dy, product; };
template <class T>
[[gnu::always_inline]] inline LineSums<T> line_sums(const T* x, const T* dy, T mean, int64_t n) {
  return {sum_lanes<T>(n, [=](int64_t i) { return dy[i]; }),
          sum_mapped<T>(n, [=](int64_t i) { return dy[i] * (x[i] - mean); })};
}

/// Line sums of every (image, channel): [2, batch, channels].
template <class T, class Mean>
std::vector<T> all_line_sums(DType type, const void* x, const void* dy, int64_t lines, int64_t n,
                             const Mean& mean_of) {
  std::vector<T> sums(static_cast<size_t>(2 * lines));
  parallel_for(0, lines, lines_per_task(n), [&](int64_t begin, int64_t end) {
    const RowBuffer<T> buffer(type, n, 2);
    for (int64_t line = begin; line < end; ++line) {
      const T* values = read_row<T>(type, x, line * n, n, buffer.run(0));
      const T* g = read_row<T>(type, dy, line * n, n, buffer.run(1));
      at_isa([&, mean = mean_of(line)](auto) {
        const LineSums<T> s = line_sums<T>(values, g, mean, n);
        sums[line] = s.dy;
        sums[lines + line] = s.product;
      });
    }
  });
  return sums;
}

/// Adds dy and dy (x - mean) of `count` pixels to the channels' sums, [2, channels]. Some channels
/// at a time, whose sums stay in registers.
template <class T>
[[gnu::always_inline]] inline void add_pixels(const T* x, const T* dy, const T* mean, int64_t count,
                                              int64_t channels, T* total) {
  constexpr int64_t kTile = 256 / sizeof(T);
  int64_t c = 0;
  for (; c + kTile <= channels; c += kTile) {
    T sum[kTile], product[kTile];
    std::copy_n(total + c, kTile, sum);
    std::copy_n(total + channels + c, kTile, product);
    for (int64_t i = 0; i < count; ++i) {
      const T *v = x + i * channels + c, *g = dy + i * channels + c;
#pragma omp simd
      for (int64_t l = 0; l < kTile; ++l) {
        sum[l] += g[l];
        product[l] += g[l] * (v[l] - mean[c + l]);
      }
    }
    std::copy_n(sum, kTile, total + c);
    std::copy_n(product, kTile, total + channels + c);
  }
  for (int64_t i = 0; c < channels && i < count; ++i) {
    const T *v = x + i * channels, *g = dy + i * channels;
#pragma omp simd
    for (int64_t l = c; l < channels; ++l) {
      total[l] += g[l];
      total[channels + l] += g[l] * (v[l] - mean[l]);
    }
  }
}

/// Sums of dy and dy (x - mean) per channel, [2, channels].
template <class T> std::vector<T> channel_sums(const BatchNorm& b, const void* dy, const T* mean) {
  const int64_t channels = b.channels, n = line_length(b), lines = line_count(b);
  std::vector<T> result(static_cast<size_t>(2 * channels));
  if (!pixels(b)) {
    const std::vector<T> sums = all_line_sums<T>(
        b.type, b.x, dy, lines, n, [&](int64_t line) { return mean[line % channels]; });
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < 2; ++k)
        result[k * channels + c] =
            sum_lanes<T>(b.batch, [&](int64_t i) { return sums[k * lines + i * channels + c]; });
    return result;
  }
  const int64_t block = lines_per_task(n);
  ColumnSums<T> sums(lines, 2 * channels, block);
  parallel_chunks(sums.parts(), [&](int64_t part) {
    const RowBuffer<T> buffer(b.type, block * n, 2);
    T* const total = sums.of(part);
    for_blocks(sums.begin(part), sums.end(part), n, [&](int64_t line, int64_t count) {
      const T* x = read_row<T>(b.type, b.x, line * n, count * n, buffer.run(0));
      const T* g = read_row<T>(b.type, dy, line * n, count * n, buffer.run(1));
      at_isa([=](auto) { add_pixels(x, g, mean, count, channels, total); });
    });
  });
  if (lines > 0) std::copy_n(sums.total(), 2 * channels, result.data());
  return result;
}

template <class T>
void apply_batch_norm(const BatchNorm& b, const T* mean, const T* rstd, void* y,
                      const Epilogue* then) {
  const Affine<T> affine(b, mean, rstd);
  const int64_t n = line_length(b);
  const bool pixel = pixels(b);
  parallel_for(0, line_count(b), lines_per_task(n), [&](int64_t begin, int64_t end) {
    const RowBuffer<T> buffer(b.type, lines_per_task(n) * n, 2);
    for_blocks(begin, end, n, [&](int64_t line, int64_t count) {
      const T* x = read_row<T>(b.type, b.x, line * n, count * n, buffer.run(0));
      T* out = open_row<T>(b.type, y, line * n, buffer.run(1));
      at_isa([=, &affine, channels = b.channels](auto) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t c = pixel ? 0 : (line + i) % channels;
          scale_line(x + i * n, affine.scale.data() + c, affine.shift.data() + c, out + i * n, n,
                     pixel);
        }
      });
      write_row<T>(b.type, y, line * n, count * n, out);
      if (then != nullptr) (*then)({out, 1, count * n, count * n});
    });
  });
}

template <class T>
void batch_norm_gradients(const BatchNorm& b, const void* dy, const T* mean, const T* rstd,
                          bool training, void* dx, void* dweight, void* dbias) {
  const int64_t channels = b.channels, n = line_length(b);
  const bool pixel = pixels(b);
  const std::vector<T> sums = dweight || dbias || training
                                  ? channel_sums<T>(b, dy, mean)
                                  : std::vector<T>(static_cast<size_t>(2 * channels));
  std::vector<T> scaled(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) scaled[c] = sums[channels + c] * rstd[c];
  store_values(b.type, dweight, scaled.data(), channels);
  store_values(b.type, dbias, sums.data(), channels);
  if (!dx) return;
  Gradient<T> g(channels);
  const std::vector<T> weight = parameter_values<T>(b.type, b.weight, channels, 1);
  const T count = static_cast<T>(b.batch * b.spatial);
  for (int64_t c = 0; c < channels; ++c) {
    g.mean[c] = mean[c];
    g.scale[c] = weight[c] * rstd[c];
    g.slope[c] = training ? g.scale[c] * rstd[c] * scaled[c] / count : T(0);
    g.level[c] = training ? g.scale[c] * sums[c] / count : T(0);
  }
  parallel_for(0, line_count(b), lines_per_task(n), [&](int64_t begin, int64_t end) {
    const RowBuffer<T> buffer(b.type, lines_per_task(n) * n, 3);
    for_blocks(begin, end, n, [&](int64_t line, int64_t count) {
      const T* x = read_row<T>(b.type, b.x, line * n, count * n, buffer.run(0));
      const T* grad = read_row<T>(b.type, dy, line * n, count * n, buffer.run(1));
      T* out = open_row<T>(b.type, dx, line * n, buffer.run(2));
      at_isa([=, &g](auto) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t c = pixel ? 0 : (line + i) % channels;
          gradient_line(x + i * n, grad + i * n, g.mean.data() + c, g.scale.data() + c,
                        g.slope.data() + c, g.level.data() + c, out + i * n, n, pixel);
        }
      });
      write_row<T>(b.type, dx, line * n, count * n, out);
    });
  });
}

template <class T> void group_norm_forward(const GroupNorm& g, void* y, T* mean, T* rstd) {
  const int64_t per_group = g.channels / g.groups, n = per_group * g.spatial;
  const std::vector<T> weight = parameter_values<T>(g.type, g.weight, g.channels, 1),
                       bias = parameter_values<T>(g.type, g.bias, g.channels, 0);
  parallel_for(0, g.batch * g.groups, lines_per_task(n), [&](int64_t begin, int64_t end) {
    const RowBuffer<T> buffer(g.type, n, 2);
    for (int64_t group = begin; group < end; ++group) {
      const T* x = read_row<T>(g.type, g.x, group * n, n, buffer.run(0));
      T* out = open_row<T>(g.type, y, group * n, buffer.run(1));
      const int64_t first = group % g.groups * per_group;
      at_isa([&, n, x, out](auto) {
        const T m = sum_lanes<T>(n, [=](int64_t i) { return x[i]; }) / static_cast<T>(n);
        const T square =
            sum_lanes<T>(n, [=](int64_t i) { return (x[i] - m) * (x[i] - m); }) / static_cast<T>(n);
        const T r = T(1) / std::sqrt(square + static_cast<T>(g.eps));
        mean[group] = m;
        rstd[group] = r;
        for (int64_t c = 0; c < per_group; ++c) {
          const T scale = r * weight[first + c], shift = bias[first + c] - m * scale;
          scale_line(x + c * g.spatial, &scale, &shift, out + c * g.spatial, g.spatial, false);
        }
      });
      write_row<T>(g.type, y, group * n, n, out);
    }
  });
}

template <class T>
void group_norm_gradients(const GroupNorm& g, const void* dy, const T* mean, const T* rstd,
                          void* dx, void* dweight, void* dbias) {
  const int64_t per_group = g.channels / g.groups, lines = g.batch * g.channels, n = g.spatial;
  const std::vector<T> weight = parameter_values<T>(g.type, g.weight, g.channels, 1);
  const std::vector<T> sums = all_line_sums<T>(
      g.type, g.x, dy, lines, n, [&](int64_t line) { return mean[line / per_group]; });
  std::vector<T> scales(static_cast<size_t>(g.channels)), shifts(static_cast<size_t>(g.channels));
  for (int64_t c = 0; c < g.channels; ++c) {
    scales[c] = sum_lanes<T>(g.batch, [&](int64_t i) {
      const int64_t line = i * g.channels + c;
      return sums[lines + line] * rstd[line / per_group];
    });
    shifts[c] = sum_lanes<T>(g.batch, [&](int64_t i) { return sums[i * g.channels + c]; });
  }
  store_values(g.type, dweight, scales.data(), g.channels);
  store_values(g.type, dbias, shifts.data(), g.channels);
  if (!dx) return;
  parallel_for(0, g.batch * g.groups, lines_per_task(per_group * n),
               [&](int64_t begin, int64_t end) {
                 const RowBuffer<T> buffer(g.type, n, 3);
                 for (int64_t group = begin; group < end; ++group) {
                   const T count = static_cast<T>(per_group * n), m = mean[group], r = rstd[group];
                   const int64_t first = group % g.groups * per_group;
                   const T level = r / count * sum_lanes<T>(per_group, [&](int64_t c) {
                                     return weight[first + c] * sums[group * per_group + c];
                                   });
                   const T slope = r * r * r / count * sum_lanes<T>(per_group, [&](int64_t c) {
                                     return weight[first + c] * sums[lines + group * per_group + c];
                                   });
                   for (int64_t c = 0; c < per_group; ++c) {
                     const int64_t line = group * per_group + c;
                     const T* x = read_row<T>(g.type, g.x, line * n, n, buffer.run(0));
                     const T* grad = read_row<T>(g.type, dy, line * n, n, buffer.run(1));
                     T* out = open_row<T>(g.type, dx, line * n, buffer.run(2));
                     const T scale = r * weight[first + c];
                     at_isa([=, &m, &scale, &slope, &level](auto) {
                       gradient_line(x, grad, &m, &scale, &slope, &level, out, n, false);
                     });
                     write_row<T>(g.type, dx, line * n, n, out);
                   }
                 }
               });
}

}  // namespace

void batch_norm_stats(const BatchNorm& b, void* mean, void* variance) {
  const int64_t c = b.channels, s = b.spatial;
  const int64_t sizes[3] = {b.batch, pixels(b) ? s : c, pixels(b) ? c : s};
  const int64_t in[3] = {c * s, sizes[2], 1};
  const int64_t out[3] = {0, pixels(b) ? 0 : 1, pixels(b) ? 1 : 0};
  reduce({.op = ReduceOp::Var,
          .in_type = b.type,
          .in = b.x,
          .out_type = b.type == kFloat64 ? kFloat64 : kFloat32,
          .out = variance,
          .mean = mean,
          .indices = nullptr,
          .sizes = sizes,
          .in_strides = in,
          .out_strides = out,
          .reduced = pixels(b) ? 0b011u : 0b101u,
          .parameter = 0});
}

void batch_norm_apply(const BatchNorm& b, const void* mean, const void* rstd, void* y,
                      const Epilogue* then) {
  visit_compute(b.type, [&](auto zero) {
    using T = decltype(zero);
    apply_batch_norm<T>(b, static_cast<const T*>(mean), static_cast<const T*>(rstd), y, then);
  });
}

void batch_norm_backward(const BatchNorm& b, const void* dy, const void* mean, const void* rstd,
                         bool training, void* dx, void* dweight, void* dbias) {
  visit_compute(b.type, [&](auto zero) {
    using T = decltype(zero);
    batch_norm_gradients<T>(b, dy, static_cast<const T*>(mean), static_cast<const T*>(rstd),
                            training, dx, dweight, dbias);
  });
}

void group_norm(const GroupNorm& g, void* y, void* mean, void* rstd) {
  visit_compute(g.type, [&](auto zero) {
    using T = decltype(zero);
    group_norm_forward<T>(g, y, static_cast<T*>(mean), static_cast<T*>(rstd));
  });
}

void group_norm_backward(const GroupNorm& g, const void* dy, const void* mean, const void* rstd,
                         void* dx, void* dweight, void* dbias) {
  visit_compute(g.type, [&](auto zero) {
    using T = decltype(zero);
    group_norm_gradients<T>(g, dy, static_cast<const T*>(mean), static_cast<const T*>(rstd), dx,
                            dweight, dbias);
  });
}

}  // namespace pellucid::kernels
