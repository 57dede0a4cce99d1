// Caret lines. Columns are counted in code points; characters of double width are counted as one.
#include "cli/expr/error.h"

#include <algorithm>

namespace pellucid::expr {
namespace {

// The part of a long line that is shown before and after the caret, in characters.
constexpr int kShownBefore = 40, kShownAfter = 60;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The bytes of the line that holds `offset`, without its newline.
Span line_around(std::string_view source, int32_t offset) {
  const auto at = static_cast<size_t>(offset);
  const size_t before = at == 0 ? std::string_view::npos : source.rfind('\n', at - 1);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const size_t end = std::min(source.find('\n', at), source.size());
  return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

Span clamp(std::string_view source, Span span) {
  const auto size = static_cast<int32_t>(source.size());
  const int32_t begin = std::clamp(span.begin, 0, size);
  const int32_t end = std::clamp(span.end, begin, line_around(source, begin).end);
  return {begin, std::max(begin, end)};
}

// Control characters would move the terminal's cursor and misplace the caret.
void append_visible(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte == '\t' ? ' ' : (byte < 0x20 || byte == 0x7f) ? '?' : c;
  }
}

}  // namespace

int count_characters(std::string_view utf8) {
  return static_cast<int>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return !continues_character(c); }));
}

Position locate(std::string_view source, int32_t offset) {
  const int32_t at = std::clamp(offset, 0, static_cast<int32_t>(source.size()));
  const Span line = line_around(source, at);
  return {
      .line = 1 + static_cast<int>(std::count(source.begin(), source.begin() + line.begin, '\n')),
      .column = 1 + count_characters(source.substr(line.begin, at - line.begin))};
}

std::string point_at(std::string_view message, std::string_view source, Span span) {
  const Span mark = clamp(source, span);
  const Span line = line_around(source, mark.begin);
  int32_t first = mark.begin, last = mark.begin;
  for (int n = 0; n < kShownBefore && first > line.begin; ++n) {
    --first;
    while (first > line.begin && continues_character(source[first])) --first;
  }
  for (int n = 0; n < kShownAfter && last < line.end; ++n) {
    ++last;
    while (last < line.end && continues_character(source[last])) ++last;
  }

  std::string out(message);
  const bool cut_before = first > line.begin, cut_after = last < line.end;
  out += "\n    ";
  if (cut_before) out += "...";
  append_visible(out, source.substr(first, last - first));
  if (cut_after) out += "...";
  out += "\n    ";
  out.append((cut_before ? 3 : 0) + count_characters(source.substr(first, mark.begin - first)),
             ' ');
  const int32_t end = std::min(mark.end, last);
  out += '^';
  const int width = count_characters(source.substr(mark.begin, end - mark.begin));
  if (width > 1) out.append(width - 1, '~');
  return out;
}

ExprError::ExprError(std::string_view source, Span span, std::string message)
    : ValueError(point_at(message, source, span)),
      message_(std::move(message)),
      span_(span),
      position_(locate(source, span.begin)) {
  const Span mark = clamp(source, span);
  length_ = std::max(1, count_characters(source.substr(mark.begin, mark.end - mark.begin)));
}

}  // namespace pellucid::expr
