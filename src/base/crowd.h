// CrowdWatch: notices that other programs hold the cores, so that a team of threads is slower than
// one. A region ends when its last thread does, and a thread without a core comes milliseconds
// late: ops of microseconds then take as long as the scheduler's turns. Times are ticks of the
// processor's clock, some 2 to 4 a nanosecond; whoever watches calls from one thread at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace pellucid {

class CrowdWatch {
 public:
  static constexpr uint64_t kLate = 1'500'000;     // half a millisecond: never a wait for work
  static constexpr uint64_t kWindow = 30'000'000;  // 10 ms, a few turns of the scheduler
  static constexpr uint64_t kShortest = 5 * kWindow, kLongest = 40 * kWindow;

  static uint64_t ticks() { return __builtin_ia32_rdtsc(); }

  /// Whether a region that begins now should run on the calling thread alone. Any thread may ask.
  bool alone() const {
    const uint64_t until = alone_until_.load(std::memory_order_relaxed);
    return until != 0 && ticks() < until;
  }
  uint64_t alone_until() const { return alone_until_.load(std::memory_order_relaxed); }

  /// A region of `threads` threads ended at `now`: the caller was busy for `own` ticks, and waited
  /// for the others before and after.
  void region(uint64_t now, uint64_t own, uint64_t waited, int threads) {
    if (now < since_) return;  // it began before the pause
    if (waited > kLate && waited > 2 * own) lost_ += waited;
    const uint64_t elapsed = now - since_;
    if (elapsed < kWindow) return;
    const uint64_t used = elapsed - std::min(lost_, elapsed);
    lost_ = 0;
    since_ = now;
    if (used * static_cast<uint64_t>(threads) >= elapsed) {
      pause_ = kShortest;
      return;
    }
    // In the time that was not lost, all threads together did less than one would have done alone.
    since_ += pause_;  // then the team is tried again
    alone_until_.store(since_, std::memory_order_relaxed);
    pause_ = std::min(2 * pause_, kLongest);
  }

 private:
  std::atomic<uint64_t> alone_until_{0};
  uint64_t since_ = 0, lost_ = 0, pause_ = kShortest;
};

}  // namespace pellucid
