// Calls by name: binds run-time values to a schema as Python binds arguments, resolves overloads,
// calls the dispatcher.
#include <deque>

#include "core/generated_support.h"
#include "core/registry.h"
#include "pellucid/op.h"

namespace pellucid {
namespace {

// Inputs and attributes made from values; owns what they point to.
struct Bound {
  std::deque<Tensor> tensors;
  std::deque<Dims> lists;
  std::deque<std::string> texts;
  std::vector<const Tensor*> inputs;
  std::vector<Attr> attrs;

  void add_tensor(Tensor t) { inputs.push_back(&tensors.emplace_back(std::move(t))); }
};

[[noreturn]] void mismatch(const OpInfo& info, const Arg& a, const Value& v,
                           std::string_view wanted) {
  detail::raise<TypeError>("{}: argument '{}' must be {}, found {}.", info.name, a.name, wanted,
                           v.type_name());
}

int64_t to_int(const OpInfo& info, const Arg& a, const Value& v, std::string_view wanted) {
  if (const int64_t* i = v.as<int64_t>()) return *i;
  if (const bool* b = v.as<bool>()) return *b;
  if (const Tensor* t = v.as<Tensor>(); t && t->numel() == 1 && is_integral(t->dtype(), true))
    return t->item<int64_t>();
  mismatch(info, a, v, wanted);
}

void bind_tensor(const OpInfo& info, const Arg& a, const Value& v, Bound& b) {
  if (const Tensor* t = v.as<Tensor>())
    b.add_tensor(*t);
  else if (v.is_none() && a.optional)
    b.add_tensor({});
  else if (v.is_number() && a.scalar_too)
    b.add_tensor(wrapped_number(v.scalar()));
  else
    mismatch(info, a, v,
             a.scalar_too ? "a Tensor or a number"
             : a.optional ? "a Tensor or None"
                          : "a Tensor");
}

void bind_list(const OpInfo& info, const Arg& a, const Value& v, Bound& b) {
  const Values* list = v.as<Values>();
  if (!list) mismatch(info, a, v, "a list of Tensors");
  for (const Value& e : *list) {
    if (const Tensor* t = e.as<Tensor>())
      b.add_tensor(*t);
    else if (e.is_none() && a.optional_elements)
      b.add_tensor({});
    else
      mismatch(info, a, e, "a list of Tensors");
  }
}

void bind_ints(const OpInfo& info, const Arg& a, const Value& v, Bound& b) {
  Dims& dims = b.lists.emplace_back();
  if (const Values* list = v.as<Values>()) {
    for (const Value& e : *list) dims.push_back(to_int(info, a, e, "a list of ints"));
    if (a.fixed_length > 1 && dims.size() == 1)
      dims.resize(static_cast<size_t>(a.fixed_length), dims[0]);
  } else {
    if (!v.is_number()) mismatch(info, a, v, "a list of ints");
    dims.resize(static_cast<size_t>(std::max(a.fixed_length, 1)),
                to_int(info, a, v, "a list of ints"));
  }
  b.attrs.emplace_back(dims.ref());
}

void bind_attr(const OpInfo& info, const Arg& a, const Value& v, Bound& b) {
  if (a.type == ArgType::Device) return;
  if (v.is_none()) {
    if (!a.optional) mismatch(info, a, v, "a value");
    b.attrs.emplace_back();
    return;
  }
  switch (a.type) {
    case ArgType::Bool:
      if (!v.as<bool>() && !v.as<int64_t>()) mismatch(info, a, v, "a bool");
      b.attrs.emplace_back(v.scalar().toBool());
      break;
    case ArgType::Int:
      b.attrs.emplace_back(to_int(info, a, v, "an int"));
      break;
    case ArgType::Float:
    case ArgType::Scalar: {
      const Tensor* t = v.as<Tensor>();
      if (!v.is_number() && !(t && t->numel() == 1)) mismatch(info, a, v, "a number");
      const Scalar s = t ? t->item() : v.scalar();
      if (a.type == ArgType::Float)
        b.attrs.emplace_back(s.toDouble());
      else
        b.attrs.emplace_back(s);
      break;
    }
    case ArgType::Ints:
      bind_ints(info, a, v, b);
      break;
    case ArgType::Text:
      if (!v.as<std::string>()) mismatch(info, a, v, "a str");
      b.attrs.emplace_back(std::string_view(b.texts.emplace_back(*v.as<std::string>())));
      break;
    case ArgType::DType:
      if (!v.as<DType>()) mismatch(info, a, v, "a dtype");
      b.attrs.emplace_back(*v.as<DType>());
      break;
    case ArgType::Format:
      if (!v.as<MemoryFormat>()) mismatch(info, a, v, "a memory_format");
      b.attrs.emplace_back(*v.as<MemoryFormat>());
      break;
    default:
      PELLUCID_ASSERT(false);
  }
}

// x.view(2, 3) and rand(2, 3): trailing integers stand for one list, as in PyTorch.
Values gather_varargs(const OpInfo& info, std::span<const Value> args) {
  Values out(args.begin(), args.end());
  size_t position = 0;
  while (position < info.args.size() && info.args[position].type == ArgType::Tensor) ++position;
  const bool takes_list = position < info.args.size() && info.args[position].type == ArgType::Ints;
  if (!takes_list || args.size() <= position + 1) return out;
  for (size_t i = position; i < args.size(); ++i)
    if (!args[i].as<int64_t>()) return out;
  // Only where a later positional argument is not an int itself, or there are more ints than
  // arguments.
  size_t positional = 0;
  for (const Arg& a : info.args) positional += !a.keyword_only;
  const bool creation_or_view =
      info.args[position].fixed_length == 0 && !info.args[position].optional;
  if (!creation_or_view && args.size() <= positional) return out;
  Values list(args.begin() + static_cast<std::ptrdiff_t>(position), args.end());
  out.resize(position);
  out.emplace_back(std::move(list));
  return out;
}

Bound bind(const OpInfo& info, std::span<const Value> given, std::span<const NamedValue> kwargs) {
  const Values args = gather_varargs(info, given);
  std::vector<const Value*> chosen(info.args.size(), nullptr);
  size_t next = 0;
  for (const Value& v : args) {
    while (next < info.args.size() && info.args[next].type == ArgType::Device) ++next;
    PELLUCID_CHECK(next < info.args.size() && !info.args[next].keyword_only, TypeError,
                   "{}() takes {} positional arguments but {} were given.", info.name, next,
                   args.size());
    chosen[next++] = &v;
  }
  for (const NamedValue& k : kwargs) {
    size_t i = 0;
    while (i < info.args.size() && info.args[i].name != k.name &&
           !(i == 0 && info.args[0].name == "self" && k.name == "input"))
      ++i;
    PELLUCID_CHECK(i < info.args.size(), TypeError, "{}() got an unexpected keyword argument '{}'.",
                   info.name, k.name);
    PELLUCID_CHECK(!chosen[i], TypeError, "{}() got multiple values for argument '{}'.", info.name,
                   k.name);
    chosen[i] = &k.value;
  }
  Bound b;
  for (size_t i = 0; i < info.args.size(); ++i) {
    const Arg& a = info.args[i];
    PELLUCID_CHECK(chosen[i] || a.has_default || a.type == ArgType::Device, TypeError,
                   "{}() missing required argument: '{}'.", info.name, a.name);
    const Value& v = chosen[i] ? *chosen[i] : a.default_value;
    if (a.type == ArgType::Tensor)
      bind_tensor(info, a, v, b);
    else if (a.type == ArgType::TensorList)
      bind_list(info, a, v, b);
    else
      bind_attr(info, a, v, b);
  }
  return b;
}

std::vector<Value> run(const OpDef& op, const OpInfo& info, Bound& b, bool in_place) {
  if (in_place) {
    PELLUCID_CHECK(info.has_in_place, TypeError, "{} has no in-place form {}_.", info.name,
                   info.name);
    call_in_place(op, b.inputs, b.attrs);
    return {Value(*b.inputs[0])};
  }
  Tensors results = call(op, b.inputs, b.attrs);
  if (info.output_list) return {Value::tensors(results)};
  return {results.begin(), results.end()};
}

std::string signature(const OpInfo& info) {
  std::string s = info.name + "(";
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].type == ArgType::Device) continue;
    if (i) s += ", ";
    if (info.args[i].keyword_only && !info.args[i - 1].keyword_only) s += "*, ";
    s += info.args[i].name;
    if (info.args[i].has_default) s += "=" + info.args[i].default_value.repr();
  }
  return s + ")";
}

