// Tensors of waves, and modules whose parameters are waves: inputs that need no random numbers.
#pragma once

#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/torch.h"

namespace pellucid::nn_tests {

/// sin(0.7 i + phase) for element i, in float64.
inline Tensor wave(IntArrayRef sizes, double phase) {
  int64_t count = 1;
  for (const int64_t s : sizes) count *= s;
  return sin(arange(count, kFloat64) * 0.7 + phase).reshape(sizes);
}
/// A wave that gets a gradient.
inline Tensor leaf(IntArrayRef sizes, double phase) { return wave(sizes, phase).requires_grad_(); }

/// Parameter k becomes half a wave of phase k.
inline void fill_parameters(nn::Module& module) {
  module.to(kFloat64);
  const NoGradGuard off;
  double phase = 0;
  for (const Tensor& p : module.parameters()) p.copy_(wave(p.sizes(), phase++) * 0.5);
}

}  // namespace pellucid::nn_tests
