// Reserving addresses, mapping, splitting and joining of page runs.
#include "base/page_heap.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/cpu.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace pellucid::detail {

namespace {

using State = PageRun::State;

char* reserve_range(size_t bytes, int protection) noexcept {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

/// Makes a reserved range usable; no block in it is in use yet.
bool map_range(char* start, size_t bytes) noexcept {
  if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  poison(start, bytes);
  return true;
}

/// The pages go back; the addresses stay reserved. Should the kernel refuse to protect them, they
/// are merely accessible: mapping them again works all the same.
void unmap_range(char* start, size_t bytes) noexcept {
  madvise(start, bytes, MADV_DONTNEED);
  static_cast<void>(mprotect(start, bytes, PROT_NONE));
}

char* align_up(char* p) noexcept {
  return reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(p), kHugePageBytes));
}

char* align_down(char* p) noexcept {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(p) / kHugePageBytes * kHugePageBytes);
}

}  // namespace

void RunList::push(PageRun* run) noexcept {
  run->list_previous = nullptr;
  run->list_next = head;
  if (head != nullptr) head->list_previous = run;
  head = run;
}

void RunList::remove(PageRun* run) noexcept {
  (run->list_previous != nullptr ? run->list_previous->list_next : head) = run->list_next;
  if (run->list_next != nullptr) run->list_next->list_previous = run->list_previous;
}

/// Reserves addresses, not memory: four times the machine's memory leaves room for holes. Where the
/// process may have fewer (ulimit -v, valgrind), it takes what it gets.
bool PageHeap::reserve_addresses() noexcept {
  if (base_ != nullptr) return true;
  constexpr size_t kLeast = size_t{64} << 20;
  size_t bytes =
      round_up(std::max(static_cast<size_t>(cpu_info().total_memory) * 4, kLeast), kHugePageBytes);
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    bytes = std::min(bytes, round_up(address_space.rlim_cur / 4, kHugePageBytes));
  }
  for (; bytes >= kLeast; bytes = round_up(bytes / 2, kHugePageBytes)) {
    char* raw = reserve_range(bytes, PROT_NONE);
    if (raw == nullptr) continue;
    char* table = reserve_range(bytes / kPageBytes * sizeof(PageRun*), PROT_READ | PROT_WRITE);
    if (table == nullptr) {
      munmap(raw, bytes);
      continue;
    }
    madvise(raw, bytes, MADV_HUGEPAGE);  // advice only: without huge pages the memory works as well
    base_ = top_ = align_up(raw);
    end_ = align_down(raw + bytes);
    owner_ = reinterpret_cast<PageRun**>(table);
#ifdef __SANITIZE_ADDRESS__
    __lsan_register_root_region(base_,
                                static_cast<size_t>(end_ - base_));  // blocks may point to malloc's
#endif
    return true;
  }
  return false;
}

int PageHeap::bin_of(size_t bytes) noexcept {
  const size_t pages = bytes / kPageBytes;
  if (pages < 8) return static_cast<int>(pages);
  const int shift =
      static_cast<int>(std::bit_width(pages)) - 4;  // keeps the three bits below the first
  return 8 * shift + static_cast<int>(pages >> shift);
}

int PageHeap::next_bin(int bin) const noexcept {
  size_t word = static_cast<size_t>(bin) / 64;
  if (word >= occupied_.size()) return -1;
  uint64_t bits = occupied_[word] & (~uint64_t{0} << (bin % 64));
  while (bits == 0) {
    if (++word == occupied_.size()) return -1;
    bits = occupied_[word];
  }
  return static_cast<int>(word * 64) + std::countr_zero(bits);
}

void PageHeap::link(PageRun* run) noexcept {
  if (run->state == State::Unmapped) {
    unmapped_.push(run);
    return;
  }
  const int bin = bin_of(run->bytes);
  bins_[static_cast<size_t>(bin)].push(run);
  occupied_[static_cast<size_t>(bin) / 64] |= uint64_t{1} << (bin % 64);
}

void PageHeap::unlink(PageRun* run) noexcept {
  if (run->state == State::Unmapped) {
    unmapped_.remove(run);
    return;
  }
  const int bin = bin_of(run->bytes);
  RunList& list = bins_[static_cast<size_t>(bin)];
  list.remove(run);
  if (list.head == nullptr)
    occupied_[static_cast<size_t>(bin) / 64] &= ~(uint64_t{1} << (bin % 64));
}

PageRun* PageHeap::new_run() noexcept {
  if (spare_runs_ == nullptr) return new (std::nothrow) PageRun;
  PageRun* run = spare_runs_;
  spare_runs_ = run->list_next;
  *run = PageRun{};
  return run;
}

void PageHeap::drop_run(PageRun* run) noexcept {
  run->list_next = spare_runs_;
  spare_runs_ = run;
}

