// Stack effects and the listing in dis's layout.
#include "cli/expr/code.h"

#include <fmt/format.h>

#include <array>

namespace pellucid::expr {

std::string_view name_of(Opcode op) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"LOAD_CONST",     "LOAD_NAME",    "STORE_NAME",  "LOAD_ATTR",   "UNARY_NEGATIVE",
       "UNARY_POSITIVE", "UNARY_INVERT", "BINARY_OP",   "COMPARE_OP",  "BINARY_SUBSCR",
       "STORE_SUBSCR",   "BUILD_LIST",   "BUILD_TUPLE", "BUILD_SLICE", "UNPACK_SEQUENCE",
       "CALL",           "CALL_METHOD",  "COPY",        "SWAP",        "POP_TOP",
       "RETURN_VALUE"});
  static_assert(kNames.size() == static_cast<size_t>(Opcode::ReturnValue) + 1);
  return kNames[static_cast<size_t>(op)];
}

std::string print_constant(const Constant& constant) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return print_float(v); }
    std::string operator()(const std::string& v) const { return print_string(v); }
    std::string operator()(EllipsisConstant) const { return "Ellipsis"; }
  };
  return std::visit(Visitor{}, constant);
}

std::vector<int32_t> Code::free_names() const {
  std::vector<bool> seen(names.size());
  std::vector<int32_t> out;
  for (const Instruction& i : instructions) {
    if (i.op != Opcode::LoadName && i.op != Opcode::StoreName) continue;
    if (i.op == Opcode::LoadName && !seen[i.arg]) out.push_back(i.arg);
    seen[i.arg] = true;
  }
  return out;
}

StackUse stack_use(const Code& code, const Instruction& i) {
  switch (i.op) {
    case Opcode::LoadConst:
    case Opcode::LoadName:
      return {0, 1};
    case Opcode::StoreName:
    case Opcode::PopTop:
    case Opcode::ReturnValue:
      return {1, 0};
    case Opcode::LoadAttr:
    case Opcode::UnaryNegative:
    case Opcode::UnaryPositive:
    case Opcode::UnaryInvert:
      return {1, 1};
    case Opcode::BinaryOp:
    case Opcode::CompareOp:
    case Opcode::BinarySubscr:
      return {2, 1};
    case Opcode::StoreSubscr:
      return {3, 0};
    case Opcode::BuildList:
    case Opcode::BuildTuple:
    case Opcode::BuildSlice:
      return {i.arg, 1};
    case Opcode::UnpackSequence:
      return {1, i.arg};
    case Opcode::Call:
      return {code.calls[i.arg].argument_count(), 1};
    case Opcode::CallMethod:
      return {code.calls[i.arg].argument_count() + 1, 1};
    case Opcode::Copy:
      return {i.arg, i.arg + 1};
    case Opcode::Swap:
      return {i.arg, i.arg};
  }
  return {};
}

ListingRow listing_row(const Code& code, size_t index) {
  const Instruction& i = code.instructions[index];
  const bool new_line = index == 0 || code.instructions[index - 1].line != i.line;
  // Two bytes an instruction, as in CPython without its inline caches.
  ListingRow row{
      .line = new_line ? i.line : 0, .offset = static_cast<int>(2 * index), .name = name_of(i.op)};
  switch (i.op) {
    case Opcode::LoadConst:
      row.meaning = print_constant(code.constants[i.arg]);
      break;
    case Opcode::LoadName:
    case Opcode::StoreName:
    case Opcode::LoadAttr:
      row.meaning = code.names[i.arg];
      break;
    case Opcode::BinaryOp:
      row.meaning = fmt::format("{}{}", symbol(binary_op(i)), is_in_place(i) ? "=" : "");
      break;
    case Opcode::CompareOp:
      row.meaning = symbol(static_cast<CompareOp>(i.arg));
      break;
    case Opcode::Call:
    case Opcode::CallMethod: {
      const CallSite& call = code.calls[i.arg];
      row.argument = fmt::format("{}", call.argument_count());
      row.meaning = code.names[call.name];
      for (const int32_t keyword : call.keywords)
        row.meaning += fmt::format(", {}=", code.names[keyword]);
      return row;
    }
    case Opcode::BuildList:
    case Opcode::BuildTuple:
    case Opcode::BuildSlice:
    case Opcode::UnpackSequence:
    case Opcode::Copy:
    case Opcode::Swap:
      break;
    default:
      return row;
  }
  row.argument = fmt::format("{}", i.arg);
  return row;
}

std::string print_row(const ListingRow& row) {
  // dis's fields: line (3), current mark (3), jump mark (2), offset (4), name (20), argument (5),
  // meaning.
  std::string line = row.line > 0 ? fmt::format("{:>3}", row.line) : "   ";
  std::string out =
      fmt::format("{}        {:>4} {:<20} {:>5}", line, row.offset, row.name, row.argument);
  if (!row.meaning.empty()) out += fmt::format(" ({})", row.meaning);
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string disassemble(const Code& code) {
  std::string out;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const ListingRow row = listing_row(code, i);
    if (i > 0 && row.line > 0) out += '\n';
    out += print_row(row);
    out += '\n';
  }
  return out;
}

}  // namespace pellucid::expr
