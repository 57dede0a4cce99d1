#include "recorder/stalls.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "recorder/counters.h"

namespace pellucid::profile {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMostFiles = 256;  // a process may not have many open

// A fault is told when it begins, and when the page is there. Switches come with the first event.
constexpr uint64_t kEvents[] = {PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN,
                                PERF_COUNT_SW_PAGE_FAULTS_MAJ};
constexpr uint64_t kSampleType = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID;

/// What the kernel appends to every record for that type; a sample is nothing else.
struct Tail {
  uint32_t process, thread;
  uint64_t time, id;
};

struct Ring {
  int file = -1;
  char* memory = nullptr;  // a page of perf_event_mmap_page, then the records
  size_t bytes = 0;        // of the records, a power of two
};

struct Stalls {
  std::mutex mutex;
  std::vector<Ring> rings;         // by processor
  std::vector<int> files;          // the other events
  std::vector<uint64_t> begin_id;  // of events that tell where a fault begins
  int out = -1;
  static Stalls& get() {
    static Stalls& s = *new Stalls;
    return s;
  }
};

int open_event(uint64_t config, int thread, int processor, bool with_kernel) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = config;
  attr.sample_period = 1;
  attr.sample_type = kSampleType;
  attr.sample_id_all = 1;
  attr.context_switch = config == kEvents[0];
  attr.inherit = 1;
  attr.exclude_kernel = !with_kernel;
  attr.exclude_hv = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return open_perf_event(attr, thread, processor);
}

bool make_ring(Ring& ring, int processors) {
  // 2 MB for all, but no more than the system lets everyone have for one.
  const size_t pages =
      std::clamp<size_t>(std::bit_floor(512 / static_cast<size_t>(processors)), 8, 128);
  for (size_t n = pages; n >= 8; n /= 2) {
    void* p = mmap(nullptr, (n + 1) * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, ring.file, 0);
    if (p == MAP_FAILED) continue;
    ring.memory = static_cast<char*>(p);
    ring.bytes = n * kPage;
    return true;
  }
  return false;
}

// The events of one thread on one processor. The first thread's make the ring, those of the others
// write into it. Returns an errno.
int watch_thread(Stalls& s, int thread, int processor, int processors, bool with_kernel) {
  Ring& ring = s.rings[static_cast<size_t>(processor)];
  for (const uint64_t config : kEvents) {
    const int file = open_event(config, thread, processor, with_kernel);
    if (file < 0) return errno;
    const bool first = ring.file < 0;
    if (first) {
      ring.file = file;
      if (!make_ring(ring, processors)) return errno;
    } else {
      s.files.push_back(file);
      if (ioctl(file, PERF_EVENT_IOC_SET_OUTPUT, ring.file) != 0) return errno;
    }
    uint64_t id = 0;
    if (config == kEvents[0] && ioctl(file, PERF_EVENT_IOC_ID, &id) == 0) s.begin_id.push_back(id);
  }
  return 0;
}

std::vector<int> other_threads() {
  std::vector<int> found;
  DIR* folder = opendir("/proc/self/task");
  if (!folder) return found;
  const auto own = static_cast<int>(syscall(SYS_gettid));
  while (const dirent* entry = readdir(folder))
    if (const int id = std::atoi(entry->d_name); id > 0 && id != own) found.push_back(id);
  closedir(folder);
  return found;
}

void close_all(Stalls& s) noexcept {
  for (const int file : s.files) close(file);
  for (const Ring& r : s.rings) {
    if (r.memory) munmap(r.memory, r.bytes + kPage);
    if (r.file >= 0) close(r.file);
  }
  s.files.clear();
  s.rings.clear();
  s.begin_id.clear();
  if (s.out >= 0) close(s.out);
  s.out = -1;
}

