// Compiled expressions as loops that can be timed, eagerly or lazily.
#pragma once

#include "cli/expr/code.h"
#include "cli/machine/machine.h"
#include "cli/timing.h"

namespace pellucid::cli {

/// Runs the code on the machine's variables, again and again. Lazily: captured, and computed at the
/// end of each loop; else in the mode in which the thread is.
TimedLoop loop_of(Machine& machine, const expr::Code& code, bool lazily = false);

}  // namespace pellucid::cli
