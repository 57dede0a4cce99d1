// parallel_for, parallel_chunks and parallel_team: the only ways into the thread pool (OpenMP's,
// which oneDNN shares). Work is cut by range and grain, never by thread count, so that bits do not
// depend on threads. A call runs serially with one thread or one chunk, inside another region, in a
// forked child, while another thread of the process is in a region, and for a while where other
// programs hold the cores (crowd.h; PELLUCID_YIELD=0 turns that off).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "pellucid/error.h"
#include "pellucid/parallel.h"

namespace pellucid {

namespace detail {
using ParallelBody = void (*)(void* context, int64_t first, int64_t last);
/// Cuts [0, n) into one contiguous run per thread and calls body on each; rethrows the first
/// exception.
PELLUCID_API void run_parallel(int64_t n, ParallelBody body, void* context);
}  // namespace detail

/// Whether this thread is one of the pool's that works for another thread's region now.
bool serves_a_region() noexcept;

/// Whether this thread is inside a parallel region, where a further one would run serially.
PELLUCID_API bool in_parallel_region() noexcept;

/// Calls f(b, e) on runs that cover [begin, end). Each run starts at a multiple of `grain` from
/// begin; its length depends on the threads, so f must treat elements independently of each other.
template <class F> void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  PELLUCID_ASSERT(grain >= 1);
  if (begin >= end) return;
  const int64_t chunks = (end - begin - 1) / grain + 1;
  if (chunks == 1) {
    f(begin, end);
    return;
  }
  struct Context {
    std::remove_reference_t<F>* f;
    int64_t begin, end, grain;
  } context{std::addressof(f), begin, end, grain};
  detail::run_parallel(
      chunks,
      [](void* p, int64_t first, int64_t last) {
        const Context& c = *static_cast<Context*>(p);
        const int64_t left = c.end - c.begin;
        const int64_t stop =
            last > left / c.grain ? left : last * c.grain;  // no overflow at the end
        (*c.f)(c.begin + first * c.grain, c.begin + stop);
      },
      &context);
}

/// Calls f(i) once for each chunk i in [0, chunks): for reductions, whose partial results are
/// stored by chunk and combined in order.
template <class F> void parallel_chunks(int64_t chunks, F&& f) {
  if (chunks <= 0) return;
  if (chunks == 1) {
    f(int64_t{0});
    return;
  }
  detail::run_parallel(
      chunks,
      [](void* p, int64_t first, int64_t last) {
        auto& body = *static_cast<std::remove_reference_t<F>*>(p);
        for (int64_t i = first; i < last; ++i) body(i);
      },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

/// One thread of a team that runs parallel_team's body, and how it meets the others.
class PELLUCID_API TeamMember {
 public:
  /// What a team shares. Its counters lie on lines of their own: one is written while the other is
  /// watched.
  struct Meeting {
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<int> round{0};
    std::atomic<bool> failed{false};
  };
  TeamMember(Meeting& meeting, int thread, int threads)
      : meeting_(meeting), thread_(thread), threads_(threads) {}
  int thread() const { return thread_; }
  int threads() const { return threads_; }
  /// This thread's part of [0, n); neighbours' parts adjoin and differ by at most 1 in length.
  int64_t begin(int64_t n) const { return n * thread_ / threads_; }
  int64_t end(int64_t n) const { return n * (thread_ + 1) / threads_; }
  /// Returns when every thread of the team has called it as often: each then sees what the others
  /// wrote before. Throws if another thread's body has thrown.
  void meet();

 private:
  Meeting& meeting_;
  int thread_, threads_;
};

namespace detail {
using TeamBody = void (*)(void* context, TeamMember& member);
PELLUCID_API void run_team(int most, TeamBody body, void* context);
}  // namespace detail

/// Calls f(TeamMember&) once on each thread of a team of at most `most`; with one thread where a
/// region would run serially. For work in steps that depend on each other and are too short for a
/// region each; f may use parallel_for, which runs serially. Rethrows the first exception.
template <class F> void parallel_team(int most, F&& f) {
  detail::run_team(
      most,
      [](void* p, TeamMember& member) { (*static_cast<std::remove_reference_t<F>*>(p))(member); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

/// Holds the process's one team of threads for a library that opens its own OpenMP regions
/// (oneDNN), and sets this thread's OpenMP thread count to what such a region may use: 1 if the
/// team is taken.
class PELLUCID_API TeamLock {
 public:
  TeamLock();
  ~TeamLock();
  TeamLock(const TeamLock&) = delete;
  TeamLock& operator=(const TeamLock&) = delete;
  int num_threads() const { return threads_; }

 private:
  int threads_ = 1;
  bool acquired_ = false;
};

/// Makes this thread's ops run serially until the end of the scope (data-loader workers, tests).
class PELLUCID_API SerialGuard {
 public:
  SerialGuard() noexcept;
  ~SerialGuard();
  SerialGuard(const SerialGuard&) = delete;
  SerialGuard& operator=(const SerialGuard&) = delete;
};

}  // namespace pellucid
