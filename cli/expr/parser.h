// From text to tree. The language is Python's expressions and assignments:
//
//   program    statement (';' | newline) …                 comments run from '#' to the end of the
//   line statement  target '=' values | target OP'=' values | values | 'pass' target     name |
//   x[…] | a, b                          values: expression, or a tuple without parentheses
//   expression == != < <= > >= | ^ & << >> + - * / // % @  unary - + ~  **  x.name  x[…]  f(…)
//   x.f(…) atom       name 12 0xff 1e-3 inf nan True False None 'text' [a, b] (a, b) (a) … index
//   any of: expression, start:stop:step, None, ... arguments  positional, then name=value
//
// What Python has and this language has not is refused by name: and/or/not, chained comparisons,
// if, lambda, import.
#pragma once

#include <string>
#include <string_view>

#include "cli/expr/ast.h"

namespace pellucid::expr {

/// Brackets, signs and powers may be nested this deep; longer flat expressions have no limit.
inline constexpr int kMaxNesting = 200;

/// Parses a program; an empty text gives a program without statements. Throws ExprError.
Ast parse(std::string_view source);

/// Parses one expression: no assignment, no second statement. The node is the program's only
/// statement.
Ast parse_expression(std::string_view source);

/// Parses a command's argument NAME=VALUE: the program's only statement assigns to a name.
Ast parse_binding(std::string_view argument);

}  // namespace pellucid::expr
