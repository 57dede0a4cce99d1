// Building and printing of trees. The printer keeps a stack of what is still to be written.
#include "cli/expr/ast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

namespace pellucid::expr {

std::string_view symbol(BinaryOp op) {
  constexpr std::array<std::string_view, kBinaryOpCount> kSymbols = {
      "+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"};
  return kSymbols[static_cast<size_t>(op)];
}

std::string_view symbol(UnaryOp op) {
  constexpr std::array<std::string_view, 3> kSymbols = {"-", "+", "~"};
  return kSymbols[static_cast<size_t>(op)];
}

std::string_view symbol(CompareOp op) {
  constexpr std::array<std::string_view, 6> kSymbols = {"<", "<=", "==", "!=", ">", ">="};
  return kSymbols[static_cast<size_t>(op)];
}

Precedence precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::Or:
      return Precedence::Or;
    case BinaryOp::Xor:
      return Precedence::Xor;
    case BinaryOp::And:
      return Precedence::And;
    case BinaryOp::LeftShift:
    case BinaryOp::RightShift:
      return Precedence::Shift;
    case BinaryOp::Add:
    case BinaryOp::Subtract:
      return Precedence::Sum;
    case BinaryOp::Power:
      return Precedence::Power;
    default:
      return Precedence::Product;
  }
}

