// The out-of-line halves of the checks and of the formatters in pellucid/error.h.
#include "pellucid/error.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.h"

namespace pellucid::detail {

std::string format_message(fmt::string_view format, fmt::format_args args) {
  // Names in it may come from a file, and the message goes to a terminal sooner or later.
  return text::printable(fmt::vformat(format, args));
}

fmt::format_context::iterator TextFormatter::write(std::string_view text,
                                                   fmt::format_context& context) const {
  if (spec_.size() == 0) return std::copy(text.begin(), text.end(), context.out());
  const std::string format = fmt::format("{{:{}}}", spec_);
  const std::string filled = fmt::format(fmt::runtime(format), text);
  return std::copy(filled.begin(), filled.end(), context.out());
}

void assertion_failed(const char* expression, const char* file, int line) {
  throw Error(
      fmt::format("internal assertion failed: {} at {}:{}. This is a bug in pellucid; please "
                  "report it with the program that shows it.",
                  expression, file, line));
}

}  // namespace pellucid::detail
