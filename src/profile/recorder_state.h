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

#include "profile/recorder.h"
#include "profile/thread_log.h"

namespace pellucid::profile {

/// Never destroyed: threads may record until the very end.
struct Recorder {
  std::mutex mutex;  // guards all but `python`
  RecorderOptions options;
  std::unordered_map<uint64_t, uint32_t> signatures, sites, stacks, modules, pairs;
  std::set<ThreadLog*> logs;
  int definitions = -1;       // not -1 while a recording runs
  bool counts_usage = false;  // page faults and switches are counted by scopes (usage.h)
  std::string tag;            // in the names of this process's files: a program may replace itself
  PythonSites python;

  static Recorder& get() {
    static Recorder& r = *new Recorder;
    return r;
  }
  void write_line(std::string_view members);
  void open_definitions();
  void start_stalls();
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

ThreadLog* open_log() noexcept;

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

/// The allocator's hook.
void record_block(void* p, size_t bytes, MemoryCategory category, bool is_free) noexcept;

}  // namespace pellucid::profile
