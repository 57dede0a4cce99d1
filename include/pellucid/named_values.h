// NamedValues: an ordered list of (name, value), the form in which optimisers, schedules, loaders
// and programs hand their state to a checkpoint.
#pragma once

#include <string_view>
#include <vector>

#include "pellucid/value.h"

namespace pellucid {

/// Names are unique; the order is kept when saved.
using NamedValues = std::vector<NamedValue>;

/// The value called `name`, or null.
PELLUCID_API const Value* find_value(const NamedValues& values, std::string_view name);
/// The value called `name`; throws ValueError that begins with `who` where there is none.
PELLUCID_API const Value& value_of(const NamedValues& values, std::string_view name,
                                   std::string_view who);
/// The same as a number of type int64_t, double or bool, or as a text; throws TypeError for another
/// type.
PELLUCID_API int64_t integer_of(const NamedValues& values, std::string_view name,
                                std::string_view who);
PELLUCID_API double number_of(const NamedValues& values, std::string_view name,
                              std::string_view who);
PELLUCID_API std::string text_of(const NamedValues& values, std::string_view name,
                                 std::string_view who);
/// The list of numbers called `name`.
PELLUCID_API std::vector<double> numbers_of(const NamedValues& values, std::string_view name,
                                            std::string_view who);
/// The values whose names begin with "prefix.", without it.
PELLUCID_API NamedValues part_of(const NamedValues& values, std::string_view prefix);
/// Adds `part` to `values`, each name with "prefix." before it.
PELLUCID_API void add_part(NamedValues& values, std::string_view prefix, NamedValues part);

}  // namespace pellucid
