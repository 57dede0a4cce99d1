// The operators of expressions: on plain numbers as in Python, on tensors through the ops.
#pragma once

#include "cli/expr/ast.h"
#include "cli/machine/object.h"

namespace pellucid::cli {

/// left OP right; in place (OP=) only where left is a tensor.
Object binary(expr::BinaryOp op, bool in_place, const Object& left, const Object& right);
Object unary(expr::UnaryOp op, const Object& operand);
Object compare(expr::CompareOp op, const Object& left, const Object& right);

/// object[index]: a tensor as PyTorch indexes it, a list or tuple by ints and slices.
Object subscript(const Object& object, const Object& index);
/// object[index] = value; tensors only.
void store_subscript(const Object& object, const Object& index, const Object& value);

/// The op behind an operator: "add" for +.
std::string_view op_name(expr::BinaryOp op);
std::string_view op_name(expr::CompareOp op);

}  // namespace pellucid::cli
