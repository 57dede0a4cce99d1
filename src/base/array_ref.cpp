// How a list of sizes is printed.
#include "pellucid/array_ref.h"

namespace pellucid {

std::string to_string(IntArrayRef values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace pellucid
