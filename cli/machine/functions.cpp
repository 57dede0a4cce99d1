// Calls. An op is found by its name; the tables here hold only what no op can describe.
#include "cli/machine/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numbers>
#include <set>

#include "cli/machine/methods.h"
#include "cli/text.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/op.h"

namespace pellucid::cli {
namespace {

// Found once for each name: `pellucid time` calls the same few names a million times.
const NamedOps& ops_named(std::string_view name) {
  thread_local std::map<std::string, NamedOps, std::less<>> known;
  const auto found = known.find(name);
  if (found != known.end() && !found->second.ops.empty()) return found->second;
  return known.insert_or_assign(std::string(name), find_callable(name)).first->second;
}

bool is_op(std::string_view name) { return !ops_named(name).ops.empty(); }

// sin(2) and sum([1, 2]): where every op of the name wants a tensor, numbers become one.
void numbers_to_tensors(const std::vector<const OpDef*>& ops, Values& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const bool list = args[i].as<Values>() != nullptr;
    if (!args[i].is_number() && !list) continue;
    const bool wanted = std::all_of(ops.begin(), ops.end(), [&](const OpDef* op) {
      const std::vector<Arg>& all = op->info->args;
      return i < all.size() && all[i].type == ArgType::Tensor && (list || !all[i].scalar_too);
    });
    if (wanted) args[i] = to_tensor(args[i]);
  }
}

// einsum('ij,jk', a, b): tensors one by one where the op takes a list of them last.
void tensors_to_list(const std::vector<const OpDef*>& ops, Values& args) {
  const std::vector<Arg>& wanted = ops[0]->info->args;
  size_t at = 0;
  while (at < wanted.size() && wanted[at].type != ArgType::TensorList) ++at;
  if (ops.size() != 1 || at >= wanted.size() || at >= args.size()) return;
  const auto first = args.begin() + static_cast<std::ptrdiff_t>(at);
  if (!std::all_of(first, args.end(), [](const Value& v) { return v.as<Tensor>() != nullptr; }))
    return;
  Values list(std::make_move_iterator(first), std::make_move_iterator(args.end()));
  args.resize(at);
  args.emplace_back(std::move(list));
}

Object call_op(std::string_view name, const Arguments& arguments) {
  const NamedOps& r = ops_named(name);
  Values args;
  std::vector<NamedValue> kwargs;
  for (const Object& o : arguments.positional) args.push_back(to_value(o));
  bool requires_grad = false;
  for (const auto& [keyword, o] : arguments.keywords) {
    // Every creation function of PyTorch takes it, and no schema mentions it.
    if (keyword == "requires_grad" && o.as<bool>() != nullptr)
      requires_grad = *o.as<bool>();
    else
      kwargs.push_back({keyword, to_value(o)});
  }
  tensors_to_list(r.ops, args);
  numbers_to_tensors(r.ops, args);
  std::vector<Value> results =
      r.ops.size() == 1 ? invoke(*r.ops[0], args, kwargs, r.in_place) : invoke(name, args, kwargs);
  if (requires_grad)
    for (const Value& v : results)
      if (const Tensor* t = v.as<Tensor>()) t->requires_grad_();
  if (results.empty()) return {};
  if (results.size() == 1) return Object(std::move(results[0]));
  Tuple tuple;
  for (Value& v : results) tuple.emplace_back(std::move(v));
  return tuple;
}

// ---- functions that are not ops

Object make_tensor(Arguments a) {
  const std::optional<Object> dtype = a.take("dtype");
  const bool grad = flag(a.take("requires_grad"), false, "tensor: requires_grad");
  a.take("device");
  a.expect("tensor", 1, 1);
  std::optional<DType> wanted;
  if (dtype && !dtype->is_none()) {
    PELLUCID_CHECK(dtype->as<DType>() != nullptr, TypeError,
                   "tensor: dtype must be a dtype such as float32, found {}.", dtype->type_name());
    wanted = *dtype->as<DType>();
  }
  const Tensor t = to_tensor(to_value(a.positional[0]), wanted);
  if (grad) t.requires_grad_();
  return t;
}

Object seed(Arguments a) {
  a.expect("manual_seed", 1, 1);
  manual_seed(static_cast<uint64_t>(to_int(a.positional[0], "manual_seed: the seed")));
  return {};
}

autograd::variable_list tensors_of(const Object& o, std::string_view what) {
  if (const Tensor* t = o.tensor()) return {*t};
  const Value value = to_value(o);
  const Values* list = value.as<Values>();
  PELLUCID_CHECK(list != nullptr, TypeError, "{} must be a tensor or a list of tensors, found {}.",
                 what, o.type_name());
  autograd::variable_list out;
  for (const Value& v : *list) out.push_back(v.tensor());
  return out;
}

// grad(y, x) is one tensor; grad(y, [a, b]) a tuple.
Object grad_of(Arguments a) {
  const bool create = flag(a.take("create_graph"), false, "grad: create_graph");
  const bool retain = flag(a.take("retain_graph"), true, "grad: retain_graph");
  a.expect("grad", 2, 2);
  const auto outputs = tensors_of(a.positional[0], "grad: the first argument");
  const auto inputs = tensors_of(a.positional[1], "grad: the second argument");
  const auto grads = autograd::grad(outputs, inputs, {}, retain, create);
  if (a.positional[1].tensor() != nullptr) return grads[0];
  Tuple tuple;
  for (const Tensor& g : grads) tuple.emplace_back(g);
  return tuple;
}

Object length(Arguments a) {
  a.expect("len", 1, 1);
  const Object& o = a.positional[0];
  if (o.list() != nullptr) return o.list()->size();
  if (o.tuple() != nullptr) return o.tuple()->size();
  PELLUCID_CHECK(o.tensor() != nullptr && o.tensor()->dim() > 0, TypeError, "{} has no length.",
                 o.tensor() != nullptr ? "a 0-dimensional tensor" : o.type_name());
  return o.tensor()->size(0);
}

Scalar number_of(const Arguments& a, std::string_view function) {
  a.expect(function, 1, 1);
  const Object& o = a.positional[0];
  if (o.tensor() != nullptr) return o.tensor()->item();
  PELLUCID_CHECK(o.is_number(), TypeError, "{}: a number was expected, found {}.", function,
                 o.type_name());
  return o.scalar();
}

Object to_float(Arguments a) { return number_of(a, "float").toDouble(); }
Object to_bool(Arguments a) { return number_of(a, "bool").toBool(); }
Object to_integer(Arguments a) {
  const Scalar s = number_of(a, "int");
  if (!s.isFloatingPoint()) return s.toLong();
  PELLUCID_CHECK(s.toDouble() > -0x1p63 && s.toDouble() < 0x1p63, ValueError,
                 "int: {} does not fit into 64 bits.", s);
  return static_cast<int64_t>(s.toDouble());
}

struct BuiltIn {
  std::string_view name;
  Object (*call)(Arguments);
};
constexpr BuiltIn kBuiltIns[] = {
    {"tensor", make_tensor}, {"manual_seed", seed}, {"grad", grad_of}, {"len", length},
    {"float", to_float},     {"int", to_integer},   {"bool", to_bool}};

const BuiltIn* find_built_in(std::string_view name) {
  for (const BuiltIn& b : kBuiltIns)
    if (b.name == name) return &b;
  return nullptr;
}

// Numbers have the methods of their functions: none. Everything that is no tensor is told so here.
std::string no_such(std::string_view what, const Object& object, std::string_view name,
                    const std::vector<std::string>& candidates) {
  return fmt::format("{} has no {} '{}'{}.", object.type_name(), what, name,
                     did_you_mean(name, candidates));
}

}  // namespace

