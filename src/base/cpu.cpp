// Detection of the ISA level and the machine's sizes. x86-64 and Linux only.
#include "base/cpu.h"

#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <utility>

#include "base/env.h"
#include "pellucid/error.h"

namespace pellucid {

namespace {

constexpr int kUndecided = -1;
std::atomic<int> g_isa{kUndecided};

bool machine_has([[maybe_unused]] Isa level) {
#ifdef PELLUCID_ONE_ISA
  return level == Isa::Baseline;
#else
  // libgcc clears the AVX bits unless the operating system saves the registers.
  __builtin_cpu_init();
  switch (level) {
    case Isa::Baseline:
      return true;
    case Isa::V3:
      return __builtin_cpu_supports("x86-64-v3");
    case Isa::V4:
      return __builtin_cpu_supports("x86-64-v4");
  }
  return false;
#endif
}

Isa choose_isa() {
  if (const auto name = env_string("PELLUCID_ISA")) return isa_from_name(*name);
  return available_isas().back();
}

/// The first line of a file, or nothing.
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int64_t to_int(const std::string& text) {
  try {
    return std::stoll(text);
  } catch (const std::exception&) { return 0; }
}

/// Sizes like "48K", as sysfs writes them.
int64_t sysfs_size(const std::string& text) {
  const int64_t number = to_int(text);
  if (text.ends_with('K')) return number << 10;
  if (text.ends_with('M')) return number << 20;
  return number;
}

void read_caches(CpuInfo& info) {
  const std::string root = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int i = 0; i < 8; ++i) {
    const std::string folder = root + std::to_string(i) + "/";
    const std::string type = first_line(folder + "type");
    if (type != "Data" && type != "Unified") continue;
    const int64_t level = to_int(first_line(folder + "level"));
    const int64_t size = sysfs_size(first_line(folder + "size"));
    if (level == 1) info.l1d = size;
    if (level == 2) info.l2 = size;
    if (level == 3) info.l3 = size;
  }
  const auto fall_back = [](int64_t& size, int name) {
    if (size == 0) size = std::max<int64_t>(0, sysconf(name));
  };
  fall_back(info.l1d, _SC_LEVEL1_DCACHE_SIZE);
  fall_back(info.l2, _SC_LEVEL2_CACHE_SIZE);
  fall_back(info.l3, _SC_LEVEL3_CACHE_SIZE);
}

/// The model's name and the flags that a kernel or a reader of `doctor` asks about.
void read_cpuinfo(CpuInfo& info) {
  static constexpr std::string_view kWanted[] = {
      "sse4_2",      "avx",         "f16c",     "fma",      "avx2",     "avx_vnni",
      "avx512f",     "avx512bw",    "avx512cd", "avx512dq", "avx512vl", "avx512_vnni",
      "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "hypervisor"};
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) info.model = value;
    if (!line.starts_with("flags")) continue;
    const std::string padded = " " + value + " ";
    for (const std::string_view flag : kWanted) {
      if (padded.find(fmt::format(" {} ", flag)) != std::string::npos)
        info.flags.emplace_back(flag);
    }
  }
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int64_t usable_memory() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t limit = to_int(first_line(path));  // "max" and a missing file read as 0
    if (limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace

Isa isa() {
  int level = g_isa.load(std::memory_order_relaxed);
  if (level == kUndecided) [[unlikely]] {
    level = static_cast<int>(choose_isa());
    int expected = kUndecided;
    // A guard that came first keeps its level.
    if (!g_isa.compare_exchange_strong(expected, level, std::memory_order_relaxed))
      level = expected;
  }
  return static_cast<Isa>(level);
}

std::string_view isa_name(Isa level) {
  constexpr std::string_view names[] = {"baseline", "v3", "v4"};
  return names[static_cast<int>(level)];
}

std::vector<Isa> available_isas() {
  std::vector<Isa> levels;
  for (const Isa level : {Isa::Baseline, Isa::V3, Isa::V4}) {
    if (machine_has(level)) levels.push_back(level);
  }
  return levels;
}

Isa isa_from_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Isa level : available_isas()) {
    if (isa_name(level) == name) return level;
    names.push_back(isa_name(level));
  }
  const bool known = name == "v3" || name == "v4";
  detail::raise<ValueError>("PELLUCID_ISA: '{}' is {}. Available here: {}.", name,
                            known ? "a level that this machine or build lacks" : "not a level",
                            fmt::to_string(fmt::join(names, ", ")));
}

IsaGuard::IsaGuard(Isa level) : previous_(isa()) {
  PELLUCID_CHECK(machine_has(level), ValueError, "IsaGuard: this machine or build lacks {}.",
                 isa_name(level));
  g_isa.store(static_cast<int>(level), std::memory_order_relaxed);
}

IsaGuard::~IsaGuard() { g_isa.store(static_cast<int>(previous_), std::memory_order_relaxed); }

const CpuInfo& cpu_info() {
  static const CpuInfo* const info = [] {
    auto* made = new CpuInfo;
    read_cpuinfo(*made);
    read_caches(*made);
    made->cores = usable_cores();
    made->total_memory = usable_memory();
    return made;
  }();
  return *info;
}

}  // namespace pellucid
