// The stack machine: runs compiled expressions on tensors, numbers and lists.
//
//   Machine machine;
//   machine.set("x", tensor(2.0));
//   machine.run(expr::compile("sin(x)**2"));
//
// Operators are in operators.h, functions in functions.h. It prints and measures nothing: commands
// that do so watch it through the hooks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/expr/code.h"
#include "cli/machine/functions.h"
#include "cli/machine/object.h"

namespace pellucid::cli {

/// Variables and the stack of one evaluation after the other.
class Machine {
 public:
  /// Called with the index of the instruction that is about to run or has just run.
  using Hook = std::function<void(size_t index)>;

  void set(std::string_view name, Object value);
  /// Null for a name that is not bound.
  const Object* find(std::string_view name) const;
  const std::map<std::string, Object, std::less<>>& variables() const { return variables_; }

  /// The value of the program's last statement. An error keeps its type, and its message ends with
  /// the source line and a caret under the part that failed.
  Object run(const expr::Code& code);

  /// The operands, the last on top; what a hook looks at.
  const std::vector<Object>& stack() const { return stack_; }
  Hook before, after;

 private:
  void execute(const expr::Code& code, const expr::Instruction& instruction);
  Object load(const expr::Code& code, const expr::Instruction& instruction) const;
  void call(const expr::Code& code, const expr::Instruction& instruction, bool method);
  void unpack(int32_t count);
  Tuple pop_many(int32_t count);
  Object pop();
  void push(Object value) { stack_.push_back(std::move(value)); }

  std::map<std::string, Object, std::less<>> variables_;
  std::vector<Object> stack_;
};

/// Throws the exception being handled again, with a caret under `span` of the source and of the
/// same type; an ExprError, which has its caret, as it is.
[[noreturn]] void rethrow_pointed(std::string_view source, expr::Span span);

}  // namespace pellucid::cli