/// Reads one record; false where it is none of ours.
bool read_record(const Stalls& s, const perf_event_header& header, const char* body,
                 RawStall& out) {
  if (header.size < sizeof header + sizeof(Tail)) return false;
  Tail tail;
  std::memcpy(&tail, body + header.size - sizeof header - sizeof tail, sizeof tail);
  out = {static_cast<int64_t>(tail.time), static_cast<int32_t>(tail.thread), 0};
  if (header.type == PERF_RECORD_LOST) {
    uint64_t id_and_count[2];
    std::memcpy(id_and_count, body, sizeof id_and_count);
    out.thread = static_cast<int32_t>(std::min<uint64_t>(id_and_count[1], INT32_MAX));
    out.kind = RawStall::kLost;
    return true;
  }
  if (tail.process != static_cast<uint32_t>(getpid())) return false;  // a child's
  if (header.type == PERF_RECORD_SAMPLE) {
    const bool begins =
        std::find(s.begin_id.begin(), s.begin_id.end(), tail.id) != s.begin_id.end();
    out.kind = begins ? RawStall::kFault : RawStall::kFaultDone;
  } else if (header.type == PERF_RECORD_SWITCH) {
    if (!(header.misc & PERF_RECORD_MISC_SWITCH_OUT))
      out.kind = RawStall::kIn;
    else
      out.kind = header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? RawStall::kOutPreempted
                                                                   : RawStall::kOut;
  }
  return out.kind != 0;
}

// A record may go round the end of the ring.
void copy_out(const Ring& ring, uint64_t from, void* to, size_t bytes) {
  const size_t at = from % ring.bytes, first = std::min(bytes, ring.bytes - at);
  std::memcpy(to, ring.memory + kPage + at, first);
  std::memcpy(static_cast<char*>(to) + first, ring.memory + kPage, bytes - first);
}

void drain(const Stalls& s, const Ring& ring) {
  auto* page = reinterpret_cast<perf_event_mmap_page*>(ring.memory);
  const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = page->data_tail;
  RawStall batch[128];
  size_t count = 0;
  const auto flush = [&] {
    [[maybe_unused]] const ssize_t n = write(s.out, batch, count * sizeof(RawStall));
    count = 0;
  };
  while (tail < head) {
    perf_event_header header;
    copy_out(ring, tail, &header, sizeof header);
    char body[256];
    if (header.size < sizeof header || header.size - sizeof header > sizeof body) break;
    copy_out(ring, tail + sizeof header, body, header.size - sizeof header);
    if (read_record(s, header, body, batch[count]) && ++count == std::size(batch)) flush();
    tail += header.size;
  }
  if (count > 0) flush();
  __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

}  // namespace

std::string start_stalls(const std::string& folder, const std::string& tag) noexcept {
  Stalls& s = Stalls::get();
  try {
    const std::lock_guard lock(s.mutex);
    close_all(s);
    const auto processors = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
    s.rings.resize(static_cast<size_t>(std::max(1, processors)));
    int error = 0;
    bool with_kernel = true;
    for (int cpu = 0; cpu < processors; ++cpu) {
      error = watch_thread(s, 0, cpu, processors, with_kernel);
      if (cpu == 0 && (error == EACCES || error == EPERM)) {
        with_kernel = false;  // that much is granted to everyone
        error = watch_thread(s, 0, cpu, processors, with_kernel);
      }
      if (error == ENODEV && cpu > 0) error = 0;  // a processor that is switched off
      if (error != 0) break;
    }
    if (error != 0) close_all(s);
    const std::string path = fmt::format("{}/stalls-{}", folder, tag);
    s.out = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (error == 0 && s.out < 0) {
      error = errno;
      close_all(s);
    }
    if (error != 0) return why_not_counted(error);
    for (const int thread : other_threads())
      for (int cpu = 0; cpu < processors && s.files.size() < kMostFiles; ++cpu)
        watch_thread(s, thread, cpu, processors, with_kernel);
  } catch (const std::exception& e) { return e.what(); }
  return {};
}

void drain_stalls() noexcept {
  Stalls& s = Stalls::get();
  const std::unique_lock lock(s.mutex, std::try_to_lock);
  if (!lock || s.out < 0) return;
  for (const Ring& r : s.rings)
    if (r.memory) drain(s, r);
}

void write_stalls(const RawStall* records, size_t count) noexcept {
  Stalls& s = Stalls::get();
  const std::lock_guard lock(s.mutex);
  if (s.out < 0) return;
  [[maybe_unused]] const ssize_t n = write(s.out, records, count * sizeof(RawStall));
}

void stop_stalls() noexcept {
  drain_stalls();
  const std::lock_guard lock(Stalls::get().mutex);
  close_all(Stalls::get());
}

void abandon_stalls() noexcept {
  Stalls& s = Stalls::get();
  new (&s.mutex) std::mutex;                   // another thread may have held it
  for (Ring& r : s.rings) r.memory = nullptr;  // the kernel did not hand these mappings on
  close_all(s);
}

}  // namespace pellucid::profile
