// Counters of the processor and of the system over a recording, through perf_event_open. A counter
// that cannot be had says why.
#pragma once

#include <string>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// Starts to count, for this thread and those that it starts.
void start_counters() noexcept;
/// What was counted since; empty where nothing was started, or nothing is to be read.
std::vector<Counter> stop_counters(bool read = true);
/// What an errno of perf_event_open means to whoever wanted to count.
std::string why_not_counted(int error);

}  // namespace pellucid::profile
