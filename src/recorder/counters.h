// Counters of the processor and of the system over a recording, through perf_event_open or, for
// those that the system also counts for every process, getrusage. A counter that cannot be had says
// why.
#pragma once

#include <string>
#include <vector>

#include "pellucid/recorder.h"

struct perf_event_attr;

namespace pellucid::profile {

/// Whether open_perf_event asks the system at all, or answers as one that does not permit it.
void permit_perf_events(bool permitted) noexcept;
/// perf_event_open for a thread and a processor; -1 with errno.
int open_perf_event(perf_event_attr& attr, int thread, int processor) noexcept;

/// Starts to count, for this thread and those that it starts. What the system does not permit, but
/// also counts elsewhere (getrusage), is taken from there; returns why, "" where all is permitted.
std::string start_counters() noexcept;
/// What was counted since; empty where nothing was started, or nothing is to be read.
std::vector<Counter> stop_counters(bool read = true);
/// What an errno of perf_event_open means to whoever wanted to count.
std::string why_not_counted(int error);

}  // namespace pellucid::profile
