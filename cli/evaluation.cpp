// See evaluation.h. The names of values follow the machine's stack in a stack of their own.
#include "cli/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "cli/app.h"
#include "cli/expr/parser.h"
#include "cli/machine/operators.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::cli {

using expr::Opcode;

namespace {

// Whether a text can stand beside an operator without parentheses.
bool is_atom(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth == 0 && (c == ' ' || c == '*' || (c == '-' && (i == 0 || text[i - 1] != 'e'))))
      return false;
  }
  return true;
}

std::string atom(const std::string& text) { return is_atom(text) ? text : "(" + text + ")"; }

std::string joined(const std::vector<std::string>& parts, size_t from, size_t to) {
  std::string out;
  for (size_t i = from; i < to; ++i) out += (i > from ? ", " : "") + parts[i];
  return out;
}

// Computes something worth a line; loading, storing and building lists do not.
bool computes(Opcode op) {
  switch (op) {
    case Opcode::UnaryNegative:
    case Opcode::UnaryPositive:
    case Opcode::UnaryInvert:
    case Opcode::BinaryOp:
    case Opcode::CompareOp:
    case Opcode::BinarySubscr:
    case Opcode::LoadAttr:
    case Opcode::Call:
    case Opcode::CallMethod:
      return true;
    default:
      return false;
  }
}

std::string call_text(const expr::Code& code, const expr::CallSite& site,
                      const std::vector<std::string>& operands, size_t first) {
  std::vector<std::string> arguments(operands.begin() + static_cast<std::ptrdiff_t>(first),
                                     operands.end());
  const auto positional = static_cast<size_t>(site.positional);
  for (size_t k = 0; k < site.keywords.size(); ++k)
    arguments[positional + k] = code.names[site.keywords[k]] + "=" + arguments[positional + k];
  return code.names[site.name] + "(" + joined(arguments, 0, arguments.size()) + ")";
}

std::string slice_text(const std::vector<std::string>& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i)
    out += (i > 0 ? ":" : "") + (parts[i] == "None" ? std::string() : parts[i]);
  return out;
}

// Numbers of nodes are never used again, unlike their addresses.
uint64_t node_of(const Object& object) {
  const Tensor* t = object.tensor();
  if (t == nullptr || !t->requires_grad() || t->is_leaf()) return 0;
  return t->grad_fn()->sequence_nr();
}

// A copy that later changes in place do not reach; of a large tensor only the handle.
Object snapshot(const Object& object) {
  constexpr int64_t kMaxElements = 10'000;
  const Tensor* t = object.tensor();
  if (t == nullptr || t->numel() > kMaxElements) return object;
  const NoGradGuard off;
  return t->detach().clone();
}

bool differentiable(const Tensor& t) { return t.defined() && t.requires_grad(); }

void collect(const Object& object, Tensors& out) {
  if (const Tensor* t = object.tensor(); t != nullptr && differentiable(*t)) out.push_back(*t);
  if (const Tuple* tuple = object.tuple())
    for (const Object& o : *tuple) collect(o, out);
  if (const Values* list = object.list())
    for (const Value& v : *list) collect(Object(v), out);
}

}  // namespace

Evaluation::Evaluation(const std::string& expression, const std::vector<std::string>& bindings)
    : ast_(expr::parse(expression)), code_(expr::compile(ast_)) {
  for (const std::string& b : bindings) bind(b);
}

// A name that is given a number is a variable to differentiate by; an integer or bool tensor, a
// string or a dtype is what it is.
void Evaluation::bind(const std::string& binding) {
  if (binding.find('=') == std::string::npos)
    throw UsageError(
        fmt::format("'{}' is not of the form NAME=VALUE; quote an expression that has "
                    "blanks in it",
                    binding));
  const expr::Ast ast = expr::parse_binding(binding);
  const std::string name = ast.text(ast.child(ast.statements()[0], 0));
  Object value = machine_.run(expr::compile(ast));
  const bool literal = value.is_number() || value.list() != nullptr || value.tuple() != nullptr;
  try {
    if (literal && value.as<bool>() == nullptr) value = to_tensor(to_value(value), kFloat32);
  } catch (...) {
    rethrow_pointed(binding, {static_cast<int32_t>(binding.find('=')) + 1,
                              static_cast<int32_t>(binding.size())});
  }
  if (const Tensor* t = value.tensor(); t != nullptr && t->is_floating_point()) {
    const Tensor leaf = t->is_leaf() && !t->is_view() ? *t : t->detach().clone();
    leaf.requires_grad_();
    leaf.set_name(name);
    value = leaf;
  }
  machine_.set(name, value);
  std::erase_if(leaves_, [&](const NamedStep& s) { return s.name == name; });
  leaves_.push_back({.name = name, .formula = "", .value = value, .shown = value});
  current_name_[name] = name;
}

