// The two out-of-line halves of the checks in pellucid/error.h.
#include "pellucid/error.h"

#include <fmt/format.h>

#include "base/escape.h"

namespace pellucid::detail {

std::string format_message(fmt::string_view format, fmt::format_args args) {
  // Names in it may come from a file, and the message goes to a terminal sooner or later.
  return text::printable(fmt::vformat(format, args));
}

void assertion_failed(const char* expression, const char* file, int line) {
  throw Error(
      fmt::format("internal assertion failed: {} at {}:{}. This is a bug in pellucid; please "
                  "report it with the program that shows it.",
                  expression, file, line));
}

}  // namespace pellucid::detail
