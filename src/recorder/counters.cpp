#include "recorder/counters.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace pellucid::profile {
namespace {

struct Kind {
  const char* name;
  uint32_t type;
  uint64_t config;
};
constexpr Kind kKinds[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};
constexpr size_t kCount = std::size(kKinds);

struct Open {
  int file = -1;
  int error = 0;
};
Open g_open[kCount];
bool g_started = false;
bool g_permitted = true;
rusage g_used{};  // when it was started

bool refused(int error) { return error == EACCES || error == EPERM; }

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

// What getrusage says of a counter since the start; false where it knows nothing of it.
bool read_usage(const Kind& kind, double& value) {
  rusage now{};
  if (kind.type != PERF_TYPE_SOFTWARE || getrusage(RUSAGE_SELF, &now) != 0) return false;
  switch (kind.config) {
    case PERF_COUNT_SW_TASK_CLOCK:
      value = 1e9 * (seconds_of(now.ru_utime) + seconds_of(now.ru_stime) -
                     seconds_of(g_used.ru_utime) - seconds_of(g_used.ru_stime));
      return true;
    case PERF_COUNT_SW_PAGE_FAULTS:
      value =
          static_cast<double>(now.ru_minflt + now.ru_majflt - g_used.ru_minflt - g_used.ru_majflt);
      return true;
    case PERF_COUNT_SW_CONTEXT_SWITCHES:
      value =
          static_cast<double>(now.ru_nvcsw + now.ru_nivcsw - g_used.ru_nvcsw - g_used.ru_nivcsw);
      return true;
    default:
      return false;
  }
}

std::string reason(const Kind& kind, int error) {
  if (kind.type == PERF_TYPE_HARDWARE &&
      (error == ENOENT || error == ENODEV || error == EOPNOTSUPP))
    return "this machine has no hardware counters (virtual machines often hide them)";
  return why_not_counted(error);
}

}  // namespace

std::string why_not_counted(int error) {
  if (!refused(error)) return std::strerror(error);
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  int level = 0;
  constexpr int kAllows = 1;  // a process's own events, those inside the kernel too
  if (!g_permitted) return "not permitted: PELLUCID_PROFILE_PERF=0 was asked for";
  if (file >> level && level <= kAllows)
    return fmt::format(
        "not permitted: kernel.perf_event_paranoid is {}, which allows it, so a container's or a "
        "sandbox's rules forbid the call",
        level);
  return fmt::format(
      "not permitted: kernel.perf_event_paranoid is {}; `sysctl kernel.perf_event_paranoid={}` "
      "allows it",
      level, kAllows);
}

void permit_perf_events(bool permitted) noexcept { g_permitted = permitted; }

int open_perf_event(perf_event_attr& attr, int thread, int processor) noexcept {
  if (!g_permitted) {
    errno = EACCES;
    return -1;
  }
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attr, thread, processor, -1, PERF_FLAG_FD_CLOEXEC));
}

std::string start_counters() noexcept {
  bool any_refused = false;
  getrusage(RUSAGE_SELF, &g_used);
  for (size_t i = 0; i < kCount; ++i) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = kKinds[i].type;
    attr.config = kKinds[i].config;
    attr.inherit = 1;  // threads that are started later
    attr.exclude_kernel = kKinds[i].type == PERF_TYPE_HARDWARE;
    attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    const int file = open_perf_event(attr, 0, -1);
    g_open[i] = {file, file < 0 ? errno : 0};
    any_refused |= attr.type == PERF_TYPE_SOFTWARE && refused(g_open[i].error);
  }
  g_started = true;
  return any_refused ? why_not_counted(EACCES) : std::string();
}

std::vector<Counter> stop_counters(bool wanted) {
  std::vector<Counter> counters;
  if (!g_started) return counters;
  g_started = false;
  for (size_t i = 0; i < kCount; ++i) {
    Counter c{kKinds[i].name, 0, {}};
    uint64_t values[3] = {};  // the count, and how long it was asked for and did run
    if (refused(g_open[i].error) && read_usage(kKinds[i], c.value)) {
      // Counted for every process, whoever asks.
    } else if (g_open[i].file < 0) {
      c.missing = reason(kKinds[i], g_open[i].error);
    } else if (read(g_open[i].file, values, sizeof values) != sizeof values) {
      c.missing = std::strerror(errno);
    } else if (values[2] == 0 && kKinds[i].type == PERF_TYPE_HARDWARE) {
      c.missing = "other programs held the counter all the time";
    } else {
      // More counters than the processor has share the time; the count is scaled.
      c.value = static_cast<double>(values[0]);
      if (values[2] > 0 && values[2] < values[1])
        c.value *= static_cast<double>(values[1]) / static_cast<double>(values[2]);
    }
    if (g_open[i].file >= 0) close(g_open[i].file);
    if (wanted) counters.push_back(std::move(c));
  }
  return counters;
}

}  // namespace pellucid::profile
