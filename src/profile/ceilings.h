// The parts of machine_ceilings() that tests look at: the measurement and the cache file.
#pragma once

#include <optional>
#include <string>

#include "base/cpu.h"
#include "pellucid/machine.h"

namespace pellucid::profile {

/// The loops that are timed. `passes` goes over the data that many times; data are 64-byte aligned
/// and `bytes` is a multiple of 1024.
struct CeilingLoops {
  double (*multiply_add)(
      int64_t passes);  ///< runs passes * flops_per_pass FLOPs; returns a number to keep
  double flops_per_pass;
  uint64_t (*read)(const void* from, int64_t bytes, int64_t passes);
  void (*write)(void* to, int64_t bytes, int64_t passes);
  void (*copy)(void* to, const void* from, int64_t bytes, int64_t passes);
};
/// Compiled for a level that the machine has.
const CeilingLoops& ceiling_loops(Isa level);

/// How long a measurement may take: seconds of each timed run, and runs of which the best counts.
struct Effort {
  double seconds = 0.012;
  int runs = 3;
  double total = 3.5;  ///< seconds after which every figure still to come gets a single run
  int64_t most_bytes = int64_t{768} << 20;  ///< of the largest level
};
/// Measures now; touches no file.
MachineCeilings measure_ceilings(const Effort& effort = {}, const CeilingProgress& progress = {});

/// $XDG_CACHE_HOME/pellucid/ceilings-ISA-THREADS-CPU.json, ~/.cache/…, or "" where neither is
/// known: each ISA level, number of threads and CPU has a file of its own.
std::string ceilings_file(std::string_view isa_level, int threads);
/// For the level and the number of threads that are set now.
std::string ceilings_file();
/// What the file holds for this CPU and version, an ISA level and a number of threads; nothing if
/// it holds something else, is damaged or missing.
std::optional<MachineCeilings> load_ceilings(const std::string& file, std::string_view isa_level,
                                             int threads);
/// For the level and the number of threads that are set now.
std::optional<MachineCeilings> load_ceilings(const std::string& file);
/// As the file holds them.
std::string ceilings_text(const MachineCeilings& ceilings);
/// Without a CPU's name where the text is damaged.
MachineCeilings ceilings_from_text(const std::string& text);
/// Whether they were measured on a busy machine some minutes ago, and are to be measured again.
bool is_stale(const MachineCeilings& ceilings);
/// Takes the higher of both for each figure: noise only makes a loop slower, so what an earlier run
/// reached, the machine can do. Busy only where both were; nothing happens where they are of
/// another machine, level or number of threads.
void take_best(MachineCeilings& ceilings, const MachineCeilings& earlier);
/// Writes the file whole or not at all; false where that is not possible.
bool save_ceilings(const std::string& file, const MachineCeilings& ceilings);
/// The same under a lock on the folder, with the better of each figure of what the file holds by
/// then: several processes may measure at once. `ceilings` become what was written.
bool merge_ceilings(const std::string& file, MachineCeilings& ceilings);
/// The kept ceilings of a run with this level and these threads, which need not be this process's;
/// measured where there are none and `may_measure`. "" and 0 are this process's own.
PELLUCID_API MachineCeilings ceilings_of_run(std::string_view isa_level, int threads,
                                             bool may_measure);

}  // namespace pellucid::profile
