// From tree to instructions: left to right, operands before operators, no optimisation but the sign
// of a number.
#pragma once

#include <string_view>

#include "cli/expr/code.h"

namespace pellucid::expr {

/// The instructions of a program. Its value is that of the last statement; None for an empty
/// program.
Code compile(const Ast& ast);

/// Parses and compiles.
Code compile(std::string_view source);

}  // namespace pellucid::expr
