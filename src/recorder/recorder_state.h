// What the parts of the recorder share: the state of a recording, this thread's log, and how
// numbers are given to what events refer to. Nothing outside the recorder includes this.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pellucid/memory.h"
#include "recorder/recorder.h"
#include "recorder/thread_log.h"

namespace pellucid::profile {

/// Never destroyed: threads may record until the very end.
struct Recorder {
  std::mutex mutex;  // guards all but `python`
  RecorderOptions options;
  std::unordered_map<uint64_t, uint32_t> signatures, sites, stacks, modules, pairs, names;
  std::set<ThreadLog*> logs;
  std::mutex shared_mutex;                // guards `shared`; taken before `mutex`
  std::unique_ptr<ThreadLog> shared_log;  // see shared_log()
  uint32_t shared_failed = 0;             // the recording that could make none
  int definitions = -1;                   // not -1 while a recording runs
  bool has_first_log = false;             // whether a thread of this recording had a log before
  std::atomic<int> steps_ended{0};        // of this recording
  bool counts_usage = false;  // page faults and switches are counted by scopes (usage.h)
  std::string tag;            // in the names of this process's files: a program may replace itself
  PythonSites python;
  std::string python_package;  // the folder of its own files

  static Recorder& get() {
    static Recorder& r = *new Recorder;
    return r;
  }
  void write_line(std::string_view members);
  void open_definitions();
  void start_stalls();
  /// States the bytes in use by category, just before blocks are recorded.
  void write_memory();
  /// Tells where the Python package is, where it is loaded.
  void note_python_package() noexcept;
  /// Tells why samples have no Python frames, where that is so.
  void note_python_frames() noexcept;
  void forget();
};

/// Which recording runs; a log of another one is stale.
extern constinit std::atomic<uint32_t> g_recording;
extern constinit std::atomic<bool> g_stacks;  // whether whole stacks are recorded
extern constinit thread_local ThreadLog* t_log;
/// Opening a log, or ending the thread: allocations then are our own.
extern constinit thread_local bool t_inside;
extern constinit thread_local bool t_ended;  // this thread has closed its log for good

ThreadLog* open_log() noexcept;

/// The log of blocks that threads give back when their own log is closed (a thread that ends), or
/// take without ever having had one; with the lock that its users hold. Null where there is none.
struct SharedLog {
  std::unique_lock<std::mutex> lock;
  ThreadLog* log;
};
SharedLog shared_log() noexcept;

/// This thread's log, null where it has none.
inline ThreadLog* log() noexcept {
  if (t_log && t_log->recording == g_recording.load(std::memory_order_relaxed)) [[likely]]
    return t_log;
  return open_log();
}

/// Looks a key up in this thread's table, then in the process's; `text` defines it the first time.
template <class Text>
uint32_t number(NumberTable ThreadLog::*table,
                std::unordered_map<uint64_t, uint32_t> Recorder::*all, uint64_t key,
                const char* what, const Text& text) noexcept {
  ThreadLog* l = log();
  if (!l) return 0;
  if (const uint32_t known = (l->*table).find(key)) return known;
  try {
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    auto [it, is_new] = (r.*all).try_emplace(key, 0);
    if (is_new && r.definitions < 0) {
      (r.*all).erase(it);
      return 0;
    }
    if (is_new) {
      it->second = static_cast<uint32_t>((r.*all).size());
      r.write_line(fmt::format("\"{}\":{},{}", what, it->second, text()));
    }
    (l->*table).add(key, it->second);
    return it->second;
  } catch (const std::exception&) { return 0; }
}

/// The line of the program that runs now: an address in its code, or a number of site_of with
/// kNumbered set (Python's lines, whole stacks). 0 where it is not known.
uint64_t find_place() noexcept;
inline constexpr uint64_t kNumbered = uint64_t{1} << 63;
/// The number of a place, defined at first use.
uint32_t site_of(uint64_t place) noexcept;

/// A recording begins: its blocks are numbered anew, and nodes of the tape have no lines.
void forget_numbers() noexcept;
/// A recording begins: the program has marked no step of it.
void forget_steps() noexcept;
/// The allocator's hook.
void record_block(void* p, size_t bytes, MemoryCategory category, bool is_free) noexcept;

}  // namespace pellucid::profile
