// The tree of a parsed program: statements and expressions as plain structs in one arena.
// Only structure and printing live here; parsing is in parser.h, code generation in compile.h.
// Nothing here recurses: `1+1+…` of a megabyte is a left-leaning tree 500,000 levels deep.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/expr/error.h"

namespace pellucid::expr {

using NodeId = int32_t;
/// A part that was left out, as both ends of the slice in x[:].
inline constexpr NodeId kAbsent = -1;

enum class Kind : uint8_t {
  None,       // None
  Bool,       // integer: 0 or 1
  Integer,    // integer
  Float,      // number; inf and nan too
  String,     // text: the value
  Ellipsis,   // ...
  Name,       // text
  List,       // elements
  Tuple,      // elements
  Unary,      // op; operand
  Binary,     // op; left, right
  Compare,    // op; left, right
  Attribute,  // text: the attribute; object
  Subscript,  // object, index (a Slice, a Tuple that may hold Slices, or any expression)
  Slice,      // start, stop, step, each possibly kAbsent; only inside a Subscript
  Call,       // callee (a Name or an Attribute), arguments, then Keywords
  Keyword,    // text: the name; value; only inside a Call
  Assign,     // target (Name, Subscript, or a Tuple of these), value; a statement
  AugAssign,  // op; target (Name or Subscript), value; a statement
};

/// The numbers are CPython's NB_ADD…NB_XOR; the in-place form is 13 higher.
enum class BinaryOp : uint8_t {
  Add,
  And,
  FloorDivide,
  LeftShift,
  MatMul,
  Multiply,
  Remainder,
  Or,
  Power,
  RightShift,
  Subtract,
  TrueDivide,
  Xor
};
inline constexpr int kBinaryOpCount = 13;
enum class UnaryOp : uint8_t { Negative, Positive, Invert };
/// The order is that of CPython's dis.cmp_op.
enum class CompareOp : uint8_t { Less, LessEqual, Equal, NotEqual, Greater, GreaterEqual };

/// "+", "//", "@"…
std::string_view symbol(BinaryOp op);
std::string_view symbol(UnaryOp op);
std::string_view symbol(CompareOp op);

/// How tightly an operator binds, loosest first; Python's order.
enum class Precedence : uint8_t {
  Tuple,
  Compare,
  Or,
  Xor,
  And,
  Shift,
  Sum,
  Product,
  Unary,
  Power,
  Postfix,
  Atom
};
Precedence precedence(BinaryOp op);

struct Node {
  Kind kind = Kind::None;
  uint8_t op = 0;  // a BinaryOp, UnaryOp or CompareOp, as the kind says
  Span span;       // bytes of the source, brackets and operands included
  int32_t first_child = 0, child_count = 0;
  int32_t text = -1;
  union {
    int64_t integer = 0;
    double number;
  };

  BinaryOp binary_op() const { return static_cast<BinaryOp>(op); }
  UnaryOp unary_op() const { return static_cast<UnaryOp>(op); }
  CompareOp compare_op() const { return static_cast<CompareOp>(op); }
};

/// A program and the arena of its nodes; children come before their parents.
class Ast {
 public:
  explicit Ast(std::string source = {}) : source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  /// Assignments and expressions, in order.
  const std::vector<NodeId>& statements() const { return statements_; }
  size_t size() const { return nodes_.size(); }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  std::span<const NodeId> children(NodeId id) const {
    return {children_.data() + nodes_[id].first_child, static_cast<size_t>(nodes_[id].child_count)};
  }
  NodeId child(NodeId id, int i) const { return children_[nodes_[id].first_child + i]; }
  /// The name, attribute, keyword or string of a node.
  const std::string& text(NodeId id) const { return texts_[nodes_[id].text]; }
  /// The source as it was written.
  std::string_view source_text(NodeId id) const {
    return std::string_view(source_).substr(nodes_[id].span.begin,
                                            nodes_[id].span.end - nodes_[id].span.begin);
  }

  NodeId add(Kind kind, Span span, std::span<const NodeId> children = {}, uint8_t op = 0);
  NodeId add(Kind kind, Span span, std::initializer_list<NodeId> children, uint8_t op = 0) {
    return add(kind, span, std::span<const NodeId>(children.begin(), children.size()), op);
  }
  NodeId add_text(Kind kind, Span span, std::string text,
                  std::initializer_list<NodeId> children = {});
  NodeId add_integer(Kind kind, Span span, int64_t value);
  NodeId add_float(Span span, double value);
  void add_statement(NodeId id) { statements_.push_back(id); }

 private:
  std::string source_;
  std::vector<Node> nodes_;
  std::vector<NodeId> children_, statements_;
  std::vector<std::string> texts_;
};

/// Minimal: only the parentheses that the meaning needs. All: around every operation, to show the
/// structure.
enum class Parentheses { Minimal, All };

/// One statement or expression in Python's spelling: "b = sin(a)".
std::string print(const Ast& ast, NodeId id, Parentheses parentheses = Parentheses::Minimal);
/// The whole program, statements joined by "; ".
std::string print(const Ast& ast, Parentheses parentheses = Parentheses::Minimal);
/// A float as Python's repr writes it: "0.001", "1e+16", "2.0", "inf".
std::string print_float(double value);
/// A string as Python's repr writes it, in single quotes.
std::string print_string(std::string_view value);

}  // namespace pellucid::expr
