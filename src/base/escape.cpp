// See escape.h.
#include "base/escape.h"

#include <fmt/format.h>

#include <cstdint>

namespace pellucid::text {
namespace {

constexpr char32_t kReplacement = 0xfffd;

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xe0 | (c >> 12));
    } else {
      put(0xf0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3f));
    }
    put(0x80 | ((c >> 6) & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

template <class Put> std::string converted(std::string_view text, Put put) {
  std::string out;
  out.reserve(text.size() + 2);
  while (!text.empty()) put(out, next_character(text));
  return out;
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

// Marks and overrides that make a terminal show characters in another order than they stand in, and
// separators that it may take for the end of a line.
bool reorders(char32_t c) {
  return c == 0x2028 || c == 0x2029 || c == 0x200e || c == 0x200f || c == 0x061c ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

char32_t next_character(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                                       : 4;
  char32_t c = kReplacement;
  size_t taken = 1;
  if (length == 1) {
    c = first;
  } else if (length > 1 && first < 0xf5 && text.size() >= length) {
    char32_t value = first & (0xffu >> (length + 1));
    bool good = true;
    for (size_t i = 1; i < length; ++i) {
      good = good && (byte(i) & 0xc0) == 0x80;
      value = (value << 6) | (byte(i) & 0x3fu);
    }
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    good =
        good && value >= kLeast[length] && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff);
    if (good) {
      c = value;
      taken = length;
    }
  }
  text.remove_prefix(taken);
  return c;
}

std::string utf8(std::string_view text) {
  return converted(text, [](std::string& out, char32_t c) { append_utf8(out, c); });
}

void append_visible(std::string& out, char32_t c) {
  if (c < 0x20)
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  else if (is_control(c) || reorders(c))
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  else
    append_utf8(out, c);
}

std::string visible(std::string_view text) { return converted(text, append_visible); }

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with("\r\n")) text.remove_prefix(1);
    const char32_t c = next_character(text);
    if (c == '\n' || c == '\t')
      out += static_cast<char>(c);
    else
      append_visible(out, c);
  }
  return out;
}

std::string xml(std::string_view text) {
  return converted(text, [](std::string& out, char32_t c) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const bool allowed = c == '\t' || c == '\n' || !is_control(c);
        append_utf8(out, allowed && c != 0xfffe && c != 0xffff ? c : kReplacement);
      }
    }
  });
}

std::string csv_cell(std::string_view text) {
  std::string out = converted(
      text, [](std::string& to, char32_t c) { append_utf8(to, c == 0 ? kReplacement : c); });
  if (!out.empty() && std::string_view("=+-@\t\r").find(out[0]) != std::string_view::npos)
    out.insert(out.begin(), '\'');
  if (out.find_first_of(",\"\r\n") == std::string::npos) return out;
  std::string quoted = "\"";
  for (const char c : out) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string json_string(std::string_view text) {
  std::string out = converted(text, [](std::string& to, char32_t c) {
    if (c == '"' || c == '\\') {
      to += '\\';
      to += static_cast<char>(c);
    } else if (is_control(c) || c == '<' || c == 0x2028 || c == 0x2029) {
      to += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      append_utf8(to, c);
    }
  });
  return '"' + out + '"';
}

}  // namespace pellucid::text
