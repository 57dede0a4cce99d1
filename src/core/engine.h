// The backward engine: walks the tape from the newest node to the oldest.
#pragma once

#include <algorithm>

#include "pellucid/autograd.h"

namespace pellucid::autograd {

/// Whether the backward run of this thread wants the gradient that would go along `edge`.
bool edge_needed(const Edge& edge);

/// Makes this thread's run want the gradient along `edge`, which it cannot see: a node inside
/// another one has it.
void want_gradient(const Edge& edge);

/// Makes `grad`, which `node` computed for its input `i`, what that input takes: what broadcasting
/// added is summed, the dtype is converted. Throws ShapeError where the sizes do not fit.
void fit_gradient(const Node& node, size_t i, Tensor& grad, const TensorFacts& wanted);

/// Takes the hook `id` out of a list. What a hook holds may take locks when it ends, so it is
/// handed to the caller, who drops it behind his own.
template <class Id, class Hook>
std::pair<Id, Hook> take_hook(std::vector<std::pair<Id, Hook>>& list, Id id) {
  std::pair<Id, Hook> out;
  const auto place =
      std::find_if(list.begin(), list.end(), [id](const auto& h) { return h.first == id; });
  if (place != list.end()) {
    out = std::move(*place);
    list.erase(place);
  }
  return out;
}

/// Whether calls are tracked on this thread: gradients are on, and it is not in inference mode.
bool tracks();

/// Names the innermost backward run of this thread; null outside of one.
const void* current_run();

/// A reference to a node that somebody finds without owning it (Node::weakly_held), or null: its
/// last reference may be going on another thread, so one is taken only while some are left.
template <class N> detail::Ref<N> share_if_alive(N* node) {
  uint32_t n = node->refs.load(std::memory_order_relaxed);
  while (n != 0 && !node->refs.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {}
  return n != 0 ? detail::Ref<N>::adopt(node) : detail::Ref<N>();
}

/// Holds a node's lock for a scope.
class InUse {
 public:
  explicit InUse(const Node& node) : lock_(node.in_use_), taken_(lock_.lock()) {}
  ~InUse() {
    if (taken_) lock_.unlock();
  }
  InUse(const InUse&) = delete;

 private:
  NodeLock& lock_;
  bool taken_;
};

}  // namespace pellucid::autograd
