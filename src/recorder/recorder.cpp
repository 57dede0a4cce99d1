// The state of a recording: which one runs, the numbers of signatures, sites and modules, and the
// thread logs. Numbers are given once for the process and remembered by each thread.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/allocator.h"
#include "base/cpu.h"
#include "base/env.h"
#include "pellucid/error.h"
#include "pellucid/parallel.h"
#include "recorder/counters.h"
#include "recorder/python_frames.h"
#include "recorder/python_place.h"
#include "recorder/recorder_state.h"
#include "recorder/sampler.h"
#include "recorder/stalls.h"

#ifndef PELLUCID_VERSION
#define PELLUCID_VERSION "development"
#endif

namespace pellucid::profile {

namespace detail {
constinit std::atomic<Mode> mode{Mode::Off};
constinit std::atomic<bool> blocks_recorded{false};
constinit std::atomic<bool> uses_recorded{false};
}  // namespace detail

constinit std::atomic<uint32_t> g_recording{0};
constinit std::atomic<bool> g_stacks{false};
constinit thread_local ThreadLog* t_log = nullptr;
constinit thread_local bool t_inside = false;
constinit thread_local bool t_ended = false;

void Recorder::write_line(std::string_view members) {
  std::string line = "{";
  line += members;
  line += "}\n";
  [[maybe_unused]] const ssize_t written = ::write(definitions, line.data(), line.size());
}

void Recorder::open_definitions() {
  tag = fmt::format("{}-{:x}", getpid(), __rdtsc());
  const std::string path = fmt::format("{}/definitions-{}", options.folder, tag);
  definitions = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_EXCL | O_CLOEXEC, 0666);
  PELLUCID_CHECK(definitions >= 0, IoError, "profile: '{}' could not be made: {}.", path,
                 std::strerror(errno));
}

void Recorder::start_stalls() {
  const std::string why = profile::start_stalls(options.folder, tag);
  counts_usage = !why.empty();
  if (counts_usage) write_line("\"stalls_missing\":" + json_text(why));
}

void Recorder::write_memory() {
  write_line("\"memory\":" + nlohmann::json(memory_stats().by_category).dump());
}

void Recorder::note_python_package() noexcept {
  try {
    if (!python_package.empty() && definitions >= 0)
      write_line("\"python_package\":" + json_text(python_package));
  } catch (const std::exception&) {}
}

void Recorder::note_python_frames() noexcept {
  try {
    const char* why = python_frames_missing();
    if (why && definitions >= 0)
      write_line("\"note\":" + json_text(fmt::format("samples have no Python frames: {}", why)));
  } catch (const std::exception&) {}
}

void Recorder::forget() {
  signatures.clear();
  sites.clear();
  stacks.clear();
  modules.clear();
  pairs.clear();
  names.clear();
  has_first_log = false;
  forget_numbers();
  forget_steps();
  g_recording.fetch_add(1, std::memory_order_relaxed);
}

namespace {

using Json = nlohmann::json;

constinit thread_local uint32_t t_failed = 0;  // the recording in which this thread has no log

void drop_log() noexcept {
  if (!t_log) return;
  {
    const std::lock_guard lock(Recorder::get().mutex);
    Recorder::get().logs.erase(t_log);
  }
  delete t_log;
  t_log = nullptr;
}

// Closes the log when its thread ends.
struct AtThreadEnd {
  ~AtThreadEnd() {
    t_inside = true;  // what is freed later on this thread goes to the log that threads share
    drop_log();
    t_ended = true;
    release_thread_after_samples();
  }
};

// Once for a thread: it does not try again.
void note_missing_thread(const char* why) noexcept {
  try {
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    if (r.definitions < 0) return;
    char name[32] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    r.write_line("\"note\":" + json_text(fmt::format("thread {} ({}) is not recorded: {}",
                                                     syscall(SYS_gettid), name, why)));
  } catch (const std::exception&) {}
}

}  // namespace

