// The tensors inside arguments and results of compiled functions: in lists, tuples, pairs, maps and
// optionals of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "pellucid/tensor.h"

namespace pellucid::detail {

template <class T>
concept TupleLike = requires {
  std::tuple_size<std::remove_cvref_t<T>>::value;
};
template <class T>
concept RangeLike = requires(T& t) {
  {*t.begin()};
  t.end();
  requires !std::is_same_v<std::remove_cvref_t<decltype(*t.begin())>, std::remove_cv_t<T>>;
};

/// Calls f with each tensor in a value, in order.
template <class T, class F> void visit_tensors(T& value, const F& f) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, Tensor>) {
    f(value);
  } else if constexpr (std::is_base_of_v<Tensor, Plain>) {
    f(static_cast<std::conditional_t<std::is_const_v<T>, const Tensor, Tensor>&>(value));
  } else if constexpr (std::is_arithmetic_v<Plain> || std::is_pointer_v<Plain> ||
                       std::is_convertible_v<const Plain&, std::string_view>) {
    // no tensors
  } else if constexpr (TupleLike<Plain>) {
    std::apply([&](auto&... parts) { (visit_tensors(parts, f), ...); }, value);
  } else if constexpr (RangeLike<T>) {
    for (auto&& part : value) visit_tensors(part, f);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value.has_value()) visit_tensors(*value, f);
  }
}

/// The elements of all tensors in an argument.
template <class T> int64_t elements_in(const T& argument) {
  int64_t n = 0;
  visit_tensors(argument, [&](const Tensor& t) { n += t.defined() ? t.numel() : 0; });
  return n;
}

/// Adds the tensors of an argument, or a hash of an argument that has none and can be hashed.
template <class T>
void split_argument(const T& argument, std::vector<Tensor>& tensors,
                    std::vector<uint64_t>& others) {
  const size_t before = tensors.size();
  visit_tensors(argument, [&](const Tensor& t) { tensors.push_back(t); });
  if (tensors.size() != before) return;
  if constexpr (requires { std::hash<T>{}(argument); })
    others.push_back(std::hash<T>{}(argument));
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    others.push_back(std::hash<std::string_view>{}(std::string_view(argument)));
}

}  // namespace pellucid::detail