std::string_view without_underscore(std::string_view name) {
  return name.substr(0, name.size() - 1);
}

}  // namespace

NamedOps find_callable(std::string_view name) {
  NamedOps found{find_ops(name)};
  if (found.ops.empty() && name.size() > 1 && name.back() == '_')
    found = {find_ops(without_underscore(name)), true};
  std::erase_if(found.ops, [&](const OpDef* op) {
    const OpInfo& info = info_of(*op);
    return found.in_place ? !info.has_in_place : info.in_place_only;
  });
  return found;
}

std::vector<Value> invoke(const OpDef& op, std::span<const Value> args,
                          std::span<const NamedValue> kwargs, bool in_place) {
  const OpInfo& info = info_of(op);
  Bound b = bind(info, args, kwargs);
  return run(op, info, b, in_place);
}

std::vector<Value> invoke(std::string_view name, std::span<const Value> args,
                          std::span<const NamedValue> kwargs) {
  const auto [ops, in_place] = find_callable(name);
  PELLUCID_CHECK(!ops.empty() || !in_place || find_ops(without_underscore(name)).empty(), TypeError,
                 "{} has no in-place form {}.", without_underscore(name), name);
  PELLUCID_CHECK(!ops.empty(), ValueError, "there is no op named '{}'.", name);
  std::string problems;
  for (const OpDef* op : ops) {
    const OpInfo& info = info_of(*op);
    std::optional<Bound> b;
    try {
      b = bind(info, args, kwargs);
    } catch (const TypeError& e) {
      if (ops.size() == 1) throw;
      problems += fmt::format("\n  {}: {}", signature(info), e.what());
    }
    if (b) return run(*op, info, *b, in_place);
  }
  detail::raise<TypeError>("{}() does not take these arguments:{}", name, problems);
}

}  // namespace pellucid
