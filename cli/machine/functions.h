// What expressions can call and name beyond their own variables: every op by name as function and
// method, the few functions and methods that are not ops, attributes, and constants.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/machine/object.h"

namespace pellucid::cli {

/// The arguments of one call.
struct Arguments {
  std::vector<Object> positional;
  std::vector<std::pair<std::string, Object>> keywords;

  /// Takes the keyword out; nothing if it was not given.
  std::optional<Object> take(std::string_view name);
  /// Throws TypeError unless there are least…most positional arguments and no keyword is left.
  void expect(std::string_view function, size_t least, size_t most) const;
};

/// A bool that was given, else (also for None) `otherwise`; throws TypeError, with `what` in it,
/// for anything else.
bool flag(std::optional<Object> object, bool otherwise, std::string_view what);

/// Whether a function of that name exists.
bool is_function(std::string_view name);
/// Calls a function that exists.
Object call_function(std::string_view name, Arguments arguments);
/// object.name(…); throws TypeError where the object has no such method.
Object call_method(const Object& object, const std::string& name, Arguments arguments);
/// object.name; throws TypeError where the object has no such attribute.
Object attribute(const Object& object, const std::string& name);
/// pi, float32, torch…: names that mean something without being bound.
std::optional<Object> constant(std::string_view name);

/// All that can be called, for suggestions.
std::vector<std::string> function_names();

}  // namespace pellucid::cli
