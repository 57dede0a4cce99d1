// The tables behind words.h.
#include "cli/expr/words.h"

#include <algorithm>
#include <array>

namespace pellucid::expr {
namespace {

// Words of Python that are no names here, with what to write instead.
constexpr auto kRefused = std::to_array<Refusal>({
    {"and", "use '&' with parentheses around comparisons, or logical_and(a, b)"},
    {"or", "use '|' with parentheses around comparisons, or logical_or(a, b)"},
    {"not", "use '~x' or logical_not(x)"},
    {"if", "use where(condition, a, b)"},
    {"else", "use where(condition, a, b)"},
    {"in", "use (x == value).any()"},
    {"is", "use '=='"},
    {"lambda", "the language has no functions of its own"},
    {"def", "the language has no functions of its own"},
    {"return", "the last statement is the result"},
    {"import", "every operator is there by its name"},
    {"from", "every operator is there by its name"},
    {"for", "the language has no loops; operators work on whole tensors"},
    {"while", "the language has no loops; operators work on whole tensors"},
    {"with", "only expressions and assignments are supported"},
    {"class", "only expressions and assignments are supported"},
    {"del", "only expressions and assignments are supported"},
    {"assert", "only expressions and assignments are supported"},
});

// Found by the parser's own rules, so they may not be used as names.
constexpr auto kConstants =
    std::to_array<std::string_view>({"True", "False", "None", "inf", "nan", "pass"});

struct BinaryToken {
  std::string_view text;
  BinaryOp op;
};
constexpr auto kBinaryTokens = std::to_array<BinaryToken>({
    {"+", BinaryOp::Add},
    {"-", BinaryOp::Subtract},
    {"*", BinaryOp::Multiply},
    {"/", BinaryOp::TrueDivide},
    {"//", BinaryOp::FloorDivide},
    {"%", BinaryOp::Remainder},
    {"@", BinaryOp::MatMul},
    {"**", BinaryOp::Power},
    {"&", BinaryOp::And},
    {"|", BinaryOp::Or},
    {"^", BinaryOp::Xor},
    {"<<", BinaryOp::LeftShift},
    {">>", BinaryOp::RightShift},
});

}  // namespace

std::optional<BinaryOp> binary_op(std::string_view text) {
  for (const BinaryToken& t : kBinaryTokens)
    if (t.text == text) return t.op;
  return std::nullopt;
}

std::optional<UnaryOp> unary_op(std::string_view text) {
  for (const UnaryOp op : {UnaryOp::Negative, UnaryOp::Positive, UnaryOp::Invert})
    if (symbol(op) == text) return op;
  return std::nullopt;
}

std::optional<CompareOp> compare_op(std::string_view text) {
  for (int i = 0; i < 6; ++i)
    if (symbol(static_cast<CompareOp>(i)) == text) return static_cast<CompareOp>(i);
  return std::nullopt;
}

const Refusal* refusal(std::string_view word) {
  for (const Refusal& r : kRefused)
    if (r.word == word) return &r;
  return nullptr;
}

bool is_constant(std::string_view word) {
  return std::find(kConstants.begin(), kConstants.end(), word) != kConstants.end();
}

std::string_view describe(Kind kind) {
  switch (kind) {
    case Kind::None:
    case Kind::Bool:
    case Kind::Integer:
    case Kind::Float:
    case Kind::String:
    case Kind::Ellipsis:
      return "a constant";
    case Kind::List:
      return "a list";
    case Kind::Tuple:
      return "a tuple";
    case Kind::Attribute:
      return "an attribute";
    case Kind::Call:
      return "a function call";
    case Kind::Compare:
      return "a comparison";
    default:
      return "an expression";
  }
}

}  // namespace pellucid::expr
