// Program: the captured calls of a function, which run again without it, by the names of its
// inputs.
//
//   Program p = trace([](const Tensors& in) { return Tensors{in[0] + in[1], in[0] * in[1]}; },
//                     {{"a", a}, {"b", b}});
//   Tensors r = p.run({{"a", full({}, 2)}, {"b", full({}, 3)}});   // 5 and 6
//
// See docs/compile.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/lazy.h"

namespace pellucid {

namespace detail {
class TracedProgram;
}

/// A call of a program, as data.
struct ProgramNode {
  std::string op;                    ///< "relu", or "relu_" for a change in place
  std::vector<std::string> inputs;   ///< "%3" for a result, "in0" for a tensor from outside
  std::vector<std::string> outputs;  ///< "%4"; with its version where it is changed ("%4.2")
  std::vector<std::string> forms;    ///< of the outputs: "float32[64, 100]"
  int group = -1;                    ///< which group it runs in, -1 for none or not yet known
};
/// The calls of a program before the first pass ("capture"), after a pass, or as they run ("fuse").
struct PELLUCID_API ProgramStage {
  std::string name;
  std::vector<ProgramNode> nodes;
  /// One line a call: "%4 float32[64, 100] = relu(%3)".
  std::string text() const;
};

/// Inputs of a program with their names.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The calls of a traced function: passes ran over them, and their memory is planned. Tensors that
/// the function used and that are no inputs (parameters) are read, and changed, where they are.
/// Copies share the program. Any number of threads may run it.
class PELLUCID_API Program {
 public:
  Program() = default;
  /// Runs it with inputs in the order of inputs(). They have the dtypes and sizes of those that it
  /// was traced with; the results have no history. Throws ValueError, TypeError or ShapeError.
  Tensors run(TensorList inputs) const;
  /// The same by name; each input once, in any order.
  Tensors run(const NamedTensors& inputs) const;

  /// The names of its inputs.
  const std::vector<std::string>& inputs() const;
  /// How many calls it makes.
  int64_t calls() const;
  /// One line a call: "%4 float32[64, 100] = relu(%3)".
  std::string text() const;
  /// The calls as captured, after each pass, and as they run, in groups.
  std::vector<ProgramStage> stages() const;
  /// Bytes that one run takes at its peak beside its inputs: results, and what is inside.
  int64_t peak_bytes() const;
  /// What runs how.
  Explanation explain() const;

 private:
  friend PELLUCID_API Program trace(const std::function<Tensors(const Tensors&)>& f,
                                    const NamedTensors& inputs);
  explicit Program(std::shared_ptr<detail::TracedProgram> traced) : traced_(std::move(traced)) {}
  const detail::TracedProgram& traced() const;
  std::shared_ptr<detail::TracedProgram> traced_;
};

/// Calls f with stand-ins for the inputs and captures what it does. Nothing runs: f may ask for
/// sizes and dtypes, and not for values (that throws ValueError with the line). Values, versions
/// and gradients of other tensors are afterwards what they were before.
PELLUCID_API Program trace(const std::function<Tensors(const Tensors&)>& f,
                           const NamedTensors& inputs);

}  // namespace pellucid
