// The thread pool behind parallel_for: one OpenMP region at a time for the whole process.
//
// The job lies in a static variable rather than in OpenMP's shared data: the team lock admits one
// region at a time, and ThreadSanitizer, which cannot see libgomp's barriers, would report the
// shared data itself as a race. Fork and join are announced to it explicitly.
#include "base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/crowd.h"
#include "base/env.h"
#include "base/team_work.h"

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace pellucid {

namespace detail {
constinit thread_local uint32_t t_work = 0;
constinit thread_local bool t_pool_thread = false;
constinit std::atomic<uint32_t> g_team_work{0};
}  // namespace detail

namespace {

/// For ThreadSanitizer: what was done before announce_before(tag) happens before what follows
/// announce_after(tag).
void announce_before([[maybe_unused]] char* tag) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_release(tag);
#endif
}

void announce_after([[maybe_unused]] char* tag) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(tag);
#endif
}

struct Job {
  int64_t n = 0;
  detail::ParallelBody body = nullptr;
  detail::TeamBody team_body = nullptr;
  TeamMember::Meeting* meeting = nullptr;
  void* context = nullptr;
  std::exception_ptr error;
  std::atomic<bool> failed{false};
  uint64_t caller_begun = 0, caller_done = 0;  // the calling thread's own part
};

Job g_job;  // owned by the thread that holds g_team_taken
std::atomic<bool> g_team_taken{false};
std::atomic<bool> g_forked{false};  // libgomp's threads do not survive fork
std::atomic<int> g_threads{0};      // 0: not yet decided
char g_fork_tag, g_join_tag;
CrowdWatch g_crowd;  // told by the owner of the team

constinit thread_local bool t_in_region = false;
constinit thread_local int t_serial_depth = 0;

void after_fork_in_child() {
  g_forked.store(true, std::memory_order_relaxed);
  g_team_taken.store(false, std::memory_order_relaxed);
  g_threads.store(1, std::memory_order_relaxed);
  omp_set_num_threads(1);  // for libraries that open regions themselves
}

constexpr int kMostThreads = 4096;

/// How many threads, of `wanted`, the system gives this process beside the calling one; `error` is
/// the reason where it is fewer. libgomp ends the process where it cannot make one, so the question
/// is asked first, with threads that end at once.
int threads_to_be_had(int wanted, int& error) {
  std::mutex gate;
  std::vector<pthread_t> made;
  made.reserve(static_cast<size_t>(wanted));
  {
    // All of them live at the same time: they wait for the gate.
    const std::lock_guard closed(gate);
    for (int i = 0; i < wanted; ++i) {
      pthread_t thread{};
      error = pthread_create(
          &thread, nullptr,
          [](void* g) -> void* {
            const std::lock_guard open(*static_cast<std::mutex*>(g));
            return nullptr;
          },
          &gate);
      if (error != 0) break;
      made.push_back(thread);
    }
  }
  for (const pthread_t thread : made) pthread_join(thread, nullptr);
  return static_cast<int>(made.size());
}

constinit thread_local int t_confirmed =
    1;  // the team that libgomp has made for this thread, or can

/// Throws unless a team of this size can be had. Each thread that opens regions has a team of its
/// own in libgomp.
void confirm_team(int threads, const char* who) {
  if (threads <= t_confirmed) [[likely]]
    return;
  int error = 0;
  const int more = threads_to_be_had(threads - 1, error);
  PELLUCID_CHECK(
      more == threads - 1, ValueError,
      "{}: the system gives this process {} more threads, but a team of {} needs {}: {}. "
      "Ask for fewer (set_num_threads, PELLUCID_NUM_THREADS), or raise the limit "
      "(ulimit -u, the container's pids).",
      who, more, threads, threads - 1, std::strerror(error));
  t_confirmed = threads;
}

bool yields_to_others() {
  static const bool yields = env_bool("PELLUCID_YIELD", true);
  return yields;
}

/// Takes the process's team, unless this thread must run serially, another thread has the team, or
/// other programs have the cores.
bool try_acquire_team() {
  if (t_in_region || t_serial_depth > 0 || g_forked.load(std::memory_order_relaxed)) return false;
  if (g_crowd.alone()) [[unlikely]]
    return false;
  const int threads = get_num_threads();
  if (threads == 1 || omp_in_parallel()) return false;
  confirm_team(threads, "parallel");
  if (g_team_taken.exchange(true, std::memory_order_acquire)) return false;
  detail::g_team_work.store(detail::t_work, std::memory_order_relaxed);
  return true;
}

void release_team() {
  detail::g_team_work.store(0, std::memory_order_relaxed);
  g_team_taken.store(false, std::memory_order_release);
}

/// One thread's contiguous share of the job. The split only says who computes a chunk, not what.
void run_share(int thread, int threads) noexcept {
  if (thread == 0)
    g_job.caller_begun = CrowdWatch::ticks();
  else
    detail::t_pool_thread = true;
  announce_after(&g_fork_tag);
  const int64_t part = g_job.n / threads, rest = g_job.n % threads;
  const int64_t first = thread * part + std::min<int64_t>(thread, rest);
  const int64_t last = first + part + (thread < rest ? 1 : 0);
  if (first < last && !g_job.failed.load(std::memory_order_relaxed)) {
    const bool outer = t_in_region;
    t_in_region = true;
    try {
      g_job.body(g_job.context, first, last);
    } catch (...) {
      if (!g_job.failed.exchange(true)) g_job.error = std::current_exception();
    }
    t_in_region = outer;
  }
  if (thread == 0) g_job.caller_done = CrowdWatch::ticks();
  announce_before(&g_join_tag);
}

