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
#include <type_traits>
#include <utility>
#include <vector>

#include "pellucid/api.h"
#include "pellucid/detail/argument_kinds.h"
#include "pellucid/error.h"

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
  /// One value. Where T is an integer only an integer is one: neither 1.5 nor true is a dim.
  constexpr ArrayRef(const T& one) requires(!std::is_integral_v<T>) : data_(&one), size_(1) {}
  template <std::same_as<T> U>
  requires std::is_integral_v<T>
  constexpr ArrayRef(const U& one) : data_(&one), size_(1) {}
  /// `value` holds the converted number until the end of the caller's statement.
  template <detail::IntegerLike U>
  requires(std::is_integral_v<T> && !std::same_as<T, U>) constexpr ArrayRef(const U& one,
                                                                            T&& value = T())
      : data_(&(value = static_cast<T>(one))), size_(1) {}
  ArrayRef(const std::vector<T>& v) : data_(v.data()), size_(v.size()) {}
  template <size_t N> constexpr ArrayRef(const std::array<T, N>& a) : data_(a.data()), size_(N) {}
  template <size_t N> constexpr ArrayRef(const T (&a)[N]) : data_(a), size_(N) {}
  constexpr ArrayRef(std::span<const T> s) : data_(s.data()), size_(s.size()) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  constexpr ArrayRef(std::initializer_list<T> l) : data_(l.begin()), size_(l.size()) {}
#pragma GCC diagnostic pop
  /// What would dangle at once.
  template <class U>
  requires(std::same_as<U, T> || std::same_as<U, std::vector<T>>) ArrayRef& operator=(U&&) = delete;
  template <std::convertible_to<T> U> ArrayRef& operator=(std::initializer_list<U>) = delete;

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  constexpr const T& at(size_t i) const {
    PELLUCID_CHECK(i < size_, IndexError, "ArrayRef: index {} is out of range for {} values.", i,
                   size_);
    return data_[i];
  }
  constexpr const T& front() const {
    PELLUCID_CHECK(size_ > 0, IndexError, "ArrayRef: front() of an empty list.");
    return data_[0];
  }
  constexpr const T& back() const {
    PELLUCID_CHECK(size_ > 0, IndexError, "ArrayRef: back() of an empty list.");
    return data_[size_ - 1];
  }
  constexpr ArrayRef slice(size_t start, size_t count) const {
    PELLUCID_CHECK(start <= size_ && count <= size_ - start, IndexError,
                   "ArrayRef: slice of {} values from {} on is out of range for {} values.", count,
                   start, size_);
    return {data_ + start, count};
  }
  constexpr ArrayRef slice(size_t start) const {
    PELLUCID_CHECK(start <= size_, IndexError,
                   "ArrayRef: slice from {} on is out of range for {} values.", start, size_);
    return {data_ + start, size_ - start};
  }
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
  template <std::same_as<int64_t> U>
  constexpr OptionalIntArrayRef(const U& one) : ref_(one), has_(true) {}
  template <detail::IntegerLike U>
  requires(!std::same_as<U, int64_t>) constexpr OptionalIntArrayRef(const U& one,
                                                                    int64_t&& value = 0)
      : ref_(one, std::move(value)), has_(true) {}
  OptionalIntArrayRef(const std::vector<int64_t>& v) : ref_(v), has_(true) {}
  constexpr OptionalIntArrayRef(std::initializer_list<int64_t> l) : ref_(l), has_(true) {}
  constexpr bool has_value() const { return has_; }
  constexpr explicit operator bool() const { return has_; }
  constexpr IntArrayRef value() const {
    PELLUCID_CHECK(has_, ValueError, "OptionalIntArrayRef: value() of an absent list.");
    return ref_;
  }
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
  requires(std::convertible_to<const T&, std::string_view> &&
           !std::is_null_pointer_v<T>) constexpr TextArg(const T& text)
      : text_(text) {}
  constexpr operator std::string_view() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace pellucid

template <> struct fmt::formatter<pellucid::IntArrayRef> : pellucid::detail::TextFormatter {
  auto format(pellucid::IntArrayRef v, format_context& ctx) const {
    return write(pellucid::to_string(v), ctx);
  }
};