void Evaluation::run(const std::function<void(size_t)>& after) {
  machine_.before = [&](size_t i) { before_instruction(i); };
  machine_.after = [&](size_t i) {
    after_instruction(i);
    if (after) after(i);
  };
  result_ = machine_.run(code_);
  machine_.before = machine_.after = nullptr;
  finish();
}

std::vector<std::string> Evaluation::unused() const {
  std::set<std::string> read;
  for (const int32_t n : code_.free_names()) read.insert(code_.names[n]);
  std::vector<std::string> out;
  for (const NamedStep& leaf : leaves_)
    if (!read.contains(leaf.name)) out.push_back(leaf.name);
  return out;
}

void Evaluation::add_step(std::string name, std::string formula, const Object& value,
                          size_t instruction) {
  steps_.push_back({.name = std::move(name),
                    .formula = std::move(formula),
                    .value = keep_values ? value : Object(),
                    .shown = keep_values ? snapshot(value) : Object(),
                    .instruction = instruction,
                    .node = node_of(value)});
}

void Evaluation::before_instruction(size_t index) {
  const int pops = stack_use(code_, code_.instructions[index]).pops;
  operands_.assign(names_.end() - pops, names_.end());
  names_.resize(names_.size() - static_cast<size_t>(pops));
}

void Evaluation::after_instruction(size_t index) {
  const expr::Instruction& i = code_.instructions[index];
  switch (i.op) {
    case Opcode::LoadConst:
      names_.push_back(print_constant(code_.constants[i.arg]));
      if (names_.back() == "Ellipsis") names_.back() = "...";
      return;
    case Opcode::LoadName: {
      const auto known = current_name_.find(code_.names[i.arg]);
      names_.push_back(known != current_name_.end() ? known->second : code_.names[i.arg]);
      return;
    }
    case Opcode::StoreName: {
      const std::string& variable = code_.names[i.arg];
      const std::string& value = operands_[0];
      // What was just computed took the variable's name already; anything else is a second name.
      const bool just_computed = index > 0 && computes(code_.instructions[index - 1].op) &&
                                 !steps_.empty() && steps_.back().instruction == index - 1;
      if (just_computed) {
        current_name_[variable] = value;
        return;
      }
      const std::string name = numbered(variable);
      add_step(name, value, *machine_.find(variable), index);
      current_name_[variable] = name;
      return;
    }
    case Opcode::BuildList:
      return names_.push_back("[" + joined(operands_, 0, operands_.size()) + "]");
    case Opcode::BuildTuple:
      return names_.push_back("(" + joined(operands_, 0, operands_.size()) +
                              (operands_.size() == 1 ? ",)" : ")"));
    case Opcode::BuildSlice:
      return names_.push_back(slice_text(operands_));
    case Opcode::UnpackSequence:
      for (int32_t k = i.arg; k-- > 0;)
        names_.push_back(fmt::format("{}[{}]", atom(operands_[0]), k));
      return;
    case Opcode::Copy:
      for (const std::string& n : operands_) names_.push_back(n);
      return names_.push_back(operands_[0]);
    case Opcode::Swap:
      std::swap(operands_.front(), operands_.back());
      for (const std::string& n : operands_) names_.push_back(n);
      return;
    case Opcode::StoreSubscr:
    case Opcode::PopTop:
    case Opcode::ReturnValue:
      return;
    default:
      break;
  }
  const Object& value = machine_.stack().back();
  const std::string text = formula(i, operands_);
  const bool assigned = code_.instructions[index + 1].op == Opcode::StoreName;
  const bool last = code_.instructions[index + 1].op == Opcode::ReturnValue;
  // Sizes, dtypes and numbers in passing need no line of their own, and a tuple gets its names when
  // it is taken apart.
  if (value.tensor() == nullptr && !assigned && !last) return names_.push_back(text);
  const std::string name = name_for(index);
  add_step(name, text, value, index);
  names_.push_back(name);
}

std::string Evaluation::formula(const expr::Instruction& i,
                                const std::vector<std::string>& o) const {
  switch (i.op) {
    case Opcode::UnaryNegative:
      return "-" + atom(o[0]);
    case Opcode::UnaryPositive:
      return "+" + atom(o[0]);
    case Opcode::UnaryInvert:
      return "~" + atom(o[0]);
    case Opcode::BinaryOp: {
      const std::string_view sign = symbol(binary_op(i));
      const std::string_view gap = binary_op(i) == expr::BinaryOp::Power ? "" : " ";
      return fmt::format("{}{}{}{}{}", atom(o[0]), gap, sign, gap, atom(o[1]));
    }
    case Opcode::CompareOp:
      return fmt::format("{} {} {}", atom(o[0]), symbol(static_cast<expr::CompareOp>(i.arg)),
                         atom(o[1]));
    case Opcode::BinarySubscr: {
      // x[1, 2] is written without the parentheses of its tuple.
      const bool tuple = o[1].starts_with('(') && o[1].ends_with(')');
      return fmt::format("{}[{}]", atom(o[0]), tuple ? o[1].substr(1, o[1].size() - 2) : o[1]);
    }
    case Opcode::LoadAttr:
      return fmt::format("{}.{}", atom(o[0]), code_.names[i.arg]);
    case Opcode::Call:
      return call_text(code_, code_.calls[i.arg], o, 0);
    case Opcode::CallMethod:
      return atom(o[0]) + "." + call_text(code_, code_.calls[i.arg], o, 1);
    default:
      return "";
  }
}

