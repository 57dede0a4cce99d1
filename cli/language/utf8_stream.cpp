// Whole characters out of pieces of bytes.
#include "cli/language/utf8_stream.h"

#include <utility>

namespace pellucid::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// How many bytes a character has that begins with this one; 0 where none does.
size_t length_of(unsigned char first) {
  return first < 0x80                    ? 1
         : first >= 0xC2 && first < 0xE0 ? 2
         : first >= 0xE0 && first < 0xF0 ? 3
         : first >= 0xF0 && first < 0xF5 ? 4
                                         : 0;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string Utf8Stream::add(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const size_t length = length_of(static_cast<unsigned char>(held_[at]));
    size_t have = 1;
    while (have < length && at + have < held_.size() && continues(held_[at + have])) ++have;
    if (have < length && at + have == held_.size()) break;  // the rest may still come
    if (have == length)
      out.append(held_, at, length);
    else
      out += kReplacement;
    at += have;
  }
  held_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  return std::exchange(held_, {}).empty() ? std::string() : std::string(kReplacement);
}

}  // namespace pellucid::cli
