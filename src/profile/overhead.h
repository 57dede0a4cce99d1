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

/// What a call takes that has nothing to do: the median of the run's views, which only pass the
/// dispatcher. 0 where there are too few of them.
struct DispatchCost {
  double nanoseconds = 0;
  std::string source;  ///< how that was found
};
DispatchCost find_dispatch(const Profile& p);

struct PELLUCID_API Overhead {
  explicit Overhead(const Profile& p);
  int64_t ops = 0, with_cost = 0;  ///< op events, and those whose definition knows its cost
  int64_t op_time = 0;             ///< nanoseconds in ops
  int64_t scope_time = 0;          ///< in scopes outside their ops
  int64_t wait_time = 0;           ///< of it waiting for data
  int64_t outside = 0;             ///< of the busiest thread's recording outside all events
  DispatchCost dispatch;
  double recording = 0;  ///< nanoseconds that recording took, as RecordingCost says
  double processor = 0;  ///< nanoseconds that cores worked for the program; 0 where not counted
  /// The time of the run, of which every share in the reports is one: what all threads spent in ops
  /// and scopes, and what the busiest of them spent outside. With one thread that is the duration.
  double whole() const { return static_cast<double>(op_time + scope_time + outside); }
  /// "12 %" of the run.
  std::string percent_of_run(double nanoseconds) const;
  /// Whether cores worked for the program for less than half of its run.
  bool starved(const Profile& p) const {
    return processor > 0 && processor < 0.5 * static_cast<double>(p.run.duration);
  }
  /// "page-faults: 1,234" and the like, or why there is none; one line each.
  std::string counters;
};

/// "coverage: 100 % of 12,500 ops have a cost", "recording: …", one line each.
std::string coverage_lines(const Profile& p, const Overhead& o);

}  // namespace pellucid::profile
