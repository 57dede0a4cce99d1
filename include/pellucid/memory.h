// What the allocator holds: statistics by category, the limit, and the cache.
// Allocation itself is internal; tensors do it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid {

/// What a block of memory is for.
enum class MemoryCategory : uint8_t {
  Other,
  Parameter,
  Activation,
  Gradient,
  Optimizer,
  Temporary,
  Data,
  Packed
};
inline constexpr int kMemoryCategoryCount = 8;

/// "parameter", "activation"…
PELLUCID_API std::string_view name_of(MemoryCategory category);

/// The category that this thread's new tensors get.
PELLUCID_API MemoryCategory current_memory_category() noexcept;

/// Sets this thread's category until the end of the scope.
class PELLUCID_API MemoryCategoryGuard {
 public:
  explicit MemoryCategoryGuard(MemoryCategory category) noexcept;
  ~MemoryCategoryGuard();
  MemoryCategoryGuard(const MemoryCategoryGuard&) = delete;
  MemoryCategoryGuard& operator=(const MemoryCategoryGuard&) = delete;

 private:
  MemoryCategory previous_;
};

/// Bytes and counts since the program's start; all sizes in bytes.
struct MemoryStats {
  int64_t allocated = 0;      ///< asked for and not yet freed
  int64_t cached = 0;         ///< reserved - allocated: free blocks, unused pages and rounding
  int64_t reserved = 0;       ///< mapped from the system
  int64_t peak = 0;           ///< the most that `allocated` ever was, or since the last reset
  int64_t peak_reserved = 0;  ///< the most that `reserved` ever was, or since the last reset
  int64_t limit = 0;          ///< the limit set, 0 for none
  int64_t allocations = 0;    ///< how many allocations were made
  int64_t page_maps = 0;      ///< how often pages were mapped from the system
  std::array<int64_t, kMemoryCategoryCount> by_category{};          ///< `allocated`, split
  std::array<int64_t, kMemoryCategoryCount> by_category_at_peak{};  ///< `peak`, split
};

/// The counters now. Exact for one thread; with several, `peak` may miss 64 KiB per other thread.
PELLUCID_API MemoryStats memory_stats();
/// Lets both peaks start again from the present values.
PELLUCID_API void reset_peak_memory_stats();
/// Gives the pages of mappings without a live block back to the system.
PELLUCID_API void empty_cache();
/// Makes allocations that would reserve more than `bytes` throw OutOfMemoryError; 0 for no limit.
PELLUCID_API void set_memory_limit(int64_t bytes);

}  // namespace pellucid
