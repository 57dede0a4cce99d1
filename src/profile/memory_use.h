// The memory of a recording over time: its highest point and what was alive there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// Changes of the bytes in use, in the exact order in which they happened. Those of blocks from
/// before the recording come first.
struct MemoryChange {
  int64_t time = 0, bytes = 0;  ///< times never fall; negative bytes: freed
  size_t allocation = 0;
};
std::vector<MemoryChange> memory_changes(const Profile& p);

/// Bytes that were alive when the recording began and of which no row tells more: files before
/// version 4 have nothing but their sum.
int64_t unknown_at_start(const Profile& p);

/// The moment at which the bytes in use were most. The parts sum to `total`, and none is negative.
struct MemoryPeak {
  explicit MemoryPeak(const Profile& p);
  int64_t time = 0;
  int64_t recorded = 0;       ///< bytes of blocks that were taken while it was recorded
  int64_t at_start = 0;       ///< bytes that were alive since before the recording
  int64_t unrecorded = 0;     ///< what the allocator counts beyond both
  int64_t total = 0;          ///< all of them
  std::vector<size_t> alive;  ///< indices of allocations, those from before the recording too
  /// Bytes by category; those of which nothing is known are left out.
  std::array<int64_t, kMemoryCategoryCount> by_category{};
  int64_t unknown = 0;  ///< of at_start, the bytes whose category is not known
};

/// The op whose backward freed the block, so that it was kept for its sake: "addmm"; otherwise why
/// it was alive: "(alive at the end)", "(freed in forward)".
std::string saved_by(const Profile& p, const Allocation& a);

}  // namespace pellucid::profile
