// The state of a recording: which one runs, the numbers of signatures, sites and modules, and the
// thread logs. Numbers are given once for the process and remembered by each thread.
#include "profile/recorder.h"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>
#include <x86intrin.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/allocator.h"
#include "base/caller.h"
#include "pellucid/error.h"
#include "profile/counters.h"
#include "profile/sampler.h"
#include "profile/thread_log.h"

#ifndef PELLUCID_VERSION
#define PELLUCID_VERSION "development"
#endif

namespace pellucid::profile {

namespace detail {
constinit std::atomic<Mode> mode{Mode::Off};
}

namespace {

using Json = nlohmann::json;

// Never destroyed: threads may record until the very end.
struct Recorder {
  std::mutex mutex;  // guards all but `serial`
  RecorderOptions options;
  std::atomic<uint32_t> serial{0};  // which recording; a log of another one is stale
  std::unordered_map<uint64_t, uint32_t> signatures, sites, stacks, modules;
  std::set<ThreadLog*> logs;
  int definitions = -1;  // not -1 while a recording runs
  std::string tag;       // in the names of this process's files: a program may replace itself
  PythonSites python;

  static Recorder& get() {
    static Recorder& r = *new Recorder;
    return r;
  }

  void write_line(std::string_view members) {
    std::string line = "{";
    line += members;
    line += "}\n";
    [[maybe_unused]] const ssize_t written = ::write(definitions, line.data(), line.size());
  }
  void open_definitions() {
    tag = fmt::format("{}-{:x}", getpid(), __rdtsc());
    const std::string path = fmt::format("{}/definitions-{}", options.folder, tag);
    definitions = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_EXCL | O_CLOEXEC, 0666);
    PELLUCID_CHECK(definitions >= 0, IoError, "profile: '{}' could not be made: {}.", path,
                   std::strerror(errno));
  }
  void forget() {
    signatures.clear();
    sites.clear();
    stacks.clear();
    modules.clear();
    serial.fetch_add(1, std::memory_order_relaxed);
  }
};

std::atomic<bool> g_stacks{false};
constinit thread_local ThreadLog* t_log = nullptr;
constinit thread_local bool t_inside = false;  // opening a log; allocations then are our own
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
    t_inside = true;  // what is freed later on this thread finds no log, and opens none
    drop_log();
    release_thread_after_samples();
  }
};

ThreadLog* open_log() noexcept {
  const uint32_t serial = Recorder::get().serial.load(std::memory_order_relaxed);
  if (t_inside || t_failed == serial) return nullptr;
  t_inside = true;
  try {
    static thread_local AtThreadEnd closer;
    drop_log();
    note_innermost(0, 0, 0);
    Recorder& r = Recorder::get();
    const std::lock_guard lock(r.mutex);
    if (recording() && r.definitions >= 0) {
      const bool counts = r.options.mode == Mode::Count;
      static std::atomic<uint64_t> number{0};
      const std::string path =
          fmt::format("{}/{}-{}-{}-{}", r.options.folder, counts ? "counts" : "events", r.tag,
                      syscall(SYS_gettid), number.fetch_add(1));
      t_log = new ThreadLog(path, static_cast<size_t>(r.options.limit), r.serial.load(), counts);
      r.logs.insert(t_log);
      if (r.options.mode == Mode::Sample) prepare_thread_for_samples();
    }
  } catch (const std::exception&) {
    t_failed = serial;  // no room or no rights: this thread is not recorded, the program goes on
  }
  t_inside = false;
  return t_log;
}

ThreadLog* log() noexcept {
  if (t_log && t_log->recording == Recorder::get().serial.load(std::memory_order_relaxed))
      [[likely]]
    return t_log;
  return open_log();
}

// Looks a key up in this thread's table, then in the process's; defines it if `text` is given.
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

struct CodePlace {
  uintptr_t address = 0;
  std::string object;
  uintptr_t offset = 0;
};

int find_object(dl_phdr_info* info, size_t, void* out) {
  auto& place = *static_cast<CodePlace*>(out);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    if (p.p_type != PT_LOAD || place.address < begin || place.address >= begin + p.p_memsz)
      continue;
    place.object = info->dlpi_name;
    place.offset = place.address - info->dlpi_addr;
    return 1;
  }
  return 0;
}

// The members of a site's definition: the file that holds the code, and where in it.
std::string code_place(uint64_t address) {
  CodePlace place{static_cast<uintptr_t>(address) - 1, {}, 0};  // the call, not what follows it
  if (dl_iterate_phdr(find_object, &place) == 0) return "\"object\":\"\",\"offset\":0";
  if (place.object.empty()) place.object = own_program();
  return fmt::format("\"object\":{},\"offset\":{}", json_text(place.object), place.offset);
}

