// Ref: the intrusive counted pointer behind Tensor, Storage and Node, and their thread-local free
// lists.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pellucid/api.h"

namespace pellucid::detail {

/// Memory for a small counted object, from a thread-local free list.
PELLUCID_API void* pool_allocate(size_t bytes);
PELLUCID_API void pool_release(void* p, size_t bytes) noexcept;

/// The count that Ref uses. A type T adds `static void destroy(T*) noexcept`.
struct RefCounted {
  mutable std::atomic<uint32_t> refs{1};
};

/// A counted pointer to T.
template <class T> class Ref {
 public:
  constexpr Ref() = default;
  constexpr Ref(std::nullptr_t) {}
  /// Takes over a reference that the caller holds.
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  /// Adds a reference to a live object.
  static Ref share(T* p) {
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
    return adopt(p);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(Ref<U> o) : p_(o.release()) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { drop(p_); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* release() { return std::exchange(p_, nullptr); }
  void reset() { drop(std::exchange(p_, nullptr)); }
  uint32_t use_count() const { return p_ ? p_->refs.load(std::memory_order_relaxed) : 0; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  static void drop(T* p) noexcept {
    if (!p) return;
    bool sole = p->refs.load(std::memory_order_acquire) == 1;
    if constexpr (requires { p->weakly_held; }) sole = sole && !p->weakly_held;
    if (sole) {  // nobody else can reach the object: no atomic decrement is needed
      T::destroy(p);
      return;
    }
    if (p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(p);
  }
  T* p_ = nullptr;
};

}  // namespace pellucid::detail
