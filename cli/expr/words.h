// What single words and symbols mean to the parser, and what its messages call things.
#pragma once

#include <optional>
#include <string_view>

#include "cli/expr/ast.h"

namespace pellucid::expr {

/// The operator of a symbol such as "//"; nothing if the text is no such operator.
std::optional<BinaryOp> binary_op(std::string_view text);
std::optional<UnaryOp> unary_op(std::string_view text);
std::optional<CompareOp> compare_op(std::string_view text);

/// A word of Python that the language does not have, with what to write instead.
struct Refusal {
  std::string_view word, advice;
};
/// Null for a word that is not refused.
const Refusal* refusal(std::string_view word);

/// True, inf, pass…: words with a meaning of their own, which cannot be names.
bool is_constant(std::string_view word);

/// "a function call": a node of this kind, in a message about what cannot be done with it.
std::string_view describe(Kind kind);

}  // namespace pellucid::expr
