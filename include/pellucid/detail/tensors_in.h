// The tensors inside arguments and results of compiled functions: in lists, tuples, pairs, maps and
// optionals of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
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

template <class T>
concept ExampleLike = requires(T& t) {  // data::Example
  typename T::DataType;
  t.data;
};

/// Calls f with each tensor in a value, in order, and g with each part that has none.
template <class T, class F, class G> void visit_parts(T& value, const F& f, const G& g) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, Tensor>) {
    f(value);
  } else if constexpr (std::is_base_of_v<Tensor, Plain>) {
    f(static_cast<std::conditional_t<std::is_const_v<T>, const Tensor, Tensor>&>(value));
  } else if constexpr (TupleLike<Plain>) {
    std::apply([&](auto&... parts) { (visit_parts(parts, f, g), ...); }, value);
  } else if constexpr (RangeLike<T> && !std::is_convertible_v<const Plain&, std::string_view>) {
    uint64_t count = 0;
    for (auto&& part : value) {
      visit_parts(part, f, g);
      ++count;
    }
    g(count);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    g(value.has_value());
    if (value.has_value()) visit_parts(*value, f, g);
  } else if constexpr (ExampleLike<Plain>) {
    visit_parts(value.data, f, g);
    if constexpr (requires { value.target; }) visit_parts(value.target, f, g);
  } else {
    g(value);
  }
}

/// Calls f with each tensor in a value, in order.
template <class T, class F> void visit_tensors(T& value, const F& f) {
  visit_parts(value, f, [](const auto&) {});
}

template <class T> constexpr bool parts_can_be_split();
/// Whether all tensors in a value are found by visit_tensors, or it can be told from others of its
/// type. What a class of the program's own holds is not known.
template <class T> constexpr bool can_be_split = parts_can_be_split<std::remove_cvref_t<T>>();

template <class T> constexpr bool parts_can_be_split() {
  if constexpr ((!std::is_class_v<T> && !std::is_union_v<T>) || std::is_base_of_v<Tensor, T> ||
                std::is_convertible_v<std::add_lvalue_reference_t<const T>, std::string_view>)
    return true;
  else if constexpr (TupleLike<T>)
    return []<class... Parts>(std::type_identity<std::tuple<Parts...>>) {
      return (true && ... && can_be_split<Parts>);
    }(std::type_identity<decltype(std::tuple_cat(std::declval<T>()))>{});
  else if constexpr (RangeLike<T>)
    return can_be_split<decltype(*std::declval<T&>().begin())>;
  else if constexpr (requires(T & t) {
                       t.has_value();
                       *t;
                     })
    return can_be_split<decltype(*std::declval<T&>())>;
  else if constexpr (ExampleLike<T>)
    return can_be_split<typename T::DataType> && can_be_split<typename T::TargetType>;
  else
    return std::is_empty_v<T> || requires(const T& t) { std::hash<T>{}(t); };
}

/// The elements of all tensors in an argument.
template <class T> int64_t elements_in(const T& argument) {
  int64_t n = 0;
  visit_tensors(argument, [&](const Tensor& t) { n += t.defined() ? t.numel() : 0; });
  return n;
}

/// Adds the tensors of an argument, and hashes of what else is in it and can be hashed.
template <class T>
void split_argument(const T& argument, std::vector<Tensor>& tensors,
                    std::vector<uint64_t>& others) {
  visit_parts(
      argument, [&](const Tensor& t) { tensors.push_back(t); },
      [&](const auto& other) {
        using Other = std::remove_cvref_t<decltype(other)>;
        if constexpr (std::is_convertible_v<const Other&, std::string_view>)
          others.push_back(std::hash<std::string_view>{}(std::string_view(other)));
        else if constexpr (requires { std::hash<Other>{}(other); })
          others.push_back(std::hash<Other>{}(other));
      });
}

}  // namespace pellucid::detail
