// Figures as text and JSON.
#include <nlohmann/json.hpp>

#include "pellucid/analyze.h"

namespace pellucid {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Value& v) {
  if (const bool* b = v.as<bool>()) return *b;
  if (const int64_t* i = v.as<int64_t>()) return *i;
  if (const double* d = v.as<double>()) return *d;
  if (const std::string* s = v.as<std::string>()) return *s;
  return v.repr();
}

std::string to_text(const Value& v) {
  if (const double* d = v.as<double>()) return fmt::format("{:.6g}", *d);
  if (const std::string* s = v.as<std::string>()) return *s;
  if (const bool* b = v.as<bool>()) return *b ? "true" : "false";
  return v.repr();
}

}  // namespace

void Figures::merge(const Figures& other) {
  for (const NamedValue& v : other.values_)
    if (!contains(v.name)) values_.push_back(v);
}

double Figures::operator[](std::string_view name) const {
  return value_of(values_, name, "Figures").scalar().toDouble();
}

std::string Figures::text(std::string_view name) const {
  return to_text(value_of(values_, name, "Figures"));
}

std::string Figures::to_string() const {
  std::string out;
  for (const NamedValue& v : values_) out += fmt::format("{}: {}\n", v.name, to_text(v.value));
  return out;
}

std::string Figures::json() const {
  Json out = Json::object();
  for (const NamedValue& v : values_) {
    Json* at = &out;
    std::string_view rest = v.name;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest.remove_prefix(dot + 1))
      at = &(*at)[std::string(rest.substr(0, dot))];
    (*at)[std::string(rest)] = to_json(v.value);
  }
  return out.dump(2);
}

}  // namespace pellucid
