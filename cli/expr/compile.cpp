// The compiler. An explicit stack of nodes stands in for recursion, so the depth of a tree does not
// matter.
#include "cli/expr/compile.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "cli/expr/parser.h"

namespace pellucid::expr {
namespace {

class Compiler {
 public:
  explicit Compiler(const Ast& ast) : ast_(ast) {
    code_.source = ast.source();
    for (size_t i = 0; i < code_.source.size(); ++i)
      if (code_.source[i] == '\n') newlines_.push_back(static_cast<int32_t>(i));
  }

  Code run() {
    const auto& statements = ast_.statements();
    for (size_t i = 0; i < statements.size(); ++i)
      statement(statements[i], i + 1 == statements.size());
    if (statements.empty()) {
      const auto end = static_cast<int32_t>(code_.source.size());
      emit(Opcode::LoadConst, constant(std::monostate{}), {end, end}, kAbsent);
      emit(Opcode::ReturnValue, 0, {end, end}, kAbsent);
    }
    return std::move(code_);
  }

 private:
  struct Task {
    NodeId node;
    Span span;      // where an absent part of a slice would have been
    bool finished;  // its children have been evaluated
  };

  // ---- statements

  void statement(NodeId id, bool last) {
    const Node& n = ast_[id];
    if (n.kind == Kind::Assign)
      assign(id);
    else if (n.kind == Kind::AugAssign)
      augmented(id);
    else
      return expression_statement(id, last);
    if (!last) return;
    result(ast_.child(id, 0));
    emit(Opcode::ReturnValue, 0, n.span, id);
  }

  void expression_statement(NodeId id, bool last) {
    evaluate(id);
    emit(last ? Opcode::ReturnValue : Opcode::PopTop, 0, ast_[id].span, id);
  }

  void assign(NodeId id) {
    const NodeId target = ast_.child(id, 0);
    evaluate(ast_.child(id, 1));
    if (ast_[target].kind != Kind::Tuple) return store(target);
    emit(Opcode::UnpackSequence, ast_[target].child_count, ast_[target].span, target);
    for (const NodeId part : ast_.children(target)) store(part);
  }

  void store(NodeId target) {
    if (ast_[target].kind == Kind::Name)
      return emit(Opcode::StoreName, name(ast_.text(target)), target);
    evaluate(ast_.child(target, 0));
    evaluate(ast_.child(target, 1));
    emit(Opcode::StoreSubscr, 0, target);
  }

  // x[i] += y reads x and i once, as Python does.
  void augmented(NodeId id) {
    const NodeId target = ast_.child(id, 0);
    const bool subscript = ast_[target].kind == Kind::Subscript;
    if (subscript) {
      evaluate(ast_.child(target, 0));
      evaluate(ast_.child(target, 1));
      emit(Opcode::Copy, 2, target);
      emit(Opcode::Copy, 2, target);
      emit(Opcode::BinarySubscr, 0, target);
    } else {
      evaluate(target);
    }
    evaluate(ast_.child(id, 1));
    emit(Opcode::BinaryOp, ast_[id].op + kBinaryOpCount, id);
    if (!subscript) return emit(Opcode::StoreName, name(ast_.text(target)), target);
    emit(Opcode::Swap, 3, target);
    emit(Opcode::Swap, 2, target);
    emit(Opcode::StoreSubscr, 0, target);
  }

  // The value of an assignment is what was assigned to: the name, the tensor of x[0] = 1, the tuple
  // of names.
  void result(NodeId target) {
    const Node& n = ast_[target];
    if (n.kind == Kind::Subscript) return evaluate(ast_.child(target, 0));
    if (n.kind == Kind::Name) return evaluate(target);
    for (const NodeId part : ast_.children(target)) result(part);
    emit(Opcode::BuildTuple, n.child_count, target);
  }

  // ---- expressions

  void evaluate(NodeId root) {
    const size_t base = tasks_.size();
    tasks_.push_back({root, {}, false});
    while (tasks_.size() > base) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      if (task.node == kAbsent)
        emit(Opcode::LoadConst, constant(std::monostate{}), task.span, kAbsent);
      else if (task.finished)
        finish(task.node);
      else
        open(task.node);
    }
  }

  // Leaves become instructions at once; other nodes wait for their operands.
  void open(NodeId id) {
    const Node& n = ast_[id];
    switch (n.kind) {
      case Kind::None:
        return emit(Opcode::LoadConst, constant(std::monostate{}), id);
      case Kind::Bool:
        return emit(Opcode::LoadConst, constant(n.integer != 0), id);
      case Kind::Integer:
        return emit(Opcode::LoadConst, constant(n.integer), id);
      case Kind::Float:
        return emit(Opcode::LoadConst, constant(n.number), id);
      case Kind::String:
        return emit(Opcode::LoadConst, constant(ast_.text(id)), id);
      case Kind::Ellipsis:
        return emit(Opcode::LoadConst, constant(EllipsisConstant{}), id);
      case Kind::Name:
        return emit(Opcode::LoadName, name(ast_.text(id)), id);
      case Kind::Unary:
        if (signed_number(id)) return;
        break;
      case Kind::Call:
        return open_call(id);
      case Kind::Slice:
        return open_slice(id);
      default:
        break;
    }
    tasks_.push_back({id, {}, true});
    push_children(ast_.children(id));
  }

  void push_children(std::span<const NodeId> children) {
    for (size_t i = children.size(); i-- > 0;) tasks_.push_back({children[i], {}, false});
  }

