// The memory of a recording over time: its highest point and what was alive there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// The moment at which the recorded allocations were largest.
struct MemoryPeak {
  explicit MemoryPeak(const Profile& p);
  int64_t time = 0;
  int64_t recorded = 0;       ///< bytes of the recorded allocations that were alive
  int64_t at_start = 0;       ///< bytes that were alive when the recording began
  int64_t unrecorded = 0;     ///< what the allocator counts beyond both; they sum to `total`
  int64_t total = 0;          ///< the allocator's peak, or where it is unknown what was recorded
  std::vector<size_t> alive;  ///< indices of allocations
};

/// Changes of the bytes in use, in the order of time; frees come before allocations of the same
/// moment.
struct MemoryChange {
  int64_t time = 0, bytes = 0;  ///< negative: freed
  size_t allocation = 0;
};
std::vector<MemoryChange> memory_changes(const Profile& p);

/// The op whose backward freed the block, so that it was kept for its sake: "addmm"; otherwise why
/// it was alive: "(alive at the end)", "(freed in forward)".
std::string saved_by(const Profile& p, const Allocation& a);

}  // namespace pellucid::profile
