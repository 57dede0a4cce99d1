// Time that no ceiling explains: dispatch, waits for data, recording itself, and what the system
// counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "pellucid/profile.h"
#include "profile/raw.h"

namespace pellucid::profile {

/// How many events were recorded; blocks of memory taken and given back are events too.
inline int64_t raw_events(const Profile& p) {
  return std::max(static_cast<int64_t>(p.events.size()),
                  p.run.recorded_bytes / static_cast<int64_t>(sizeof(RawEvent)));
}

struct Overhead {
  explicit Overhead(const Profile& p);
  int64_t ops = 0, with_cost = 0;  ///< op events, and those whose record knows its cost
  int64_t op_time = 0;             ///< nanoseconds in ops
  int64_t scope_time = 0;          ///< in scopes outside their ops
  int64_t wait_time = 0;           ///< of it waiting for data
  int64_t outside = 0;             ///< of the busiest thread's recording outside all events
  double dispatch = 0;             ///< nanoseconds that a call takes that has nothing to do
  std::string dispatch_source;     ///< how that was found
  double recording = 0;            ///< nanoseconds that recording took
  double processor = 0;  ///< nanoseconds that cores worked for the program; 0 where not counted
  /// Whether the program had no core for more than half of its run.
  bool starved(const Profile& p) const {
    return processor > 0 && processor < 0.5 * static_cast<double>(p.run.duration);
  }
  /// "page-faults: 1,234" and the like, or why there is none; one line each.
  std::string counters;
};

/// "coverage: 100 % of 12,500 ops have a cost", "recording: …", one line each.
std::string coverage_lines(const Profile& p, const Overhead& o);

}  // namespace pellucid::profile
