// One number from the lanes of a sum or a maximum, by adding the upper half to the lower again and
// again: the same bits at every ISA level. The loops have constant ends, so that they become vector
// instructions.
#pragma once

namespace pellucid::kernels {

/// The sum of 2 Width lanes, which are overwritten.
template <int Width, class T> [[gnu::always_inline]] inline T sum_halves(T* lane) {
  for (int l = 0; l < Width; ++l) lane[l] += lane[l + Width];
  if constexpr (Width > 1)
    return sum_halves<Width / 2>(lane);
  else
    return lane[0];
}

/// The largest of 2 Width lanes, which are overwritten; of NaN and a number, the number.
template <int Width, class T> [[gnu::always_inline]] inline T max_halves(T* lane) {
  for (int l = 0; l < Width; ++l) lane[l] = lane[l + Width] > lane[l] ? lane[l + Width] : lane[l];
  if constexpr (Width > 1)
    return max_halves<Width / 2>(lane);
  else
    return lane[0];
}

}  // namespace pellucid::kernels
