// What convolution and pooling share: the order of channels in memory, and lists of one int per
// spatial dimension.
#pragma once

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {

/// Whether [N, C, …] with one to three more dims lies in memory with the channels innermost and no
/// gaps.
inline bool in_channels_last_order(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  const size_t n = impl.sizes.size();
  if (n < 3 || n > 5) return false;
  if (impl.numel == 0) return true;
  int64_t step = 1;
  const auto dense = [&](size_t d) {
    if (impl.sizes[d] == 1) return true;
    const bool fits = impl.strides[d] == step;
    step *= impl.sizes[d];
    return fits;
  };
  if (!dense(1)) return false;
  for (size_t d = n - 1; d >= 2; --d)
    if (!dense(d)) return false;
  return dense(0);
}

/// Whether the program itself chose channels-last for t, so that a result must show it too.
inline bool shows_channels_last(const Tensor& t) {
  const detail::TensorImpl& impl = t.impl();
  return impl.sizes.size() == 4 && !impl.hidden_layout && !impl.is_contiguous() &&
         in_channels_last_order(t);
}

/// A 16-bit float tensor as float32, any other as it is.
inline Tensor widened(const Tensor& t) {
  return t.dtype() == kFloat16 || t.dtype() == kBFloat16 ? t.to(kFloat32) : t;
}

/// Bytes of a 16-bit float tensor as float32, 0 of any other.
inline int64_t wide_bytes(const Tensor& t) {
  return t.dtype() == kFloat16 || t.dtype() == kBFloat16 ? 4 * t.numel() : 0;
}
/// Bytes of the copies that a kernel makes of an input to have it wide and in its layout.
inline int64_t copy_bytes(const Tensor& t, bool channels_last) {
  if (!t.defined()) return 0;
  const bool ordered = channels_last ? in_channels_last_order(t) : t.impl().is_contiguous();
  const int64_t wide = wide_bytes(t), own = static_cast<int64_t>(t.nbytes());
  return wide + (ordered ? 0 : wide > 0 ? wide : own);
}

/// The list with one int for each of n spatial dimensions; a single int stands for all.
inline Dims per_dim(std::string_view op, std::string_view argument, IntArrayRef values, size_t n) {
  // Sizes derived from these must not overflow.
  constexpr int64_t kLargest = int64_t{1} << 31;
  PELLUCID_CHECK(values.size() == n || values.size() == 1, ValueError,
                 "{}: '{}' must be one int or {}, found {}.", op, argument, n, values);
  for (const int64_t v : values)
    PELLUCID_CHECK(v < kLargest, ValueError, "{}: '{}' must be below 2^31, found {}.", op, argument,
                   values);
  return values.size() == n ? Dims(values) : Dims(n, values[0]);
}

}  // namespace pellucid
