// Shared state of the allocator: dividing runs into blocks, the limit, and the statistics.
#include "base/central_heap.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/allocator.h"
#include "base/cpu.h"
#include "base/env.h"
#include "pellucid/error.h"

namespace pellucid::detail {

constinit std::atomic<int64_t> g_published{0};
constinit std::atomic<int64_t> g_peak{0};
constinit std::atomic<Attention> g_attention{Attention::None};

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

/// Bytes of a run that is divided into blocks: at least eight of them.
constexpr size_t divided_run_bytes(int size_class) {
  return std::max(size_t{64} << 10, round_up(8 * class_bytes(size_class), kPageBytes));
}

bool has_room(const PageRun& run) noexcept {
  return run.free_blocks != nullptr ||
         run.untouched + class_bytes(run.size_class) <= run.start + run.bytes;
}

std::string mebibytes(int64_t bytes) {
  return fmt::format("{} bytes ({:.2f} MiB)", bytes, static_cast<double>(bytes) / 0x1p20);
}

}  // namespace

CentralHeap& CentralHeap::get() {
  static CentralHeap* const heap = new CentralHeap;
  return *heap;
}

CentralHeap::CentralHeap() {
  limit_ = env_bytes("PELLUCID_MEMORY_LIMIT").value_or(0);
  machine_memory_ = cpu_info().total_memory;
  poisons_ = kAddressSanitizer && env_bool("PELLUCID_ASAN_ARENAS", false);
  bypassed_ = env_bool("PELLUCID_NO_CACHE", false) || (kAddressSanitizer && !poisons_);
  if (bypassed_ || poisons_) g_attention.store(Attention::Slow);
  // A child must not find the mutex held by a thread that it does not have.
  pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                 [] { get().mutex_.unlock(); });
}

int64_t CentralHeap::ceiling() const noexcept {
  return limit_ > 0 ? std::min(limit_, machine_memory_) : machine_memory_;
}

size_t CentralHeap::reserved_locked() const noexcept {
  if (bypassed_) return static_cast<size_t>(std::max<int64_t>(0, allocated_locked()));
  return small_heap_.reserved() + large_heap_.reserved();
}

void CentralHeap::raise_out_of_memory(size_t bytes) const {
  const int64_t allocated = allocated_locked();
  const int64_t cached = static_cast<int64_t>(reserved_locked()) - allocated;
  const std::string limit =
      limit_ > 0 && limit_ < machine_memory_
          ? fmt::format("the limit is {}; raise it with set_memory_limit or PELLUCID_MEMORY_LIMIT",
                        mebibytes(limit_))
          : fmt::format("the limit is the machine's {}", mebibytes(machine_memory_));
  throw OutOfMemoryError(
      fmt::format("allocate: out of memory: requested {}{}, allocated {}, cached {}; {}. Try a "
                  "smaller batch, let go of "
                  "tensors that are no longer needed, use NoGradGuard where no gradient is needed, "
                  "or checkpoint "
                  "activations.",
                  bytes,
                  bytes < size_t{1} << 62
                      ? fmt::format(" bytes ({:.2f} MiB)", static_cast<double>(bytes) / 0x1p20)
                      : " bytes",
                  mebibytes(allocated), mebibytes(cached), limit));
}

/// Refuses what can never fit, before any rounding may overflow.
void CentralHeap::check_size(size_t bytes) {
  const int64_t most = ceiling();
  const bool by_mappings = limit_ == 0 && !bypassed_;  // then take_run compares what it maps
  const bool fits = bytes <= static_cast<size_t>(most) &&
                    (by_mappings || allocated_locked() + static_cast<int64_t>(bytes) <= most);
  if (!fits) raise_out_of_memory(bytes);
}

void CentralHeap::check_possible(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > static_cast<size_t>(ceiling())) raise_out_of_memory(bytes);
}

PageRun* CentralHeap::take_run(PageHeap& heap, size_t bytes, size_t requested) {
  for (const bool last_attempt : {false, true}) {
    if (PageRun* run = heap.take(bytes)) return run;
    const size_t more = heap.missing_for(bytes);
    if (reserved_locked() + more <= static_cast<size_t>(ceiling()) && heap.grow_for(bytes)) {
      ++page_maps_;
      peak_reserved_ = std::max(peak_reserved_, static_cast<int64_t>(reserved_locked()));
      if (PageRun* run = heap.take(bytes)) return run;
    }
    if (!last_attempt) trim_locked();
  }
  raise_out_of_memory(requested);
}

