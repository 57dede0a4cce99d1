// Rotation of neighbouring pairs by angles that depend on the position.
#pragma once

#include <cstdint>

namespace pellucid::kernels {

/// x is [B, L, H, D] with these strides (in elements) and D side by side.
struct RotaryShape {
  int64_t B = 0, L = 0, H = 0, D = 0;
  int64_t batch_stride = 0, position_stride = 0, head_stride = 0;
};

/// y [B, L, H, D], row-major: (x0 c - x1 s, x0 s + x1 c) for each pair, with c and s from the
/// position's rows of cos and sin [L, D / 2].
template <class T>
void rotary(const RotaryShape& shape, const T* x, const T* cos, const T* sin, T* y);

}  // namespace pellucid::kernels