NodeId Ast::add(Kind kind, Span span, std::span<const NodeId> children, uint8_t op) {
  Node node;
  node.kind = kind;
  node.op = op;
  node.span = span;
  node.first_child = static_cast<int32_t>(children_.size());
  node.child_count = static_cast<int32_t>(children.size());
  children_.insert(children_.end(), children.begin(), children.end());
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Ast::add_text(Kind kind, Span span, std::string text,
                     std::initializer_list<NodeId> children) {
  const NodeId id = add(kind, span, children);
  nodes_[id].text = static_cast<int32_t>(texts_.size());
  texts_.push_back(std::move(text));
  return id;
}

NodeId Ast::add_integer(Kind kind, Span span, int64_t value) {
  const NodeId id = add(kind, span);
  nodes_[id].integer = value;
  return id;
}

NodeId Ast::add_float(Span span, double value) {
  const NodeId id = add(Kind::Float, span);
  nodes_[id].number = value;
  return id;
}

std::string print_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string print_string(std::string_view value) {
  std::string out = "'";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\\')
      out += "\\\\";
    else if (c == '\'')
      out += "\\'";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "'";
}

namespace {

constexpr Precedence tighter(Precedence p) {
  return static_cast<Precedence>(static_cast<uint8_t>(p) + 1);
}

class Printer {
 public:
  Printer(const Ast& ast, Parentheses parentheses)
      : ast_(ast), all_(parentheses == Parentheses::All) {}

  std::string run(NodeId root) {
    stack_.push_back({root, {}, Precedence::Tuple});
    while (!stack_.empty()) {
      const Item item = stack_.back();
      stack_.pop_back();
      if (item.node == kAbsent) {
        out_ += item.text;
        continue;
      }
      const size_t mark = stack_.size();
      const bool wrap = binds(item.node) < item.least || (all_ && is_operation(item.node));
      if (wrap) write("(");
      write(item.node, item.least);
      if (wrap) write(")");
      std::reverse(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    }
    return std::move(out_);
  }

 private:
  struct Item {
    NodeId node;            // kAbsent for plain text
    std::string_view text;  // of the program text or of the arena: both outlive the printer
    Precedence least;       // what the place demands; a node that binds looser gets parentheses
  };

  void write(std::string_view text) { stack_.push_back({kAbsent, text, Precedence::Atom}); }
  void visit(NodeId id, Precedence least) { stack_.push_back({id, {}, least}); }

  bool is_operation(NodeId id) const {
    const Kind k = ast_[id].kind;
    return k == Kind::Unary || k == Kind::Binary || k == Kind::Compare;
  }

  bool is_negative_number(const Node& n) const {
    return (n.kind == Kind::Integer && n.integer < 0) ||
           (n.kind == Kind::Float && std::signbit(n.number) && !std::isnan(n.number));
  }

  Precedence binds(NodeId id) const {
    const Node& n = ast_[id];
    switch (n.kind) {
      case Kind::Binary:
        return precedence(n.binary_op());
      case Kind::Compare:
        return Precedence::Compare;
      case Kind::Unary:
        return Precedence::Unary;
      case Kind::Attribute:
      case Kind::Subscript:
      case Kind::Call:
        return Precedence::Postfix;
      default:
        return is_negative_number(n) ? Precedence::Unary : Precedence::Atom;
    }
  }

  // Pushes the parts of a node in reading order; run() turns them round.
  void write(NodeId id, Precedence least) {
    const Node& n = ast_[id];
    switch (n.kind) {
      case Kind::None:
        return write("None");
      case Kind::Bool:
        return write(n.integer != 0 ? "True" : "False");
      case Kind::Ellipsis:
        return write("...");
      case Kind::Name:
        return write(ast_.text(id));
      // Their text is made here, so the printer keeps it until the end.
      case Kind::Integer:
        return literal(fmt::format("{}", n.integer));
      case Kind::Float:
        return literal(print_float(n.number));
      case Kind::String:
        return literal(print_string(ast_.text(id)));
      case Kind::List:
        return sequence("[", ast_.children(id), "]");
      case Kind::Tuple:
        return tuple(id, least == Precedence::Tuple);
      case Kind::Unary:
        write(symbol(n.unary_op()));
        return visit(ast_.child(id, 0), Precedence::Unary);
      case Kind::Binary:
        return binary(id, n.binary_op());
      case Kind::Compare:
        visit(ast_.child(id, 0), Precedence::Or);
        spaced(symbol(n.compare_op()));
        return visit(ast_.child(id, 1), Precedence::Or);
      case Kind::Attribute:
        object(ast_.child(id, 0));
        write(".");
        return write(ast_.text(id));
      case Kind::Subscript:
        object(ast_.child(id, 0));
        write("[");
        visit(ast_.child(id, 1), Precedence::Tuple);
        return write("]");
      case Kind::Slice:
        return slice(id);
      case Kind::Call:
        visit(ast_.child(id, 0), Precedence::Postfix);
        return sequence("(", ast_.children(id).subspan(1), ")");
      case Kind::Keyword:
        write(ast_.text(id));
        write("=");
        return visit(ast_.child(id, 0), Precedence::Compare);
      case Kind::Assign:
      case Kind::AugAssign:
        visit(ast_.child(id, 0), Precedence::Tuple);
        write(" ");
        if (n.kind == Kind::AugAssign) write(symbol(n.binary_op()));
        write("= ");
        return visit(ast_.child(id, 1), Precedence::Tuple);
    }
  }

  void literal(std::string text) {
    literals_.push_back(std::move(text));
    write(literals_.back());
  }

  // '**' binds its right side looser than a sign and its left side tighter: -a**-b is -(a**(-b)).
  void binary(NodeId id, BinaryOp op) {
    const bool power = op == BinaryOp::Power;
    const Precedence p = precedence(op);
    visit(ast_.child(id, 0), power ? Precedence::Postfix : p);
    if (power)
      write("**");
    else
      spaced(symbol(op));
    visit(ast_.child(id, 1), power ? Precedence::Unary : tighter(p));
  }

  void spaced(std::string_view op) {
    write(" ");
    write(op);
    write(" ");
  }

  // "1.real" would read as the number "1." and a name.
  void object(NodeId id) {
    const Kind k = ast_[id].kind;
    const bool number = k == Kind::Integer || k == Kind::Float;
    if (number) write("(");
    visit(id, number ? Precedence::Tuple : Precedence::Postfix);
    if (number) write(")");
  }

  void sequence(std::string_view open, std::span<const NodeId> elements, std::string_view close) {
    write(open);
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) write(", ");
      visit(elements[i], Precedence::Compare);
    }
    write(close);
  }

  void tuple(NodeId id, bool bare) {
    const auto elements = ast_.children(id);
    if (elements.empty()) return write("()");
    sequence(bare ? "" : "(", elements, elements.size() == 1 ? "," : "");
    if (!bare) write(")");
  }

  void slice(NodeId id) {
    for (int i = 0; i < 3; ++i) {
      const NodeId part = ast_.child(id, i);
      if (i == 1 || (i == 2 && part != kAbsent)) write(":");
      if (part != kAbsent) visit(part, Precedence::Compare);
    }
  }

  const Ast& ast_;
  const bool all_;
  std::vector<Item> stack_;
  std::deque<std::string> literals_;
  std::string out_;
};

}  // namespace

std::string print(const Ast& ast, NodeId id, Parentheses parentheses) {
  return Printer(ast, parentheses).run(id);
}

std::string print(const Ast& ast, Parentheses parentheses) {
  std::string out;
  for (const NodeId id : ast.statements()) {
    if (!out.empty()) out += "; ";
    out += print(ast, id, parentheses);
  }
  return out;
}

}  // namespace pellucid::expr
