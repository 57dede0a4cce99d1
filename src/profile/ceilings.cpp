// Measures the ceilings and keeps them in a file. A figure is the best of a few runs: noise only
// ever makes a loop slower. A damaged, foreign or missing file means measuring again, never an
// error.
#include "profile/ceilings.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/parallel.h"

#ifndef PELLUCID_VERSION
#define PELLUCID_VERSION "development"
#endif

namespace pellucid::profile {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBusySeconds = 300;  // how long figures from a busy machine are kept
constexpr int64_t kUnit = 1024;        // sizes are multiples of it, so that loops have no rest

double seconds_of(const std::function<void()>& work) {
  const auto begun = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

constexpr double kSlowest = 4e9;  // units a second of any machine: bytes from memory, FLOPs

// Processor time of all threads of the process.
double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// The best run of a loop, and whether its threads had their cores while it ran.
struct BestRun {
  double rate = 0;
  bool undisturbed = false;
};

constexpr double kTolerance = 0.9;

// Units of work per second of the best run; `work(n)` does n passes on `threads` threads. Other
// programs may hold the cores for many milliseconds, so the work is sized by the rate that is
// expected at least, then by the quickest run so far; a busy machine must not make the measurement
// long either.
BestRun best_rate(const Effort& effort, Clock::time_point deadline, double expected,
                  double units_per_pass, int threads, const std::function<void(int64_t)>& work) {
  auto passes = static_cast<int64_t>(std::ceil(expected * effort.seconds / units_per_pass));
  BestRun best;
  double spent = 0;
  for (int run = 0; run < effort.runs &&
                    (best.rate == 0 || (spent < 6 * effort.seconds && Clock::now() < deadline));) {
    const double used = processor_seconds();
    const double taken = std::max(seconds_of([&] { work(passes); }), 1e-9);
    const double share = (processor_seconds() - used) / taken / threads;
    const double rate = units_per_pass * static_cast<double>(passes) / taken;
    if (rate > best.rate) best = {rate, share > kTolerance};
    spent += taken;
    const double quickest = units_per_pass * static_cast<double>(passes) / best.rate;
    if (quickest < effort.seconds / 2)
      passes = static_cast<int64_t>(static_cast<double>(passes) * effort.seconds / quickest) + 1;
    else
      ++run;
  }
  return best;
}

// Memory for one level, which the threads share out among themselves.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t size = (static_cast<size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage;
    memory_.reset(static_cast<char*>(std::aligned_alloc(kHugePage, size)));
    if (memory_) madvise(memory_.get(), size, MADV_HUGEPAGE);
  }
  char* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory_;
};

constexpr auto kRelaxed = std::memory_order_relaxed;
std::atomic<uint64_t> keep;  // what reads gave, so that they are not left out

// Each thread has two halves of `bytes` / threads: a copy goes from one to the other, read and
// write go over both, so every figure has the same working set. `expected` sizes the work: twice
// the rates of one thread where several run, since waking the others may take a turn of the
// scheduler.
MemoryRates measure_rates(const CeilingLoops& loops, char* data, int64_t bytes, int threads,
                          const Effort& effort, Clock::time_point deadline,
                          const MemoryRates& expected, bool& busy) {
  const int64_t half = bytes / threads / 2 / kUnit * kUnit;
  const auto first = [&](int64_t thread) { return data + 2 * half * thread; };
  const auto run = [&](double rate, const std::function<void(int64_t, int64_t)>& body) {
    const BestRun best =
        best_rate(effort, deadline, rate, 2.0 * static_cast<double>(half) * threads, threads,
                  [&](int64_t passes) {
                    parallel_chunks(threads, [&](int64_t thread) { body(thread, passes); });
                  });
    busy = busy || !best.undisturbed;
    return best.rate;
  };
  MemoryRates rates;
  rates.write =
      run(expected.write, [&](int64_t t, int64_t n) { loops.write(first(t), 2 * half, n); });
  rates.read = run(expected.read, [&](int64_t t, int64_t n) {
    keep.store(loops.read(first(t), 2 * half, n), kRelaxed);
  });
  rates.copy = run(expected.copy,
                   [&](int64_t t, int64_t n) { loops.copy(first(t) + half, first(t), half, n); });
  return rates;
}

// Working sets that stay in a level and leave the one before: half of a private cache, a few times
// the second level, and well beyond the last. "tensor" is a copy of 4096 x 1024 floats.
std::vector<MemoryLevel> levels_of(const CpuInfo& cpu, int threads, const Effort& effort) {
  const int64_t l1 = cpu.l1d > 0 ? cpu.l1d : 32 * 1024, l2 = cpu.l2 > 0 ? cpu.l2 : 512 * 1024;
  std::vector<MemoryLevel> levels = {{"L1", l1 / 2 * threads, {}, {}},
                                     {"L2", l2 / 2 * threads, {}, {}}};
  const int64_t l3 = std::min(cpu.l3 / 2, 4 * l2 * threads);
  if (l3 > l2 * threads) levels.push_back({"L3", l3, {}, {}});
  levels.push_back({"tensor", 32 * kMiB, {}, {}});
  int64_t memory = std::max(256 * kMiB, 4 * cpu.l3);
  if (cpu.total_memory > 0) memory = std::min(memory, cpu.total_memory / 8);
  levels.push_back({"memory", memory, {}, {}});
  for (MemoryLevel& level : levels) level.bytes = std::min(level.bytes, effort.most_bytes);
  return levels;
}

