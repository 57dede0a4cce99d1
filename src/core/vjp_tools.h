// What a vjp may do besides calling ops, so that backward moves fewer bytes. Both do nothing unless
// the engine is the only one who can see the tensor concerned: hooks, retain_grad, create_graph and
// anomaly mode find what they would find without.
#pragma once

#include <functional>

#include "pellucid/op.h"

namespace pellucid::tape {

/// An argument that marks a gradient as read for the last time: the one call that gets it may write
/// its result into the same memory. The mark is a handle of its own, so other calls with the same
/// gradient, before or inside that call, do not see it; whoever does not execute ignores it.
class LastUse {
 public:
  explicit LastUse(const Tensor& grad);
  ~LastUse();
  LastUse(const LastUse&) = delete;
  operator const Tensor&() const { return tensor_; }
  const Tensor& tensor() const { return tensor_; }
  /// How many handles of the tensor the mark and its vjp hold.
  static constexpr uint32_t kHandles = 2;

 private:
  friend const LastUse* claim_last_use(Inputs inputs);
  const Tensor tensor_;
  LastUse* const outer_;
  bool claimed_ = false;
};

/// `threshold_backward(last_use(v.grad), v.out(), 0)`.
inline LastUse last_use(const Tensor& grad) { return LastUse(grad); }

/// Hands the sum of gradients that input `i` of the running node has got so far to `add`, which
/// adds its part in place; the vjp then returns an undefined gradient for that input. Returns false
/// where there is no sum yet, or where others could see it.
bool add_to_gradient(size_t i, const std::function<void(const Tensor& sum)>& add);

}  // namespace pellucid::tape
