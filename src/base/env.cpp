// Parsing of environment variables; every malformed value is an error that names the variable.
#include "base/env.h"

#include <charconv>
#include <cstdlib>

#include "pellucid/error.h"

namespace pellucid {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::optional<std::string> env_string(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<int64_t> env_int(const char* name, int64_t least, int64_t most) {
  const auto text = env_string(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  PELLUCID_CHECK(error == std::errc() && stop == end && value >= least && value <= most, ValueError,
                 "environment variable {} must be an integer from {} to {}, but is '{}'.", name,
                 least, most, *text);
  return value;
}

int64_t parse_bytes(std::string_view text, std::string_view what) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const std::string suffix = lower(std::string_view(stop, static_cast<size_t>(end - stop)));
  double unit = 0;
  if (suffix.empty() || suffix == "b")
    unit = 1;
  else if (suffix == "k" || suffix == "kb" || suffix == "kib")
    unit = 0x1p10;
  else if (suffix == "m" || suffix == "mb" || suffix == "mib")
    unit = 0x1p20;
  else if (suffix == "g" || suffix == "gb" || suffix == "gib")
    unit = 0x1p30;
  else if (suffix == "t" || suffix == "tb" || suffix == "tib")
    unit = 0x1p40;
  const double bytes = number * unit;
  PELLUCID_CHECK(error == std::errc() && unit > 0 && bytes >= 0 && bytes < 0x1p63, ValueError,
                 "{} must be a size in bytes such as 1048576, 512K, 1.5G, but is '{}'.", what,
                 text);
  return static_cast<int64_t>(bytes);
}

std::optional<int64_t> env_bytes(const char* name) {
  const auto text = env_string(name);
  if (!text) return std::nullopt;
  return parse_bytes(*text, fmt::format("environment variable {}", name));
}

bool env_bool(const char* name, bool otherwise) {
  const auto text = env_string(name);
  if (!text) return otherwise;
  const std::string word = lower(*text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  PELLUCID_CHECK(word == "0" || word == "false" || word == "no" || word == "off", ValueError,
                 "environment variable {} must be 1/0, true/false, yes/no or on/off, but is '{}'.",
                 name, *text);
  return false;
}

}  // namespace pellucid