struct Backtrace {
  static constexpr int kMost = 64;
  uint64_t addresses[kMost];
  int count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* out) {
  auto& b = *static_cast<Backtrace*>(out);
  const auto address = static_cast<uint64_t>(_Unwind_GetIP(context));
  if (address && !is_library_code(reinterpret_cast<const void*>(address)))
    b.addresses[b.count++] = address;
  return b.count < Backtrace::kMost ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// The stack of the program above the library, as a number.
uint32_t current_stack() noexcept {
  Recorder& r = Recorder::get();
  if (r.python.stack_key)
    if (const uint64_t key = r.python.stack_key())
      return kRawStack | number(&ThreadLog::stacks, &Recorder::stacks, key, "stack",
                                [&] { return "\"frames\":" + r.python.describe_stack(key); });
  Backtrace b;
  _Unwind_Backtrace(add_frame, &b);
  if (b.count == 0) return 0;
  uint64_t key = 0x57ac;
  for (int i = 0; i < b.count; ++i) key = mix(key, b.addresses[i]);
  return kRawStack | number(&ThreadLog::stacks, &Recorder::stacks, key, "stack", [&] {
           std::string frames;
           for (int i = 0; i < b.count; ++i)
             frames += fmt::format("{}{{{}}}", i ? "," : "", code_place(b.addresses[i]));
           return "\"frames\":[" + frames + "]";
         });
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::string all((std::istreambuf_iterator<char>(file)), {}), text;
  for (size_t i = 0; i < all.size(); ++i)
    text += all[i] ? all[i] : (i + 1 < all.size() ? ' ' : '\0');
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
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
                  {"clocks", {now.ticks, now.nanoseconds, later.ticks, later.nanoseconds}},
                  {"memory_at_start", memory_stats().allocated}};
  return "\"start\":" + j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void on_allocation(void* p, size_t bytes, MemoryCategory category, bool is_free) noexcept {
  if (t_inside) return;
  ThreadLog* l = log();
  RawEvent* e = l ? l->append() : nullptr;
  if (!e) return;
  e->begin = __rdtsc();
  e->end = reinterpret_cast<uint64_t>(p);
  e->link = bytes;
  e->what = static_cast<uint32_t>(category);
  e->kind = is_free ? kRawFree : kRawAllocation;
  l->publish(e);
}

// The child of a fork records into files of its own, and numbers everything anew.
void before_fork() { Recorder::get().mutex.lock(); }
void after_fork_in_parent() { Recorder::get().mutex.unlock(); }
void after_fork_in_child() {
  Recorder& r = Recorder::get();
  r.mutex.unlock();
  if (!recording()) return;
  stop_counters(false);  // they are the parent's
  for (ThreadLog* l : r.logs) l->abandon();
  r.logs.clear();  // their memory stays; only the thread that forked lives on
  t_log = nullptr;
  r.forget();
  close(r.definitions);
  try {
    r.open_definitions();
    r.write_line(start_line(r.options));
    note_innermost(0, 0, 0);
    if (r.options.mode == Mode::Sample) restart_sampler(r.options.folder, r.tag);
  } catch (const std::exception&) { detail::mode.store(Mode::Off); }
}

}  // namespace

std::string own_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

