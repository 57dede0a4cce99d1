// What windowed and adaptive pooling share: sizes, the layout in which a call runs, and 16-bit
// floats as float.
#pragma once

#include <atomic>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/pool.h"
#include "ops/conv.h"

namespace pellucid {

/// [N, C, spatial…] of a pooled tensor with n spatial dimensions, which may lack N; a missing H
/// is 1.
struct PoolSizes {
  PoolSizes(const Call& c, size_t spatial, IntArrayRef sizes)
      : n(spatial), batched(sizes.size() == spatial + 2) {
    PELLUCID_CHECK(batched || sizes.size() == n + 1, ShapeError,
                   "{}: {} are needed, found sizes {}.", c.name(),
                   n == 1 ? "[N, C, L] or [C, L]" : "[N, C, H, W] or [C, H, W]", sizes);
    const size_t first = batched ? 2 : 1;
    N = batched ? sizes[0] : 1, C = sizes[first - 1], H = n == 2 ? sizes[first] : 1,
    W = sizes.back();
    // Without a batch the channels must not be empty either, as in PyTorch.
    for (size_t i = batched ? first : 0; i < sizes.size(); ++i)
      PELLUCID_CHECK(
          sizes[i] > 0 && sizes[i] < (int64_t{1} << 31), ShapeError,
          "{}: the pooled dimensions must not be empty (and below 2^31), found sizes {}.", c.name(),
          sizes);
  }
  /// The sizes of the result.
  Dims with(int64_t OH, int64_t OW) const {
    Dims out;
    if (batched) out.push_back(N);
    out.push_back(C);
    if (n == 2) out.push_back(OH);
    out.push_back(OW);
    return out;
  }
  size_t n;
  bool batched;
  int64_t N, C, H, W;
};

/// The layout of a call whose layout `like` decides: channels-last stays, everything else runs
/// row-major.
inline kernels::PoolLayout pool_layout(const Tensor& like, const PoolSizes& s) {
  return s.batched && !like.impl().is_contiguous() && in_channels_last_order(like)
             ? kernels::PoolLayout::NHWC
             : kernels::PoolLayout::NCHW;
}

/// Adds an output in that layout. Channels-last is hidden as far as that of `like` is; for 1-D
/// always.
inline void make_pool_output(Call& c, IntArrayRef sizes, DType dtype, kernels::PoolLayout layout,
                             const Tensor& like) {
  if (layout == kernels::PoolLayout::NCHW)
    c.make_output(sizes, dtype);
  else
    c.make_output(sizes, detail::channels_last_strides(sizes), dtype,
                  sizes.size() == 3 || like.impl().hidden_layout);
}

/// The values of t in that layout, without gaps; 16-bit floats as float.
inline Tensor in_layout(const Tensor& t, kernels::PoolLayout layout) {
  const MemoryCategoryGuard category(MemoryCategory::Temporary);  // gone when the kernel is done
  const Tensor wide = widened(t);
  if (layout == kernels::PoolLayout::NCHW) return contiguous_values(wide);
  return in_channels_last_order(wide) ? wide : _channels_last(wide);
}

/// What a pool's kernel takes for itself: its tensors in the layout of the result.
inline int64_t pool_scratch(const Call& c) {
  const bool channels_last = !c.out().impl().is_contiguous() && in_channels_last_order(c.out());
  int64_t bytes = wide_bytes(c.out());
  for (size_t i = 0; i < c.input_count(); ++i) bytes += copy_bytes(c.in(i), channels_last);
  return bytes;
}

/// Calls kernel(T{}, out) with T float or double; a 16-bit result is converted from float.
template <class F> void run_pool(const Tensor& out, F&& kernel) {
  if (out.dtype() == kFloat64) return kernel(double{}, out);
  if (out.dtype() == kFloat32) return kernel(float{}, out);
  const Tensor wide = empty_strided(out.sizes(), out.raw_strides(), kFloat32);
  kernel(float{}, wide);
  if (out.numel())
    kernels::copy_strided(out.sizes(), out.raw_data(), out.dtype(), out.raw_strides().data(),
                          wide.raw_data(), wide.dtype(), wide.raw_strides().data());
}

/// Throws IndexError unless all positions lie in an image of H x W.
inline void check_positions(const Call& c, const Tensor& indices, const PoolSizes& s) {
  const auto limit = static_cast<uint64_t>(s.H * s.W);
  const int64_t* const at = indices.raw<int64_t>();
  std::atomic<bool> inside{true};
  parallel_for(0, indices.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    bool outside = false;
    for (int64_t i = begin; i < end; ++i) outside |= static_cast<uint64_t>(at[i]) >= limit;
    if (outside) inside.store(false, std::memory_order_relaxed);
  });
  PELLUCID_CHECK(inside.load(), IndexError, "{}: an index is out of range for an image of {} x {}.",
                 c.name(), s.H, s.W);
}

/// The values of an image-like t at the positions h * W + w of `indices`: what max pooling reads.
inline Tensor at_positions(const Tensor& t, const Tensor& indices, size_t n) {
  if (n == 1) return t.gather(-1, indices);
  return t.flatten(-2).gather(-1, indices.flatten(-2)).view(indices.sizes());
}

}  // namespace pellucid