  // A function is named by its CALL; of a method, the object is evaluated first.
  void open_call(NodeId id) {
    const NodeId callee = ast_.child(id, 0);
    tasks_.push_back({id, {}, true});
    push_children(ast_.children(id).subspan(1));
    if (ast_[callee].kind == Kind::Attribute) tasks_.push_back({ast_.child(callee, 0), {}, false});
  }

  void open_slice(NodeId id) {
    const auto parts = ast_.children(id);
    tasks_.push_back({id, {}, true});
    for (int i = parts[2] == kAbsent ? 1 : 2; i >= 0; --i)
      tasks_.push_back({parts[i], ast_[id].span, false});
  }

  // -1 is a constant, as Python's compiler makes it; -x is an instruction.
  bool signed_number(NodeId id) {
    const Node& operand = ast_[ast_.child(id, 0)];
    const UnaryOp op = ast_[id].unary_op();
    if (op == UnaryOp::Invert) return false;
    const bool negative = op == UnaryOp::Negative;
    if (operand.kind == Kind::Float) {
      emit(Opcode::LoadConst, constant(negative ? -operand.number : operand.number), id);
      return true;
    }
    // The least int64 has no negative; the machine will say so.
    if (operand.kind != Kind::Integer || operand.integer < 0) return false;
    emit(Opcode::LoadConst, constant(negative ? -operand.integer : operand.integer), id);
    return true;
  }

  void finish(NodeId id) {
    const Node& n = ast_[id];
    switch (n.kind) {
      case Kind::List:
        return emit(Opcode::BuildList, n.child_count, id);
      case Kind::Tuple:
        return emit(Opcode::BuildTuple, n.child_count, id);
      case Kind::Slice:
        return emit(Opcode::BuildSlice, ast_.child(id, 2) == kAbsent ? 2 : 3, id);
      case Kind::Unary:
        return emit(unary_opcode(n.unary_op()), 0, id);
      case Kind::Binary:
        return emit(Opcode::BinaryOp, n.op, id);
      case Kind::Compare:
        return emit(Opcode::CompareOp, n.op, id);
      case Kind::Attribute:
        return emit(Opcode::LoadAttr, name(ast_.text(id)), id);
      case Kind::Subscript:
        return emit(Opcode::BinarySubscr, 0, id);
      case Kind::Keyword:
        return;  // its value is on the stack, its name is in the call
      case Kind::Call:
        return finish_call(id);
      default:
        PELLUCID_ASSERT(false);
    }
  }

  static Opcode unary_opcode(UnaryOp op) {
    return op == UnaryOp::Negative   ? Opcode::UnaryNegative
           : op == UnaryOp::Positive ? Opcode::UnaryPositive
                                     : Opcode::UnaryInvert;
  }

  void finish_call(NodeId id) {
    const NodeId callee = ast_.child(id, 0);
    CallSite call;
    call.name = name(ast_.text(callee));
    for (const NodeId argument : ast_.children(id).subspan(1)) {
      if (ast_[argument].kind == Kind::Keyword)
        call.keywords.push_back(name(ast_.text(argument)));
      else
        ++call.positional;
    }
    code_.calls.push_back(std::move(call));
    const bool method = ast_[callee].kind == Kind::Attribute;
    emit(method ? Opcode::CallMethod : Opcode::Call, static_cast<int32_t>(code_.calls.size() - 1),
         id);
  }

  // ---- tables

  void emit(Opcode op, int32_t arg, NodeId node) { emit(op, arg, ast_[node].span, node); }
  void emit(Opcode op, int32_t arg, Span span, NodeId node) {
    code_.instructions.push_back(
        {.op = op, .arg = arg, .span = span, .line = line_of(span.begin), .node = node});
    const StackUse use = stack_use(code_, code_.instructions.back());
    depth_ += use.pushes - use.pops;
    code_.max_stack = std::max(code_.max_stack, depth_);
  }

  int32_t line_of(int32_t offset) const {
    return 1 + static_cast<int32_t>(std::lower_bound(newlines_.begin(), newlines_.end(), offset) -
                                    newlines_.begin());
  }

  int32_t name(const std::string& text) {
    const auto [place, added] =
        name_index_.try_emplace(text, static_cast<int32_t>(code_.names.size()));
    if (added) code_.names.push_back(text);
    return place->second;
  }

  // Equal constants share a place; 1, 1.0 and True, and 0.0 and -0.0, are different constants.
  int32_t constant(Constant value) {
    std::string key(1, static_cast<char>('0' + value.index()));
    if (const double* number = std::get_if<double>(&value))
      key += std::to_string(std::bit_cast<uint64_t>(*number));
    else if (const std::string* text = std::get_if<std::string>(&value))
      key += *text;
    else
      key += print_constant(value);
    const auto [place, added] =
        constant_index_.try_emplace(std::move(key), static_cast<int32_t>(code_.constants.size()));
    if (added) code_.constants.push_back(std::move(value));
    return place->second;
  }

  const Ast& ast_;
  Code code_;
  std::vector<Task> tasks_;
  std::unordered_map<std::string, int32_t> name_index_, constant_index_;
  int depth_ = 0;
  std::vector<int32_t> newlines_;  // their offsets, in order
};

}  // namespace

Code compile(const Ast& ast) { return Compiler(ast).run(); }
Code compile(std::string_view source) { return compile(parse(source)); }

}  // namespace pellucid::expr
