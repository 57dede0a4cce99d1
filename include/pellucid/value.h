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
  // Copies, texts, tensors and lists are out of line: samples make thousands of them.
  Value() = default;
  Value(const Value& o);
  Value(Value&& o) noexcept;
  Value& operator=(const Value& o);
  Value& operator=(Value&& o) noexcept;
  ~Value();
  Value(None) {}
  Value(std::nullopt_t) {}
  Value(bool v) : v_(v) {}
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Value(T v)
      : v_(static_cast<int64_t>(v)) {}
  Value(double v) : v_(v) {}
  Value(const char* v);
  Value(std::string v);
  Value(std::string_view v);
  Value(DType v) : v_(v) {}
  Value(MemoryFormat v) : v_(v) {}
  Value(Tensor v);
  Value(Values v);
  template <class T>
  requires(std::is_same_v<T, std::vector<Tensor>> || std::is_same_v<T, std::vector<int64_t>>)
      Value(const T& v)
      : v_(Values(v.begin(), v.end())) {}
  Value(const Scalar& s);
  /// A list of integers: ints({2, 3}).
  static Value ints(IntArrayRef v);
  static Value tensors(const std::vector<Tensor>& v);

  const Variant& get() const { return v_; }
  template <class T> const T* as() const { return std::get_if<T>(&v_); }
  bool is_none() const { return std::holds_alternative<None>(v_); }
  bool is_number() const { return as<bool>() || as<int64_t>() || as<double>(); }
  /// The number as a Scalar; throws TypeError for anything else.
  Scalar scalar() const;
  /// The tensor; throws TypeError for anything else.
  const Tensor& tensor() const;

  // libtorch's names (c10::IValue). A conversion throws TypeError where the value is something
  // else.
  bool isNone() const { return is_none(); }
  bool isTensor() const { return as<Tensor>() != nullptr; }
  bool isBool() const { return as<bool>() != nullptr; }
  bool isInt() const { return as<int64_t>() != nullptr; }
  bool isDouble() const { return as<double>() != nullptr; }
  bool isString() const { return as<std::string>() != nullptr; }
  bool isList() const { return as<Values>() != nullptr; }
  const Tensor& toTensor() const { return tensor(); }
  bool toBool() const { return scalar().toBool(); }
  int64_t toInt() const { return scalar().toLong(); }
  double toDouble() const { return scalar().toDouble(); }
  Scalar toScalar() const { return scalar(); }
  const std::string& toStringRef() const;
  const Values& toListRef() const;
  std::vector<int64_t> toIntVector() const;
  std::vector<Tensor> toTensorVector() const;

  /// "int", "Tensor", "list of int"…, for messages.
  std::string type_name() const;
  /// The value as source text: 2, 0.5, 'mean', float32, [1, 2], randn-like tensors as float32[2,
  /// 3].
  std::string repr() const;

 private:
  Variant v_;
};

using IValue = Value;

/// A keyword argument.
struct PELLUCID_API NamedValue {
  std::string name;
  Value value;
};

}  // namespace pellucid
