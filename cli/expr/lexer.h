// Cuts the text of an expression into tokens, each with its place in the source.
// A bad character does not stop the parser before it gets there: it becomes a last token of kind
// Error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/expr/error.h"

namespace pellucid::expr {

enum class TokenKind : uint8_t { Name, Integer, Float, String, Operator, Separator, End, Error };

struct Token {
  TokenKind kind = TokenKind::End;
  Span span;
  uint64_t integer = 0;  // Integer: the value, at most 2^63 (which only a minus sign makes valid);
                         // String: its index
  double number = 0;     // Float
};

/// All tokens of a source; the last is End or Error.
struct Tokens {
  std::vector<Token> list;
  std::vector<std::string> strings;  // the values of String tokens, escapes resolved
  std::vector<int32_t> unclosed;     // offsets of the brackets that are still open at the end
  std::string error;                 // the message of the Error token
};

/// Tokens of the source. Newlines inside brackets are white space; elsewhere they separate, as ';'
/// does.
Tokens tokenize(std::string_view source);

}  // namespace pellucid::expr
