// The instructions of the stack machine that evaluates expressions, with CPython's names where the
// meaning is the same. What the machine does with them (tensors, operators) is the evaluator's;
// here are only the format and its listing.
//
// Two differences from CPython, so that one operation is one instruction: functions are not pushed
// on the stack (CALL names its function), and the value of a program is the value of its last
// statement (RETURN_VALUE ends it, also after an assignment). Jumps do not exist: instructions run
// in order, each once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/expr/ast.h"

namespace pellucid::expr {

enum class Opcode : uint8_t {
  LoadConst,      // push constants[arg]
  LoadName,       // push the value of names[arg]
  StoreName,      // pop, and bind to names[arg]
  LoadAttr,       // pop x, push x.names[arg]
  UnaryNegative,  // pop x, push -x
  UnaryPositive,  // pop x, push +x
  UnaryInvert,    // pop x, push ~x
  BinaryOp,   // pop right, pop left, push left OP right; arg is the BinaryOp, 13 higher for OP= (in
              // place)
  CompareOp,  // pop right, pop left, push left OP right; arg is the CompareOp
  BinarySubscr,    // pop index, pop x, push x[index]
  StoreSubscr,     // pop index, pop x, pop value: x[index] = value
  BuildList,       // pop arg elements, push the list; the last was on top
  BuildTuple,      // pop arg elements, push the tuple
  BuildSlice,      // pop arg (2 or 3) of start, stop, step, push the slice
  UnpackSequence,  // pop a sequence of arg elements, push them so that the first is on top
  Call,            // calls[arg]: pop its arguments, push the result
  CallMethod,      // calls[arg]: pop its arguments, pop the object, push the result
  Copy,            // push the arg-th value from the top (1 is the top)
  Swap,            // exchange the top with the arg-th value from the top
  PopTop,          // pop
  ReturnValue,     // pop: the value of the program
};

/// "LOAD_CONST"
std::string_view name_of(Opcode op);

/// None, a bool, an int, a float, a string or an ellipsis.
struct EllipsisConstant {
  friend bool operator==(EllipsisConstant, EllipsisConstant) = default;
};
using Constant = std::variant<std::monostate, bool, int64_t, double, std::string, EllipsisConstant>;

/// As Python's repr: "None", "True", "0.5", "'mean'", "Ellipsis".
std::string print_constant(const Constant& constant);

struct Instruction {
  Opcode op = Opcode::PopTop;
  int32_t arg = 0;
  Span span;              // the source bytes that it comes from: point errors here
  int32_t line = 1;       // of span.begin
  NodeId node = kAbsent;  // the node of the tree, for print(ast, node)
};

/// A call: the function or method, and how the arguments on the stack are to be read.
struct CallSite {
  int32_t name = 0;               // into Code::names
  int32_t positional = 0;         // these were pushed first (for a method without the object)
  std::vector<int32_t> keywords;  // names of the arguments pushed after them, into Code::names
  int argument_count() const { return positional + static_cast<int>(keywords.size()); }
};

/// A compiled program. It owns all it needs: the tree may be gone.
struct Code {
  std::string source;
  std::vector<Instruction> instructions;
  std::vector<std::string> names;
  std::vector<Constant> constants;
  std::vector<CallSite> calls;
  int max_stack = 0;  // values on the stack at the worst moment

  /// Names that are read before the program binds them, in the order of their first use: what it
  /// needs from outside.
  std::vector<int32_t> free_names() const;
};

/// In-place form (x += y) of a BINARY_OP.
inline bool is_in_place(const Instruction& i) {
  return i.op == Opcode::BinaryOp && i.arg >= kBinaryOpCount;
}
inline BinaryOp binary_op(const Instruction& i) {
  return static_cast<BinaryOp>(i.arg % kBinaryOpCount);
}

/// How many values an instruction pops and pushes.
struct StackUse {
  int pops = 0, pushes = 0;
};
StackUse stack_use(const Code& code, const Instruction& instruction);

/// One line of the listing, in the columns of Python's dis; `argument` and `meaning` may be empty.
struct ListingRow {
  int line = 0;  // 0: the same line as the row before
  int offset = 0;
  std::string_view name;
  std::string argument = {}, meaning = {};
};
ListingRow listing_row(const Code& code, size_t index);
/// The row as Python 3.11's dis prints it.
std::string print_row(const ListingRow& row);
/// The whole listing; a blank line stands before each new source line.
std::string disassemble(const Code& code);

}  // namespace pellucid::expr
