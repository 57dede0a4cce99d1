#include "core/call_text.h"

#include "base/caller.h"
#include "core/registry.h"
#include "recorder/python_place.h"

namespace pellucid {

std::string call_text(const Call& c) {
  std::string s = info_of(c.op()).name + "(";
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (i) s += ", ";
    s += c.in(i).defined() ? describe(c.in(i)) : "None";
  }
  return s + ")";
}

std::string describe_call(const Call& c) {
  std::string s = call_text(c);
  std::string line = profile::python_line_now();
  if (line.empty()) line = source_line(caller_outside_library());
  if (!line.empty()) s += " at " + line;
  return s;
}

}  // namespace pellucid
