// See machine_facts.h. Everything is read from the system or the library; nothing is measured.
#include "cli/machine_facts.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/cpu.h"
#include "cli/text.h"
#include "pellucid/memory.h"
#include "pellucid/parallel.h"

namespace pellucid::cli {
namespace {

std::string first_line_of(const char* file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// "always [madvise] never" -> "madvise"
std::string chosen(const std::string& choices) {
  const size_t open = choices.find('['), close = choices.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return choices.substr(open + 1, close - open - 1);
}

Fact bytes_fact(std::string key, std::string name, int64_t bytes) {
  return {std::move(key), std::move(name),
          bytes > 0 ? format_bytes_binary(static_cast<double>(bytes)) : "unknown",
          static_cast<double>(bytes)};
}

Fact count_fact(std::string key, std::string name, int value) {
  return {std::move(key), std::move(name), fmt::format("{}", value), value};
}

// The library links oneDNN, the command does not: the version is asked where it is loaded.
std::string onednn_version() {
  struct Version {
    int major, minor, patch;
    const char* hash;
    unsigned cpu_runtime, gpu_runtime;
  };
  using Ask = const Version* (*)();
  const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "dnnl_version"));
  if (ask == nullptr) return "unknown";
  const Version* v = ask();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

FactGroup cpu_group(const CpuInfo& cpu) {
  std::string flags;
  for (const std::string& f : cpu.flags) flags += (flags.empty() ? "" : " ") + f;
  return {"cpu",
          "CPU",
          {{"model", "model", cpu.model.empty() ? "unknown" : cpu.model},
           count_fact("cores", "cores", cpu.cores),
           bytes_fact("l1d_bytes", "L1 data cache", cpu.l1d),
           bytes_fact("l2_bytes", "L2 cache", cpu.l2),
           bytes_fact("l3_bytes", "L3 cache", cpu.l3),
           {"flags", "instructions", flags.empty() ? "none of note" : flags}}};
}

FactGroup kernels_group() {
  std::string available;
  for (const Isa level : available_isas())
    available += (available.empty() ? "" : ", ") + std::string(isa_name(level));
  return {"kernels",
          "kernels",
          {{"isa", "ISA level", std::string(isa_name(isa()))},
           {"isas_available", "available", available},
           count_fact("threads", "threads", get_num_threads())}};
}

FactGroup memory_group(const CpuInfo& cpu) {
  const std::string huge = chosen(first_line_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  const MemoryStats stats = memory_stats();
  return {"memory",
          "memory",
          {bytes_fact("total_bytes", "total", cpu.total_memory),
           {"huge_pages", "huge pages", huge == "never" ? "never (allocations cost more)" : huge},
           {"limit", "limit set",
            stats.limit > 0 ? format_bytes_binary(static_cast<double>(stats.limit)) : "none"}}};
}

FactGroup software_group(std::string_view version) {
  utsname system{};
  uname(&system);
  return {
      "software",
      "software",
      {{"pellucid", "pellucid", std::string(version)},
       {"onednn", "oneDNN", onednn_version()},
       {"fmt", "fmt",
        fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
       {"compiler", "compiler", fmt::format("GCC {}", __VERSION__)},
       {"libc", "glibc", gnu_get_libc_version()},
       {"kernel", "system", fmt::format("{} {}", system.sysname, system.release)}}};
}

}  // namespace

std::string hardware_counters() {
  perf_event_attr attr{};
  attr.type = PERF_TYPE_HARDWARE;
  attr.size = sizeof attr;
  attr.config = PERF_COUNT_HW_CPU_CYCLES;
  attr.exclude_kernel = 1;
  attr.exclude_hv = 1;
  const long descriptor = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0UL);
  if (descriptor >= 0) {
    close(static_cast<int>(descriptor));
    return "available";
  }
  const std::string paranoid = first_line_of("/proc/sys/kernel/perf_event_paranoid");
  switch (errno) {
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
      return "not available: the CPU or the virtual machine does not offer them";
    case EACCES:
    case EPERM:
      return fmt::format(
          "not permitted: kernel.perf_event_paranoid is {} (2 or less is needed) or "
          "the container forbids it",
          paranoid.empty() ? "unknown" : paranoid);
    case ENOSYS:
      return "not available: the kernel was built without perf events";
    default:
      return fmt::format("not available: {}", std::strerror(errno));
  }
}

std::vector<FactGroup> machine_facts(std::string_view version) {
  const CpuInfo& cpu = cpu_info();
  return {cpu_group(cpu),
          kernels_group(),
          memory_group(cpu),
          software_group(version),
          {"counters", "counters", {{"hardware", "hardware counters", hardware_counters()}}}};
}

}  // namespace pellucid::cli
