// Interpolation at the places of a grid. Points go in blocks: first the taps (pixels and weights)
// along each dim, then their products, which all channels share.
#include "kernels/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/isa.h"

#define PELLUCID_INLINE __attribute__((always_inline)) inline

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 64;     // points
constexpr int64_t kChannels = 16;  // that one task of grid_spread writes to
constexpr int32_t kOutside = -1;   // instead of a pixel

/// Taps along one dim, or over all dims: pixel and weight of each, for each point of a block.
template <class T, int most> struct Taps {
  int count = 0;
  int32_t at[most][kBlock];
  T weight[most][kBlock];
};
template <class T> using Axis = Taps<T, 4>;
template <class T> using Block = Taps<T, 16>;

/// The pixel of a place that is no number where the padding moves places into the image. PyTorch
/// takes the first of an image, the last of a volume, and for a volume's gradients none.
enum class NanTo { First, Last, Nowhere };

/// How a coordinate becomes a place among n pixels.
template <class T> struct Line {
  Line(const GridShape& s, int dim, bool backward)
      : n(static_cast<T>(s.sizes[dim])),
        scale(s.align_corners ? (n - 1) / 2 : n / 2),
        align(s.align_corners),
        padding(s.padding),
        nan_to(s.dims == 2 ? NanTo::First
               : backward  ? NanTo::Nowhere
                           : NanTo::Last),
        low(s.align_corners ? T(0) : T(-0.5)),
        span(s.align_corners ? n - 1 : n) {}

  PELLUCID_INLINE T place(T c) const {
    return align ? (c + 1) / 2 * (n - 1) : ((c + 1) * n - 1) / 2;
  }
  /// The place moved into the image as the padding says; `slope` is multiplied by its derivative.
  PELLUCID_INLINE T moved(T u, T& slope) const {
    if (padding == GridPadding::Zeros) return u;
    if (padding == GridPadding::Reflection) {
      const T away = u - low, part = std::abs(away);
      const T rest = span > 0 ? part - std::floor(part / (2 * span)) * (2 * span) : T(0);
      slope *= span > 0 ? ((away < 0) != (rest > span) ? T(-1) : T(1)) : T(0);
      u = std::min(rest, 2 * span - rest) + low;
    }
    slope = u > 0 && u < n - 1 ? slope : T(0);
    return clipped(u);
  }
  PELLUCID_INLINE T clipped(T u) const {
    if (nan_to == NanTo::First) {
      const T up = u > 0 ? u : T(0);
      return up < n - 1 ? up : n - 1;
    }
    if (nan_to == NanTo::Nowhere) return std::min(std::max(u, T(0)), n - 1);
    const T down = u < n - 1 ? u : n - 1;
    return down > 0 ? down : T(0);
  }

  T n, scale;
  bool align;
  GridPadding padding;
  NanTo nan_to;
  T low, span;  // where reflection turns round: at low and low + span
};

/// The pixel at a place, if it lies inside. Places far away or not finite are outside.
template <class T> PELLUCID_INLINE int32_t pixel(T u, T n) {
  const bool inside = u >= 0 && u <= n - 1;
  return inside ? static_cast<int32_t>(u) : kOutside;
}

/// The derivative of a given order of ((c3 x + c2) x + c1) x + c0.
template <class T> PELLUCID_INLINE T cubic(T c3, T c2, T c1, T c0, T x, int order) {
  switch (order) {
    case 0:
      return ((c3 * x + c2) * x + c1) * x + c0;
    case 1:
      return (3 * c3 * x + 2 * c2) * x + c1;
    case 2:
      return 6 * c3 * x + 2 * c2;
    default:
      return order == 3 ? 6 * c3 : T(0);
  }
}

/// Keys' cubic with a = -0.75, as PyTorch's: distances up to 1, and from 1 to 2.
template <class T> PELLUCID_INLINE T near_weight(T x, int order) {
  constexpr T a = T(-0.75);
  return cubic<T>(a + 2, -(a + 3), 0, 1, x, order);
}
template <class T> PELLUCID_INLINE T far_weight(T x, int order) {
  constexpr T a = T(-0.75);
  return cubic<T>(a, -5 * a, 8 * a, -4 * a, x, order);
}

template <class T>
PELLUCID_INLINE void linear_axis(const Line<T>& line, const T* grid, int dims, int64_t n, int order,
                                 Axis<T>& out) {
  out.count = 2;
  for (int64_t p = 0; p < n; ++p) {
    T slope = line.scale;
    const T u = line.moved(line.place(grid[p * dims]), slope), low = std::floor(u), part = u - low;
    out.at[0][p] = pixel(low, line.n);
    out.at[1][p] = pixel(low + 1, line.n);
    out.weight[0][p] = order == 0 ? 1 - part : order == 1 ? -slope : T(0);
    out.weight[1][p] = order == 0 ? part : order == 1 ? slope : T(0);
  }
}

