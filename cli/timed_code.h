// Compiled expressions as loops that can be timed, eagerly or lazily.
#pragma once

#include <string_view>

#include "cli/expr/code.h"
#include "cli/machine/machine.h"
#include "cli/timing.h"

namespace pellucid::cli {

/// How a program runs.
enum class Way {
  AsIs,     ///< in the mode in which the thread is
  Lazy,     ///< captured, and computed at the end of each loop
  Compiled  ///< as compile() does: both ways are timed at first, and the faster one stays
};
Way way_from_name(std::string_view name);

/// Runs the code on the machine's variables, again and again.
TimedLoop loop_of(Machine& machine, const expr::Code& code, Way way = Way::AsIs);

}  // namespace pellucid::cli
