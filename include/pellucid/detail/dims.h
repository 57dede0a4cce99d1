// Dims: the sizes or strides of a tensor, inline up to six dimensions.
#pragma once

#include <cstdint>
#include <cstring>

#include "pellucid/array_ref.h"

namespace pellucid {

/// A short list of int64; no heap up to kInline entries.
class Dims {
 public:
  static constexpr size_t kInline = 6;
  Dims() = default;
  Dims(IntArrayRef v) { assign(v); }
  Dims(std::initializer_list<int64_t> v) { assign(v); }
  Dims(size_t n, int64_t value) { resize(n, value); }
  Dims(const Dims& o) { assign(o); }
  Dims(Dims&& o) noexcept : size_(o.size_), capacity_(o.capacity_) { steal(o); }
  Dims& operator=(const Dims& o) {
    if (this != &o) assign(o);
    return *this;
  }
  Dims& operator=(Dims&& o) noexcept {
    if (this != &o) {
      free_heap();
      size_ = o.size_;
      capacity_ = o.capacity_;
      steal(o);
    }
    return *this;
  }
  ~Dims() { free_heap(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return capacity_ ? heap_ : inline_; }
  const int64_t* data() const { return capacity_ ? heap_ : inline_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  const int64_t& operator[](size_t i) const { return data()[i]; }
  int64_t& back() { return data()[size_ - 1]; }
  const int64_t& back() const { return data()[size_ - 1]; }
  operator IntArrayRef() const { return {data(), size_}; }
  IntArrayRef ref() const { return {data(), size_}; }
  void assign(IntArrayRef v) {
    if (!(v.data() == data())) {
      reserve(v.size());
      int64_t* const to = data();
      for (size_t i = 0; i < v.size(); ++i) to[i] = v.data()[i];
    }
    size_ = static_cast<uint32_t>(v.size());
  }
  void resize(size_t n, int64_t value = 0) {
    reserve(n);
    for (size_t i = size_; i < n; ++i) data()[i] = value;
    size_ = static_cast<uint32_t>(n);
  }
  void push_back(int64_t v) { resize(size_ + 1, v); }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void insert(size_t at, int64_t v) {
    push_back(v);
    for (size_t i = size_ - 1; i > at; --i) data()[i] = data()[i - 1];
    data()[at] = v;
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data()[i] = data()[i + 1];
    --size_;
  }
  friend bool operator==(const Dims& a, const Dims& b) { return a.ref() == b.ref(); }
  friend bool operator==(const Dims& a, IntArrayRef b) { return a.ref() == b; }

 private:
  void reserve(size_t n) {
    if (n <= (capacity_ ? capacity_ : kInline)) return;
    const size_t wanted = n * 2;
    int64_t* p = new int64_t[wanted];
    std::memcpy(p, data(), size_ * sizeof(int64_t));
    free_heap();
    heap_ = p;
    capacity_ = static_cast<uint32_t>(wanted);
  }
  void free_heap() {
    if (capacity_) delete[] heap_;
    capacity_ = 0;
  }
  void steal(Dims& o) {
    if (capacity_)
      heap_ = o.heap_;
    else
      for (size_t i = 0; i < size_; ++i) inline_[i] = o.inline_[i];
    o.size_ = 0;
    o.capacity_ = 0;
  }
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;  // 0 while inline
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

}  // namespace pellucid

template <> struct fmt::formatter<pellucid::Dims> : fmt::formatter<pellucid::IntArrayRef> {
  auto format(const pellucid::Dims& v, format_context& ctx) const {
    return fmt::formatter<pellucid::IntArrayRef>::format(v.ref(), ctx);
  }
};
