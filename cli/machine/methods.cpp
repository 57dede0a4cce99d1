// Tables of the methods and attributes of a tensor, with PyTorch's names and meanings.
#include "cli/machine/methods.h"

#include <fmt/format.h>

#include <array>

#include "pellucid/autograd.h"
#include "pellucid/op.h"

namespace pellucid::cli {
namespace {

Object sizes_object(IntArrayRef sizes) {
  Tuple tuple;
  for (const int64_t s : sizes) tuple.emplace_back(s);
  return tuple;
}

Value nested_list(const Tensor& t) {
  if (t.dim() == 0) return Value(t.item());
  Values list;
  for (int64_t i = 0; i < t.size(0); ++i) list.push_back(nested_list(t[i]));
  return Value(std::move(list));
}

template <DType kType> Object convert(const Tensor& self, Arguments a) {
  a.expect(name_of(kType), 0, 0);
  return self.to(kType);
}

Object item(const Tensor& self, Arguments a) {
  a.expect("item", 0, 0);
  return Value(self.item());
}
Object tolist(const Tensor& self, Arguments a) {
  a.expect("tolist", 0, 0);
  return nested_list(self);
}
Object dim(const Tensor& self, Arguments a) {
  a.expect("dim", 0, 0);
  return self.dim();
}
Object numel(const Tensor& self, Arguments a) {
  a.expect("numel", 0, 0);
  return self.numel();
}
Object element_size(const Tensor& self, Arguments a) {
  a.expect("element_size", 0, 0);
  return self.element_size();
}
Object size(const Tensor& self, Arguments a) {
  if (const std::optional<Object> d = a.take("dim")) a.positional.push_back(*d);
  a.expect("size", 0, 1);
  if (a.positional.empty()) return sizes_object(self.sizes());
  return self.size(to_int(a.positional[0], "size: dim"));
}
Object stride(const Tensor& self, Arguments a) {
  if (const std::optional<Object> d = a.take("dim")) a.positional.push_back(*d);
  a.expect("stride", 0, 1);
  if (a.positional.empty()) return sizes_object(self.strides());
  return self.stride(to_int(a.positional[0], "stride: dim"));
}
Object is_contiguous(const Tensor& self, Arguments a) {
  a.expect("is_contiguous", 0, 0);
  return self.is_contiguous();
}

Object to(const Tensor& self, Arguments a) {
  if (const std::optional<Object> d = a.take("dtype")) a.positional.push_back(*d);
  a.expect("to", 1, 1);
  const Object& target = a.positional[0];
  if (const Tensor* other = target.tensor()) return self.to(other->dtype());
  PELLUCID_CHECK(target.as<DType>() != nullptr, TypeError,
                 "to: a dtype such as float64 or a tensor was expected, found {}.",
                 target.type_name());
  return self.to(*target.as<DType>());
}
Object type_as(const Tensor& self, Arguments a) {
  a.expect("type_as", 1, 1);
  return self.to(to_value(a.positional[0]).tensor().dtype());
}

Object backward(const Tensor& self, Arguments a) {
  if (const std::optional<Object> g = a.take("gradient")) a.positional.push_back(*g);
  const bool create = flag(a.take("create_graph"), false, "backward: create_graph");
  const bool retain = flag(a.take("retain_graph"), create, "backward: retain_graph");
  a.expect("backward", 0, 1);
  const Tensor gradient = a.positional.empty() || a.positional[0].is_none()
                              ? Tensor()
                              : to_value(a.positional[0]).tensor();
  self.backward(gradient, retain, create);
  return {};
}
Object requires_grad_(const Tensor& self, Arguments a) {
  if (const std::optional<Object> on = a.take("requires_grad")) a.positional.push_back(*on);
  a.expect("requires_grad_", 0, 1);
  const bool on =
      a.positional.empty() || flag(a.positional[0], true, "requires_grad_: the argument");
  self.requires_grad_(on);
  return self;
}
Object retain_grad(const Tensor& self, Arguments a) {
  a.expect("retain_grad", 0, 0);
  self.retain_grad();
  return {};
}

struct Method {
  std::string_view name;
  TensorMethod call;
};
constexpr auto kMethods = std::to_array<Method>({{"item", item},
                                                 {"tolist", tolist},
                                                 {"dim", dim},
                                                 {"numel", numel},
                                                 {"element_size", element_size},
                                                 {"size", size},
                                                 {"stride", stride},
                                                 {"is_contiguous", is_contiguous},
                                                 {"to", to},
                                                 {"type", to},
                                                 {"type_as", type_as},
                                                 {"float", convert<kFloat32>},
                                                 {"double", convert<kFloat64>},
                                                 {"half", convert<kFloat16>},
                                                 {"bfloat16", convert<kBFloat16>},
                                                 {"long", convert<kInt64>},
                                                 {"int", convert<kInt32>},
                                                 {"short", convert<kInt16>},
                                                 {"char", convert<kInt8>},
                                                 {"byte", convert<kUInt8>},
                                                 {"bool", convert<kBool>},
                                                 {"backward", backward},
                                                 {"requires_grad_", requires_grad_},
                                                 {"retain_grad", retain_grad}});

Object by_op(std::string_view op, const Tensor& self) {
  const std::array<Value, 1> args = {Value(self)};
  return invoke(op, args).at(0);
}

struct Attribute {
  std::string_view name;
  Object (*get)(const Tensor&);
};
constexpr auto kAttributes = std::to_array<Attribute>({
    {"shape", [](const Tensor& t) { return sizes_object(t.sizes()); }},
    {"dtype", [](const Tensor& t) -> Object { return t.dtype(); }},
    {"ndim", [](const Tensor& t) -> Object { return t.dim(); }},
    {"T", [](const Tensor& t) { return by_op("numpy_T", t); }},
    {"mT", [](const Tensor& t) { return by_op("mT", t); }},
    {"data", [](const Tensor& t) -> Object { return t.data(); }},
    {"grad",
     [](const Tensor& t) -> Object { return t.grad().defined() ? Object(t.grad()) : Object(); }},
    {"requires_grad", [](const Tensor& t) -> Object { return t.requires_grad(); }},
    {"is_leaf", [](const Tensor& t) -> Object { return t.is_leaf(); }},
    {"grad_fn",
     [](const Tensor& t) -> Object {
       const auto node = t.grad_fn();
       return node ? Object(fmt::format("<{}>", node->name())) : Object();
     }},
    {"itemsize", [](const Tensor& t) -> Object { return t.element_size(); }},
    {"nbytes", [](const Tensor& t) -> Object { return t.nbytes(); }},
    {"device", [](const Tensor&) -> Object { return "cpu"; }},
});

}  // namespace

TensorMethod find_method(std::string_view name) {
  for (const Method& m : kMethods)
    if (m.name == name) return m.call;
  return nullptr;
}

std::vector<std::string_view> method_names() {
  std::vector<std::string_view> names;
  for (const Method& m : kMethods) names.push_back(m.name);
  return names;
}

std::optional<Object> tensor_attribute(const Tensor& self, std::string_view name) {
  for (const Attribute& a : kAttributes)
    if (a.name == name) return a.get(self);
  return std::nullopt;
}

std::vector<std::string_view> attribute_names() {
  std::vector<std::string_view> names;
  for (const Attribute& a : kAttributes) names.push_back(a.name);
  return names;
}

}  // namespace pellucid::cli