template <class T>
PELLUCID_INLINE void nearest_axis(const Line<T>& line, const T* grid, int dims, int64_t n,
                                  int order, Axis<T>& out) {
  out.count = 1;
  for (int64_t p = 0; p < n; ++p) {
    T slope = 1;
    const T u = std::nearbyint(line.moved(line.place(grid[p * dims]), slope));
    // A step has no slope, whatever the pixel holds.
    out.at[0][p] = order == 0 ? pixel(u, line.n) : kOutside;
    out.weight[0][p] = order == 0 ? T(1) : T(0);
  }
}

// The pixels are moved into the image, not the place.
template <class T>
PELLUCID_INLINE void cubic_axis(const Line<T>& line, const T* grid, int dims, int64_t n, int order,
                                Axis<T>& out) {
  out.count = 4;
  T factor = 1;
  for (int i = 0; i < order; ++i) factor *= line.scale;
  const T back = order % 2 == 0 ? factor : -factor;  // for distances that shrink as the place grows
  for (int64_t p = 0; p < n; ++p) {
    const T u = line.place(grid[p * dims]), low = std::floor(u), t = u - low;
    for (int k = 0; k < 4; ++k) {
      T ignored = 1;
      out.at[k][p] = pixel(line.moved(low + static_cast<T>(k - 1), ignored), line.n);
    }
    out.weight[0][p] = factor * far_weight(t + 1, order);
    out.weight[1][p] = factor * near_weight(t, order);
    out.weight[2][p] = back * near_weight(1 - t, order);
    out.weight[3][p] = back * far_weight(2 - t, order);
  }
}

template <class T>
PELLUCID_INLINE void fill_axis(const GridShape& s, int dim, const T* grid, int64_t n, int order,
                               bool backward, Axis<T>& out) {
  const Line<T> line(s, dim, backward);
  grid += s.dims - 1 - dim;
  if (s.mode == GridMode::Bilinear) return linear_axis(line, grid, s.dims, n, order, out);
  if (s.mode == GridMode::Nearest) return nearest_axis(line, grid, s.dims, n, order, out);
  cubic_axis(line, grid, s.dims, n, order, out);
}

/// The taps of n points, with one more derivative by the coordinate `more` unless it is negative.
template <class T>
PELLUCID_INLINE void fill_block(const GridShape& s, const T* grid, int64_t n, int more,
                                bool backward, Block<T>& out) {
  Axis<T> axes[3];
  for (int d = 0; d < s.dims; ++d) {
    const int coordinate = s.dims - 1 - d;
    fill_axis(s, d, grid, n, s.order[coordinate] + (coordinate == more ? 1 : 0), backward, axes[d]);
  }
  const int taps = axes[0].count, depth = s.dims == 3 ? taps : 1;
  const Axis<T>&rows = axes[s.dims - 2], &columns = axes[s.dims - 1];
  const auto H = static_cast<int32_t>(s.sizes[s.dims - 2]),
             W = static_cast<int32_t>(s.sizes[s.dims - 1]);
  out.count = 0;
  for (int k = 0; k < depth; ++k)
    for (int i = 0; i < taps; ++i)
      for (int j = 0; j < taps; ++j, ++out.count) {
        int32_t* const at = out.at[out.count];
        T* const weight = out.weight[out.count];
        for (int64_t p = 0; p < n; ++p) {
          const int32_t z = s.dims == 3 ? axes[0].at[k][p] : 0, y = rows.at[i][p],
                        x = columns.at[j][p];
          const T w = rows.weight[i][p] * columns.weight[j][p];
          weight[p] = s.dims == 3 ? axes[0].weight[k][p] * w : w;
          at[p] = (z | y | x) < 0 ? kOutside : (z * H + y) * W + x;
        }
      }
}

/// What one tap adds. Pixel 0 stands for those outside, so that no branch depends on the grid.
/// Images have zeros outside: a weight that is NaN, of a place that is not finite, shows. Volumes
/// end.
template <class T> PELLUCID_INLINE T tap(int32_t at, T weight, const T* x, bool image) {
  const T value = x[at < 0 ? 0 : at];
  return at >= 0 ? weight * value : image ? weight * T(0) : T(0);
}

/// sums[p] = the block's interpolation of one plane.
template <class T>
PELLUCID_INLINE void read_plane(const Block<T>& b, int64_t n, const T* x, bool image, T* sums) {
  std::fill_n(sums, n, T(0));
  int k = 0;
  for (; k + 4 <= b.count; k += 4)
    for (int64_t p = 0; p < n; ++p) {
      const T first = tap(b.at[k][p], b.weight[k][p], x, image) +
                      tap(b.at[k + 1][p], b.weight[k + 1][p], x, image),
              second = tap(b.at[k + 2][p], b.weight[k + 2][p], x, image) +
                       tap(b.at[k + 3][p], b.weight[k + 3][p], x, image);
      sums[p] += first + second;
    }
  for (; k < b.count; ++k)
    for (int64_t p = 0; p < n; ++p) sums[p] += tap(b.at[k][p], b.weight[k][p], x, image);
}

