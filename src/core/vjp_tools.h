// What a vjp may do besides calling ops, so that backward moves fewer bytes. Both do nothing unless
// the engine is the only one who can see the tensor concerned: hooks, retain_grad, create_graph and
// anomaly mode find what they would find without.
#pragma once

#include <functional>

#include "pellucid/tensor.h"

namespace pellucid::tape {

/// The vjp's gradient, read for the last time: a pointwise op that is called with it next may write
/// its result into the same memory. `threshold_backward(last_use(v.grad), v.out(), 0)`.
const Tensor& last_use(const Tensor& grad);

/// Hands the sum of gradients that input `i` of the running node has got so far to `add`, which
/// adds its part in place; the vjp then returns an undefined gradient for that input. Returns false
/// where there is no sum yet, or where others could see it.
bool add_to_gradient(size_t i, const std::function<void(const Tensor& sum)>& add);

}  // namespace pellucid::tape