PageRun* PageHeap::take(size_t bytes) noexcept {
  constexpr int kScan = 32;  // bounds the search; runs of one bin differ by at most an eighth
  bytes = round_up(bytes, kPageBytes);
  PageRun* best = nullptr;
  for (int bin = next_bin(bin_of(bytes)); bin >= 0 && best == nullptr; bin = next_bin(bin + 1)) {
    int scanned = 0;
    for (PageRun* run = bins_[static_cast<size_t>(bin)].head; run != nullptr && scanned < kScan;
         run = run->list_next, ++scanned) {
      if (run->bytes < bytes || (best != nullptr && run->bytes >= best->bytes)) continue;
      best = run;
      if (run->bytes == bytes) break;
    }
  }
  if (best == nullptr) return nullptr;
  unlink(best);
  if (split(best, bytes)) link(best->after);
  best->state = State::InUse;
  owner_[page_of(best->start)] = best;
  return best;
}

/// Leaves `bytes` in the run and makes the rest a run of the same state, in no list; false if there
/// is no rest, or no memory to describe it: then the whole run serves as well.
bool PageHeap::split(PageRun* run, size_t bytes) noexcept {
  if (run->bytes == bytes) return false;
  PageRun* rest = new_run();
  if (rest == nullptr) return false;
  rest->start = run->start + bytes;
  rest->bytes = run->bytes - bytes;
  rest->state = run->state;
  rest->before = run;
  rest->after = run->after;
  (rest->after != nullptr ? rest->after->before : last_) = rest;
  run->after = rest;
  run->bytes = bytes;
  return true;
}

/// Joins the neighbour, which must be in no list, to the run.
void PageHeap::absorb_next(PageRun* run) noexcept {
  PageRun* gone = run->after;
  run->bytes += gone->bytes;
  run->after = gone->after;
  (run->after != nullptr ? run->after->before : last_) = run;
  drop_run(gone);
}

/// Puts a run that is in no list under `state`, joined with its neighbours of that state.
PageRun* PageHeap::release(PageRun* run, State state) noexcept {
  run->state = state;
  run->size_class = -1;
  if (PageRun* after = run->after; after != nullptr && after->state == state) {
    unlink(after);
    absorb_next(run);
  }
  if (PageRun* before = run->before; before != nullptr && before->state == state) {
    unlink(before);
    absorb_next(before);
    run = before;
  }
  link(run);
  return run;
}

void PageHeap::give_back(PageRun* run) noexcept { release(run, State::Free); }

/// The smallest unmapped range that holds `bytes`, or null.
PageRun* PageHeap::best_hole(size_t bytes) const noexcept {
  PageRun* best = nullptr;
  for (PageRun* run = unmapped_.head; run != nullptr; run = run->list_next) {
    if (run->bytes >= bytes && (best == nullptr || run->bytes < best->bytes)) best = run;
  }
  return best;
}

size_t PageHeap::missing_for(size_t bytes) const noexcept {
  const size_t whole = round_up(bytes, kHugePageBytes);
  if (best_hole(whole) != nullptr || last_ == nullptr || last_->state != State::Free) return whole;
  return round_up(bytes - last_->bytes, kHugePageBytes);  // it is smaller, or take() had found it
}

bool PageHeap::grow_for(size_t bytes) noexcept {
  if (!reserve_addresses()) return false;
  const size_t more = missing_for(bytes);
  if (PageRun* hole = best_hole(round_up(bytes, kHugePageBytes))) {
    if (!map_range(hole->start, more)) return false;
    unlink(hole);
    if (split(hole, more)) link(hole->after);
    reserved_ += hole->bytes;
    release(hole, State::Free);
    return true;
  }
  if (more > static_cast<size_t>(end_ - top_)) return false;
  PageRun* run = new_run();
  if (run == nullptr || !map_range(top_, more)) {
    if (run != nullptr) drop_run(run);
    return false;
  }
  run->start = top_;
  run->bytes = more;
  run->before = last_;
  if (last_ != nullptr) last_->after = run;
  last_ = run;
  top_ += more;
  reserved_ += more;
  release(run, State::Free);
  return true;
}

/// Unmaps the whole 2 MiB steps within a free run; false if there are none.
bool PageHeap::unmap(PageRun* run) noexcept {
  char* const first = align_up(run->start);
  char* const last = align_down(run->start + run->bytes);
  if (first >= last) return false;
  unlink(run);
  if (first > run->start) {
    const bool cut = split(run, static_cast<size_t>(first - run->start));
    link(run);
    if (!cut) return false;
    run = run->after;
  }
  const auto bytes = static_cast<size_t>(last - first);
  if (run->bytes > bytes) {
    if (!split(run, bytes)) {
      link(run);
      return false;
    }
    link(run->after);
  }
  unpoison(first, bytes);
  unmap_range(first, bytes);
  reserved_ -= bytes;
  run = release(run, State::Unmapped);
  if (run == last_) {  // the heap ends earlier again
    unlink(run);
    top_ = run->start;
    last_ = run->before;
    if (last_ != nullptr) last_->after = nullptr;
    drop_run(run);
  }
  return true;
}

void PageHeap::trim() noexcept {
  for (RunList& list : bins_) {
    for (PageRun* run = list.head; run != nullptr;) {
      PageRun* const next = run->list_next;
      if (run->bytes >= kHugePageBytes) unmap(run);
      run = next;
    }
  }
}

void PageHeap::own_all_pages(PageRun* run) noexcept {
  std::fill_n(owner_ + page_of(run->start), run->bytes / kPageBytes, run);
}

}  // namespace pellucid::detail
