// Facts about the machine: which ISA level the kernels use, and sizes of caches and memory.
// It measures nothing; rates are the profiler's business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"

namespace pellucid {

/// The x86-64 levels that kernels are compiled for; a greater one contains the lesser.
enum class Isa : int { Baseline, V3, V4 };

/// The level in use: the machine's best, or what PELLUCID_ISA=baseline|v3|v4 asks for.
PELLUCID_API Isa isa();
/// "baseline", "v3" or "v4".
PELLUCID_API std::string_view isa_name(Isa level);
/// The levels that this machine and this build have, least first.
PELLUCID_API std::vector<Isa> available_isas();
/// The level with that name; throws ValueError if there is none or the machine lacks it.
PELLUCID_API Isa isa_from_name(std::string_view name);

/// For tests: forces a level, for all threads, until the end of the scope.
class PELLUCID_API IsaGuard {
 public:
  explicit IsaGuard(Isa level);
  ~IsaGuard();
  IsaGuard(const IsaGuard&) = delete;
  IsaGuard& operator=(const IsaGuard&) = delete;

 private:
  Isa previous_;
};

/// What the system says about the CPU; sizes in bytes, 0 where unknown.
struct CpuInfo {
  std::string model;
  int cores = 1;                    ///< CPUs this process may run on
  int64_t l1d = 0, l2 = 0, l3 = 0;  ///< per instance of the cache
  std::vector<std::string> flags;   ///< those that matter to the kernels: "avx2", "avx512f"…
  int64_t total_memory = 0;         ///< physical, or the control group's limit if that is less
};

/// Read once, at the first call.
PELLUCID_API const CpuInfo& cpu_info();

}  // namespace pellucid