void* CentralHeap::take_block(int size_class, size_t requested) {
  const size_t bytes = class_bytes(size_class);
  RunList& runs = with_room_[static_cast<size_t>(size_class)];
  if (runs.head == nullptr) {
    PageRun* made = take_run(small_heap_, divided_run_bytes(size_class), requested);
    made->size_class = size_class;
    made->live = 0;
    made->free_blocks = nullptr;
    made->untouched = made->start;
    small_heap_.own_all_pages(made);
    runs.push(made);
  }
  PageRun& run = *runs.head;
  void* block = run.free_blocks;
  if (block != nullptr) {
    run.free_blocks = next_of(static_cast<FreeBlock*>(block));
  } else {
    block = run.untouched;
    run.untouched += bytes;
  }
  ++run.live;
  if (!has_room(run)) runs.remove(&run);
  return block;
}

void CentralHeap::put_block(void* p) noexcept {
  PageRun& run = *small_heap_.find(p);
  RunList& runs = with_room_[static_cast<size_t>(run.size_class)];
  if (!has_room(run)) runs.push(&run);
  auto* block = static_cast<FreeBlock*>(p);
  set_next(block, static_cast<FreeBlock*>(run.free_blocks));
  run.free_blocks = block;
  if (--run.live > 0) return;
  // Empty: back to the pages, unless it is the class's last, which a loop would soon ask for again.
  run.free_blocks = nullptr;
  run.untouched = run.start;
  if (runs.head == &run && run.list_next == nullptr) return;
  runs.remove(&run);
  small_heap_.give_back(&run);
}

void* CentralHeap::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  check_size(bytes);
  if (bypassed_) {
    void* p = nullptr;
    if (posix_memalign(&p, kAllocationAlignment, std::max<size_t>(bytes, 1)) != 0)
      raise_out_of_memory(bytes);
    return p;
  }
  if (bytes <= kMediumMost) return take_block(class_of(bytes), bytes);
  return take_run(heap_for(bytes), bytes, bytes)->start;
}