namespace {

// A log for this thread or for several; the lock is held, and a recording runs.
std::unique_ptr<ThreadLog> make_log(Recorder& r) {
  const bool counts = r.options.mode == Mode::Count;
  static std::atomic<uint64_t> number{0};
  const std::string path =
      fmt::format("{}/{}-{}-{}-{}", r.options.folder, counts ? "counts" : "events", r.tag,
                  syscall(SYS_gettid), number.fetch_add(1));
  auto log = std::make_unique<ThreadLog>(path, static_cast<size_t>(r.options.limit),
                                         g_recording.load(), r.options.mode);
  // The first log alone has its blocks in order; with a second one all are numbered.
  if (r.has_first_log) {
    log->numbers_blocks.store(true, std::memory_order_relaxed);
    for (ThreadLog* l : r.logs) l->numbers_blocks.store(true, std::memory_order_relaxed);
  }
  r.has_first_log = true;
  r.logs.insert(log.get());
  return log;
}

}  // namespace

ThreadLog* open_log() noexcept {
  const uint32_t serial = g_recording.load(std::memory_order_relaxed);
  if (t_inside || t_failed == serial) return nullptr;
  t_inside = true;
  try {
    static thread_local AtThreadEnd closer;
    drop_log();
    note_innermost(0);
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    if (recording() && r.definitions >= 0) {
      t_log = make_log(r).release();
      if (r.counts_usage) t_log->usage = std::make_unique<UsageScopes>();
      if (r.options.mode == Mode::Sample) prepare_thread_for_samples();
    }
  } catch (const std::exception& e) {
    t_failed = serial;  // no room or no rights: this thread is not recorded, the program goes on
    note_missing_thread(e.what());
  }
  t_inside = false;
  return t_log;
}

SharedLog shared_log() noexcept {
  Recorder& r = Recorder::get();
  SharedLog found{std::unique_lock(r.shared_mutex), nullptr};
  const uint32_t serial = g_recording.load(std::memory_order_relaxed);
  if (!r.shared_log || r.shared_log->recording != serial) {
    const std::lock_guard lock(r.mutex);
    if (!recording() || r.definitions < 0 || r.shared_failed == serial) return found;
    try {
      r.shared_log = make_log(r);
    } catch (const std::exception&) {
      r.shared_failed = serial;  // the thread that has no log either told why
      return found;
    }
  }
  found.log = r.shared_log.get();
  return found;
}

