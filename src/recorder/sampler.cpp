#include "recorder/sampler.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/parallel.h"
#include "base/team_work.h"
#include "recorder/python_frames.h"
#include "recorder/thread_log.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace pellucid::profile {
namespace {

constexpr size_t kStackPart = 4096;
constexpr size_t kStackParts = 4;               // at most 16 KiB of each stack are kept
constexpr size_t kMostBytes = size_t{2} << 30;  // of all samples
constexpr size_t kRoom = size_t{8} << 20;       // what is kept ready ahead of the handlers
constexpr size_t kHandlerStack = size_t{64} << 10;

struct Sampler {
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  double rate = 0;
  std::string folder, tag;
  std::thread watcher;
  pid_t watcher_id = 0;
  int64_t watched_ns = 0;         // processor time of the watcher, when it has ended
  std::map<int, timer_t> timers;  // by thread
  std::unique_ptr<MappedFile> file;
  static Sampler& get() {
    static Sampler& s = *new Sampler;
    return s;
  }
};

// What the handlers read: nothing but plain memory.
struct HandlerState {
  std::atomic<char*> base{nullptr};
  std::atomic<size_t> used{0}, ready{0};
  std::atomic<uint64_t> dropped{0};
  std::atomic<int> running{0};  // handlers at work
  pid_t process = 0;
};
HandlerState g_state;

constinit thread_local bool t_prepared = false;
constinit thread_local void* t_stack = nullptr;  // the handler's, where it is ours
// Of threads that were prepared: their number, and where their stack lies.
constinit thread_local int32_t t_thread = 0;
constinit thread_local uint64_t t_lowest = 0, t_highest = 0;

// Neither checked nor intercepted: it reads what frames of other functions hold.
void copy_words(char* to, uint64_t from, size_t bytes) noexcept {
  size_t words = bytes / 8;
  asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

// What the interrupted thread worked on.
uint32_t call_now() noexcept {
  using namespace pellucid::detail;
  if (t_work != 0 || !t_pool_thread) return t_work;
  const uint32_t team = g_team_work.load(std::memory_order_relaxed);
  return team != 0 ? team : kIdleCall;
}

// The top of the stack, as far as it is mapped. Where it is not known to be one, it is read by a
// system call, so that a stack pointer that points anywhere does no harm.
size_t copy_stack(uint64_t from, char* to) noexcept {
  if (from >= t_lowest && from < t_highest) {
    const size_t bytes = std::min<size_t>(t_highest - from, kStackPart * kStackParts) / 8 * 8;
    copy_words(to, from, bytes);
    return bytes;
  }
  iovec local{to, kStackPart * kStackParts};
  iovec remote[kStackParts + 1];
  size_t count = 0, left = kStackPart * kStackParts;
  for (uint64_t at = from; left > 0; ++count) {
    const size_t part = std::min<size_t>(left, kStackPart - at % kStackPart);
    remote[count] = {reinterpret_cast<void*>(at), part};
    at += part;
    left -= part;
  }
  const ssize_t n = process_vm_readv(g_state.process, &local, 1, remote, count, 0);
  return n > 0 ? static_cast<size_t>(n) / 8 * 8 : 0;
}

// Room in the file; null where there is none.
char* reserve(size_t bytes) noexcept {
  char* base = g_state.base.load();
  size_t offset = g_state.used.load();
  do {
    if (!base || offset + bytes > g_state.ready.load(std::memory_order_acquire)) {
      g_state.dropped.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
  } while (!g_state.used.compare_exchange_weak(offset, offset + bytes));
  return base + offset;
}

void take_sample(const ucontext_t& context) noexcept {
  static constexpr int kOrder[kSampleRegisters] = {
      REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
      REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  const uint64_t begun = __rdtsc();
  char stack[kStackPart * kStackParts];
  const greg_t* registers = context.uc_mcontext.gregs;
  const size_t bytes = copy_stack(static_cast<uint64_t>(registers[REG_RSP]), stack);
  RawPythonFrame python[kMostPythonFrames];
  const size_t frames = read_python_frames(python, reserve);
  auto* s = reinterpret_cast<RawSample*>(
      reserve(sizeof(RawSample) + bytes + frames * sizeof(RawPythonFrame)));
  if (!s) return;
  s->at = begun;
  s->thread = t_thread ? t_thread : static_cast<int32_t>(syscall(SYS_gettid));
  s->stack_bytes = static_cast<uint32_t>(bytes);
  s->call = call_now();
  s->python_frames = static_cast<uint32_t>(frames);
  for (int i = 0; i < kSampleRegisters; ++i)
    s->registers[i] = static_cast<uint64_t>(registers[kOrder[i]]);
  auto* rest = reinterpret_cast<char*>(s + 1);
  std::memcpy(rest, stack, bytes);
  std::memcpy(rest + bytes, python, frames * sizeof(RawPythonFrame));
  s->took = __rdtsc() - begun;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  s->magic = kSampleMagic;
}

void on_timer(int, siginfo_t*, void* context) {
  const int error = errno;
  g_state.running.fetch_add(1);
  if (g_state.base.load()) take_sample(*static_cast<const ucontext_t*>(context));
  g_state.running.fetch_sub(1);
  errno = error;
}

// The clock of the processor time of one thread, as the system numbers clocks.
clockid_t clock_of(int thread) {
  return static_cast<clockid_t>((~static_cast<unsigned>(thread)) << 3 | 6);
}

void add_timer(Sampler& s, int thread) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = thread;
  timer_t timer;
  if (timer_create(clock_of(thread), &event, &timer) != 0) return;
  const auto period = static_cast<long>(1e9 / s.rate);
  const itimerspec every{{period / 1'000'000'000, period % 1'000'000'000},
                         {period / 1'000'000'000, period % 1'000'000'000}};
  timer_settime(timer, 0, &every, nullptr);
  s.timers[thread] = timer;
}

void find_threads(Sampler& s) {
  DIR* folder = opendir("/proc/self/task");
  if (!folder) return;
  std::set<int> alive;
  while (const dirent* entry = readdir(folder)) alive.insert(std::atoi(entry->d_name));
  closedir(folder);
  std::erase_if(s.timers, [&](const auto& timer) {
    const bool ended = !alive.contains(timer.first);
    if (ended) timer_delete(timer.second);
    return ended;
  });
  for (const int thread : alive)
    if (thread > 0 && thread != s.watcher_id && !s.timers.contains(thread)) add_timer(s, thread);
}

void save_maps(const std::string& folder, const std::string& tag) {
  std::ifstream from("/proc/self/maps");
  const std::string path = fmt::format("{}/maps-{}", folder, tag);
  std::ofstream(path + ".part") << from.rdbuf();
  std::rename((path + ".part").c_str(), path.c_str());
}

void keep_room(Sampler& s) {
  const size_t used = g_state.used.load(std::memory_order_relaxed), before = s.file->ready();
  if (used + kRoom <= before || !s.file->grow(used + 2 * kRoom)) return;
  // The pages are made here, all at once, and not by faults in the handlers.
  madvise(s.file->data() + before, s.file->ready() - before, MADV_POPULATE_WRITE);
  g_state.ready.store(s.file->ready(), std::memory_order_release);
}

void watch(Sampler& s) {
  prctl(PR_SET_NAME, "pellucid-watch");
  std::unique_lock lock(s.mutex);
  s.watcher_id = static_cast<pid_t>(syscall(SYS_gettid));
  // Each turn takes a core away for a moment; room is kept for more samples than come meanwhile.
  const auto pause = std::chrono::milliseconds(s.rate > 1000 ? 10 : 50);
  auto maps_saved = std::chrono::steady_clock::now();
  while (!s.stopping) {
    s.wake.wait_for(lock, pause);
    find_threads(s);
    keep_room(s);
    if (std::chrono::steady_clock::now() - maps_saved < std::chrono::milliseconds(500)) continue;
    save_maps(s.folder, s.tag);
    maps_saved = std::chrono::steady_clock::now();
  }
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  s.watched_ns = int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

void open_file(Sampler& s, const std::string& folder, const std::string& tag) {
  s.folder = folder;
  s.tag = tag;
  s.file = std::make_unique<MappedFile>(fmt::format("{}/samples-{}", folder, tag), kMostBytes);
  g_state.process = getpid();
  g_state.used = 0;
  g_state.ready = 0;
  forget_python_code();
  keep_room(s);
  g_state.base.store(s.file->data());
}

// The first turn is done at once: a recording begins with its first op.
void start_watcher(Sampler& s) {
  s.stopping = false;
  s.watcher_id = 0;
  find_threads(s);
  save_maps(s.folder, s.tag);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the program's own
  try {
    s.watcher = std::thread([&s] { watch(s); });
  } catch (const std::exception& e) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pellucid::detail::raise<IoError>("profile: no thread for taking samples could be made: {}.",
                                     e.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void prepare_thread_for_samples() noexcept {
  if (t_prepared) return;
  t_prepared = true;
  pthread_attr_t facts;
  if (pthread_getattr_np(pthread_self(), &facts) == 0) {
    void* lowest = nullptr;
    size_t bytes = 0;
    if (pthread_attr_getstack(&facts, &lowest, &bytes) == 0) {
      t_lowest = reinterpret_cast<uint64_t>(lowest);
      t_highest = t_lowest + bytes;
    }
    pthread_attr_destroy(&facts);
  }
  t_thread = static_cast<int32_t>(syscall(SYS_gettid));
  stack_t old{};
  if (sigaltstack(nullptr, &old) == 0 && !(old.ss_flags & SS_DISABLE) &&
      old.ss_size >= kHandlerStack)
    return;  // it has one that is large enough
  void* memory = mmap(nullptr, kHandlerStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t own{memory, 0, kHandlerStack};  // lives as long as the thread may be interrupted
  if (sigaltstack(&own, nullptr) == 0) t_stack = memory;
}

void release_thread_after_samples() noexcept {
  if (!t_stack) return;
  sigset_t timer, before;
  sigemptyset(&timer);
  sigaddset(&timer, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &timer, &before);  // for good: the thread is about to end
  const stack_t none{nullptr, SS_DISABLE, 0};
  sigaltstack(&none, nullptr);
  munmap(t_stack, kHandlerStack);
  t_stack = nullptr;
}

void note_innermost(uint32_t call) noexcept { pellucid::detail::t_work = call; }

void start_sampler(const std::string& folder, const std::string& tag, double rate) {
  Sampler& s = Sampler::get();
  {
    const std::lock_guard lock(s.mutex);
    s.rate = rate;
    open_file(s, folder, tag);
  }
  // Every thread of the pool runs one of these and keeps its stack.
  prepare_thread_for_samples();
  parallel_chunks(get_num_threads(), [](int64_t) { prepare_thread_for_samples(); });
  struct sigaction action {};
  action.sa_sigaction = on_timer;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  sigaction(SIGPROF, &action, nullptr);
  start_watcher(s);
}

int64_t stop_sampler() noexcept {
  Sampler& s = Sampler::get();
  if (!s.watcher.joinable()) return 0;
  {
    const std::lock_guard lock(s.mutex);
    s.stopping = true;
  }
  s.wake.notify_all();
  s.watcher.join();
  for (const auto& [thread, timer] : s.timers) timer_delete(timer);
  s.timers.clear();
  g_state.base.exchange(nullptr);
  while (g_state.running.load() > 0) std::this_thread::yield();
  try {
    save_maps(s.folder, s.tag);
  } catch (const std::exception&) {}
  s.file->set_used(g_state.used.load());
  s.file.reset();
  return s.watched_ns;
}

double measure_interruption() noexcept {
  constexpr int kCount = 500;
  constexpr size_t kSwept = 512 * 1024;  // a thread is interrupted in the middle of its own work
  struct sigaction empty {
  }, before{};
  empty.sa_handler = [](int) {};
  empty.sa_flags = SA_ONSTACK;
  if (sigaction(SIGPROF, &empty, &before) != 0) return 0;
  static char swept[kSwept];
  std::array<int64_t, kCount> taken{};
  for (int64_t& t : taken) {
    for (size_t i = 0; i < kSwept; i += 64) static_cast<volatile char*>(swept)[i] = 1;
    const int64_t begun = read_clocks().nanoseconds;
    pthread_kill(pthread_self(), SIGPROF);
    t = read_clocks().nanoseconds - begun;
  }
  sigaction(SIGPROF, &before, nullptr);
  std::nth_element(taken.begin(), taken.begin() + kCount / 2, taken.end());
  return static_cast<double>(taken[kCount / 2]);
}

void restart_sampler(const std::string& folder, const std::string& tag) {
  Sampler& s = Sampler::get();
  new (&s.mutex) std::mutex;  // the watcher may have held it; it does not exist here
  new (&s.wake) std::condition_variable;
  new (&s.watcher) std::thread;
  s.timers.clear();
  t_thread = static_cast<int32_t>(syscall(SYS_gettid));
  s.file->abandon();
  g_state.running = 0;
  open_file(s, folder, tag);
  start_watcher(s);
}

}  // namespace pellucid::profile
