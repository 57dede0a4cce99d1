// The grammar of expressions: precedence and associativity, every form, printing back to source.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cli/expr/parser.h"

using namespace pellucid::expr;

namespace {

std::string structure(const std::string& source) { return print(parse(source), Parentheses::All); }
std::string minimal(const std::string& source) { return print(parse(source)); }

}  // namespace

TEST_CASE("expr: precedence and associativity are Python's") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"a+b*c", "(a + (b * c))"},
      {"a*b+c", "((a * b) + c)"},
      {"a-b-c", "((a - b) - c)"},
      {"a/b*c", "((a / b) * c)"},
      {"a//b%c@d", "(((a // b) % c) @ d)"},
      {"a**b**c", "(a**(b**c))"},
      {"-a**b", "(-(a**b))"},
      {"a**-b", "(a**(-b))"},
      {"a**-b**c", "(a**(-(b**c)))"},
      {"-a*b", "((-a) * b)"},
      {"a*-b", "(a * (-b))"},
      {"~a+b", "((~a) + b)"},
      {"--a", "(-(-a))"},
      {"-+~a", "(-(+(~a)))"},
      {"a<<b+c", "(a << (b + c))"},
      {"a<<b>>c", "((a << b) >> c)"},
      {"a&b<<c", "(a & (b << c))"},
      {"a^b&c", "(a ^ (b & c))"},
      {"a|b^c", "(a | (b ^ c))"},
      {"a|b|c", "((a | b) | c)"},
      {"a==b|c", "(a == (b | c))"},
      {"a<b+c", "(a < (b + c))"},
      {"a&(b<c)", "(a & (b < c))"},
      {"(a+b)*c", "((a + b) * c)"},
      {"a-(b-c)", "(a - (b - c))"},
      {"(a**b)**c", "((a**b)**c)"},
      {"(-a)**b", "((-a)**b)"},
      {"a.b**c", "(a.b**c)"},
      {"-x[0]", "(-x[0])"},
      {"-f(x)**2", "(-(f(x)**2))"},
      {"x.t()@y.T", "(x.t() @ y.T)"},
      {"a+b, c", "(a + b), c"},
  };
  for (const auto& [source, expected] : table) {
    INFO(source);
    CHECK(structure(source) == expected);
  }
}

TEST_CASE("expr: printing uses as few parentheses as the meaning allows") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"((a)+((b*c)))", "a + b * c"},
      {"(a+b)*c", "(a + b) * c"},
      {"(a**b)**c", "(a**b)**c"},
      {"a**(b**c)", "a**b**c"},
      {"(-a)**(-b)", "(-a)**-b"},
      {"a-(b-c)", "a - (b - c)"},
      {"(a-b)-c", "a - b - c"},
      {"(a<b)&(c>=d)", "(a < b) & (c >= d)"},
      {"(a==b)!=c", "(a == b) != c"},
      {"(1).real", "(1).real"},
      {"(-x).abs()", "(-x).abs()"},
      {"[1][0]", "[1][0]"},
      {"()", "()"},
      {"(1,)", "1,"},
      {"[(1,), (2,3), []]", "[(1,), (2, 3), []]"},
      {"f((1,2),k=(3,))", "f((1, 2), k=(3,))"},
      {"b=sin( a )", "b = sin(a)"},
      {"a,b=b,a", "a, b = b, a"},
      {"x[0]=1;y", "x[0] = 1; y"},
      {"x **= 2", "x **= 2"},
      {"x <<= 2; x >>= 1; x //= 3; x @= w; x |= m; x ^= m; x &= m; x %= 2",
       "x <<= 2; x >>= 1; x //= 3; x @= w; x |= m; x ^= m; x &= m; x %= 2"},
      {"x[1:,::2,None,...,mask]", "x[1:, ::2, None, ..., mask]"},
      {"x[:]", "x[:]"},
      {"x[a:b:c]", "x[a:b:c]"},
      {"x[a:b:]", "x[a:b]"},
      {"x[:-1]", "x[:-1]"},
      {"x[(1,2)]", "x[1, 2]"},
      {"x[1,]", "x[1,]"},
      {"x[()]", "x[()]"},
      {"x[[1,2],:]", "x[[1, 2], :]"},
      {"sum(x,dim=1,keepdim=True,)", "sum(x, dim=1, keepdim=True)"},
      {"x.view([2,-1]).sum().T.shape[0]", "x.view([2, -1]).sum().T.shape[0]"},
  };
  for (const auto& [source, expected] : table) {
    INFO(source);
    CHECK(minimal(source) == expected);
    CHECK(minimal(minimal(source)) == expected);
  }
}