// All threads together are never slower than one, unless other programs hold the cores.
bool at_least(const MemoryRates& all, const MemoryRates& one) {
  return all.read > kTolerance * one.read && all.write > kTolerance * one.write &&
         all.copy > kTolerance * one.copy;
}

bool same_subject(const MachineCeilings& a, const MachineCeilings& b) {
  return a.cpu == b.cpu && a.isa == b.isa && a.threads == b.threads && a.version == b.version;
}

Json to_json(const MemoryRates& r) {
  return {{"read", r.read}, {"write", r.write}, {"copy", r.copy}};
}

double positive(const Json& j, const char* key) {
  const double value = j.at(key).get<double>();
  if (!std::isfinite(value) || value <= 0) throw std::out_of_range(key);
  return value;
}

MemoryRates rates_from(const Json& j) {
  return {positive(j, "read"), positive(j, "write"), positive(j, "copy")};
}

MachineCeilings from_json(const Json& j) {
  MachineCeilings c;
  c.cpu = j.at("cpu").get<std::string>();
  c.isa = j.at("isa").get<std::string>();
  c.version = j.at("version").get<std::string>();
  c.threads = j.at("threads").get<int>();
  c.flops_one = positive(j, "flops_one");
  c.flops_all = positive(j, "flops_all");
  c.seconds = positive(j, "seconds");
  c.busy = j.at("busy").get<bool>();
  for (const Json& l : j.at("levels"))
    c.levels.push_back({l.at("name").get<std::string>(), l.at("bytes").get<int64_t>(),
                        rates_from(l.at("one")), rates_from(l.at("all"))});
  if (c.levels.empty()) throw std::out_of_range("levels");
  return c;
}

// Makes the folder of a file and those above it, as far as they are missing.
void make_folders(const std::string& file) {
  for (size_t slash = file.find('/', 1); slash != std::string::npos;
       slash = file.find('/', slash + 1))
    mkdir(file.substr(0, slash).c_str(), 0777);
}

}  // namespace

MachineCeilings measure_ceilings(const Effort& effort, const CeilingProgress& progress) {
  const auto begun = Clock::now();
  const auto deadline = begun + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(effort.total));
  const CpuInfo& cpu = cpu_info();
  MachineCeilings c;
  c.cpu = cpu.model;
  c.isa = isa_name(isa());
  c.version = PELLUCID_VERSION;
  c.threads = get_num_threads();
  c.levels = levels_of(cpu, c.threads, effort);
  const CeilingLoops& loops = ceiling_loops(isa());
  const double steps = static_cast<double>(c.levels.size()) + 1;
  const auto tell = [&](std::string_view step, double done) {
    if (progress) progress(step, done / steps);
  };

  tell("multiply-adds", 0);
  const auto multiply_add = [&](int threads, double expected) {
    const BestRun best = best_rate(
        effort, deadline, expected, loops.flops_per_pass * threads, threads, [&](int64_t passes) {
          parallel_chunks(threads, [&](int64_t) {
            keep.store(static_cast<uint64_t>(loops.multiply_add(passes)), kRelaxed);
          });
        });
    c.busy = c.busy || !best.undisturbed;
    return best.rate;
  };
  c.flops_one = multiply_add(1, kSlowest);
  c.flops_all = multiply_add(c.threads, 2 * c.flops_one);
  c.busy = c.busy || c.flops_all < kTolerance * c.flops_one;

  for (size_t i = 0; i < c.levels.size(); ++i) {
    MemoryLevel& level = c.levels[i];
    tell(level.name, static_cast<double>(i) + 1);
    const Buffer buffer(level.bytes);
    if (buffer.data() == nullptr) continue;
    loops.write(buffer.data(), level.bytes / kUnit * kUnit, 1);  // maps the pages
    // One thread has the whole of a shared level, but only its own private cache.
    const bool is_private = level.name == "L1" || level.name == "L2";
    level.one =
        measure_rates(loops, buffer.data(), is_private ? level.bytes / c.threads : level.bytes, 1,
                      effort, deadline, {kSlowest, kSlowest, kSlowest}, c.busy);
    level.all =
        measure_rates(loops, buffer.data(), level.bytes, c.threads, effort, deadline,
                      {2 * level.one.read, 2 * level.one.write, 2 * level.one.copy}, c.busy);
    c.busy = c.busy || !at_least(level.all, level.one);
  }
  tell("done", steps);
  c.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  return c;
}

std::string ceilings_file(std::string_view isa_level, int threads) {
  const std::string name =
      fmt::format("/pellucid/ceilings-{}-{}-{:08x}.json", isa_level, threads,
                  static_cast<uint32_t>(std::hash<std::string>{}(cpu_info().model)));
  if (const auto folder = env_string("XDG_CACHE_HOME"); folder && folder->starts_with('/'))
    return *folder + name;
  if (const auto home = env_string("HOME")) return *home + "/.cache" + name;
  return "";
}

