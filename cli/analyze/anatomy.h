// Where the nanoseconds of one op go: the expression or Python and its binding, infer, allocation,
// the tape and the kernel, each measured on its own.
#pragma once

#include <string>
#include <vector>

#include "cli/machine/machine.h"
#include "pellucid/op.h"

namespace pellucid::cli {

/// A timing: the fastest of its blocks, and how far the middle one was from it.
struct Timing {
  double ns = 0, noise = 0;
};
/// A part of a call: at least 0. `noise` is what its timings scatter by; a part below that cannot
/// be told from nothing.
struct AnatomyPart {
  double ns = 0, noise = 0;
  bool below_noise() const { return ns < noise; }
};

/// Nanoseconds of one call with gradients tracked; the parts sum to the whole.
struct Anatomy {
  int64_t elements = 0;
  Timing whole;            ///< the expression, an input wants a gradient
  AnatomyPart expression;  ///< the whole - the same call from C++ or by Python's C interface
  AnatomyPart binding;     ///< of Python: the call by its C interface - the same call from C++
  AnatomyPart infer;       ///< timed alone: sizes, dtypes, checks, the output's handle
  AnatomyPart allocation;  ///< timed alone: the output's memory, taken and given back
  AnatomyPart tape;        ///< a call with gradients - one without
  AnatomyPart kernel;      ///< timed alone, on memory that is there
  AnatomyPart rest;        ///< what is left: the dispatcher's other steps
  /// What the parts that are timed alone come to beyond the call that contains them, as a share of
  /// it: 0 on a quiet machine. They are shown smaller by that.
  double excess = 0;
};

/// The timings that parts are made of. Each is contained in the one before: the whole, Python's
/// call, the tracked call, the plain call; the last holds infer, allocation and kernel.
struct AnatomyTimings {
  Timing whole, call, tracked, plain, infer, allocation, kernel;
};
/// Parts that are at least 0 and sum to the whole, whatever the noise; `binding` only of Python.
Anatomy parts_of(int64_t elements, const AnatomyTimings& timings, bool python);

/// An expression of one op, ready to be measured on inputs of any size.
class OneOp {
 public:
  /// Throws UsageError where the expression is not one op on variables and numbers.
  explicit OneOp(const std::string& expression);
  const OpDef& op() const { return *op_; }
  Anatomy measure(int64_t elements, double seconds_a_part) const;
  /// What `measure` makes its parts of, the loops taking turns.
  AnatomyTimings time(int64_t elements, double seconds_a_part) const;
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
