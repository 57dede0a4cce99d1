// Where the nanoseconds of one op go: the expression or Python and its binding, infer, allocation,
// the tape and the kernel, each measured on its own.
#pragma once

#include <string>
#include <vector>

#include "cli/machine/machine.h"
#include "pellucid/op.h"

namespace pellucid::cli {

/// Nanoseconds of one call with gradients recorded; the parts sum to `whole`.
struct Anatomy {
  int64_t elements = 0;
  double whole = 0;       ///< the expression on the stack machine, an input wants a gradient
  double expression = 0;  ///< the expression without gradients - the same call from C++
  double binding = 0;     ///< of Python: the call by its C interface - the same call from C++
  double infer = 0;       ///< timed alone: sizes, dtypes, checks, the output's handle
  double allocation = 0;  ///< timed alone: the output's memory, taken and given back
  double tape = 0;        ///< a call with gradients - one without
  double kernel = 0;      ///< timed alone, on memory that is there
  double rest = 0;        ///< what is left: the door's own steps, and noise
};

/// An expression of one op, ready to be measured on inputs of any size.
class OneOp {
 public:
  /// Throws UsageError where the expression is not one op on variables and numbers.
  explicit OneOp(const std::string& expression);
  const OpDef& op() const { return *op_; }
  Anatomy measure(int64_t elements, double seconds_a_part) const;
  /// The same with the expression run by Python: `interpreter` must have the package pellucid.
  /// `whole`, `expression` and `binding` are Python's, measured in its own process; throws IoError
  /// where that fails.
  std::vector<Anatomy> measure_in_python(const std::string& interpreter,
                                         const std::vector<int64_t>& sizes,
                                         double seconds_a_part) const;

 private:
  struct Bound;
  void set_inputs(Machine& machine, int64_t elements, bool gradients) const;
  Bound bind(const Machine& machine) const;

  std::string source_;
  expr::Code code_;
  std::vector<std::string> variables_;  ///< without duplicates
  std::vector<std::string> operands_;   ///< of the op: a variable's name, or "" for a number
  std::vector<Scalar> numbers_;         ///< one an operand; read where its name is ""
  const OpDef* op_ = nullptr;
};

}  // namespace pellucid::cli
