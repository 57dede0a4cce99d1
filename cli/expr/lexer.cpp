// The lexer: Python's tokens, less what the language has no use for (indentation, complex numbers,
// f-strings).
#include "cli/expr/lexer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace pellucid::expr {
namespace {

// Longest first, so that '**=' is not read as '**' and '='.
constexpr auto kOperators = std::to_array<std::string_view>(
    {"**=", "//=", "<<=", ">>=", "...", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+=",
     "-=",  "*=",  "/=",  "%=",  "@=",  "&=", "|=", "^=", "+",  "-",  "*",  "/",  "%",  "@",
     "&",   "|",   "^",   "~",   "<",   ">",  "=",  "(",  ")",  "[",  "]",  ",",  ":",  "."});

struct Lookalike {
  std::string_view text, advice;
};

// What people type or paste, and what they meant.
constexpr std::array<Lookalike, 16> kLookalikes = {{
    {"&&", "use '&' for an elementwise and"},
    {"||", "use '|' for an elementwise or"},
    {"<>", "use '!='"},
    {"!", "use '~x' or logical_not(x)"},
    {"{", "the language has lists [1, 2] and tuples (1, 2), no sets or dicts"},
    {"}", "the language has lists [1, 2] and tuples (1, 2), no sets or dicts"},
    {"\u2212", "use '-'"},
    {"\u2013", "use '-'"},
    {"\u00d7", "use '*'"},
    {"\u00b7", "use '*'"},
    {"\u00f7", "use '/'"},
    {"\u00b2", "use '**2'"},
    {"\u2018", "use a plain quote"},
    {"\u2019", "use a plain quote"},
    {"\u201c", "use a plain quote"},
    {"\u201d", "use a plain quote"},
}};

constexpr uint64_t kIntegerLimit = uint64_t{1} << 63;

struct LexError {
  Span span;
  std::string message;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Value of a digit of any base up to 16; 99 for anything else.
unsigned digit_value(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return 99;
}

// Latin, Greek and Cyrillic letters may stand in names.
bool is_letter(char32_t c) {
  if (c < 0x80) return is_ascii_letter(static_cast<char>(c));
  return (c >= 0xc0 && c <= 0x24f && c != 0xd7 && c != 0xf7) ||
         (c >= 0x370 && c <= 0x52f && c != 0x37e && c != 0x387);
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Tokens run() {
    try {
      while (next()) {}
    } catch (LexError& e) {
      out_.error = std::move(e.message);
      out_.list.push_back({.kind = TokenKind::Error, .span = e.span});
      return std::move(out_);
    }
    const auto end = static_cast<int32_t>(source_.size());
    out_.list.push_back({.kind = TokenKind::End, .span = {end, end}});
    return std::move(out_);
  }

 private:
  // One character of UTF-8: its code point and its bytes.
  struct Character {
    char32_t code;
    int32_t bytes;
  };

  char peek(int32_t ahead = 0) const {
    const size_t i = static_cast<size_t>(at_) + static_cast<size_t>(ahead);
    return i < source_.size() ? source_[i] : '\0';
  }
  bool at_end() const { return static_cast<size_t>(at_) >= source_.size(); }
  std::string_view rest() const { return source_.substr(at_); }
  [[noreturn]] void fail(int32_t begin, int32_t end, std::string message) const {
    throw LexError{{begin, end}, std::move(message)};
  }
  Token& push(TokenKind kind, int32_t begin) {
    return out_.list.emplace_back(Token{.kind = kind, .span = {begin, at_}});
  }

  bool next() {
    skip_blanks();
    if (at_end()) return false;
    const char c = peek();
    if (c == '\n' || c == ';') return separator();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (c == '\'' || c == '"') return string();
    if (is_letter(character().code)) return name();
    return operation();
  }

  void skip_blanks() {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && !out_.unclosed.empty()))
        ++at_;
      else if (c == '\\' && peek(1) == '\n')
        at_ += 2;
      else if (c == '\\' && peek(1) == '\r' && peek(2) == '\n')
        at_ += 3;
      else if (c == '#')
        while (!at_end() && peek() != '\n') ++at_;
      else
        return;
    }
  }

  bool separator() {
    const int32_t begin = at_++;
    push(TokenKind::Separator, begin);
    return true;
  }

  Character character() const {
    const auto byte = [&](int32_t i) { return static_cast<unsigned char>(peek(i)); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const int32_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    char32_t code = lead & (0x7fu >> bytes);
    bool valid = lead >= 0xc2 && lead <= 0xf4;
    for (int32_t i = 1; valid && i < bytes; ++i) {
      valid = (byte(i) & 0xc0) == 0x80;
      code = (code << 6) | (byte(i) & 0x3fu);
    }
    const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (!valid || overlong || surrogate || code > 0x10ffff)
      fail(at_, at_ + 1, fmt::format("the byte 0x{:02x} is not valid UTF-8", lead));
    return {code, bytes};
  }

  bool name() {
    const int32_t begin = at_;
    while (!at_end()) {
      const Character c = character();
      if (!is_letter(c.code) && !is_digit(peek())) break;
      at_ += c.bytes;
    }
    push(TokenKind::Name, begin);
    return true;
  }

  bool operation() {
    const auto here = [&](std::string_view text) {
      return text[0] == peek() && rest().starts_with(text);
    };
    for (const Lookalike& l : kLookalikes)
      if (here(l.text) && !here("!="))
        fail(at_, at_ + static_cast<int32_t>(l.text.size()),
             fmt::format("'{}' is not an operator; {}", l.text, l.advice));
    for (const std::string_view op : kOperators)
      if (here(op)) return operation(op);
    const Character c = character();
    const int32_t end = at_ + c.bytes;
    if (c.code < 0x20 || c.code == 0x7f)
      fail(at_, end,
           fmt::format("unexpected control character U+{:04X}", static_cast<uint32_t>(c.code)));
    fail(at_, end,
         fmt::format("unexpected character '{}' (U+{:04X})", source_.substr(at_, c.bytes),
                     static_cast<uint32_t>(c.code)));
  }

  bool operation(std::string_view op) {
    const int32_t begin = at_;
    at_ += static_cast<int32_t>(op.size());
    if (op == "(" || op == "[") out_.unclosed.push_back(begin);
    if ((op == ")" || op == "]") && !out_.unclosed.empty()) out_.unclosed.pop_back();
    push(TokenKind::Operator, begin);
    return true;
  }

  // Digits with single underscores between them, the underscores left out.
  std::string digits(unsigned base) {
    std::string out;
    while (digit_value(peek()) < base || peek() == '_') {
      const bool underscore = peek() == '_';
      if (underscore && (out.empty() || digit_value(peek(1)) >= base))
        fail(at_, at_ + 1, "an underscore in a number must stand between two digits");
      if (!underscore) out += peek();
      ++at_;
    }
    return out;
  }

  bool number() {
    const int32_t begin = at_;
    if (peek() == '0') {
      const char mark = static_cast<char>(peek(1) | 0x20);
      if (mark == 'x') return based_integer(begin, 16, "hexadecimal");
      if (mark == 'o') return based_integer(begin, 8, "octal");
      if (mark == 'b') return based_integer(begin, 2, "binary");
    }
    std::string text = digits(10);
    bool is_float = false;
    if (peek() == '.') {
      is_float = true;
      ++at_;
      text += '.';
      if (is_digit(peek())) text += digits(10);
    }
    const int32_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      is_float = true;
      text += 'e';
      if (sign == 1 && peek(1) == '-') text += '-';
      at_ += 1 + sign;
      text += digits(10);
    }
    check_number_ends(begin);
    if (is_float) return floating(begin, text);
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != std::string::npos)
      fail(begin, at_, "an integer may not begin with 0; for octal write 0o17");
    return integer(begin, text, 10);
  }

  bool based_integer(int32_t begin, int base, std::string_view kind) {
    at_ += 2;
    const std::string text = digits(static_cast<unsigned>(base));
    if (text.empty())
      fail(begin, at_,
           fmt::format("expected {} digits after '{}'", kind, source_.substr(begin, 2)));
    check_number_ends(begin);
    return integer(begin, text, base);
  }

  // "2x" is a product in mathematics, not here.
  void check_number_ends(int32_t begin) {
    if (at_end() || (!is_digit(peek()) && !is_letter(character().code))) return;
    const int32_t number_end = at_;
    while (!at_end() && (is_digit(peek()) || is_letter(character().code))) at_ += character().bytes;
    const std::string_view tail = source_.substr(number_end, at_ - number_end);
    if (tail == "j" || tail == "J") fail(begin, at_, "complex numbers are not supported");
    if (tail.size() > 20 || number_end - begin > 20)
      fail(begin, at_, "a number is followed by a letter; to multiply, write '*'");
    const std::string_view number = source_.substr(begin, number_end - begin);
    fail(begin, at_,
         fmt::format("'{}{}' is not a number; to multiply, write {}*{}", number, tail, number,
                     tail));
  }

  bool integer(int32_t begin, const std::string& text, int base) {
    uint64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (status != std::errc() || value > kIntegerLimit)
      fail(begin, at_,
           "the integer is too large: int64 ends at 9223372036854775807; for a float write a '.' "
           "or an exponent");
    push(TokenKind::Integer, begin).integer = value;
    return true;
  }

  bool floating(int32_t begin, const std::string& text) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    // from_chars does not tell overflow from underflow; a number that is too small is a denormal or
    // 0, as in Python.
    if (status == std::errc::result_out_of_range) value = std::strtod(text.c_str(), nullptr);
    if (std::isinf(value))
      fail(begin, at_,
           "the number is too large: float64 ends at about 1.8e308; for infinity write inf");
    push(TokenKind::Float, begin).number = value;
    return true;
  }

  bool string() {
    const int32_t begin = at_;
    const char quote = peek();
    std::string value;
    ++at_;
    while (peek() != quote) {
      if (at_end() || peek() == '\n')
        fail(begin, at_, fmt::format("the string is never closed; expected {}", quote));
      if (peek() == '\\') {
        escape(value);
        continue;
      }
      const int32_t bytes = character().bytes;
      value += source_.substr(at_, bytes);
      at_ += bytes;
    }
    ++at_;
    push(TokenKind::String, begin).integer = out_.strings.size();
    out_.strings.push_back(std::move(value));
    return true;
  }

  void escape(std::string& value) {
    constexpr std::string_view kLetters = "ntr0\\'\"", kMeanings{"\n\t\r\0\\'\"", 7};
    const int32_t begin = at_;
    const char letter = peek(1);
    at_ += 2;
    const int32_t hex_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 0;
    if (hex_digits == 0) {
      const size_t which = kLetters.find(letter);
      if (which == std::string_view::npos || static_cast<size_t>(at_) > source_.size())
        fail(begin, begin + 1,
             "unknown escape in a string; there are \\n \\t \\r \\0 \\\\ \\' \\\" \\xhh and "
             "\\uhhhh");
      value += kMeanings[which];
      return;
    }
    char32_t code = 0;
    for (int32_t i = 0; i < hex_digits; ++i, ++at_) {
      const unsigned digit = digit_value(peek());
      if (digit > 15)
        fail(begin, at_,
             fmt::format("expected {} hexadecimal digits after \\{}", hex_digits, letter));
      code = code * 16 + digit;
    }
    if (code >= 0xd800 && code <= 0xdfff) fail(begin, at_, "a surrogate is not a character");
    append_utf8(value, code);
  }

  std::string_view source_;
  int32_t at_ = 0;
  Tokens out_;
};

}  // namespace

Tokens tokenize(std::string_view source) {
  // Offsets are 32 bits wide, and lookahead must not overflow them.
  PELLUCID_CHECK(source.size() < (size_t{1} << 30), ValueError,
                 "expression: {} bytes of text; at most {} are allowed", source.size(),
                 (size_t{1} << 30) - 1);
  return Lexer(source).run();
}

}  // namespace pellucid::expr
