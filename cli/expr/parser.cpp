// A recursive-descent parser with precedence climbing. Chains of left-associative operators, calls
// and indices are loops; only nesting recurses, and kMaxNesting bounds it. One class, a little
// long: each rule of the grammar is one function, and they call one another.
#include "cli/expr/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "cli/expr/lexer.h"
#include "cli/expr/words.h"

namespace pellucid::expr {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view source)
      : ast_(std::string(source)), source_(ast_.source()), tokens_(tokenize(source_)) {}

  Ast program() {
    for (;;) {
      while (kind() == TokenKind::Separator) advance();
      if (kind() == TokenKind::End) return std::move(ast_);
      check_readable();
      if (word() == "pass")
        advance();
      else
        ast_.add_statement(statement());
      if (kind() != TokenKind::Separator && kind() != TokenKind::End) fail_after_statement();
    }
  }

  Ast single_expression() {
    while (kind() == TokenKind::Separator) advance();
    ast_.add_statement(expression_list());
    if (is("="))
      fail(token().span, "expected one expression, found an assignment; to compare, write '=='");
    while (kind() == TokenKind::Separator) advance();
    if (kind() != TokenKind::End) fail_expected("an operator or the end");
    return std::move(ast_);
  }

  Ast binding() {
    const bool named =
        kind() == TokenKind::Name && tokens_.list.size() > 1 && text(tokens_.list[1]) == "=";
    check_readable();
    if (!named)
      fail({0, static_cast<int32_t>(source_.size())},
           "expected NAME=VALUE, such as x=2 or x='[1, 2]'");
    ast_.add_statement(statement());
    const bool separated = kind() == TokenKind::Separator;
    while (kind() == TokenKind::Separator) advance();
    if (kind() != TokenKind::End && separated)
      fail(token().span, "expected one value; give each NAME=VALUE as an argument of its own");
    if (kind() != TokenKind::End) fail_expected("an operator or the end of the value");
    return std::move(ast_);
  }

 private:
  // ---- tokens

  const Token& token() const { return tokens_.list[at_]; }
  TokenKind kind() const { return token().kind; }
  std::string_view text(const Token& t) const {
    return source_.substr(t.span.begin, t.span.end - t.span.begin);
  }
  bool is(std::string_view op) const {
    return kind() == TokenKind::Operator && text(token()) == op;
  }
  std::string_view word() const {
    return kind() == TokenKind::Name ? text(token()) : std::string_view();
  }
  std::string_view operator_text() const {
    return kind() == TokenKind::Operator ? text(token()) : std::string_view();
  }
  void advance() {
    if (at_ + 1 < tokens_.list.size()) ++at_;
  }
  bool accept(std::string_view op) {
    if (!is(op)) return false;
    advance();
    return true;
  }
  int32_t begin() const { return token().span.begin; }
  int32_t previous_end() const { return at_ == 0 ? 0 : tokens_.list[at_ - 1].span.end; }
  Span since(int32_t start) const { return {start, previous_end()}; }

  // ---- errors

  [[noreturn]] void fail(Span span, std::string message) const {
    throw ExprError(source_, span, std::move(message));
  }

  // Mistakes of the lexer and refused words are reported where the parser meets them.
  void check_readable() const {
    if (kind() == TokenKind::Error) fail(token().span, tokens_.error);
    if (const Refusal* r = refusal(word()))
      fail(token().span, fmt::format("'{}' is not supported; {}", r->word, r->advice));
  }

  std::string found() const {
    switch (kind()) {
      case TokenKind::End:
        return "the end of the text";
      case TokenKind::Separator:
        return text(token()) == ";" ? "';'" : "the end of the line";
      case TokenKind::String:
        return "a string";
      default:
        return text(token()).size() > 24 ? fmt::format("'{}...'", cut(text(token())))
                                         : fmt::format("'{}'", text(token()));
    }
  }

  // Whole characters of about 20 bytes.
  static std::string_view cut(std::string_view text) {
    size_t end = 20;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return text.substr(0, end);
  }

  [[noreturn]] void fail_expected(std::string_view what) const {
    check_readable();
    fail(token().span, fmt::format("expected {}, found {}", what, found()));
  }

  [[noreturn]] void fail_expected_expression() const {
    check_readable();
    const std::string after = at_ > 0 && tokens_.list[at_ - 1].kind == TokenKind::Operator
                                  ? fmt::format(" after '{}'", text(tokens_.list[at_ - 1]))
                                  : "";
    fail(token().span, fmt::format("expected an expression{}, found {}", after, found()));
  }

  [[noreturn]] void fail_after_statement() const {
    check_readable();
    if (is(")") || is("]"))
      fail(token().span, fmt::format("'{}' has no opening bracket", operator_text()));
    fail_expected("an operator, ';' or the end of the line");
  }

  void close(std::string_view bracket, int32_t opened, std::string_view also_expected) {
    if (accept(bracket)) return;
    check_readable();
    const char open = source_[opened];
    const auto& unclosed = tokens_.unclosed;
    if (std::find(unclosed.begin(), unclosed.end(), opened) != unclosed.end())
      fail({opened, opened + 1}, fmt::format("'{}' is never closed; expected '{}'", open, bracket));
    if (is(")") || is("]"))
      fail(token().span,
           fmt::format("'{}' does not close '{}'; expected '{}'", operator_text(), open, bracket));
    fail_expected(fmt::format("{} or '{}'", also_expected, bracket));
  }

  // ---- statements

  NodeId statement() {
    const int32_t start = begin();
    const NodeId target = expression_list();
    if (is("=")) {
      check_target(target);
      advance();
      const NodeId value = expression_list();
      if (is("="))
        fail(token().span,
             "chained assignment is not supported; write two statements, as in b = 1; a = b");
      return ast_.add(Kind::Assign, since(start), {target, value});
    }
    const std::string_view op = operator_text();
    const bool augmented = op.size() >= 2 && op.back() == '=' && !compare_op(op);
    if (!augmented) return target;
    const Kind k = ast_[target].kind;
    if (k != Kind::Name && k != Kind::Subscript)
      fail(ast_[target].span,
           fmt::format(
               "'{}' cannot change {}; its left side must be a name or an index such as x[0]", op,
               describe(k)));
    advance();
    const NodeId value = expression_list();
    return ast_.add(Kind::AugAssign, since(start), {target, value},
                    static_cast<uint8_t>(*binary_op(op.substr(0, op.size() - 1))));
  }

  void check_target(NodeId id) const {
    const auto assignable = [&](NodeId n) {
      return ast_[n].kind == Kind::Name || ast_[n].kind == Kind::Subscript;
    };
    if (assignable(id)) return;
    NodeId bad = id;
    if (ast_[id].kind == Kind::Tuple && ast_[id].child_count > 0) {
      const auto parts = ast_.children(id);
      const auto found = std::find_if_not(parts.begin(), parts.end(), assignable);
      if (found == parts.end()) return;
      bad = *found;
    }
    fail(ast_[bad].span,
         fmt::format(
             "cannot assign to {}; the left side of '=' must be a name, an index such as x[0], or "
             "several of these separated by ','",
             describe(ast_[bad].kind)));
  }

  // ---- expressions

  // One expression, or a tuple without parentheses.
  NodeId expression_list() {
    const int32_t start = begin();
    const NodeId first = expression();
    if (!is(",")) return first;
    std::vector<NodeId> elements{first};
    while (accept(",") && starts_expression()) elements.push_back(expression());
    return ast_.add(Kind::Tuple, since(start), elements);
  }

  bool starts_expression() const {
    if (kind() == TokenKind::Operator)
      return is("(") || is("[") || is("...") || unary_op(operator_text());
    return kind() != TokenKind::Separator && kind() != TokenKind::End;
  }

  NodeId expression() {
    const int32_t start = begin();
    const NodeId left = binary(Precedence::Or);
    const auto op = compare_op(operator_text());
    if (!op) return left;
    advance();
    const NodeId right = binary(Precedence::Or);
    if (compare_op(operator_text()))
      fail(token().span, "chained comparisons are not supported; write (a < b) & (b < c)");
    return ast_.add(Kind::Compare, since(start), {left, right}, static_cast<uint8_t>(*op));
  }

  // Operators that bind at least as tightly as `least`; all of them are left-associative ('**' is
  // in power()).
  NodeId binary(Precedence least) {
    const int32_t start = begin();
    NodeId left = unary();
    for (;;) {
      const auto op = binary_op(operator_text());
      if (!op || precedence(*op) < least) return left;
      advance();
      const NodeId right =
          binary(static_cast<Precedence>(static_cast<uint8_t>(precedence(*op)) + 1));
      left = ast_.add(Kind::Binary, since(start), {left, right}, static_cast<uint8_t>(*op));
    }
  }

  NodeId unary() {
    if (depth_ == kMaxNesting)
      fail(token().span,
           fmt::format("the expression is nested more than {} levels deep", kMaxNesting));
    ++depth_;
    const NodeId id = signed_or_power();
    --depth_;
    return id;
  }

  NodeId signed_or_power() {
    const int32_t start = begin();
    const auto op = unary_op(operator_text());
    if (!op) return power();
    advance();
    if (*op == UnaryOp::Negative && at_least_integer()) {
      advance();
      return ast_.add_integer(Kind::Integer, since(start), std::numeric_limits<int64_t>::min());
    }
    const NodeId operand = unary();
    return ast_.add(Kind::Unary, since(start), {operand}, static_cast<uint8_t>(*op));
  }

  // 9223372036854775808 is no int64, but with a minus sign (and nothing that binds tighter) it is.
  bool at_least_integer() const {
    if (kind() != TokenKind::Integer || token().integer != uint64_t{1} << 63) return false;
    const std::string_view next = text(tokens_.list[at_ + 1]);
    return next != "**" && next != "." && next != "[" && next != "(";
  }

  NodeId power() {
    const int32_t start = begin();
    const NodeId base = postfix();
    if (!accept("**")) return base;
    const NodeId exponent = unary();
    return ast_.add(Kind::Binary, since(start), {base, exponent},
                    static_cast<uint8_t>(BinaryOp::Power));
  }

  NodeId postfix() {
    const int32_t start = begin();
    NodeId id = atom();
    for (;;) {
      if (is("(")) {
        id = call(start, id);
      } else if (is("[")) {
        const int32_t opened = begin();
        advance();
        const NodeId index = subscript();
        close("]", opened, "an operator, ':', ','");
        id = ast_.add(Kind::Subscript, since(start), {id, index});
      } else if (accept(".")) {
        if (kind() != TokenKind::Name) fail_expected("a name after '.'");
        std::string name(word());
        advance();
        id = ast_.add_text(Kind::Attribute, since(start), std::move(name), {id});
      } else {
        return id;
      }
    }
  }

  NodeId call(int32_t start, NodeId callee) {
    const Kind k = ast_[callee].kind;
    if (k != Kind::Name && k != Kind::Attribute)
      fail(token().span,
           fmt::format("{} cannot be called; only functions f(x) and methods x.f() can",
                       describe(k)));
    const int32_t opened = begin();
    advance();
    std::vector<NodeId> parts{callee};
    std::unordered_set<std::string_view> keywords;
    while (starts_expression()) {
      parts.push_back(argument(keywords));
      if (!accept(",")) break;
    }
    if (is(",")) fail_expected_expression();
    close(")", opened, "an operator, ','");
    return ast_.add(Kind::Call, since(start), parts);
  }

  NodeId argument(std::unordered_set<std::string_view>& keywords) {
    check_readable();
    const int32_t start = begin();
    const bool keyword = kind() == TokenKind::Name && text(tokens_.list[at_ + 1]) == "=";
    if (!keyword) {
      const NodeId value = expression();
      if (is("="))
        fail(since(start), "the name of a keyword argument must be a plain name, as in dim=1");
      if (!keywords.empty())
        fail(since(start), "a positional argument follows a keyword argument; put it before");
      return value;
    }
    const std::string_view name = word();
    if (is_constant(name))
      fail(token().span, fmt::format("'{}' cannot be the name of an argument", name));
    if (!keywords.insert(name).second)
      fail(token().span, fmt::format("the keyword argument '{}' is repeated", name));
    advance();
    advance();
    const NodeId value = expression();
    return ast_.add_text(Kind::Keyword, since(start), std::string(name), {value});
  }

  NodeId subscript() {
    const int32_t start = begin();
    if (is("]")) fail(token().span, "expected an index between '[' and ']'");
    const NodeId first = index();
    if (!is(",")) return first;
    std::vector<NodeId> items{first};
    while (accept(",") && !is("]")) items.push_back(index());
    return ast_.add(Kind::Tuple, since(start), items);
  }

  NodeId index() {
    const int32_t start = begin();
    const auto part = [&] { return is(":") || is(",") || is("]") ? kAbsent : expression(); };
    if (!is(":")) {
      const NodeId first = expression();
      if (!is(":")) return first;
      return slice(start, first, part);
    }
    return slice(start, kAbsent, part);
  }

  template <class Part> NodeId slice(int32_t start, NodeId from, Part part) {
    advance();
    const NodeId to = part();
    const NodeId step = accept(":") ? part() : kAbsent;
    return ast_.add(Kind::Slice, since(start), {from, to, step});
  }

  NodeId atom() {
    const Token t = token();
    switch (t.kind) {
      case TokenKind::Name:
        return name();
      case TokenKind::Integer:
        if (t.integer > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
          fail(t.span,
               "the integer is too large: int64 ends at 9223372036854775807; for a float write a "
               "'.' or an exponent");
        advance();
        return ast_.add_integer(Kind::Integer, t.span, static_cast<int64_t>(t.integer));
      case TokenKind::Float:
        advance();
        return ast_.add_float(t.span, t.number);
      case TokenKind::String:
        advance();
        return ast_.add_text(Kind::String, t.span, tokens_.strings[t.integer]);
      default:
        break;
    }
    if (is("(")) return parenthesized();
    if (is("[")) {
      advance();
      const std::vector<NodeId> elements = elements_until("]", t.span.begin);
      return ast_.add(Kind::List, since(t.span.begin), elements);
    }
    if (accept("...")) return ast_.add(Kind::Ellipsis, t.span);
    fail_expected_expression();
  }

  NodeId name() {
    check_readable();
    const Span span = token().span;
    const std::string_view name = word();
    if (name == "pass") fail(span, "expected an expression, found the statement 'pass'");
    advance();
    if (name == "None") return ast_.add(Kind::None, span);
    if (name == "True" || name == "False")
      return ast_.add_integer(Kind::Bool, span, name == "True");
    if (name == "inf") return ast_.add_float(span, std::numeric_limits<double>::infinity());
    if (name == "nan") return ast_.add_float(span, std::numeric_limits<double>::quiet_NaN());
    return ast_.add_text(Kind::Name, span, std::string(name));
  }

  NodeId parenthesized() {
    const int32_t opened = begin();
    advance();
    if (accept(")")) return ast_.add(Kind::Tuple, since(opened));
    const NodeId first = expression();
    if (!accept(",")) {
      close(")", opened, "an operator, ','");
      return first;
    }
    std::vector<NodeId> elements = elements_until(")", opened);
    elements.insert(elements.begin(), first);
    return ast_.add(Kind::Tuple, since(opened), elements);
  }

  std::vector<NodeId> elements_until(std::string_view bracket, int32_t opened) {
    std::vector<NodeId> elements;
    while (starts_expression()) {
      elements.push_back(expression());
      if (!accept(",")) break;
    }
    if (is(",")) fail_expected_expression();
    close(bracket, opened, "an operator, ','");
    return elements;
  }

  Ast ast_;
  std::string_view source_;
  Tokens tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Ast parse(std::string_view source) { return Parser(source).program(); }
Ast parse_expression(std::string_view source) { return Parser(source).single_expression(); }
Ast parse_binding(std::string_view argument) { return Parser(argument).binding(); }

}  // namespace pellucid::expr
