// What this machine can do at best, measured: the ceilings against which rates are compared.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"

namespace pellucid {

/// Bytes per second of plain loops; a copy counts what it reads and what it writes.
struct MemoryRates {
  double read = 0, write = 0, copy = 0;
};

/// One level of the memory and what loops whose data stays in it reach.
struct MemoryLevel {
  std::string name;      ///< "L1", "L2", "L3", "tensor" or "memory"
  int64_t bytes = 0;     ///< the data that a loop goes over, of all threads together
  MemoryRates one, all;  ///< by one thread, by all threads
};

/// The measured limits of a machine.
struct MachineCeilings {
  std::string cpu, isa, version;  ///< what they were measured with
  int threads = 1;
  double flops_one = 0, flops_all = 0;  ///< float32 multiply-adds, two FLOPs each, per second
  std::vector<MemoryLevel> levels;      ///< from the nearest to the farthest
  double seconds = 0;                   ///< how long the measurement took
  bool busy = false;  ///< other programs held the cores: the figures of all threads are too low
  bool from_cache = false;  ///< read from the file, not measured now
  std::string file;         ///< where they are kept; empty where nothing can be written
};

/// Which way of access a rate is of.
enum class MemoryAccess : uint8_t { Read, Write, Copy };
PELLUCID_API std::string_view name_of(MemoryAccess access);

/// The best rate of one level of memory, as the roofline uses it.
struct MemoryRate {
  std::string level;  ///< "L1", "memory"
  double bytes = 0;   ///< work that moves no more than these stays in it
  double bytes_per_second = 0;
  MemoryAccess access = MemoryAccess::Read;  ///< the access that reaches it
};

/// What one piece of work takes at the ceilings, in seconds; 0 where the machine is not known.
struct LeastSeconds {
  double compute = 0, memory = 0;
  double least() const { return compute > memory ? compute : memory; }
  bool memory_bound() const { return memory > compute; }
};

/// The ceilings as rates: the one rule by which reports, estimates and analyses compare work with
/// the machine. Arithmetic: the multiply-adds of all threads. Memory: the nearest level that holds
/// the bytes of a call, with the access that is fastest there, since an op may read, write or copy.
/// So no op that moves its bytes once can take less than the least time.
struct PELLUCID_API MachineRates {
  double flops_per_second = 0;
  double bytes_per_second = 0;     ///< of main memory
  std::vector<MemoryRate> levels;  ///< nearest first; empty where one rate was given for all
  bool busy = false;               ///< measured while other programs held the cores
  /// The highest rate for a call that moves this many bytes.
  double memory_rate(double bytes) const;
  LeastSeconds least(double flops, double bytes) const;
  bool known() const { return flops_per_second > 0 && bytes_per_second > 0; }
  bool measured() const { return !levels.empty(); }
  /// "111.22 GFLOP/s, 28.40 GB/s (read from memory)" or, of given rates, "… (given)"; `caches`
  /// adds the rates of the nearer levels.
  std::string text(bool caches = false) const;
  /// Why figures that come from these ceilings are not what they should be; empty where they are.
  /// `share` is what a run reached of its ceiling, 0 where nothing was run.
  std::string warning(double share = 0) const;
};
/// All threads can do at least what one does, and a nearer level at least what a farther one does:
/// a lower figure is noise and raised to that.
PELLUCID_API MachineRates rates_of(const MachineCeilings& ceilings);

/// Called before each step of a measurement with what comes next and the share that is done.
using CeilingProgress = std::function<void(std::string_view step, double done)>;

/// When machine_ceilings measures. Noise only makes a loop slower, so a new measurement keeps each
/// figure of an earlier one that was better, unless that is to be replaced.
enum class Remeasure : uint8_t { IfMissing, Again, Replace };

/// The ceilings of this machine with its present ISA level and number of threads: from the cache
/// file ($XDG_CACHE_HOME or ~/.cache)/pellucid/ceilings-ISA-THREADS-CPU.json, or measured (about
/// 2 s) and kept there. What was measured on a busy machine is measured again after some minutes.
PELLUCID_API MachineCeilings machine_ceilings(Remeasure when = Remeasure::IfMissing,
                                              const CeilingProgress& progress = {});

}  // namespace pellucid
