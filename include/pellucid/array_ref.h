// ArrayRef: a borrowed, read-only run of values, as in c10. It never owns.
#pragma once

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"

namespace pellucid {

/// A borrowed, read-only run of T; the owner must outlive it.
template <class T> class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T*;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* first, const T* last)
      : data_(first), size_(static_cast<size_t>(last - first)) {}
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  ArrayRef(const std::vector<T>& v) : data_(v.data()), size_(v.size()) {}
  template <size_t N> constexpr ArrayRef(const std::array<T, N>& a) : data_(a.data()), size_(N) {}
  template <size_t N> constexpr ArrayRef(const T (&a)[N]) : data_(a), size_(N) {}
  constexpr ArrayRef(std::span<const T> s) : data_(s.data()), size_(s.size()) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  constexpr ArrayRef(std::initializer_list<T> l) : data_(l.begin()), size_(l.size()) {}
#pragma GCC diagnostic pop

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  constexpr const T& at(size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  constexpr ArrayRef slice(size_t start, size_t count) const { return {data_ + start, count}; }
  constexpr ArrayRef slice(size_t start) const { return {data_ + start, size_ - start}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  constexpr bool equals(ArrayRef o) const {
    if (size_ != o.size_) return false;
    for (size_t i = 0; i < size_; ++i)
      if (!(data_[i] == o.data_[i])) return false;
    return true;
  }
  friend constexpr bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

using IntArrayRef = ArrayRef<int64_t>;

/// An IntArrayRef that may be absent; converts from a single int, a list or nullopt.
class OptionalIntArrayRef {
 public:
  constexpr OptionalIntArrayRef() = default;
  constexpr OptionalIntArrayRef(std::nullopt_t) {}
  constexpr OptionalIntArrayRef(IntArrayRef r) : ref_(r), has_(true) {}
  constexpr OptionalIntArrayRef(const int64_t& one) : ref_(one), has_(true) {}
  OptionalIntArrayRef(const std::vector<int64_t>& v) : ref_(v), has_(true) {}
  constexpr OptionalIntArrayRef(std::initializer_list<int64_t> l) : ref_(l), has_(true) {}
  constexpr bool has_value() const { return has_; }
  constexpr explicit operator bool() const { return has_; }
  constexpr IntArrayRef value() const { return ref_; }
  constexpr IntArrayRef operator*() const { return ref_; }
  constexpr const IntArrayRef* operator->() const { return &ref_; }

 private:
  IntArrayRef ref_;
  bool has_ = false;
};

/// "[2, 3]", as PyTorch prints sizes.
PELLUCID_API std::string to_string(IntArrayRef values);

/// A text as an argument. Unlike std::string_view it is not made from 0 or {0, 1}, so that
/// conv2d(x, w, b, 1, 0) and conv2d(x, w, b, 1, {0, 1}) mean numbers.
class TextArg {
 public:
  template <class T>
  requires std::convertible_to<const T&, std::string_view>
  constexpr TextArg(const T& text) : text_(text) {}
  constexpr operator std::string_view() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace pellucid

template <> struct fmt::formatter<pellucid::IntArrayRef> : fmt::formatter<std::string_view> {
  auto format(pellucid::IntArrayRef v, format_context& ctx) const {
    return fmt::formatter<std::string_view>::format(pellucid::to_string(v), ctx);
  }
};