namespace {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::string all((std::istreambuf_iterator<char>(file)), {}), text;
  for (size_t i = 0; i < all.size(); ++i)
    text += all[i] ? all[i] : (i + 1 < all.size() ? ' ' : '\0');
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// The variables that may change what the library does; those of the recording itself are no news.
Json own_variables() {
  Json variables = Json::object();
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view text = *e;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.starts_with("PELLUCID_PROFILE")) continue;
    if (text.starts_with("PELLUCID_") || text.starts_with("OMP_"))
      variables[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return variables;
}

std::string present_folder() {
  std::error_code unknown;
  const auto folder = std::filesystem::current_path(unknown);
  return unknown ? "" : folder.string();
}

std::string start_line(const RecorderOptions& o) {
  const ClockPair now = read_clocks();
  constexpr const char* kNames[] = {"off", "count", "sample", "trace"};
  char started[32];
  const time_t t = time(nullptr);
  tm parts;
  gmtime_r(&t, &parts);
  strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &parts);
  // A second pair a moment later, in case the program ends at once.
  ClockPair later = read_clocks();
  while (later.nanoseconds - now.nanoseconds < 200'000) later = read_clocks();
  const Json j = {{"program", command_line()},
                  {"version", PELLUCID_VERSION},
                  {"started", started},
                  {"mode", kNames[static_cast<int>(o.mode)]},
                  {"sample_rate", o.mode == Mode::Sample ? o.sample_rate : 0},
                  {"process", getpid()},
                  {"folder", present_folder()},
                  {"variables", own_variables()},
                  {"clocks", {now.ticks, now.nanoseconds, later.ticks, later.nanoseconds}}};
  return "\"start\":" + j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The child of a fork records into files of its own, and numbers everything anew.
void before_fork() {
  hold_allocation_reports();
  Recorder::get().shared_mutex.lock();
  Recorder::get().mutex.lock();
}
void after_fork_in_parent() {
  Recorder::get().mutex.unlock();
  Recorder::get().shared_mutex.unlock();
  release_allocation_reports();
}
void after_fork_in_child() {
  Recorder& r = Recorder::get();
  after_fork_in_parent();
  if (!recording()) return;
  stop_counters(false);  // they are the parent's
  abandon_stalls();
  for (ThreadLog* l : r.logs) l->abandon();
  r.logs.clear();  // their memory stays; only the thread that forked lives on
  r.shared_log.reset();
  t_log = nullptr;
  r.forget();
  close(r.definitions);
  try {
    r.open_definitions();
    r.write_line(start_line(r.options));
    r.note_python_package();
    note_innermost(0);
    if (r.options.mode == Mode::Sample) restart_sampler(r.options.folder, r.tag);
    if (r.options.mode == Mode::Trace) r.start_stalls();
    if (detail::blocks_recorded) r.write_memory();
  } catch (const std::exception&) { detail::mode.store(Mode::Off); }
}

}  // namespace

std::string json_text(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Mode recording_mode() noexcept { return detail::mode.load(); }

std::string recording_folder() {
  const std::lock_guard lock(Recorder::get().mutex);
  return Recorder::get().options.folder;
}

void start_recording(const RecorderOptions& options) {
#ifdef PELLUCID_NO_RECORDER
  pellucid::detail::raise<NotImplementedError>(
      "profile: this library was built without its recorder (-DPELLUCID_RECORDER=OFF).");
#endif
  Recorder& r = Recorder::get();
  const std::lock_guard lock(r.mutex);
  PELLUCID_CHECK(r.definitions < 0, ValueError,
                 "profile: a recording runs already; stop it before another is started.");
  PELLUCID_CHECK(
      options.mode != Mode::Off && options.sample_rate > 0 && options.sample_rate <= 10000,
      ValueError, "profile: the sampling rate must be between 0 and 10000 per second.");
  permit_perf_events(env_bool("PELLUCID_PROFILE_PERF", true));
  PELLUCID_CHECK(mkdir(options.folder.c_str(), 0777) == 0 || errno == EEXIST, IoError,
                 "profile: the folder '{}' could not be made: {}.", options.folder,
                 std::strerror(errno));
  r.options = options;
  r.forget();
  r.open_definitions();
  r.write_line(start_line(options));
  r.note_python_package();
  static const bool fork_safe [[maybe_unused]] = [] {
    memory_stats();  // the allocator's handlers come first: those of the child ask it
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return true;
  }();
  if (const std::string why = start_counters(); !why.empty())
    r.write_line("\"note\":" +
                 json_text("task-clock, page-faults and context-switches are those of "
                           "getrusage; perf_event_open is " +
                           why));
  try {
    if (options.mode == Mode::Sample) {
      start_sampler(options.folder, r.tag, options.sample_rate);
      r.note_python_frames();
    }
  } catch (...) {
    stop_counters();
    close(r.definitions);
    r.definitions = -1;
    throw;
  }
  if (options.mode == Mode::Trace) r.start_stalls();
  g_stacks = options.stacks && options.mode == Mode::Trace;
  r.steps_ended = 0;
  detail::mode.store(options.mode);
  if (options.mode == Mode::Trace && options.memory) {
    detail::blocks_recorded = true;
    r.write_memory();
    set_allocation_hook(record_block);
    detail::uses_recorded = options.chosen_step == 1;
  }
}

namespace {
void close_shared_log(Recorder& r) {
  const std::lock_guard shared(r.shared_mutex);
  const std::lock_guard lock(r.mutex);
  r.logs.erase(r.shared_log.get());
  r.shared_log.reset();
}
}  // namespace

void stop_recording() {
  Recorder& r = Recorder::get();
  int definitions = -1;
  {
    const std::lock_guard lock(r.mutex);
    std::swap(definitions, r.definitions);
  }
  if (definitions < 0) return;
  detail::mode.store(Mode::Off);
  set_allocation_hook(nullptr);
  detail::blocks_recorded = false;
  detail::uses_recorded = false;
  const int64_t watched = stop_sampler();
  stop_stalls();
  drop_log();
  close_shared_log(r);
  const std::lock_guard lock(r.mutex);
  const ClockPair now = read_clocks();
  Json counters = Json::array();
  for (const Counter& c : stop_counters()) counters.push_back({c.name, c.value, c.missing});
  const Json j = {
      {"clocks", {now.ticks, now.nanoseconds}},
      {"counters", counters},
      {"watched_ns", watched},
      {"isa", isa_name(isa())},  // not at the start: asking decides how many threads there are
      {"threads", get_num_threads()}};
  std::swap(definitions, r.definitions);
  r.write_line("\"end\":" + j.dump());
  close(r.definitions);
  r.definitions = -1;
}

void state_fact(std::string_view key, std::string_view value) noexcept {
  if (!recording()) return;
  try {
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    if (r.definitions >= 0)
      r.write_line(fmt::format("\"fact\":[{},{}]", json_text(key), json_text(value)));
  } catch (const std::exception&) {}  // a fact less
}

uint32_t define_name(std::string_view text) noexcept {
  try {
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    if (r.definitions < 0) return 0;
    const auto [it, is_new] = r.names.try_emplace(std::hash<std::string_view>()(text),
                                                  static_cast<uint32_t>(r.names.size() + 1));
    if (is_new) r.write_line(fmt::format("\"name\":{},\"text\":{}", it->second, json_text(text)));
    return it->second;
  } catch (const std::exception&) { return 0; }
}

void set_python_package(const std::string& folder) noexcept {
  Recorder& r = Recorder::get();
  const std::lock_guard lock(r.mutex);
  r.python_package = folder;
  r.note_python_package();
}

bool recording_stacks() noexcept { return g_stacks.load(std::memory_order_relaxed); }

uint32_t find_signature(uint64_t hash) noexcept {
  ThreadLog* l = log();
  return l ? l->signatures.find(hash) : 0;
}

uint32_t define_signature(uint64_t hash, EventKind kind, std::string_view json) noexcept {
  return number(&ThreadLog::signatures, &Recorder::signatures, hash, "signature",
                [&] { return fmt::format("\"kind\":{},{}", static_cast<int>(kind), json); });
}

void define_cost(uint32_t signature, std::string_view json) noexcept {
  try {
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    if (r.definitions >= 0) r.write_line(fmt::format("\"cost\":{},{}", signature, json));
  } catch (const std::exception&) {}
}

namespace {
uint64_t word(const char* from, size_t bytes = 8) noexcept {
  uint64_t w = 0;
  std::memcpy(&w, from, bytes);
  return w;
}
}  // namespace

uint64_t scope_hash(EventKind kind, std::string_view name) noexcept {
  uint64_t hash = mix(0x5c09e, static_cast<uint64_t>(kind) << 32 | name.size());
  const char *at = name.data(), *end = at + name.size();
  if (name.size() < 8) {
    hash = mix(hash, word(at, name.size()));
  } else {
    for (; end - at > 16; at += 16) hash = mix(hash, word(at), word(at + 8));
    // What is left, 1 to 16 bytes; the words may overlap.
    hash = mix(hash, word(std::min(at, end - 8)), word(end - 8));
  }
  return hash;
}

uint32_t scope_signature(EventKind kind, std::string_view name) noexcept {
  const uint64_t hash = scope_hash(kind, name);
  if (const uint32_t known = find_signature(hash)) return known;
  return define_signature(hash, kind, "\"name\":" + json_text(name));
}

uint32_t find_module(uint64_t hash) noexcept {
  ThreadLog* l = log();
  return l ? l->modules.find(hash) : 0;
}

uint32_t define_module(uint64_t hash, uint32_t parent, std::string_view json) noexcept {
  return number(&ThreadLog::modules, &Recorder::modules, hash, "module",
                [&] { return fmt::format("\"parent\":{},{}", parent, json); });
}

}  // namespace pellucid::profile