template <class T> struct Args {
  GridShape shape;
  const T *x, *grid, *g;
  T* out;
  int64_t blocks;  // of the points of one image
};

/// Points [first, last) of block b.
struct Range {
  Range(const GridShape& s, int64_t b) : first(b * kBlock), n(std::min(kBlock, s.points - first)) {}
  int64_t first, n;
};

template <class T> struct Values {
  template <Isa>
  __attribute__((always_inline)) static void run(const Args<T>& a, int64_t begin, int64_t end) {
    const GridShape& s = a.shape;
    const int64_t plane = s.plane();
    Block<T> block;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / a.blocks;
      const Range r(s, task % a.blocks);
      fill_block(s, a.grid + (image * s.points + r.first) * s.dims, r.n, -1, false, block);
      for (int64_t c = image * s.C; c < (image + 1) * s.C; ++c)
        read_plane(block, r.n, a.x + c * plane, s.dims == 2, a.out + c * s.points + r.first);
    }
  }
};

template <class T> struct Spread {
  /// Tasks are groups of channels of an image.
  template <Isa>
  __attribute__((always_inline)) static void run(const Args<T>& a, int64_t begin, int64_t end) {
    const GridShape& s = a.shape;
    const int64_t plane = s.plane(), groups = (s.C + kChannels - 1) / kChannels;
    Block<T> block;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / groups, first = image * s.C + task % groups * kChannels,
                    last = std::min(first + kChannels, (image + 1) * s.C);
      std::fill(a.out + first * plane, a.out + last * plane, T(0));
      for (int64_t b = 0; b < a.blocks; ++b) {
        const Range r(s, b);
        fill_block(s, a.grid + (image * s.points + r.first) * s.dims, r.n, -1, true, block);
        for (int64_t c = first; c < last; ++c) {
          const T* const g = a.g + c * s.points + r.first;
          T* const out = a.out + c * plane;
          for (int k = 0; k < block.count; ++k)
            for (int64_t p = 0; p < r.n; ++p)
              if (block.at[k][p] >= 0) out[block.at[k][p]] += block.weight[k][p] * g[p];
        }
      }
    }
  }
};

template <class T> struct Slopes {
  template <Isa>
  __attribute__((always_inline)) static void run(const Args<T>& a, int64_t begin, int64_t end) {
    const GridShape& s = a.shape;
    const int64_t plane = s.plane();
    Block<T> block;
    T values[kBlock], sums[kBlock];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / a.blocks;
      const Range r(s, task % a.blocks);
      const int64_t point = image * s.points + r.first;
      for (int d = 0; d < s.dims; ++d) {
        fill_block(s, a.grid + point * s.dims, r.n, d, true, block);
        std::fill_n(sums, r.n, T(0));
        for (int64_t c = image * s.C; c < (image + 1) * s.C; ++c) {
          read_plane(block, r.n, a.x + c * plane, s.dims == 2, values);
          const T* const g = a.g + c * s.points + r.first;
          for (int64_t p = 0; p < r.n; ++p) sums[p] += g[p] * values[p];
        }
        for (int64_t p = 0; p < r.n; ++p) a.out[(point + p) * s.dims + d] = sums[p];
      }
    }
  }
};

template <template <class> class Body, class T>
void run(const Args<T>& args, int64_t tasks, int64_t work_of_task) {
  const auto loop = IsaLoops<Body<T>, const Args<T>&, int64_t, int64_t>::at(isa());
  parallel_for(0, tasks, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, work_of_task)),
               [&](int64_t begin, int64_t end) { loop(args, begin, end); });
}

int64_t blocks_of(const GridShape& s) { return (s.points + kBlock - 1) / kBlock; }

}  // namespace

template <class T> void grid_values(const GridShape& s, const T* x, const T* grid, T* y) {
  run<Values, T>({s, x, grid, nullptr, y, blocks_of(s)}, s.N * blocks_of(s), kBlock * s.C);
}

template <class T> void grid_spread(const GridShape& s, const T* g, const T* grid, T* dx) {
  run<Spread, T>({s, nullptr, grid, g, dx, blocks_of(s)}, s.N * ((s.C + kChannels - 1) / kChannels),
                 s.points * kChannels);
}

template <class T>
void grid_slopes(const GridShape& s, const T* g, const T* x, const T* grid, T* dgrid) {
  run<Slopes, T>({s, x, grid, g, dgrid, blocks_of(s)}, s.N * blocks_of(s), kBlock * s.C * s.dims);
}

#define PELLUCID_INSTANTIATE(T)                                           \
  template void grid_values<T>(const GridShape&, const T*, const T*, T*); \
  template void grid_spread<T>(const GridShape&, const T*, const T*, T*); \
  template void grid_slopes<T>(const GridShape&, const T*, const T*, const T*, T*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