void CentralHeap::put(void* p, size_t bytes) noexcept {
  if (bypassed_) {
    std::free(p);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (bytes <= kMediumMost)
    put_block(p);
  else
    heap_for(bytes).give_back(heap_for(bytes).find(p));
}

void* CentralHeap::take_small(size_t bytes) {
  const std::lock_guard lock(mutex_);
  check_size(bytes);
  return take_block(small_class(bytes), bytes);
}

void CentralHeap::refill(ThreadCache& cache, int size_class) {
  ThreadCache::Bin& bin = cache.bins[static_cast<size_t>(size_class)];
  const std::lock_guard lock(mutex_);
  check_size(class_bytes(size_class));
  do {
    auto* block = static_cast<FreeBlock*>(take_block(size_class, class_bytes(size_class)));
    set_next(block, bin.head);
    bin.head = block;
    ++bin.count;
    // Further blocks only from runs that exist: the last of a run ends the batch.
  } while (bin.count < bin.most / 2 && with_room_[static_cast<size_t>(size_class)].head != nullptr);
}

void CentralHeap::flush_locked(ThreadCache::Bin& bin, uint32_t count) noexcept {
  for (; count > 0; --count, --bin.count) {
    FreeBlock* block = bin.head;
    bin.head = next_of(block);
    put_block(block);
  }
}

void CentralHeap::flush(ThreadCache::Bin& bin, uint32_t count) noexcept {
  const std::lock_guard lock(mutex_);
  flush_locked(bin, count);
}

void CentralHeap::add_thread(ThreadCache& cache) noexcept {
  const std::lock_guard lock(mutex_);
  cache.next = threads_;
  if (threads_ != nullptr) threads_->previous = &cache;
  threads_ = &cache;
}

void CentralHeap::remove_thread(ThreadCache& cache) noexcept {
  const std::lock_guard lock(mutex_);
  for (ThreadCache::Bin& bin : cache.bins) flush_locked(bin, bin.count);
  raise_peak_locked();
  g_published.fetch_add(std::exchange(cache.unpublished, 0), std::memory_order_relaxed);
  for (size_t i = 0; i < cache.counters.by_category.size(); ++i) {
    Counters::add(ended_.by_category[i],
                  cache.counters.by_category[i].load(std::memory_order_relaxed));
  }
  Counters::add(ended_.allocations, cache.counters.allocations.load(std::memory_order_relaxed));
  (cache.previous != nullptr ? cache.previous->next : threads_) = cache.next;
  if (cache.next != nullptr) cache.next->previous = cache.previous;
}

void CentralHeap::count_orphan(int64_t bytes, MemoryCategory category,
                               bool is_allocation) noexcept {
  const std::lock_guard lock(mutex_);
  if (bytes < 0) raise_peak_locked();
  ended_.add(category, bytes);
  if (is_allocation) Counters::add(ended_.allocations, 1);
  g_published.fetch_add(bytes, std::memory_order_relaxed);
}

std::array<int64_t, kMemoryCategoryCount> CentralHeap::categories_locked() const noexcept {
  std::array<int64_t, kMemoryCategoryCount> sums{};
  const auto add = [&sums](const Counters& counters) {
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += counters.by_category[i].load(std::memory_order_relaxed);
  };
  add(ended_);
  for (const ThreadCache* t = threads_; t != nullptr; t = t->next) add(t->counters);
  return sums;
}

int64_t CentralHeap::allocated_locked() const noexcept {
  int64_t sum = 0;
  for (const int64_t bytes : categories_locked()) sum += bytes;
  return sum;
}

void CentralHeap::raise_peak_locked() noexcept {
  const auto categories = categories_locked();
  int64_t now = 0;
  for (const int64_t bytes : categories) now += bytes;
  if (now <= g_peak.load(std::memory_order_relaxed)) return;
  g_peak.store(now, std::memory_order_relaxed);
  at_peak_ = categories;
}

void CentralHeap::raise_peak() noexcept {
  const std::lock_guard lock(mutex_);
  raise_peak_locked();
}

MemoryStats CentralHeap::stats() noexcept {
  const std::lock_guard lock(mutex_);
  raise_peak_locked();
  MemoryStats stats;
  stats.by_category = categories_locked();
  for (const int64_t bytes : stats.by_category) stats.allocated += bytes;
  stats.allocations = ended_.allocations.load(std::memory_order_relaxed);
  for (const ThreadCache* t = threads_; t != nullptr; t = t->next) {
    stats.allocations += t->counters.allocations.load(std::memory_order_relaxed);
  }
  stats.peak = g_peak.load(std::memory_order_relaxed);
  stats.by_category_at_peak = at_peak_;
  stats.reserved = bypassed_ ? stats.allocated : static_cast<int64_t>(reserved_locked());
  stats.peak_reserved = bypassed_ ? stats.peak : peak_reserved_;
  stats.cached = stats.reserved - stats.allocated;
  stats.limit = limit_;
  stats.page_maps = page_maps_;
  return stats;
}

void CentralHeap::reset_peaks() noexcept {
  const std::lock_guard lock(mutex_);
  g_peak.store(std::numeric_limits<int64_t>::min(), std::memory_order_relaxed);
  raise_peak_locked();
  peak_reserved_ = static_cast<int64_t>(reserved_locked());
}

void CentralHeap::trim_locked() noexcept {
  for (RunList& runs : with_room_) {
    for (PageRun* run = runs.head; run != nullptr;) {
      PageRun* const next = run->list_next;
      if (run->live == 0) {
        runs.remove(run);
        small_heap_.give_back(run);
      }
      run = next;
    }
  }
  small_heap_.trim();
  large_heap_.trim();
}

void CentralHeap::empty_cache(ThreadCache* own) noexcept {
  const std::lock_guard lock(mutex_);
  if (own != nullptr) {
    for (ThreadCache::Bin& bin : own->bins) flush_locked(bin, bin.count);
  }
  trim_locked();
}

void CentralHeap::set_limit(int64_t bytes, ThreadCache* own) {
  PELLUCID_CHECK(bytes >= 0, ValueError, "set_memory_limit: bytes must not be negative, but is {}.",
                 bytes);
  bool exceeded = false;
  {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    exceeded = bytes > 0 && static_cast<int64_t>(reserved_locked()) > bytes;
  }
  if (exceeded) empty_cache(own);
}

}  // namespace pellucid::detail
