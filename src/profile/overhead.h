// Time that no ceiling explains: dispatch, waits for data, recording itself, and what the system
// counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// What recording a run took, by its mode.
struct PELLUCID_API RecordingCost {
  explicit RecordingCost(const Profile& p);
  /// Events, blocks of memory taken and given back among them; or counted calls; or samples.
  int64_t count = 0;
  std::string_view what;  ///< "events", "calls" or "samples"
  double each = 0;        ///< nanoseconds; 0 where it was not measured
  int64_t scopes = 0;     ///< that told the sampler of themselves
  double scope = 0;       ///< nanoseconds for each of them
  double total() const {
    return static_cast<double>(count) * each + static_cast<double>(scopes) * scope;
  }
  /// "27 ns", "6.4 us".
  static std::string text(double nanoseconds);
};

struct Overhead {
  explicit Overhead(const Profile& p);
  int64_t ops = 0, with_cost = 0;  ///< op events, and those whose record knows its cost
  int64_t op_time = 0;             ///< nanoseconds in ops
  int64_t scope_time = 0;          ///< in scopes outside their ops
  int64_t wait_time = 0;           ///< of it waiting for data
  int64_t outside = 0;             ///< of the busiest thread's recording outside all events
  double dispatch = 0;             ///< nanoseconds that a call takes that has nothing to do
  std::string dispatch_source;     ///< how that was found
  double recording = 0;            ///< nanoseconds that recording took, as RecordingCost says
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