std::optional<Object> Arguments::take(std::string_view name) {
  const auto found = std::find_if(keywords.begin(), keywords.end(),
                                  [&](const auto& keyword) { return keyword.first == name; });
  if (found == keywords.end()) return std::nullopt;
  Object value = std::move(found->second);
  keywords.erase(found);
  return value;
}

void Arguments::expect(std::string_view function, size_t least, size_t most) const {
  PELLUCID_CHECK(keywords.empty(), TypeError, "{}() got an unexpected keyword argument '{}'.",
                 function, keywords[0].first);
  const size_t n = positional.size();
  const std::string wanted =
      least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  PELLUCID_CHECK(n >= least && n <= most, TypeError,
                 "{}() takes {} positional argument{} but {} {} given.", function, wanted,
                 wanted == "1" ? "" : "s", n, n == 1 ? "was" : "were");
}

bool flag(std::optional<Object> object, bool otherwise, std::string_view what) {
  if (!object || object->is_none()) return otherwise;
  PELLUCID_CHECK(object->as<bool>() != nullptr, TypeError, "{} must be a bool, found {}.", what,
                 object->type_name());
  return *object->as<bool>();
}

bool is_function(std::string_view name) { return find_built_in(name) != nullptr || is_op(name); }

Object call_function(std::string_view name, Arguments arguments) {
  if (const BuiltIn* built_in = find_built_in(name)) return built_in->call(std::move(arguments));
  return call_op(name, arguments);
}

