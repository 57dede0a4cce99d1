// What kind of number an argument is, so that overloads can refuse what C++ would convert without a
// word: 1.5 to the dim 1, true to the dim 1, a text to true.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace pellucid {
struct Half;
struct BFloat16;
}  // namespace pellucid

namespace pellucid::detail {

/// Sets of kinds are sums of these.
enum ArgumentKind : unsigned {
  kBools = 1,
  kIntegers = 2,
  kFloats = 4,
  kPointers = 8,  ///< texts in quotes are pointers too
  kNulls = 16     ///< nullptr
};

template <class T> constexpr unsigned kind_of() {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return kBools;
  else if constexpr (std::is_integral_v<U>)
    return kIntegers;
  else if constexpr (std::is_floating_point_v<U> || std::is_same_v<U, Half> ||
                     std::is_same_v<U, BFloat16>)
    return kFloats;
  else if constexpr (std::is_null_pointer_v<U>)
    return kNulls;
  else if constexpr (std::is_pointer_v<std::decay_t<U>>)
    return kPointers;
  else
    return 0;
}

/// T is of one of the kinds.
template <class T, unsigned kinds>
concept Among = (kind_of<T>() & kinds) != 0;

/// T stands for an integer: an integer, an enumerator or what converts to one, neither a bool nor a
/// float.
template <class T>
concept IntegerLike = !Among<T, kBools | kFloats> && std::convertible_to<const T&, int64_t>;

template <class T> inline constexpr bool kIsOptional = false;
template <class T> inline constexpr bool kIsOptional<std::optional<T>> = true;

/// The kinds that C++ converts to T although they do not mean a T.
template <class T> constexpr unsigned mistaken_for() {
  if constexpr (kIsOptional<T>)
    return mistaken_for<typename T::value_type>();
  else if constexpr (std::is_same_v<T, bool>)
    return kFloats | kPointers;
  else if constexpr (std::is_integral_v<T>)
    return kBools | kFloats;
  else if constexpr (std::is_floating_point_v<T>)
    return kBools;
  else
    return 0;
}

/// A Given would become a To of another meaning.
template <class Given, class To>
concept Mistaken = Among < Given,
        mistaken_for<To>()
> ;

/// A bool and nothing that converts to one; made only by name.
class ExactBool {
 public:
  template <std::same_as<bool> T> explicit constexpr ExactBool(T value) : value_(value) {}
  constexpr operator bool() const { return value_; }

 private:
  bool value_;
};

}  // namespace pellucid::detail

namespace pellucid {

// The parameters of generated functions. C++ would take 1.5 or true for the dim 1 and a text for
// true; these take what means an integer, a number or a bool.

class IntArg {
 public:
  template <detail::IntegerLike T>
  constexpr IntArg(const T& value) : value_(static_cast<int64_t>(value)) {}
  constexpr operator int64_t() const { return value_; }

 private:
  int64_t value_;
};

class FloatArg {
 public:
  template <std::convertible_to<double> T>
  requires(!detail::Mistaken<T, double>) constexpr FloatArg(const T& value)
      : value_(static_cast<double>(value)) {}
  constexpr operator double() const { return value_; }

 private:
  double value_;
};

/// An integer is taken too, as libtorch's programs write sum(0, 1).
class BoolArg {
 public:
  template <std::convertible_to<bool> T>
  requires(!detail::Mistaken<T, bool>) constexpr BoolArg(const T& value)
      : value_(static_cast<bool>(value)) {}
  constexpr operator bool() const { return value_; }

 private:
  bool value_;
};

}  // namespace pellucid
