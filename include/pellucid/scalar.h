// Scalar: a number whose type is known at run time (bool, integer or float), as in c10.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "pellucid/dtype.h"

namespace pellucid {

/// A bool, an int64 or a double; which one decides type promotion as it does for Python numbers.
class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float };
  constexpr Scalar() : Scalar(int64_t{0}) {}
  /// Exactly a bool: what merely converts to one, such as a pointer or a text, is no number.
  template <std::same_as<bool> T> constexpr Scalar(T v) : int_(v), kind_(Kind::Bool) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) constexpr Scalar(T v)
      : int_(static_cast<int64_t>(v)), kind_(Kind::Int) {}
  constexpr Scalar(double v) : float_(v), kind_(Kind::Float) {}
  constexpr Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(Half v) : Scalar(static_cast<double>(static_cast<float>(v))) {}
  constexpr Scalar(BFloat16 v) : Scalar(static_cast<double>(static_cast<float>(v))) {}

  constexpr Kind kind() const { return kind_; }
  constexpr bool isFloatingPoint() const { return kind_ == Kind::Float; }
  constexpr bool isIntegral(bool with_bool = false) const {
    return kind_ == Kind::Int || (with_bool && kind_ == Kind::Bool);
  }
  constexpr bool isBoolean() const { return kind_ == Kind::Bool; }
  /// The dtype that a tensor made from this number has by default: bool, int64 or float64.
  constexpr DType type() const {
    return kind_ == Kind::Float ? kFloat64 : kind_ == Kind::Int ? kInt64 : kBool;
  }
  template <class T> constexpr T to() const {
    if constexpr (std::is_same_v<T, bool>) {
      return kind_ == Kind::Float ? float_ != 0.0 : int_ != 0;
    } else if constexpr (std::is_integral_v<T>) {
      return kind_ == Kind::Float ? static_cast<T>(static_cast<int64_t>(float_))
                                  : static_cast<T>(int_);
    } else if constexpr (std::is_same_v<T, double>) {
      return kind_ == Kind::Float ? float_ : static_cast<double>(int_);
    } else {
      return T(static_cast<float>(kind_ == Kind::Float ? float_ : static_cast<double>(int_)));
    }
  }
  constexpr double toDouble() const { return to<double>(); }
  constexpr float toFloat() const { return to<float>(); }
  constexpr int64_t toLong() const { return to<int64_t>(); }
  constexpr int toInt() const { return static_cast<int>(to<int64_t>()); }
  constexpr bool toBool() const { return to<bool>(); }
  constexpr bool equal(Scalar o) const {
    return kind_ == Kind::Float || o.kind_ == Kind::Float ? toDouble() == o.toDouble()
                                                          : int_ == o.int_;
  }
  constexpr Scalar operator-() const {
    return kind_ == Kind::Float ? Scalar(-float_)
                                : Scalar(static_cast<int64_t>(0 - static_cast<uint64_t>(int_)));
  }

 private:
  union {
    int64_t int_;
    double float_;
  };
  Kind kind_;
};

/// "2", "0.5" or "True", as Python prints the number.
PELLUCID_API std::string to_string(const Scalar& value);

}  // namespace pellucid

template <> struct fmt::formatter<pellucid::Scalar> : pellucid::detail::TextFormatter {
  auto format(const pellucid::Scalar& v, format_context& ctx) const {
    return write(pellucid::to_string(v), ctx);
  }
};
