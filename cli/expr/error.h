// Where something stands in the text of an expression, and the error that points there.
// Knows nothing of the grammar: the lexer, the parser and the evaluator all report through it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pellucid/error.h"

namespace pellucid::expr {

/// A half-open range of bytes of the source text.
struct Span {
  int32_t begin = 0, end = 0;
  friend bool operator==(Span, Span) = default;
};

/// Line and column for people: both count from 1, columns in characters, not bytes.
struct Position {
  int line = 1, column = 1;
};

/// The position of a byte of the source.
Position locate(std::string_view source, int32_t offset);

/// Characters (code points) of UTF-8 text.
int count_characters(std::string_view utf8);

/// The message, then the source line, then a caret line under the span; long lines are cut around
/// the caret.
std::string point_at(std::string_view message, std::string_view source, Span span);

/// A mistake in the text of an expression; what() shows the line with a caret under the mistake.
class ExprError : public ValueError {
 public:
  ExprError(std::string_view source, Span span, std::string message);

  /// What is wrong, without the source line.
  const std::string& message() const { return message_; }
  Span span() const { return span_; }
  /// As Python's SyntaxError.lineno and offset: both count from 1.
  int line() const { return position_.line; }
  int column() const { return position_.column; }
  /// Characters under the caret and tildes, at least 1.
  int length() const { return length_; }

 private:
  std::string message_;
  Span span_;
  Position position_;
  int length_;
};

}  // namespace pellucid::expr