std::string ceilings_file() { return ceilings_file(isa_name(isa()), get_num_threads()); }

bool is_stale(const MachineCeilings& c) {
  struct stat facts {};
  return c.busy &&
         (stat(c.file.c_str(), &facts) != 0 || std::time(nullptr) - facts.st_mtime > kBusySeconds);
}

void take_best(MachineCeilings& c, const MachineCeilings& other) {
  if (!same_subject(c, other)) return;
  const auto best = [](MemoryRates& a, const MemoryRates& b) {
    a = {std::max(a.read, b.read), std::max(a.write, b.write), std::max(a.copy, b.copy)};
  };
  c.flops_one = std::max(c.flops_one, other.flops_one);
  c.flops_all = std::max(c.flops_all, other.flops_all);
  for (size_t i = 0; i < std::min(c.levels.size(), other.levels.size()); ++i)
    if (c.levels[i].name == other.levels[i].name && c.levels[i].bytes == other.levels[i].bytes) {
      best(c.levels[i].one, other.levels[i].one);
      best(c.levels[i].all, other.levels[i].all);
    }
  c.busy = c.busy && other.busy;  // what one of them had cores for is right
}

std::optional<MachineCeilings> load_ceilings(const std::string& file) {
  return load_ceilings(file, isa_name(isa()), get_num_threads());
}

std::optional<MachineCeilings> load_ceilings(const std::string& file, std::string_view isa_level,
                                             int threads) {
  std::ifstream stream(file);
  if (!stream) return std::nullopt;
  try {
    MachineCeilings c = from_json(Json::parse(stream));
    if (c.cpu != cpu_info().model || c.isa != isa_level || c.threads != threads ||
        c.version != PELLUCID_VERSION)
      return std::nullopt;
    c.from_cache = true;
    c.file = file;
    return c;
  } catch (const std::exception&) {
    return std::nullopt;  // damaged: measured again and replaced
  }
}

std::string ceilings_text(const MachineCeilings& c) {
  Json levels = Json::array();
  for (const MemoryLevel& l : c.levels)
    levels.push_back(
        {{"name", l.name}, {"bytes", l.bytes}, {"one", to_json(l.one)}, {"all", to_json(l.all)}});
  const Json j = {{"cpu", c.cpu},
                  {"isa", c.isa},
                  {"version", c.version},
                  {"threads", c.threads},
                  {"flops_one", c.flops_one},
                  {"flops_all", c.flops_all},
                  {"seconds", c.seconds},
                  {"busy", c.busy},
                  {"levels", levels}};
  return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

MachineCeilings ceilings_from_text(const std::string& text) {
  try {
    return from_json(Json::parse(text));
  } catch (const std::exception&) { return {}; }
}

bool save_ceilings(const std::string& file, const MachineCeilings& c) {
  if (file.empty()) return false;
  make_folders(file);
  try {
    io::write_file("ceilings", file, ceilings_text(c) + '\n');
    return true;
  } catch (const IoError&) { return false; }  // they are measured again next time
}

bool merge_ceilings(const std::string& file, MachineCeilings& c) {
  if (file.empty()) return false;
  make_folders(file);
  const int folder =
      open(file.substr(0, file.rfind('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) flock(folder, LOCK_EX);
  if (const auto kept = load_ceilings(file, c.isa, c.threads)) take_best(c, *kept);
  const bool saved = save_ceilings(file, c);
  if (folder >= 0) close(folder);  // gives the lock back
  return saved;
}

namespace {

// Measures with the level and the threads that are set, and keeps the result.
MachineCeilings measure_and_keep(const std::string& file, Remeasure when,
                                 const CeilingProgress& progress) {
  MachineCeilings c = measure_ceilings({}, progress);
  if (when == Remeasure::Replace ? save_ceilings(file, c) : merge_ceilings(file, c)) c.file = file;
  return c;
}

}  // namespace

MachineCeilings ceilings_of_run(std::string_view isa_level, int threads, bool may_measure) {
  if (isa_level.empty()) isa_level = isa_name(isa());
  if (threads < 1) threads = get_num_threads();
  const std::string file = ceilings_file(isa_level, threads);
  const std::optional<MachineCeilings> kept = load_ceilings(file, isa_level, threads);
  if (kept && (!may_measure || !is_stale(*kept))) return *kept;
  if (!may_measure) return {};
  const IsaGuard level(isa_from_name(isa_level));
  const int before = get_num_threads();
  set_num_threads(threads);
  MachineCeilings c = measure_and_keep(file, Remeasure::IfMissing, {});
  set_num_threads(before);
  return c;
}

}  // namespace pellucid::profile

namespace pellucid {

MachineCeilings machine_ceilings(Remeasure when, const CeilingProgress& progress) {
  const std::string file = profile::ceilings_file();
  if (when == Remeasure::IfMissing)
    if (const auto kept = profile::load_ceilings(file); kept && !profile::is_stale(*kept))
      return *kept;
  return profile::measure_and_keep(file, when, progress);
}

}  // namespace pellucid
