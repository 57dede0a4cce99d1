// Mistakes in expressions: what is said, and under which characters the caret stands.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/expr/parser.h"

using namespace pellucid::expr;

namespace {

struct Mistake {
  std::string source;
  int column, length;
  std::string message;  // the beginning of it
};

}  // namespace

TEST_CASE("expr errors: message and caret") {
  const std::vector<Mistake> mistakes = {
      {"a +", 4, 1, "expected an expression after '+', found the end of the text"},
      {"a + * b", 5, 1, "expected an expression after '+', found '*'"},
      {"* b", 1, 1, "expected an expression, found '*'"},
      {"a b", 3, 1, "expected an operator, ';' or the end of the line, found 'b'"},
      {"a 'b'", 3, 3, "expected an operator, ';' or the end of the line, found a string"},
      {"sin(x", 4, 1, "'(' is never closed; expected ')'"},
      {"y = f(g(x)", 6, 1, "'(' is never closed"},
      {"[1, 2", 1, 1, "'[' is never closed; expected ']'"},
      {"x)", 2, 1, "')' has no opening bracket"},
      {"f(x]", 4, 1, "']' does not close '('; expected ')'"},
      {"f(x y)", 5, 1, "expected an operator, ',' or ')', found 'y'"},
      {"f(x,,y)", 5, 1, "expected an expression after ',', found ','"},
      {"f(,)", 3, 1, "expected an expression after '(', found ','"},
      {"[,]", 2, 1, "expected an expression after '[', found ','"},
      {"x[]", 3, 1, "expected an index"},
      {"x[1:2:3:4]", 8, 1, "expected an operator, ':', ',' or ']', found ':'"},
      {"x.", 3, 1, "expected a name after '.', found the end of the text"},
      {"x.5", 2, 2, "expected an operator, ';' or the end of the line, found '.5'"},
      {"x = ", 5, 1, "expected an expression after '=', found the end of the text"},
      {"x = ; y", 5, 1, "expected an expression after '=', found ';'"},
      {"f(x) = 1", 1, 4, "cannot assign to a function call"},
      {"x.grad = 1", 1, 6, "cannot assign to an attribute"},
      {"a + b = 1", 1, 5, "cannot assign to an expression"},
      {"inf = 1", 1, 3, "cannot assign to a constant"},
      {"a, 2 = b", 4, 1, "cannot assign to a constant"},
      {"() = b", 1, 2, "cannot assign to a tuple"},
      {"a = b = 1", 7, 1, "chained assignment is not supported"},
      {"a, b += 1", 1, 4, "'+=' cannot change a tuple"},
      {"a < b < c", 7, 1, "chained comparisons are not supported; write (a < b) & (b < c)"},
      {"a and b", 3, 3, "'and' is not supported; use '&'"},
      {"not a", 1, 3, "'not' is not supported; use '~x'"},
      {"f(a or b)", 5, 2, "'or' is not supported; use '|'"},
      {"a if b else c", 3, 2, "'if' is not supported; use where("},
      {"import torch", 1, 6, "'import' is not supported"},
      {"a && b", 3, 2, "'&&' is not an operator; use '&'"},
      {"!a", 1, 1, "'!' is not an operator; use '~x'"},
      {"{1: 2}", 1, 1, "'{' is not an operator; the language has lists"},
      {"f(a=1, 2)", 8, 1, "a positional argument follows a keyword argument"},
      {"f(a=1, a=2)", 8, 1, "the keyword argument 'a' is repeated"},
      {"f(x.y=1)", 3, 3, "the name of a keyword argument must be a plain name"},
      {"f(True=1)", 3, 4, "'True' cannot be the name of an argument"},
      {"2(x)", 2, 1, "a constant cannot be called"},
      {"f(x)(y)", 5, 1, "a function call cannot be called"},
      {"2x", 1, 2, "'2x' is not a number; to multiply, write 2*x"},
      {"1 + 3j", 5, 2, "complex numbers are not supported"},
      {"1__0", 2, 1, "an underscore in a number must stand between two digits"},
      {"1_", 2, 1, "an underscore in a number"},
      {"0x", 1, 2, "expected hexadecimal digits after '0x'"},
      {"007", 1, 3, "an integer may not begin with 0"},
      {"9223372036854775808", 1, 19, "the integer is too large"},
      {"-9223372036854775808**2", 2, 19, "the integer is too large"},
      {"99999999999999999999", 1, 20, "the integer is too large"},
      {"x + 1e400", 5, 5, "the number is too large"},
      {"'abc", 1, 4, "the string is never closed; expected '"},
      {"'abc\nd'", 1, 4, "the string is never closed"},
      {"'a\\qb'", 3, 1, "unknown escape in a string"},
      {"'\\x4'", 2, 3, "expected 2 hexadecimal digits after \\x"},
      {"'\\ud800'", 2, 6, "a surrogate is not a character"},
      {"'abc\\", 5, 1, "unknown escape in a string"},
      {"x ? y", 3, 1, "unexpected character '?' (U+003F)"},
      {"\u03b1 \u2212 1", 3, 1, "'\u2212' is not an operator; use '-'"},
      {"\u03b1\u03b2 b", 4, 1, "expected an operator, ';' or the end of the line, found 'b'"},
      {"x \xff", 3, 1, "the byte 0xff is not valid UTF-8"},
      {std::string("x \0 y", 5), 3, 1, "unexpected control character U+0000"},
      {"pass + 1", 6, 1, "expected an operator, ';' or the end of the line, found '+'"},
      {"a = 1\nb = 2 +\nc", 8, 1, "expected an expression after '+', found the end of the line"},
  };
  for (const Mistake& m : mistakes) {
    INFO(m.source);
    try {
      parse(m.source);
      FAIL_CHECK("no error");
    } catch (const ExprError& e) {
      CHECK(e.message().substr(0, m.message.size()) == m.message);
      CHECK(e.column() == m.column);
      CHECK(e.length() == m.length);
    }
  }
}

TEST_CASE("expr errors: the text shows the line and points at the place") {
  const auto what = [](const std::string& source) -> std::string {
    try {
      parse(source);
    } catch (const pellucid::ValueError& e) { return e.what(); }
    return "";
  };
  CHECK(what("y = sin(x) + 1e400") ==
        "the number is too large: float64 ends at about 1.8e308; for infinity write inf\n"
        "    y = sin(x) + 1e400\n"
        "                 ^~~~~");
  CHECK(what("a = 1\nbb = a a\nc") ==
        "expected an operator, ';' or the end of the line, found 'a'\n"
        "    bb = a a\n"
        "           ^");
  CHECK(what("\u03b1\t+") ==
        "expected an expression after '+', found the end of the text\n"
        "    \u03b1 +\n"
        "       ^");
  const std::string zeros(1000, '0');
  CHECK(what("1" + zeros + " + ? + 1" + zeros) ==
        "the integer is too large: int64 ends at 9223372036854775807; for a float write a '.' or "
        "an exponent\n"
        "    1" +
            std::string(59, '0') +
            "...\n"
            "    ^" +
            std::string(59, '~'));
  CHECK(what("[" + std::string(500, '1').replace(1, 1, ",") + "," + std::string(200, ' ') + "?" +
             std::string(200, ' '))
            .size() < 400);
}

TEST_CASE("expr errors: lines and columns of many lines") {
  try {
    parse("a = 1\n\u03b2 = 2\n\u03b2 = \u03b2 +* 3");
    FAIL_CHECK("no error");
  } catch (const ExprError& e) {
    CHECK(e.line() == 3);
    CHECK(e.column() == 8);
  }
}
