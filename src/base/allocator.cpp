// The allocator's front: each thread's cache of small blocks, the fast path, hook, failure
// injection and the public functions. Everything that threads share is in central_heap.cpp.
#include "base/allocator.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/central_heap.h"
#include "base/small_lock.h"
#include "pellucid/error.h"

namespace pellucid {

using detail::Attention;
using detail::CentralHeap;
using detail::Counters;
using detail::FreeBlock;
using detail::g_attention;
using detail::g_peak;
using detail::g_published;
using detail::kSmallMost;
using detail::ThreadCache;

namespace {

constexpr int64_t kPublishStep = 64 << 10;  // how far g_published may lag behind, per thread

constinit thread_local ThreadCache* t_cache = nullptr;
constinit thread_local bool t_ended = false;
constinit thread_local bool t_in_hook = false;
constinit thread_local MemoryCategory t_category = MemoryCategory::Other;

std::atomic<AllocationHook> g_hook{nullptr};
std::atomic<int64_t> g_failure_countdown{0};
std::atomic<MemoryReclaim> g_reclaim{nullptr};

/// Hands the thread's blocks and counters over when it ends.
struct ThreadExit {
  bool armed = false;
  ~ThreadExit() {
    t_ended = true;
    if (t_cache == nullptr) return;
    ThreadCache* cache = std::exchange(t_cache, nullptr);
    CentralHeap::get().remove_thread(*cache);
    delete cache;
  }
};
thread_local ThreadExit t_exit;

/// This thread's cache, made at first use; null once the thread is ending.
ThreadCache* own_cache() noexcept {
  if (t_cache != nullptr || t_ended) return t_cache;
  auto* cache = new (std::nothrow) ThreadCache;
  if (cache == nullptr) return nullptr;
  for (int i = 0; i < detail::kSmallClasses; ++i) {
    // 8 to 128 blocks: at most 1.5 MiB in all.
    const size_t fit = (size_t{16} << 10) / detail::class_bytes(i);
    cache->bins[static_cast<size_t>(i)].most =
        static_cast<uint32_t>(std::clamp<size_t>(fit, 8, 128));
  }
  CentralHeap::get().add_thread(*cache);
  t_exit.armed = true;  // the first touch registers the destructor
  return t_cache = cache;
}

void publish(ThreadCache& cache) noexcept {
  g_published.fetch_add(std::exchange(cache.unpublished, 0), std::memory_order_relaxed);
}

inline void count_allocation(ThreadCache& cache, size_t bytes, MemoryCategory category) noexcept {
  const auto signed_bytes = static_cast<int64_t>(bytes);
  cache.counters.add(category, signed_bytes);
  Counters::add(cache.counters.allocations, 1);
  cache.unpublished += signed_bytes;
  if (cache.unpublished > kPublishStep) [[unlikely]]
    publish(cache);
}

/// To be called before a decrease: a peak, if there is one, is now.
inline void note_peak(const ThreadCache& cache) noexcept {
  const int64_t now = g_published.load(std::memory_order_relaxed) + cache.unpublished;
  if (now > g_peak.load(std::memory_order_relaxed)) [[unlikely]]
    CentralHeap::get().raise_peak();
}

inline void count_free(ThreadCache& cache, size_t bytes, MemoryCategory category) noexcept {
  const auto signed_bytes = static_cast<int64_t>(bytes);
  note_peak(cache);
  cache.counters.add(category, -signed_bytes);
  cache.unpublished -= signed_bytes;
  if (cache.unpublished < -kPublishStep) [[unlikely]]
    publish(cache);
}

inline FreeBlock* pop(ThreadCache::Bin& bin) noexcept {
  FreeBlock* block = bin.head;
  bin.head = detail::next_of(block);
  --bin.count;
  return block;
}

inline void push(ThreadCache::Bin& bin, void* p) noexcept {
  auto* block = static_cast<FreeBlock*>(p);
  detail::set_next(block, bin.head);
  bin.head = block;
  ++bin.count;
}

// While somebody listens, a block is counted and reported in one step: the order of the reports is
// that of the counters, so the peak of a profile is the allocator's, on any number of threads.
constinit SmallLock g_reports;
class OneStep {
 public:
  OneStep() noexcept : held_(g_hook.load(std::memory_order_relaxed) != nullptr && !t_in_hook) {
    if (held_) g_reports.lock();
  }
  ~OneStep() {
    if (held_) g_reports.unlock();
  }
  OneStep(const OneStep&) = delete;

