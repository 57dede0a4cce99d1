// When the system took a thread's time: pages that it had to bring, and cores that it gave to
// somebody else. The kernel writes both into rings of memory (perf_event_open, one ring for each
// processor); from there they go to a file now and then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pellucid::profile {

/// One record of the file stalls-PID-TAG. Records of a thread are not in the order of time.
struct RawStall {
  enum Kind : uint32_t {
    kFault = 1,     // a page is missing
    kFaultDone,     // and now it is there
    kOut,           // the thread waits for something, so another one gets its core
    kOutPreempted,  // another one gets its core though the thread would go on
    kIn,            // it has a core again
    kLost,          // `thread` records were lost here: the ring was full
    // From getrusage, for a whole scope: how often is in the bits from kCountShift on, and `at` is
    // the beginning of the scope in ticks.
    kFaultsCounted,
    kWaitsCounted,
    kPreemptionsCounted,
  };
  static constexpr uint32_t kCountShift = 8;
  int64_t at;  // CLOCK_MONOTONIC, nanoseconds
  int32_t thread;
  uint32_t kind;
};

/// Watches all threads of the process and those that they start. Returns why that is not possible,
/// "" if it is. Where it is not, scopes may count for themselves (usage.h).
std::string start_stalls(const std::string& folder, const std::string& tag) noexcept;
/// Moves what is in the rings to the file; does nothing while another thread does it.
void drain_stalls() noexcept;
/// Adds records that a thread made itself.
void write_stalls(const RawStall* records, size_t count) noexcept;
void stop_stalls() noexcept;
/// In the child of a fork: the rings are the parent's.
void abandon_stalls() noexcept;

}  // namespace pellucid::profile
