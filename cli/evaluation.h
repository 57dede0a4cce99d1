// An evaluation that is watched: every intermediate gets a name, its formula in terms of the names
// before it, and its value; then the gradients. What `graph` and `step` show is made here.
//
// A value that is assigned has the name it is given; another one the next free letter, and the
// result of the program `y`: exp(sin(x**2))*x becomes a = x**2, b = sin(a), c = exp(b), y = c * x.
// A name that is bound a second time gets a number: x, x_2, x_3.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/expr/compile.h"
#include "cli/machine/machine.h"
#include "pellucid/autograd.h"

namespace pellucid::cli {

/// A value with a name: a leaf given on the command line, or what an operation computed.
struct NamedStep {
  std::string name;     // "b"
  std::string formula;  // "sin(a)"; empty for a leaf
  Object value;         // as it is now: later operations may have changed it in place
  Object shown;         // as it was when it was computed (a large tensor: as it is now)
  size_t instruction = 0;
  uint64_t node = 0;  // sequence number of its node on the tape; 0: no gradient flows through
};

/// d(result)/d(name).
struct NamedGradient {
  std::string name;
  Tensor value;  // undefined: the result does not depend on it
  bool leaf = false;
};

/// Evaluates a program on leaves and keeps all that it computes.
class Evaluation {
 public:
  /// Compiles the expression and reads the bindings NAME=VALUE; numbers and lists become float32
  /// tensors that require gradients. Throws UsageError for a binding that is none.
  Evaluation(const std::string& expression, const std::vector<std::string>& bindings);

  /// Whether steps keep the tensors they made, which an unwatched evaluation would free.
  bool keep_values = true;

  /// Runs the program; `after` is called after each instruction, when the names are up to date.
  void run(const std::function<void(size_t instruction)>& after = {});

  const expr::Code& code() const { return code_; }
  const Machine& machine() const { return machine_; }
  const std::vector<NamedStep>& leaves() const { return leaves_; }
  const std::vector<NamedStep>& steps() const { return steps_; }
  /// Names of what is on the machine's stack.
  const std::vector<std::string>& stack_names() const { return names_; }
  /// Bindings that the program does not read.
  std::vector<std::string> unused() const;

  const Object& result() const { return result_; }
  const std::string& result_name() const { return result_name_; }
  /// The tensors of the result through which gradients flow.
  const Tensors& roots() const { return roots_; }
  /// What is differentiated: the result, or the sum of its elements; undefined without gradient.
  const Tensor& objective() const { return objective_; }
  /// "y", or "sum(y)" where the result has more than one element.
  std::string objective_name() const;
  /// "dy/dx", or "d sum(y)/dx".
  std::string derivative_name(const std::string& by) const;
  /// Whether something was given that could be differentiated by.
  bool has_variables() const;
  /// The name of the value whose gradient goes into a node; "" where it has none.
  std::string name_of(const autograd::Node& node) const;
  /// Of the leaves, and of the intermediates from the last to the first.
  std::vector<NamedGradient> gradients() const;

 private:
  void bind(const std::string& binding);
  void add_step(std::string name, std::string formula, const Object& value, size_t instruction);
  void before_instruction(size_t index);
  void after_instruction(size_t index);
  std::string formula(const expr::Instruction& i, const std::vector<std::string>& operands) const;
  std::string name_for(size_t index) const;
  std::string numbered(const std::string& name) const;
  std::string fresh_letter() const;
  bool is_taken(const std::string& name) const;
  void finish();

  expr::Ast ast_;
  expr::Code code_;
  Machine machine_;
  std::vector<NamedStep> leaves_, steps_;
  std::vector<std::string> names_;                   // parallel to the machine's stack
  std::vector<std::string> operands_;                // of the instruction that is running
  std::map<std::string, std::string> current_name_;  // of a variable: "x", later "x_2"
  Object result_;
  std::string result_name_;
  Tensors roots_;
  Tensor objective_;
};

}  // namespace pellucid::cli
