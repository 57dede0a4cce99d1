// What a tensor carries once gradients are involved. Owned by its TensorImpl.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/small_lock.h"
#include "pellucid/autograd.h"

namespace pellucid::detail {

class GradKeeper;

struct AutogradMeta {
  bool requires_grad = false;  ///< set by the program, on a leaf
  uint32_t output_nr = 0;
  uint32_t grad_fn_version =
      0;  ///< of the storage, when grad_fn was set; a view's grad_fn is made anew when it differs
  Ref<autograd::Node> grad_fn;
  Tensor grad;
  autograd::AccumulateGrad* accumulator =
      nullptr;  ///< not owned: it owns the tensor; guarded by leaf_lock
  std::vector<std::pair<unsigned, std::function<Tensor(Tensor)>>>
      hooks;                         ///< of a leaf; guarded by leaf_lock
  std::atomic<bool> hooked = false;  ///< there are some
  std::string name;
  std::shared_ptr<GradKeeper> keeper;  ///< of a tensor that is no leaf and retains its gradient

  AutogradMeta() = default;
  AutogradMeta(const AutogradMeta&) = delete;
  ~AutogradMeta();
};

/// The meta of a tensor, made if there was none.
AutogradMeta& meta_of(const Tensor& t);
/// The meta of a tensor, or null. Another thread may be making it: a view of a tensor that got a
/// history later gets its own when it is first asked for.
inline AutogradMeta* meta_if(const TensorImpl& t) {
  return std::atomic_ref<AutogradMeta*>(const_cast<TensorImpl&>(t).meta)
      .load(std::memory_order_acquire);
}
/// Where a tensor that is no leaf receives its gradient. Held by the tensor and by the node that
/// made it: either may go first, on any thread.
class GradKeeper {
 public:
  GradKeeper(AutogradMeta& meta, SmallLock& grad_lock) : meta_(&meta), grad_lock_(grad_lock) {}
  void receive(Tensor grad) {
    const std::lock_guard lock(lock_);
    if (meta_ == nullptr) return;
    const std::lock_guard grad_lock(grad_lock_);
    std::swap(meta_->grad, grad);
  }
  void forget() {
    const std::lock_guard lock(lock_);
    meta_ = nullptr;
  }

 private:
  SmallLock lock_;
  AutogradMeta* meta_;
  SmallLock& grad_lock_;  ///< of the tensor
};

inline AutogradMeta::~AutogradMeta() {
  if (keeper) keeper->forget();
}

/// Guards the accumulator pointer of a leaf, the history of a view whose base has one, and the
/// gradient of either (one of a fixed set, by address). Whoever holds one takes no other.
PELLUCID_API SmallLock& leaf_lock(const TensorImpl* leaf);

}  // namespace pellucid::detail