 private:
  const bool held_;
};

void run_hook(void* p, size_t bytes, MemoryCategory category, bool is_free) noexcept {
  const AllocationHook hook = g_hook.load(std::memory_order_acquire);
  if (hook == nullptr || t_in_hook) return;
  t_in_hook = true;
  hook(p, bytes, category, is_free);
  t_in_hook = false;
}

void update_attention() noexcept {
  const CentralHeap& heap = CentralHeap::get();
  const bool slow = heap.bypassed() || heap.poisons() || g_failure_countdown.load() > 0;
  const bool watched = g_hook.load() != nullptr;
  g_attention.store(slow ? Attention::Slow : (watched ? Attention::Watched : Attention::None));
}

void maybe_fail(size_t bytes) {
  if (g_failure_countdown.load(std::memory_order_relaxed) <= 0) return;
  if (g_failure_countdown.fetch_sub(1) != 1) return;
  update_attention();
  detail::raise<OutOfMemoryError>(
      "allocate: the allocation of {} bytes was made to fail by set_allocation_failure.", bytes);
}

// The fast path: a small block of this thread's cache. Null where it has none.
inline void* take_cached(size_t bytes, MemoryCategory category) noexcept {
  ThreadCache* cache = t_cache;
  if (bytes > kSmallMost || cache == nullptr) [[unlikely]]
    return nullptr;
  ThreadCache::Bin& bin = cache->bins[static_cast<size_t>(detail::small_class(bytes))];
  if (bin.head == nullptr) [[unlikely]]
    return nullptr;
  count_allocation(*cache, bytes, category);
  return pop(bin);
}

inline bool can_put_cached(size_t bytes) noexcept {
  const ThreadCache* cache = t_cache;
  if (bytes > kSmallMost || cache == nullptr) [[unlikely]]
    return false;
  const ThreadCache::Bin& bin = cache->bins[static_cast<size_t>(detail::small_class(bytes))];
  return bin.count < bin.most;
}

inline bool put_cached(void* p, size_t bytes, MemoryCategory category) noexcept {
  if (!can_put_cached(bytes)) [[unlikely]]
    return false;
  count_free(*t_cache, bytes, category);
  push(t_cache->bins[static_cast<size_t>(detail::small_class(bytes))], p);
  return true;
}

// Once more where memory that is only kept for later can be given up.
template <class Take> void* take_or_reclaim(const Take& take) {
  try {
    return take();
  } catch (const OutOfMemoryError&) {
    const MemoryReclaim reclaim = g_reclaim.load(std::memory_order_acquire);
    if (reclaim == nullptr || !reclaim()) throw;
  }
  return take();
}

[[gnu::noinline]] void* allocate_slowly(size_t bytes, MemoryCategory category) {
  CentralHeap& heap = CentralHeap::get();
  maybe_fail(bytes);
  ThreadCache* cache = own_cache();
  void* p = nullptr;
  if (bytes > kSmallMost || heap.bypassed()) {
    p = take_or_reclaim([&] { return heap.take(bytes); });
  } else if (cache == nullptr) {
    p = take_or_reclaim([&] { return heap.take_small(bytes); });
  } else {
    const int size_class = detail::small_class(bytes);
    ThreadCache::Bin& bin = cache->bins[static_cast<size_t>(size_class)];
    if (bin.head == nullptr)
      take_or_reclaim([&] {
        heap.refill(*cache, size_class);
        return nullptr;
      });
    p = pop(bin);
  }
  if (heap.poisons()) detail::unpoison(p, bytes);
  const OneStep step;
  if (cache == nullptr) {
    heap.count_orphan(static_cast<int64_t>(bytes), category, true);
  } else {
    count_allocation(*cache, bytes, category);
    if (bytes > kSmallMost) publish(*cache);
  }
  run_hook(p, bytes, category, false);
  return p;
}

void count_freed(ThreadCache* cache, size_t bytes, MemoryCategory category, bool now) noexcept {
  if (cache == nullptr) {
    CentralHeap::get().count_orphan(-static_cast<int64_t>(bytes), category, false);
    return;
  }
  count_free(*cache, bytes, category);
  if (now) publish(*cache);
}

[[gnu::noinline]] void deallocate_slowly(void* p, size_t bytes, MemoryCategory category) noexcept {
  CentralHeap& heap = CentralHeap::get();
  ThreadCache* cache = own_cache();
  {
    const OneStep step;
    run_hook(p, bytes, category, true);
    count_freed(cache, bytes, category, bytes > kSmallMost);
  }
  if (heap.poisons()) detail::poison(p, bytes);
  if (bytes > kSmallMost || cache == nullptr || heap.bypassed()) {
    heap.put(p, bytes);
    return;
  }
  ThreadCache::Bin& bin = cache->bins[static_cast<size_t>(detail::small_class(bytes))];
  if (bin.count >= bin.most) heap.flush(bin, bin.most / 2);
  push(bin, p);
}

}  // namespace

void* allocate(size_t bytes, MemoryCategory category) {
  const Attention attention = g_attention.load(std::memory_order_relaxed);
  if (attention == Attention::None) [[likely]] {
    if (void* p = take_cached(bytes, category)) [[likely]]
      return p;
  } else if (attention == Attention::Watched) {
    const OneStep step;
    if (void* p = take_cached(bytes, category)) {
      publish(*t_cache);
      run_hook(p, bytes, category, false);
      return p;
    }
  }
  return allocate_slowly(bytes, category);
}

void deallocate(void* p, size_t bytes, MemoryCategory category) noexcept {
  if (p == nullptr) return;
  const Attention attention = g_attention.load(std::memory_order_relaxed);
  if (attention == Attention::None) [[likely]] {
    if (put_cached(p, bytes, category)) [[likely]]
      return;
  } else if (attention == Attention::Watched && can_put_cached(bytes)) {
    const OneStep step;
    run_hook(p, bytes, category, true);
    put_cached(p, bytes, category);
    publish(*t_cache);
    return;
  }
  deallocate_slowly(p, bytes, category);
}

void change_memory_category(size_t bytes, MemoryCategory from, MemoryCategory to) noexcept {
  const auto signed_bytes = static_cast<int64_t>(bytes);
  if (ThreadCache* cache = own_cache()) {
    note_peak(*cache);
    cache->counters.add(from, -signed_bytes);
    cache->counters.add(to, signed_bytes);
  } else {
    CentralHeap::get().count_orphan(-signed_bytes, from, false);
    CentralHeap::get().count_orphan(signed_bytes, to, false);
  }
}

void count_mapped(void* p, size_t bytes, MemoryCategory category) noexcept {
  ThreadCache* cache = own_cache();
  const OneStep step;
  if (cache != nullptr) {
    count_allocation(*cache, bytes, category);
    publish(*cache);
  } else {
    CentralHeap::get().count_orphan(static_cast<int64_t>(bytes), category, true);
  }
  run_hook(p, bytes, category, false);
}

void count_unmapped(void* p, size_t bytes, MemoryCategory category) noexcept {
  ThreadCache* cache = own_cache();
  const OneStep step;
  run_hook(p, bytes, category, true);
  count_freed(cache, bytes, category, true);
}

AllocationHook set_allocation_hook(AllocationHook hook) noexcept {
  const AllocationHook previous = g_hook.exchange(hook);
  update_attention();
  return previous;
}

void hold_allocation_reports() noexcept { g_reports.lock(); }
void release_allocation_reports() noexcept { g_reports.unlock(); }

void set_memory_reclaim(MemoryReclaim reclaim) noexcept {
  g_reclaim.store(reclaim, std::memory_order_release);
}

void set_allocation_failure(int64_t nth) noexcept {
  g_failure_countdown.store(nth > 0 ? nth : 0);
  update_attention();
}

bool allocator_bypassed() { return CentralHeap::get().bypassed(); }

MemoryCategory current_memory_category() noexcept { return t_category; }

MemoryCategoryGuard::MemoryCategoryGuard(MemoryCategory category) noexcept
    : previous_(std::exchange(t_category, category)) {}

MemoryCategoryGuard::~MemoryCategoryGuard() { t_category = previous_; }

std::string_view name_of(MemoryCategory category) {
  constexpr std::string_view names[kMemoryCategoryCount] = {
      "other", "parameter", "activation", "gradient", "optimizer", "temporary", "data", "packed"};
  return names[static_cast<size_t>(category)];
}

MemoryStats memory_stats() { return CentralHeap::get().stats(); }

void reset_peak_memory_stats() { CentralHeap::get().reset_peaks(); }

void empty_cache() { CentralHeap::get().empty_cache(t_cache); }

void set_memory_limit(int64_t bytes) { CentralHeap::get().set_limit(bytes, t_cache); }

}  // namespace pellucid
