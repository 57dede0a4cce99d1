// Bytes in use at one moment, by category: what estimates and their ledger of memory report.
#pragma once

#include <array>
#include <cstdint>

#include "pellucid/memory.h"

namespace pellucid {

/// Bytes at one moment.
struct MemorySnapshot {
  int64_t total = 0;
  std::array<int64_t, kMemoryCategoryCount> by_category{};
  int64_t of(MemoryCategory category) const { return by_category[static_cast<size_t>(category)]; }
};

}  // namespace pellucid
