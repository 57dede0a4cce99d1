// The loop over the instructions, the stack, and where errors get their caret.
#include "cli/machine/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/machine/operators.h"
#include "cli/text.h"

namespace pellucid::cli {

using expr::Opcode;

namespace {

template <class... Types>
[[noreturn]] void rethrow_as(const Error& error, const std::string& message) {
  const auto try_one = [&]<class E>(const E*) {
    if (dynamic_cast<const E*>(&error) != nullptr) throw E(message);
  };
  (try_one(static_cast<const Types*>(nullptr)), ...);
  throw Error(message);
}

[[noreturn]] void unknown_name(const expr::Code& code, const expr::Instruction& at,
                               const std::string& name, std::vector<std::string> candidates,
                               bool function) {
  std::string message = fmt::format("{} '{}' is not defined", function ? "function" : "name", name);
  const std::string hint = did_you_mean(name, candidates);
  message += hint.empty() && !function
                 ? fmt::format("; give it a value, as in {}=2 or {} = rand(2, 3)", name, name)
                 : hint;
  throw expr::ExprError(code.source, at.span, message);
}

}  // namespace

void rethrow_pointed(std::string_view source, expr::Span span) {
  try {
    throw;
  } catch (const expr::ExprError&) { throw; } catch (const Error& e) {
    rethrow_as<ShapeError, TypeError, IndexError, ValueError, OutOfMemoryError, NotImplementedError,
               IoError, AutogradError>(e, expr::point_at(e.what(), source, span));
  }
}

void Machine::set(std::string_view name, Object value) {
  const auto found = variables_.find(name);
  if (found != variables_.end())
    found->second = std::move(value);
  else
    variables_.emplace(name, std::move(value));
}

const Object* Machine::find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found != variables_.end() ? &found->second : nullptr;
}

Object Machine::run(const expr::Code& code) {
  stack_.clear();
  stack_.reserve(static_cast<size_t>(code.max_stack));
  size_t i = 0;
  try {
    for (; i < code.instructions.size(); ++i) {
      const expr::Instruction& instruction = code.instructions[i];
      if (before) before(i);
      if (instruction.op == Opcode::ReturnValue) break;
      execute(code, instruction);
      if (after) after(i);
    }
  } catch (...) {
    stack_.clear();
    rethrow_pointed(code.source, code.instructions[i].span);
  }
  Object result = pop();
  if (after) after(i);
  return result;
}

Object Machine::pop() {
  Object top = std::move(stack_.back());
  stack_.pop_back();
  return top;
}

Tuple Machine::pop_many(int32_t count) {
  const auto first = stack_.end() - count;
  Tuple out(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
  stack_.erase(first, stack_.end());
  return out;
}

void Machine::execute(const expr::Code& code, const expr::Instruction& i) {
  const auto at = [&](int32_t from_top) -> Object& { return stack_[stack_.size() - from_top]; };
  switch (i.op) {
    case Opcode::LoadConst:
      return push(Object(code.constants[i.arg]));
    case Opcode::LoadName:
      return push(load(code, i));
    case Opcode::StoreName:
      return set(code.names[i.arg], pop());
    case Opcode::LoadAttr:
      return push(attribute(pop(), code.names[i.arg]));
    case Opcode::UnaryNegative:
      return push(unary(expr::UnaryOp::Negative, pop()));
    case Opcode::UnaryPositive:
      return push(unary(expr::UnaryOp::Positive, pop()));
    case Opcode::UnaryInvert:
      return push(unary(expr::UnaryOp::Invert, pop()));
    case Opcode::BinaryOp: {
      const Object right = pop(), left = pop();
      return push(binary(binary_op(i), is_in_place(i), left, right));
    }
    case Opcode::CompareOp: {
      const Object right = pop(), left = pop();
      return push(compare(static_cast<expr::CompareOp>(i.arg), left, right));
    }
    case Opcode::BinarySubscr: {
      const Object index = pop(), object = pop();
      return push(subscript(object, index));
    }
    case Opcode::StoreSubscr: {
      const Object index = pop(), object = pop(), value = pop();
      return store_subscript(object, index, value);
    }
    case Opcode::BuildList:
      return push(to_value(pop_many(i.arg)));
    case Opcode::BuildTuple:
      return push(pop_many(i.arg));
    case Opcode::BuildSlice: {
      const Tuple parts = pop_many(i.arg);
      const auto end = [&](size_t k) -> std::optional<int64_t> {
        if (k >= parts.size() || parts[k].is_none()) return std::nullopt;
        return to_int(parts[k], "the end or step of a slice");
      };
      return push(indexing::Slice(end(0), end(1), end(2)));
    }
    case Opcode::UnpackSequence:
      return unpack(i.arg);
    case Opcode::Call:
      return call(code, i, false);
    case Opcode::CallMethod:
      return call(code, i, true);
    case Opcode::Copy:
      return push(Object(at(i.arg)));
    case Opcode::Swap:
      return std::swap(at(1), at(i.arg));
    case Opcode::PopTop:
      pop();
      return;
    case Opcode::ReturnValue:
      return;  // run() ends there
  }
}

Object Machine::load(const expr::Code& code, const expr::Instruction& i) const {
  const std::string& name = code.names[i.arg];
  if (const Object* value = find(name)) return *value;
  if (std::optional<Object> value = constant(name)) return std::move(*value);
  if (is_function(name))
    throw expr::ExprError(code.source, i.span,
                          fmt::format("'{}' is a function; call it, as in {}(x)", name, name));
  std::vector<std::string> candidates = {"pi"};
  for (const auto& variable : variables_) candidates.push_back(variable.first);
  unknown_name(code, i, name, std::move(candidates), false);
}

void Machine::call(const expr::Code& code, const expr::Instruction& i, bool method) {
  const expr::CallSite& site = code.calls[i.arg];
  const std::string& name = code.names[site.name];
  Arguments arguments;
  Tuple keyword_values = pop_many(static_cast<int32_t>(site.keywords.size()));
  for (size_t k = 0; k < keyword_values.size(); ++k)
    arguments.keywords.emplace_back(code.names[site.keywords[k]], std::move(keyword_values[k]));
  arguments.positional = pop_many(site.positional);
  if (method) {
    const Object object = pop();
    return push(call_method(object, name, std::move(arguments)));
  }
  if (is_function(name)) return push(call_function(name, std::move(arguments)));
  if (const Object* variable = find(name))
    throw expr::ExprError(
        code.source, i.span,
        fmt::format("'{}' is a variable ({}), not a function", name, variable->type_name()));
  unknown_name(code, i, name, function_names(), true);
}

// The first element ends up on top.
void Machine::unpack(int32_t count) {
  const Object sequence = pop();
  Tuple elements;
  if (const Tuple* tuple = sequence.tuple())
    elements = *tuple;
  else if (const Values* list = sequence.list())
    elements.assign(list->begin(), list->end());
  else if (const Tensor* t = sequence.tensor(); t != nullptr && t->dim() > 0)
    for (int64_t k = 0; k < std::min<int64_t>(t->size(0), count + 1); ++k)
      elements.push_back((*t)[k]);
  else
    detail::raise<TypeError>("{} cannot be taken apart into {} names.", sequence.type_name(),
                             count);
  PELLUCID_CHECK(elements.size() == static_cast<size_t>(count), ValueError,
                 "{} values for {} names.",
                 elements.size() > static_cast<size_t>(count) ? "too many" : "not enough", count);
  std::move(elements.rbegin(), elements.rend(), std::back_inserter(stack_));
}

}  // namespace pellucid::cli
