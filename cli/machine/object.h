// What stands on the machine's stack: a pellucid::Value, or one of the things that only expressions
// have: a slice, an ellipsis, a tuple, the module `torch`.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/expr/code.h"
#include "pellucid/indexing.h"
#include "pellucid/value.h"

namespace pellucid::cli {

class Object;
using Tuple = std::vector<Object>;

/// torch in torch.sin(x): a prefix without a meaning of its own.
struct Module {};

/// A value of an expression. Lists are Values; tuples are kept apart, since x[1, 2] is not x[[1,
/// 2]].
class Object {
 public:
  using Variant = std::variant<Value, indexing::Slice, expr::EllipsisConstant, Module, Tuple>;
  Object() = default;
  template <class T>
  requires std::is_constructible_v<Value, T> &&
      (!std::is_same_v<std::decay_t<T>, Object>)Object(T&& value)
      : v_(Value(std::forward<T>(value))) {}
  Object(indexing::Slice slice) : v_(slice) {}
  Object(expr::EllipsisConstant ellipsis) : v_(ellipsis) {}
  Object(Module module) : v_(module) {}
  Object(Tuple tuple) : v_(std::move(tuple)) {}
  explicit Object(const expr::Constant& constant);

  const Variant& get() const { return v_; }
  const Value* value() const { return std::get_if<Value>(&v_); }
  const Tuple* tuple() const { return std::get_if<Tuple>(&v_); }
  const Tensor* tensor() const { return as<Tensor>(); }
  const Values* list() const { return as<Values>(); }
  bool is_module() const { return std::holds_alternative<Module>(v_); }
  bool is_number() const { return value() != nullptr && value()->is_number(); }
  bool is_none() const { return value() != nullptr && value()->is_none(); }
  /// The number; the caller knows that it is one.
  Scalar scalar() const { return std::get<Value>(v_).scalar(); }
  template <class T> const T* as() const { return value() != nullptr ? value()->as<T>() : nullptr; }

  /// "int", "Tensor", "tuple"…, for messages.
  std::string type_name() const;
  /// The value as source text; tensors as float32[2, 3].
  std::string repr() const;

 private:
  Variant v_;
};

/// The Value for an op's argument: a tuple becomes a list. Throws TypeError for slices and the
/// like.
Value to_value(const Object& object);

/// An int: an int, a bool or an integer tensor of one element. `what` begins the error's message.
int64_t to_int(const Object& object, std::string_view what);

/// The tensor of a number, of (nested) lists or tuples of numbers, or of a tensor; floats get the
/// default dtype, ints int64. Throws ShapeError for ragged lists.
Tensor to_tensor(const Value& value, std::optional<DType> dtype = std::nullopt);

}  // namespace pellucid::cli
