#include "core/call_text.h"

#include <mutex>
#include <set>

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

std::string line_now() {
  const std::string line = profile::python_line_now();
  return line.empty() ? source_line(caller_outside_library()) : line;
}

std::string describe_call(const Call& c) {
  std::string s = call_text(c);
  if (const std::string line = line_now(); !line.empty()) s += " at " + line;
  return s;
}

void ProgramLine::note() {
  const std::string now = profile::python_line_now();
  caller = now.empty() ? caller_outside_library() : nullptr;
  if (now.empty()) return;
  static std::mutex mutex;
  static auto* const lines = new std::set<std::string>;  // calls may outlive static objects
  const std::lock_guard lock(mutex);
  python = &*lines->insert(now).first;
}

std::string ProgramLine::text() const {
  return python ? *python : caller ? source_line(caller) : "";
}

}  // namespace pellucid
