// The caching allocator: size classes and page runs over huge-page-advised mappings that are kept
// until empty_cache(). Statistics, limits and categories are public, in pellucid/memory.h.
// Blocks are not zeroed, and a block does not know its size: the caller remembers it.
//
// PELLUCID_NO_CACHE=1 (and AddressSanitizer, unless PELLUCID_ASAN_ARENAS=1) goes to malloc for each
// block; the counters stay right. PELLUCID_MEMORY_LIMIT=4G sets the limit at start.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pellucid/memory.h"

namespace pellucid {

inline constexpr size_t kAllocationAlignment = 64;

/// A block of at least `bytes`, 64-byte aligned, never null (of 0 bytes too, and that one must be
/// freed as well). Throws OutOfMemoryError, with nothing changed.
PELLUCID_API void* allocate(size_t bytes, MemoryCategory category = current_memory_category());
/// Takes back a block with the bytes and the category it was allocated with, on any thread. Null is
/// ignored.
PELLUCID_API void deallocate(void* p, size_t bytes, MemoryCategory category) noexcept;
/// Counts a live block of `bytes` under another category; from then on free it with that.
PELLUCID_API void change_memory_category(size_t bytes, MemoryCategory from,
                                         MemoryCategory to) noexcept;

/// Counts memory that is not the allocator's (shared mappings) as if it were allocated and freed
/// here, for statistics and the hook.
PELLUCID_API void count_mapped(void* p, size_t bytes, MemoryCategory category) noexcept;
PELLUCID_API void count_unmapped(void* p, size_t bytes, MemoryCategory category) noexcept;

/// Called after each allocation and before each free; must not throw. What it allocates itself is
/// not reported.
using AllocationHook = void (*)(void* p, size_t bytes, MemoryCategory category, bool is_free);
/// Installs the hook of the recorder, nullptr for none; returns the previous one.
PELLUCID_API AllocationHook set_allocation_hook(AllocationHook hook) noexcept;

/// Between these no other thread is inside the hook or about to call it: what a fork needs.
void hold_allocation_reports() noexcept;
void release_allocation_reports() noexcept;

/// What is asked to give memory back when an allocation would fail, before it does; returns whether
/// it did. It is called without a lock of the allocator, on the thread that allocates.
using MemoryReclaim = bool (*)() noexcept;
PELLUCID_API void set_memory_reclaim(MemoryReclaim reclaim) noexcept;

/// For tests: the nth allocation from now (1 is the next) throws OutOfMemoryError; 0 or less turns
/// it off.
PELLUCID_API void set_allocation_failure(int64_t nth) noexcept;
/// Whether blocks come straight from malloc in this process.
PELLUCID_API bool allocator_bypassed();

}  // namespace pellucid
