// Conversions of what stands on the stack. Lists become tensors here, since the op `tensor` of
// other languages takes what no schema can describe.
#include "cli/machine/object.h"

#include <fmt/format.h>

#include <cmath>

#include "pellucid/creation.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

struct FromConstant {
  Object::Variant operator()(std::monostate) const { return Value(); }
  Object::Variant operator()(const expr::EllipsisConstant& v) const { return v; }
  template <class T> Object::Variant operator()(const T& v) const { return Value(v); }
};

// Numbers of nested lists, in order, on the way to becoming a tensor.
struct Flat {
  std::vector<int64_t> sizes;
  std::vector<Value> numbers;
  bool any_float = false, all_bool = true;
};

void flatten(const Value& value, size_t depth, Flat& flat) {
  if (const Values* list = value.as<Values>()) {
    const auto size = static_cast<int64_t>(list->size());
    if (flat.sizes.size() <= depth) {
      PELLUCID_CHECK(
          flat.numbers.empty(), ShapeError,
          "tensor: a list stands where a number stood before, so the sizes are unclear.");
      flat.sizes.push_back(size);
    }
    PELLUCID_CHECK(flat.sizes[depth] == size, ShapeError,
                   "tensor: lists of {} and of {} elements stand side by side at depth {}.",
                   flat.sizes[depth], size, depth + 1);
    for (const Value& element : *list) flatten(element, depth + 1, flat);
    return;
  }
  const Tensor* t = value.as<Tensor>();
  PELLUCID_CHECK(value.is_number() || (t != nullptr && t->numel() == 1), TypeError,
                 "tensor: the elements must be numbers, found {}.", value.type_name());
  PELLUCID_CHECK(flat.sizes.size() == depth, ShapeError,
                 "tensor: a number stands where a list stood before, so the sizes are unclear.");
  const Value number = t != nullptr ? Value(t->item()) : value;
  flat.any_float = flat.any_float || number.as<double>() != nullptr;
  flat.all_bool = flat.all_bool && number.as<bool>() != nullptr;
  flat.numbers.push_back(number);
}

template <class T> std::vector<T> as_vector(const Flat& flat) {
  std::vector<T> out;
  out.reserve(flat.numbers.size());
  for (const Value& v : flat.numbers) out.push_back(v.scalar().to<T>());
  return out;
}

}  // namespace

Object::Object(const expr::Constant& constant) : v_(std::visit(FromConstant{}, constant)) {}

std::string Object::type_name() const {
  struct Name {
    std::string operator()(const Value& v) const { return v.type_name(); }
    std::string operator()(const indexing::Slice&) const { return "slice"; }
    std::string operator()(const expr::EllipsisConstant&) const { return "ellipsis"; }
    std::string operator()(const Module&) const { return "module"; }
    std::string operator()(const Tuple&) const { return "tuple"; }
  };
  return std::visit(Name{}, v_);
}

std::string Object::repr() const {
  struct Repr {
    static std::string part(const std::optional<int64_t>& v) {
      return v ? fmt::format("{}", *v) : "";
    }
    std::string operator()(const Value& v) const { return v.repr(); }
    std::string operator()(const indexing::Slice& v) const {
      const std::string step = v.step() == 1 ? "" : fmt::format(":{}", v.step());
      return part(v.start()) + ":" + part(v.stop()) + step;
    }
    std::string operator()(const expr::EllipsisConstant&) const { return "..."; }
    std::string operator()(const Module&) const { return "torch"; }
    std::string operator()(const Tuple& v) const {
      std::string out = "(";
      for (size_t i = 0; i < v.size(); ++i) out += (i > 0 ? ", " : "") + v[i].repr();
      return out + (v.size() == 1 ? ",)" : ")");
    }
  };
  return std::visit(Repr{}, v_);
}

Value to_value(const Object& object) {
  if (const Value* value = object.value()) return *value;
  const Tuple* tuple = object.tuple();
  PELLUCID_CHECK(tuple != nullptr, TypeError, "a value was expected here, found {} ({}).",
                 object.repr(), object.type_name());
  Values list;
  for (const Object& element : *tuple) list.push_back(to_value(element));
  return Value(std::move(list));
}

int64_t to_int(const Object& object, std::string_view what) {
  if (const int64_t* i = object.as<int64_t>()) return *i;
  if (const bool* b = object.as<bool>()) return *b ? 1 : 0;
  const Tensor* t = object.tensor();
  PELLUCID_CHECK(t != nullptr && t->numel() == 1 && is_integral(t->dtype(), true), TypeError,
                 "{} must be an int, found {}.", what, object.type_name());
  return t->item<int64_t>();
}

Tensor to_tensor(const Value& value, std::optional<DType> dtype) {
  if (const Tensor* t = value.as<Tensor>()) {
    const Tensor copy = t->detach().clone();
    return dtype ? copy.to(*dtype) : copy;
  }
  Flat flat;
  flatten(value, 0, flat);
  const bool integers = !flat.any_float && !flat.numbers.empty();
  const DType natural = flat.any_float || flat.numbers.empty() ? get_default_dtype()
                        : flat.all_bool                        ? kBool
                                                               : kInt64;
  const TensorOptions options(dtype.value_or(natural));
  const Tensor row = integers ? tensor(as_vector<int64_t>(flat), options)
                              : tensor(as_vector<double>(flat), options);
  return row.view(flat.sizes);
}

}  // namespace pellucid::cli