bool Evaluation::is_taken(const std::string& name) const {
  const auto has = [&](const NamedStep& s) { return s.name == name; };
  return std::any_of(leaves_.begin(), leaves_.end(), has) ||
         std::any_of(steps_.begin(), steps_.end(), has);
}

// The name, or name_2, name_3… where it is taken.
std::string Evaluation::numbered(const std::string& name) const {
  std::string out = name;
  for (int n = 2; is_taken(out); ++n) out = fmt::format("{}_{}", name, n);
  return out;
}

// The variable that the next instruction stores to, the result's name, or a letter.
std::string Evaluation::name_for(size_t index) const {
  const expr::Instruction& next = code_.instructions[index + 1];
  if (next.op == Opcode::StoreName) return numbered(code_.names[next.arg]);
  if (next.op != Opcode::ReturnValue) return fresh_letter();
  const auto free = [&](const std::string& name) {
    return !is_taken(name) &&
           std::find(code_.names.begin(), code_.names.end(), name) == code_.names.end();
  };
  for (const char* name : {"y", "f", "z", "result"})
    if (free(name)) return name;
  return fresh_letter();
}

// a, b, c…, without the names that the program uses itself and without y, which is the result's.
std::string Evaluation::fresh_letter() const {
  const auto used = [&](const std::string& name) {
    return name == "y" || is_taken(name) ||
           std::find(code_.names.begin(), code_.names.end(), name) != code_.names.end();
  };
  for (char c = 'a'; c <= 'z'; ++c)
    if (!used(std::string(1, c))) return std::string(1, c);
  for (int n = 1;; ++n)
    if (const std::string name = fmt::format("v{}", n); !used(name)) return name;
}

void Evaluation::finish() {
  collect(result_, roots_);
  const expr::Instruction& last = code_.instructions.back();
  const std::string returned = operands_.empty() ? "" : operands_.back();
  result_name_ = last.op == Opcode::ReturnValue && is_taken(returned) ? returned : "y";
  if (roots_.empty()) return;
  if (roots_.size() == 1 && roots_[0].numel() == 1) {
    objective_ = roots_[0];
    return;
  }
  for (const Tensor& t : roots_) objective_ = objective_.defined() ? objective_ + t.sum() : t.sum();
}

std::string Evaluation::objective_name() const {
  const bool scalar = roots_.size() == 1 && roots_[0].numel() == 1;
  return scalar ? result_name_ : fmt::format("sum({})", result_name_);
}

std::string Evaluation::derivative_name(const std::string& by) const {
  const std::string of = objective_name();
  return fmt::format("d{}{}/d{}", of.ends_with(')') ? " " : "", of, by);
}

bool Evaluation::has_variables() const {
  return std::any_of(leaves_.begin(), leaves_.end(), [](const NamedStep& s) {
    return s.value.tensor() != nullptr && s.value.tensor()->requires_grad();
  });
}

std::string Evaluation::name_of(const autograd::Node& node) const {
  if (node.is_accumulate()) {
    const Tensor leaf = node.variable();
    for (const NamedStep& s : leaves_)
      if (s.value.tensor() != nullptr && s.value.tensor()->is_same(leaf)) return s.name;
    return "";
  }
  for (auto s = steps_.rbegin(); s != steps_.rend(); ++s)
    if (s->node != 0 && s->node == node.sequence_nr()) return s->name;
  return "";
}

std::vector<NamedGradient> Evaluation::gradients() const {
  std::vector<NamedGradient> out;
  if (!objective_.defined()) return out;
  autograd::variable_list inputs;
  const auto add = [&](const NamedStep& s, bool leaf) {
    const Tensor* t = s.value.tensor();
    if (t == nullptr || !t->requires_grad() || !t->is_floating_point()) return;
    const auto same = [&](const Tensor& other) { return other.is_same(*t); };
    const bool known = std::any_of(inputs.begin(), inputs.end(), same);
    const bool root = std::any_of(roots_.begin(), roots_.end(), same);
    if (known || (root && !leaf)) return;  // the result's own gradient is 1
    inputs.push_back(*t);
    out.push_back({.name = s.name, .value = {}, .leaf = leaf});
  };
  for (auto s = steps_.rbegin(); s != steps_.rend(); ++s) add(*s, false);
  for (const NamedStep& s : leaves_) add(s, true);
  if (inputs.empty()) return out;
  const auto grads = autograd::grad({objective_}, inputs, {}, true, false, true);
  for (size_t i = 0; i < out.size(); ++i) out[i].value = grads[i];
  return out;
}

}  // namespace pellucid::cli
