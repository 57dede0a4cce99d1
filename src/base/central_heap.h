// CentralHeap: the part of the allocator that all threads share, behind one mutex: the page heaps,
// the runs divided into blocks of one size class, the limit, and the totals of the counters.
// The threads' caches and the fast path are in allocator.cpp.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/page_heap.h"
#include "pellucid/memory.h"

namespace pellucid::detail {

// Blocks up to 4 KiB: 64-byte steps, cached by threads. Up to 32 KiB: eight classes per doubling.
// Larger ones are runs of pages; from 1 MiB on in a heap of their own, which small runs do not
// fragment.
inline constexpr size_t kSmallMost = 4096;
inline constexpr size_t kMediumMost = 32768;
inline constexpr size_t kLargeLeast = size_t{1} << 20;
inline constexpr int kSmallClasses = 64;
inline constexpr int kClasses = kSmallClasses + 24;

/// The class of a block of at most kSmallMost bytes; 0 bytes count as 1.
constexpr int small_class(size_t bytes) { return static_cast<int>((bytes - (bytes != 0)) >> 6); }

constexpr int class_of(size_t bytes) {
  if (bytes <= kSmallMost) return small_class(bytes);
  const size_t n = bytes - 1;
  const int width = static_cast<int>(std::bit_width(n));  // 13 to 15
  return kSmallClasses + (width - 13) * 8 + static_cast<int>(n >> (width - 4)) - 8;
}

constexpr size_t class_bytes(int size_class) {
  if (size_class < kSmallClasses) return static_cast<size_t>(size_class + 1) * 64;
  const int k = size_class - kSmallClasses;
  return static_cast<size_t>(k % 8 + 9) << (k / 8 + 9);
}

/// A free block, linked through its first bytes.
struct FreeBlock {
  FreeBlock* next;
};

// The links lie in poisoned memory when AddressSanitizer runs with arenas.
[[gnu::no_sanitize("address")]] inline FreeBlock* next_of(const FreeBlock* block) noexcept {
  return block->next;
}
[[gnu::no_sanitize("address")]] inline void set_next(FreeBlock* block, FreeBlock* next) noexcept {
  block->next = next;
}

/// Counters that one thread writes and any may read: relaxed loads and stores cost no locked
/// instruction.
struct Counters {
  std::array<std::atomic<int64_t>, kMemoryCategoryCount> by_category{};
  std::atomic<int64_t> allocations{0};

  static void add(std::atomic<int64_t>& counter, int64_t amount) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void add(MemoryCategory category, int64_t bytes) noexcept {
    add(by_category[static_cast<size_t>(category)], bytes);
  }
};

/// A thread's free small blocks and its counters.
struct ThreadCache {
  struct Bin {
    FreeBlock* head = nullptr;
    uint32_t count = 0;
    uint32_t most = 0;
  };
  std::array<Bin, kSmallClasses> bins{};
  Counters counters;
  int64_t unpublished = 0;  // bytes not yet in g_published
  ThreadCache* previous = nullptr;
  ThreadCache* next = nullptr;
};

/// Bytes allocated as far as threads published them; a thread adds its own `unpublished`.
extern constinit std::atomic<int64_t> g_published;
/// The peak so far. It is compared before each decrease only: a maximum lies just before one.
extern constinit std::atomic<int64_t> g_peak;
/// Whether the fast path may be taken: always, if the hook is told, or not (a failure to inject, or
/// no arenas).
enum class Attention : uint8_t { None, Watched, Slow };
extern constinit std::atomic<Attention> g_attention;

class CentralHeap {
 public:
  /// The one instance, never destroyed, so that static destructors may free tensors.
  static CentralHeap& get();

  bool bypassed() const noexcept { return bypassed_; }
  bool poisons() const noexcept { return poisons_; }

  /// A block of more than kSmallMost bytes, or any block when arenas are bypassed.
  void* take(size_t bytes);
  void put(void* p, size_t bytes) noexcept;
  /// Fills an empty bin with one block at least.
  void refill(ThreadCache& cache, int size_class);
  /// Takes `count` blocks out of a bin.
  void flush(ThreadCache::Bin& bin, uint32_t count) noexcept;
  /// One small block without a thread's cache.
  void* take_small(size_t bytes);

  void add_thread(ThreadCache& cache) noexcept;
  /// Takes over blocks and counters of a thread that ends.
  void remove_thread(ThreadCache& cache) noexcept;
  /// Counts for a thread that has no cache (any more).
  void count_orphan(int64_t bytes, MemoryCategory category, bool is_allocation) noexcept;
  void raise_peak() noexcept;

  MemoryStats stats() noexcept;
  void reset_peaks() noexcept;
  void empty_cache(ThreadCache* own) noexcept;
  void set_limit(int64_t bytes, ThreadCache* own);
  /// Refuses what can never fit.
  void check_possible(size_t bytes);

 private:
  CentralHeap();
  void check_size(size_t bytes);
  int64_t ceiling() const noexcept;
  PageRun* take_run(PageHeap& heap, size_t bytes, size_t requested);
  void* take_block(int size_class, size_t requested);
  void put_block(void* p) noexcept;
  void flush_locked(ThreadCache::Bin& bin, uint32_t count) noexcept;
  void trim_locked() noexcept;
  int64_t allocated_locked() const noexcept;
  void raise_peak_locked() noexcept;
  std::array<int64_t, kMemoryCategoryCount> categories_locked() const noexcept;
  PageHeap& heap_for(size_t bytes) noexcept {
    return bytes < kLargeLeast ? small_heap_ : large_heap_;
  }
  size_t reserved_locked() const noexcept;
  [[noreturn]] void raise_out_of_memory(size_t bytes) const;

  std::mutex mutex_;
  PageHeap small_heap_;
  PageHeap large_heap_;
  std::array<RunList, kClasses> with_room_{};  // divided runs that have a free block
  ThreadCache* threads_ = nullptr;
  Counters ended_;  // of threads that ended or never had a cache
  std::array<int64_t, kMemoryCategoryCount> at_peak_{};
  int64_t peak_reserved_ = 0;
  int64_t page_maps_ = 0;
  int64_t limit_ = 0;
  int64_t machine_memory_ = 0;
  bool bypassed_ = false;
  bool poisons_ = false;
};

}  // namespace pellucid::detail
