// Who keeps a tensor's memory: variables, gradients, views and what the tape saved for backward.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pellucid/tensor.h"

namespace pellucid {

/// One holder of a tensor's memory.
struct Holder {
  enum class Kind : uint8_t {
    Variable,  ///< a variable that was named
    Gradient,  ///< the gradient of such a variable
    Saved,     ///< a slot of a tape node that a variable's history leads to
  };
  Kind kind = Kind::Variable;
  std::vector<std::string> path;  ///< "loss", "SumBackward0", "MulBackward0", "saved other"
  bool is_view = false;           ///< it looks at the memory with other sizes, strides or offset
};

/// All that keeps a tensor alive, as far as the given variables lead there.
struct PELLUCID_API WhyAlive {
  int64_t bytes = 0;   ///< of the memory
  int64_t owners = 0;  ///< tensors that share the memory, the asked one included
  std::vector<Holder> holders;
  /// A few lines: what it is, who holds it, and what would free it.
  std::string to_string() const;
};

/// Looks for a tensor's memory in the variables, their gradients and their histories; the shortest
/// path to each saved slot is given.
PELLUCID_API WhyAlive why_alive(const Tensor& tensor,
                                const std::vector<std::pair<std::string, Tensor>>& variables);

}  // namespace pellucid