Object call_method(const Object& object, const std::string& name, Arguments arguments) {
  if (object.is_module()) {
    PELLUCID_CHECK(is_function(name), ValueError, "there is no function '{}'{}.", name,
                   did_you_mean(name, function_names()));
    return call_function(name, std::move(arguments));
  }
  const Tensor* t = object.tensor();
  if (t != nullptr)
    if (const TensorMethod method = find_method(name)) return method(*t, std::move(arguments));
  if (t == nullptr || !is_op(name)) {
    std::vector<std::string> candidates;
    if (t != nullptr) {
      candidates = function_names();
      for (const std::string_view m : method_names()) candidates.emplace_back(m);
    }
    detail::raise<TypeError>("{}", no_such("method", object, name, candidates));
  }
  arguments.positional.insert(arguments.positional.begin(), object);
  return call_op(name, arguments);
}

Object attribute(const Object& object, const std::string& name) {
  if (object.is_module()) {
    if (name == "nn" || name == "functional" || name == "linalg" || name == "special")
      return Module{};
    if (name == "e") return std::numbers::e;
    if (const std::optional<Object> value = constant(name)) return *value;
    PELLUCID_CHECK(!is_function(name), ValueError, "'{}' is a function; call it: {}(…).", name,
                   name);
    detail::raise<ValueError>("{}", no_such("attribute", object, name, function_names()));
  }
  const Tensor* t = object.tensor();
  if (t != nullptr) {
    if (const std::optional<Object> value = tensor_attribute(*t, name)) return *value;
    PELLUCID_CHECK(find_method(name) == nullptr && !is_op(name), TypeError,
                   "'{}' is a method; call it: .{}().", name, name);
  }
  std::vector<std::string> candidates;
  if (t != nullptr)
    for (const std::string_view a : attribute_names()) candidates.emplace_back(a);
  detail::raise<TypeError>("{}", no_such("attribute", object, name, candidates));
}

std::optional<Object> constant(std::string_view name) {
  if (name == "pi") return Object(std::numbers::pi);
  if (name == "torch" || name == "F") return Object(Module{});
  if (name == "contiguous_format") return Object(MemoryFormat::Contiguous);
  if (name == "preserve_format") return Object(MemoryFormat::Preserve);
  if (name == "channels_last") return Object(MemoryFormat::ChannelsLast);
  static const std::set<std::string_view> dtypes = {
      "uint8", "int8",     "int16", "int32",  "int64", "float16", "float32", "float64",
      "bool",  "bfloat16", "half",  "double", "float", "int",     "long",    "short"};
  if (dtypes.contains(name)) return Object(dtype_from_name(name));
  return std::nullopt;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const BuiltIn& b : kBuiltIns) names.emplace_back(b.name);
  for (const OpDef* op : all_ops()) {
    const OpInfo& info = *op->info;
    if (!info.name.starts_with('_')) names.push_back(info.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace pellucid::cli
