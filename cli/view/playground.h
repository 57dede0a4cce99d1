// The playground of the viewer: an expression from the page, evaluated in a process of its own that
// may neither take long nor much memory.
#pragma once

#include <string>
#include <vector>

namespace pellucid::cli::view {

/// Answers POST /api/playground. The body is {"expression": …, "inputs": {name: text, …}}; the
/// answer is what `pellucid step --json --layout` prints. One evaluation runs at a time. Throws
/// ValueError with what the page should show: a mistake in the expression, or a limit.
class Playground {
 public:
  /// `program` is the command `pellucid`.
  explicit Playground(std::string program) : program_(std::move(program)) {}
  std::string answer(const std::string& body) const;
  /// The same for an expression and bindings NAME=VALUE.
  std::string evaluate(const std::string& expression,
                       const std::vector<std::string>& bindings) const;

  double seconds = 5;                ///< after which an evaluation is ended
  int64_t bytes = int64_t{1} << 30;  ///< of tensors

 private:
  std::string program_;
};

}  // namespace pellucid::cli::view