TEST_CASE("expr: literals") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"0", "0"},
      {"00", "0"},
      {"1_000_000", "1000000"},
      {"0xFF", "255"},
      {"0b101", "5"},
      {"0o17", "15"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"1e-3", "0.001"},
      {"1.", "1.0"},
      {".5", "0.5"},
      {"1E+5", "100000.0"},
      {"1e22", "1e+22"},
      {"1_0.2_5", "10.25"},
      {"1e-400", "0.0"},
      {"5e-324", "5e-324"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"inf", "inf"},
      {"-inf", "-inf"},
      {"nan", "nan"},
      {"True, False, None", "True, False, None"},
      {"'a\\'b'", "'a\\'b'"},
      {"\"it's\"", "'it\\'s'"},
      {"'\\x41\\n\\t\\\\\\u00e9'", "'A\\n\\t\\\\\u00e9'"},
      {"'\\0'", "'\\x00'"},
      {"\u03b1 + \u00e9", "\u03b1 + \u00e9"},
  };
  for (const auto& [source, expected] : table) {
    INFO(source);
    CHECK(minimal(source) == expected);
  }
  const Ast least = parse("-9223372036854775808");
  CHECK(least[least.statements()[0]].kind == Kind::Integer);
  CHECK(least[least.statements()[0]].integer == std::numeric_limits<int64_t>::min());
}

TEST_CASE("expr: statements, lines and comments") {
  CHECK(minimal("") == "");
  CHECK(minimal(" ;\n; # nothing\n") == "");
  CHECK(minimal("pass") == "");
  CHECK(minimal("a = 1; b = 2\n  c = 3 # the end") == "a = 1; b = 2; c = 3");
  CHECK(minimal("f(1,\n  2)\r\ny") == "f(1, 2); y");
  CHECK(minimal("[1, # one\n 2]") == "[1, 2]");
  CHECK(minimal("a + \\\n b") == "a + b");
  CHECK(minimal("'# no comment; here'") == "'# no comment; here'");
  CHECK(parse("a;b;;c;").statements().size() == 3);
}

TEST_CASE("expr: every node knows its place") {
  const Ast ast = parse("y = (a + b) * sin(x[1:], k=2)");
  std::vector<std::string> texts;
  for (NodeId id = 0; id < static_cast<NodeId>(ast.size()); ++id)
    texts.emplace_back(ast.source_text(id));
  CHECK(texts == std::vector<std::string>{"y", "a", "b", "a + b", "sin", "x", "1", "1:", "x[1:]",
                                          "2", "k=2", "sin(x[1:], k=2)",
                                          "(a + b) * sin(x[1:], k=2)",
                                          "y = (a + b) * sin(x[1:], k=2)"});
}

TEST_CASE("expr: one expression and NAME=VALUE") {
  CHECK(print(parse_expression(" x + 1 \n")) == "x + 1");
  CHECK_THROWS_AS(parse_expression("x = 1"), ExprError);
  CHECK_THROWS_AS(parse_expression("x; y"), ExprError);
  CHECK_THROWS_AS(parse_expression(""), ExprError);

  CHECK(print(parse_binding("x=2")) == "x = 2");
  CHECK(print(parse_binding("x=[1, [2, 3]]")) == "x = [1, [2, 3]]");
  CHECK(print(parse_binding("w=rand(3, 4)*2")) == "w = rand(3, 4) * 2");
  for (const char* bad : {"", "x", "2", "x==2", "x=", "=2", "x[0]=2", "a,b=1", "x=1;y=2", "x=y=2",
                          "x+=2", "inf=2", "if=2"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_binding(bad), ExprError);
  }
  const auto message = [](const char* argument) -> std::string {
    try {
      parse_binding(argument);
    } catch (const ExprError& e) { return e.message(); }
    return "";
  };
  CHECK(message("x") == "expected NAME=VALUE, such as x=2 or x='[1, 2]'");
  CHECK(message("x=1;y=2") == "expected one value; give each NAME=VALUE as an argument of its own");
  CHECK(message("x=1 2") == "expected an operator or the end of the value, found '2'");
}
