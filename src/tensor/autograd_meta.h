// What a tensor carries once gradients are involved. Owned by its TensorImpl.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/autograd.h"

namespace pellucid::detail {

struct AutogradMeta {
  bool requires_grad = false;  ///< set by the program, on a leaf
  bool retains_grad = false;
  uint32_t output_nr = 0;
  uint32_t grad_fn_version =
      0;  ///< of the storage, when grad_fn was set; a view's grad_fn is made anew when it differs
  Ref<autograd::Node> grad_fn;
  Tensor grad;
  autograd::AccumulateGrad* accumulator =
      nullptr;  ///< not owned: it owns the tensor; guarded by leaf_lock
  std::vector<std::pair<unsigned, std::function<Tensor(Tensor)>>> hooks;  ///< of a leaf
  std::string name;
};

/// The meta of a tensor, made if there was none.
AutogradMeta& meta_of(const Tensor& t);
/// A mutex that costs one exchange and one store while nobody else wants it.
class LeafLock {
 public:
  void lock() {
    while (held_.test_and_set(std::memory_order_acquire)) held_.wait(true);
  }
  void unlock() {
    held_.clear(std::memory_order_release);
    held_.notify_one();
  }

 private:
  std::atomic_flag held_;
};
/// Guards the accumulator pointer and the gradient of a leaf (one of a fixed set, by address).
LeafLock& leaf_lock(const TensorImpl* leaf);

}  // namespace pellucid::detail
