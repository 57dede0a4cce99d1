// InlineVec: a growing array whose first N elements need no heap; for the tape's short lists.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "pellucid/array_ref.h"

namespace pellucid::detail {

/// Append-only; elements never move once the final size was reserved. Neither copied nor moved
/// itself.
template <class T, size_t N> class InlineVec {
 public:
  InlineVec() = default;
  InlineVec(const InlineVec&) = delete;
  ~InlineVec() {
    clear();
    if (data_ != inline_data()) ::operator delete(data_);
  }
  void reserve(size_t n) {
    if (n <= capacity_) return;
    T* grown = static_cast<T*>(::operator new(n * sizeof(T)));
    for (size_t i = 0; i < size_; ++i) {
      new (grown + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (data_ != inline_data()) ::operator delete(data_);
    data_ = grown;
    capacity_ = n;
  }
  template <class... Args> T& emplace_back(Args&&... args) {
    if (size_ == capacity_) reserve(size_ * 2);
    T& added = *new (data_ + size_) T(std::forward<Args>(args)...);
    ++size_;  // only now: an element whose constructor threw is none
    return added;
  }
  /// Room for n more elements, which the caller sets: for plain values.
  T* append(size_t n) requires std::is_trivially_copyable_v<T> {
    if (size_ + n > capacity_) reserve(size_ + n > size_ * 2 ? size_ + n : size_ * 2);
    T* const added = data_ + size_;
    size_ += n;
    return added;
  }
  void resize(size_t n) {
    reserve(n);
    while (size_ < n) emplace_back();
  }
  void clear() {
    while (size_ > 0) data_[--size_].~T();
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  ArrayRef<T> ref() const { return {data_, size_}; }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  alignas(T) unsigned char inline_[N * sizeof(T)];
  T* data_ = inline_data();
  size_t size_ = 0;
  size_t capacity_ = N;
};

}  // namespace pellucid::detail
