// PageHeap: runs of pages in one range of addresses, mapped in huge-page-advised steps of 2 MiB.
// One contiguous range, so that all free neighbours join and a varied workload does not grow
// without end. It is not thread-safe, knows no limits and no categories: the allocator above it
// locks and counts. Freeing never allocates and never fails. Under AddressSanitizer mapped memory
// starts poisoned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace pellucid::detail {

#ifdef __SANITIZE_ADDRESS__
inline void poison(const void* p, size_t bytes) noexcept { __asan_poison_memory_region(p, bytes); }
inline void unpoison(const void* p, size_t bytes) noexcept {
  __asan_unpoison_memory_region(p, bytes);
}
#else
inline void poison(const void*, size_t) noexcept {}
inline void unpoison(const void*, size_t) noexcept {}
#endif

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

constexpr size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// A run of pages. The allocator uses the last four members for runs that it divides.
struct PageRun {
  enum class State : uint8_t { InUse, Free, Unmapped };
  char* start = nullptr;
  size_t bytes = 0;
  PageRun* before = nullptr;  // neighbours by address
  PageRun* after = nullptr;
  PageRun* list_previous = nullptr;  // in a free bin, or in the allocator's list of divided runs
  PageRun* list_next = nullptr;
  State state = State::InUse;
  int size_class = -1;          // -1: one block fills the run
  uint32_t live = 0;            // blocks given out
  void* free_blocks = nullptr;  // a list through the free blocks
  char* untouched = nullptr;    // from here on no block was given out yet
};

/// A doubly linked list through PageRun::list_previous and list_next.
struct RunList {
  PageRun* head = nullptr;
  void push(PageRun* run) noexcept;
  void remove(PageRun* run) noexcept;
};

class PageHeap {
 public:
  constexpr PageHeap() = default;
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  /// A run of at least `bytes` from what is mapped, or null.
  PageRun* take(size_t bytes) noexcept;
  /// The bytes that must be mapped before take(bytes) can succeed, when it just failed.
  size_t missing_for(size_t bytes) const noexcept;
  /// Maps what is missing for `bytes`; false if the system refuses.
  bool grow_for(size_t bytes) noexcept;
  void give_back(PageRun* run) noexcept;
  /// Gives every wholly free 2 MiB back to the system.
  void trim() noexcept;
  /// Bytes mapped.
  size_t reserved() const noexcept { return reserved_; }

  /// Makes find() work for every address in the run, not only for its start.
  void own_all_pages(PageRun* run) noexcept;
  /// The run that holds p, which must be in use.
  PageRun* find(const void* p) const noexcept { return owner_[page_of(p)]; }

 private:
  static constexpr int kBins = 384;  // eight per doubling, from one page to beyond 2^47 bytes

  static int bin_of(size_t bytes) noexcept;
  size_t page_of(const void* p) const noexcept {
    return static_cast<size_t>(static_cast<const char*>(p) - base_) / kPageBytes;
  }
  bool reserve_addresses() noexcept;
  PageRun* best_hole(size_t bytes) const noexcept;
  int next_bin(int bin) const noexcept;
  void link(PageRun* run) noexcept;
  void unlink(PageRun* run) noexcept;
  bool split(PageRun* run, size_t bytes) noexcept;
  void absorb_next(PageRun* run) noexcept;
  PageRun* release(PageRun* run, PageRun::State state) noexcept;
  bool unmap(PageRun* run) noexcept;
  PageRun* new_run() noexcept;
  void drop_run(PageRun* run) noexcept;

  char* base_ = nullptr;
  char* top_ = nullptr;  // beyond it nothing was mapped yet
  char* end_ = nullptr;  // of the addresses reserved
  PageRun** owner_ =
      nullptr;               // by page; valid for a run's first page and all pages of a divided run
  PageRun* last_ = nullptr;  // the run that ends at top_
  size_t reserved_ = 0;
  PageRun* spare_runs_ = nullptr;
  RunList unmapped_;
  std::array<RunList, kBins> bins_{};
  std::array<uint64_t, kBins / 64> occupied_{};
};

}  // namespace pellucid::detail