std::string json_text(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Mode recording_mode() noexcept { return detail::mode.load(); }

std::string recording_folder() {
  const std::lock_guard lock(Recorder::get().mutex);
  return Recorder::get().options.folder;
}

void start_recording(const RecorderOptions& options) {
  Recorder& r = Recorder::get();
  const std::lock_guard lock(r.mutex);
  PELLUCID_CHECK(r.definitions < 0, ValueError,
                 "profile: a recording runs already; stop it before another is started.");
  PELLUCID_CHECK(
      options.mode != Mode::Off && options.sample_rate > 0 && options.sample_rate <= 10000,
      ValueError, "profile: the sampling rate must be between 0 and 10000 per second.");
  PELLUCID_CHECK(mkdir(options.folder.c_str(), 0777) == 0 || errno == EEXIST, IoError,
                 "profile: the folder '{}' could not be made: {}.", options.folder,
                 std::strerror(errno));
  r.options = options;
  r.forget();
  r.open_definitions();
  r.write_line(start_line(options));
  static const bool fork_safe [[maybe_unused]] = [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return true;
  }();
  start_counters();
  try {
    if (options.mode == Mode::Sample) start_sampler(options.folder, r.tag, options.sample_rate);
  } catch (...) {
    stop_counters();
    close(r.definitions);
    r.definitions = -1;
    throw;
  }
  g_stacks = options.stacks && options.mode == Mode::Trace;
  detail::mode.store(options.mode);
  if (options.mode == Mode::Trace && options.memory) set_allocation_hook(on_allocation);
}

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
  stop_sampler();
  drop_log();
  const std::lock_guard lock(r.mutex);
  const ClockPair now = read_clocks();
  Json counters = Json::array();
  for (const Counter& c : stop_counters()) counters.push_back({c.name, c.value, c.missing});
  const Json j = {{"clocks", {now.ticks, now.nanoseconds}}, {"counters", counters}};
  std::swap(definitions, r.definitions);
  r.write_line("\"end\":" + j.dump());
  close(r.definitions);
  r.definitions = -1;
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

uint32_t scope_signature(EventKind kind, std::string_view name) noexcept {
  uint64_t hash = mix(0x5c09e, static_cast<uint64_t>(kind));
  size_t i = 0;
  for (; i + 8 <= name.size(); i += 8) {
    uint64_t part;
    std::memcpy(&part, name.data() + i, 8);
    hash = mix(hash, part);
  }
  uint64_t rest = name.size();
  std::memcpy(&rest, name.data() + i, name.size() - i);
  hash = mix(hash, rest ^ name.size() << 56);
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

void set_python_sites(PythonSites sites) noexcept { Recorder::get().python = sites; }

uint32_t current_site() noexcept {
  ThreadLog* l = log();
  if (!l) return 0;
  // Inside such scopes the library calls itself: the program's line is that of the scope.
  if (const OpenScope* s = l->innermost())
    if (s->kind == 1 + static_cast<int>(EventKind::Composite) ||
        s->kind == 1 + static_cast<int>(EventKind::Backward) ||
        s->kind == 1 + static_cast<int>(EventKind::Optimizer))
      return s->site;
  Recorder& r = Recorder::get();
  if (g_stacks.load(std::memory_order_relaxed)) [[unlikely]]
    return current_stack();
  if (r.python.key) {
    if (const uint64_t key = r.python.key())
      return number(&ThreadLog::sites, &Recorder::sites, key, "site",
                    [&] { return r.python.describe(key); });
  }
  const auto key = reinterpret_cast<uint64_t>(caller_outside_library());
  if (!key) return 0;
  if (const uint32_t known = l->sites.find(key)) return known;
  return number(&ThreadLog::sites, &Recorder::sites, key, "site", [&] { return code_place(key); });
}

void begin_scope(const void* owner, EventKind kind, uint32_t what, uint32_t site,
                 uint64_t link) noexcept {
  ThreadLog* l = log();
  if (!l) return;
  if (l->depth >= ThreadLog::kMostOpen) {
    ++l->depth;
    ++l->header().dropped;
    return;
  }
  OpenScope& s = l->open[l->depth++];
  s.owner = owner;
  s.what = what;
  s.site = site;
  s.kind = static_cast<uint16_t>(1 + static_cast<int>(kind));
  s.module = kind == EventKind::Module ? what : (l->depth > 1 ? l->open[l->depth - 2].module : 0);
  s.event = OpenScope::kNotRecorded;
  switch (detail::mode.load(std::memory_order_relaxed)) {
    case Mode::Trace: {
      RawEvent* e = l->append();
      if (!e) return;
      s.event = l->number_of(e);
      e->link = link;
      e->what = what;
      e->site = site;
      e->end = 0;  // an earlier lap may have left something here
      e->kind = s.kind;
      e->flags = 0;
      e->begin = __rdtsc();
      l->publish(e);
      return;
    }
    case Mode::Count:
      if (RawEvent* e = l->counter(what << 4 | static_cast<uint32_t>(kind), site)) {
        ++e->link;
        e->kind = s.kind;
      }
      return;
    case Mode::Sample:
      note_innermost(s.kind, what, site);
      return;
    case Mode::Off:
      return;
  }
}

void end_scope(const void* owner, uint64_t link, bool threw) noexcept {
  ThreadLog* l = t_log;
  if (!l || l->depth == 0) return;
  if (l->depth > ThreadLog::kMostOpen) {
    --l->depth;
    return;
  }
  int at = l->depth - 1;
  while (at >= 0 && l->open[at].owner != owner) --at;
  if (at < 0) return;
  const uint64_t now = __rdtsc();
  for (int i = l->depth - 1; i > at; --i)  // left without a word, by a jump
    if (l->open[i].event != OpenScope::kNotRecorded) l->finish(l->open[i].event, now, 0, 0);
  l->depth = at;
  const OpenScope& s = l->open[at];
  if (s.event != OpenScope::kNotRecorded) {
    l->finish(s.event, now, link, threw ? kRawThrew : 0);
  } else if (detail::mode.load(std::memory_order_relaxed) == Mode::Sample) {
    const OpenScope* outer = l->innermost();
    note_innermost(outer ? outer->kind : 0, outer ? outer->what : 0, outer ? outer->site : 0);
  }
}

uint32_t innermost_module() noexcept {
  const ThreadLog* l = log();
  const OpenScope* s = l ? l->innermost() : nullptr;
  return s ? s->module : 0;
}

// Steps are scopes of the thread that marks them.
namespace {
constinit thread_local bool t_in_step = false;
}
void end_step() {
  if (t_in_step) end_scope(&t_in_step);
  t_in_step = false;
}

void begin_step() {
  end_step();
  if (!recording()) return;
  t_in_step = true;
  begin_scope(&t_in_step, EventKind::Step, scope_signature(EventKind::Step, "step"),
              current_site());
}

}  // namespace pellucid::profile

namespace pellucid {

void RecordFunction::begin(std::string_view name, profile::EventKind kind) noexcept {
  begun_ = true;
  exceptions_ = std::uncaught_exceptions();
  const uint32_t what = profile::scope_signature(kind, name);
  profile::begin_scope(this, kind, what, profile::current_site());
}

void RecordFunction::end() noexcept {
  profile::end_scope(this, 0, std::uncaught_exceptions() > exceptions_);
}

}  // namespace pellucid
