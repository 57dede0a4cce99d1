// Value: an argument or result whose type is known at run time, for calls by name (command line,
// Python, samples).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "pellucid/scalar.h"
#include "pellucid/tensor.h"

namespace pellucid {

class Value;
using Values = std::vector<Value>;

/// None, a bool, an int, a float, a string, a dtype, a memory format, a tensor or a list of values.
class PELLUCID_API Value {
 public:
  struct None {
    friend bool operator==(None, None) { return true; }
  };
  using Variant =
      std::variant<None, bool, int64_t, double, std::string, DType, MemoryFormat, Tensor, Values>;
  Value() = default;
  Value(None) {}
  Value(std::nullopt_t) {}
  Value(bool v) : v_(v) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Value(T v)
      : v_(static_cast<int64_t>(v)) {}
  Value(double v) : v_(v) {}
  Value(const char* v) : v_(std::string(v)) {}
  Value(std::string v) : v_(std::move(v)) {}
  Value(std::string_view v) : v_(std::string(v)) {}
  Value(DType v) : v_(v) {}
  Value(MemoryFormat v) : v_(v) {}
  Value(Tensor v) : v_(std::move(v)) {}
  Value(Values v) : v_(std::move(v)) {}
  Value(const Scalar& s) {
    if (s.isBoolean())
      v_ = s.toBool();
    else if (s.isFloatingPoint())
      v_ = s.toDouble();
    else
      v_ = s.toLong();
  }
  /// A list of integers: ints({2, 3}).
  static Value ints(IntArrayRef v) { return Value(Values(v.begin(), v.end())); }
  static Value tensors(const std::vector<Tensor>& v) { return Value(Values(v.begin(), v.end())); }

  const Variant& get() const { return v_; }
  template <class T> const T* as() const { return std::get_if<T>(&v_); }
  bool is_none() const { return std::holds_alternative<None>(v_); }
  bool is_number() const { return as<bool>() || as<int64_t>() || as<double>(); }
  /// The number as a Scalar; throws TypeError for anything else.
  Scalar scalar() const;
  /// The tensor; throws TypeError for anything else.
  const Tensor& tensor() const;
  /// "int", "Tensor", "list of int"…, for messages.
  std::string type_name() const;
  /// The value as source text: 2, 0.5, 'mean', float32, [1, 2], randn-like tensors as float32[2,
  /// 3].
  std::string repr() const;

 private:
  Variant v_;
};

/// A keyword argument.
struct NamedValue {
  std::string name;
  Value value;
};

}  // namespace pellucid
