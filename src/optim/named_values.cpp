// Look-up in lists of named values, with errors that name what is missing.
#include "pellucid/named_values.h"

namespace pellucid {

const Value* find_value(const NamedValues& values, std::string_view name) {
  for (const NamedValue& v : values)
    if (v.name == name) return &v.value;
  return nullptr;
}

const Value& value_of(const NamedValues& values, std::string_view name, std::string_view who) {
  const Value* v = find_value(values, name);
  PELLUCID_CHECK(v, ValueError, "{}: there is no entry '{}' among the {} given.", who, name,
                 values.size());
  return *v;
}

int64_t integer_of(const NamedValues& values, std::string_view name, std::string_view who) {
  const Value& v = value_of(values, name, who);
  PELLUCID_CHECK(v.as<int64_t>(), TypeError, "{}: '{}' must be an int, found {}.", who, name,
                 v.type_name());
  return *v.as<int64_t>();
}

double number_of(const NamedValues& values, std::string_view name, std::string_view who) {
  const Value& v = value_of(values, name, who);
  PELLUCID_CHECK(v.is_number(), TypeError, "{}: '{}' must be a number, found {}.", who, name,
                 v.type_name());
  return v.scalar().toDouble();
}

std::string text_of(const NamedValues& values, std::string_view name, std::string_view who) {
  const Value& v = value_of(values, name, who);
  PELLUCID_CHECK(v.as<std::string>(), TypeError, "{}: '{}' must be a string, found {}.", who, name,
                 v.type_name());
  return *v.as<std::string>();
}

std::vector<double> numbers_of(const NamedValues& values, std::string_view name,
                               std::string_view who) {
  const Value& v = value_of(values, name, who);
  const Values* list = v.as<Values>();
  PELLUCID_CHECK(list, TypeError, "{}: '{}' must be a list of numbers, found {}.", who, name,
                 v.type_name());
  std::vector<double> numbers;
  for (const Value& e : *list) numbers.push_back(e.scalar().toDouble());
  return numbers;
}

NamedValues part_of(const NamedValues& values, std::string_view prefix) {
  NamedValues part;
  for (const NamedValue& v : values)
    if (v.name.size() > prefix.size() && v.name.starts_with(prefix) && v.name[prefix.size()] == '.')
      part.push_back({v.name.substr(prefix.size() + 1), v.value});
  return part;
}

void add_part(NamedValues& values, std::string_view prefix, NamedValues part) {
  for (NamedValue& v : part)
    values.push_back({fmt::format("{}.{}", prefix, v.name), std::move(v.value)});
}

}  // namespace pellucid
