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

/// Called before each step of a measurement with what comes next and the share that is done.
using CeilingProgress = std::function<void(std::string_view step, double done)>;

/// The ceilings of this machine with its present number of threads: from the cache file
/// ($XDG_CACHE_HOME or ~/.cache)/pellucid/ceilings-N.json for N threads, or measured (about 2 s)
/// and kept there. What was measured on a busy machine is measured again after some minutes.
PELLUCID_API MachineCeilings machine_ceilings(bool fresh = false,
                                              const CeilingProgress& progress = {});

}  // namespace pellucid
