#include "core/autograd_meta.h"

#include <array>

#include "tensor/history.h"

namespace pellucid::detail {

AutogradMeta& meta_of(const Tensor& t) {
  const std::atomic_ref<AutogradMeta*> meta(t.impl().meta);
  if (AutogradMeta* there = meta.load(std::memory_order_acquire)) return *there;
  auto* made = new (pool_allocate(sizeof(AutogradMeta))) AutogradMeta;
  AutogradMeta* first = nullptr;
  if (meta.compare_exchange_strong(first, made, std::memory_order_acq_rel)) return *made;
  release_meta(made);  // another thread was quicker
  return *first;
}

SmallLock& leaf_lock(const TensorImpl* leaf) {
  static constinit std::array<SmallLock, 64> locks;
  return locks[(reinterpret_cast<uintptr_t>(leaf) >> 6) % locks.size()];
}

void release_meta(AutogradMeta* meta) noexcept {
  meta->~AutogradMeta();
  pool_release(meta, sizeof(AutogradMeta));
}

std::string grad_fn_name(const Tensor& t) {
  const auto node = t.grad_fn();
  if (!node) return {};
  const std::string name = node->name();
  const size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

}  // namespace pellucid::detail