/// What a member throws that found another one failed; never leaves the region.
struct OtherFailed {};

/// One thread's call of a team's body.
void run_member(int thread, int threads) noexcept {
  if (thread == 0)
    g_job.caller_begun = CrowdWatch::ticks();
  else
    detail::t_pool_thread = true;
  announce_after(&g_fork_tag);
  const bool outer = t_in_region;
  t_in_region = true;
  TeamMember member(*g_job.meeting, thread, threads);
  try {
    g_job.team_body(g_job.context, member);
  } catch (const OtherFailed&) {
  } catch (...) {
    if (!g_job.failed.exchange(true)) g_job.error = std::current_exception();
    g_job.meeting->failed.store(true, std::memory_order_release);
  }
  t_in_region = outer;
  if (thread == 0) g_job.caller_done = CrowdWatch::ticks();
  announce_before(&g_join_tag);
}

/// Ends a region that began at `begun`: gives the team back, and rethrows what was thrown in it.
void end_region(uint64_t begun, int threads) {
  if (yields_to_others()) {
    // OpenMP's threads meet at the beginning of a region as well as at its end.
    const uint64_t now = CrowdWatch::ticks(), own = g_job.caller_done - g_job.caller_begun;
    g_crowd.region(now, own, now - begun - own, threads);
  }
  std::exception_ptr error;
  if (g_job.failed.load(std::memory_order_relaxed)) [[unlikely]] {
    error = std::exchange(g_job.error, nullptr);
    g_job.failed.store(false, std::memory_order_relaxed);
  }
  release_team();
  if (error) std::rethrow_exception(error);
}

}  // namespace

int get_num_threads() {
  int threads = g_threads.load(std::memory_order_relaxed);
  if (threads == 0) [[unlikely]] {
    // omp_get_max_threads has read OMP_NUM_THREADS and the CPU affinity.
    const auto wanted = env_int("PELLUCID_NUM_THREADS", 1, kMostThreads);
    threads = wanted ? static_cast<int>(*wanted) : std::max(1, omp_get_max_threads());
    PELLUCID_CHECK(threads <= kMostThreads, ValueError,
                   "environment variable OMP_NUM_THREADS must be at most {}, but is {}.",
                   kMostThreads, threads);
    int undecided = 0;
    if (!g_threads.compare_exchange_strong(undecided, threads)) return undecided;
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }
  return threads;
}

void set_num_threads(int threads) {
  PELLUCID_CHECK(threads >= 1, ValueError,
                 "set_num_threads: threads must be at least 1, but is {}.", threads);
  PELLUCID_CHECK(threads <= kMostThreads, ValueError,
                 "set_num_threads: threads must be at most {}, but is {}.", kMostThreads, threads);
  get_num_threads();  // registers the fork handler
  if (!g_forked.load(std::memory_order_relaxed)) confirm_team(threads, "set_num_threads");
  if (!g_forked.load(std::memory_order_relaxed))
    g_threads.store(threads, std::memory_order_relaxed);
}

bool serves_a_region() noexcept { return t_in_region && detail::t_pool_thread; }

bool in_parallel_region() noexcept { return t_in_region; }

void detail::run_parallel(int64_t n, ParallelBody body, void* context) {
  if (n <= 1 || !try_acquire_team()) {
    if (n >= 1) body(context, 0, n);
    return;
  }
  g_job.n = n;
  g_job.body = body;
  g_job.context = context;
  const int threads = static_cast<int>(std::min<int64_t>(n, get_num_threads()));
  const uint64_t begun = CrowdWatch::ticks();
  announce_before(&g_fork_tag);
#pragma omp parallel num_threads(threads)
  run_share(omp_get_thread_num(), omp_get_num_threads());
  announce_after(&g_join_tag);
  end_region(begun, threads);
}

void detail::run_team(int most, TeamBody body, void* context) {
  TeamMember::Meeting meeting;
  if (most <= 1 || !try_acquire_team()) {
    TeamMember alone(meeting, 0, 1);
    body(context, alone);
    return;
  }
  g_job.team_body = body;
  g_job.meeting = &meeting;
  g_job.context = context;
  const int threads = std::min(most, get_num_threads());
  const uint64_t begun = CrowdWatch::ticks();
  announce_before(&g_fork_tag);
#pragma omp parallel num_threads(threads)
  run_member(omp_get_thread_num(), omp_get_num_threads());
  announce_after(&g_join_tag);
  end_region(begun, threads);
}

// Others are usually some hundred nanoseconds behind. Where there are fewer cores than threads, the
// one that is waited for may need this one's core.
void TeamMember::meet() {
  if (threads_ == 1) return;
  constexpr int kSpins = 2000;
  const int round = meeting_.round.load(std::memory_order_relaxed);
  if (meeting_.arrived.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    meeting_.arrived.store(0, std::memory_order_relaxed);
    meeting_.round.store(round + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; meeting_.round.load(std::memory_order_acquire) == round; ++spins) {
    if (meeting_.failed.load(std::memory_order_acquire)) throw OtherFailed();
    if (spins < kSpins)
      __builtin_ia32_pause();
    else
      std::this_thread::yield();
  }
}

TeamLock::TeamLock() : acquired_(try_acquire_team()) {
  threads_ = acquired_ ? get_num_threads() : 1;
  if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
}

TeamLock::~TeamLock() {
  if (acquired_) release_team();
}

SerialGuard::SerialGuard() noexcept { ++t_serial_depth; }

SerialGuard::~SerialGuard() { --t_serial_depth; }

}  // namespace pellucid
