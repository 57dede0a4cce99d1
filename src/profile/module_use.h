// What each module of the model took: times by phase, FLOPs, memory at the peak.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

struct ModuleUse {
  int64_t calls = 0;
  int64_t parameters = 0, parameter_bytes = 0;
  std::array<int64_t, 3> time{};  ///< nanoseconds by Phase
  double flops = 0, contraction_flops = 0;
  int64_t at_peak = 0;      ///< bytes that its events allocated and that were alive at the peak
  int32_t first_call = -1;  ///< the event of its first call
};

struct ModuleUses {
  explicit ModuleUses(const Profile& p);
  std::vector<ModuleUse> own;    ///< by module; one more at the end for what lies outside modules
  std::vector<ModuleUse> whole;  ///< with all modules below
  std::vector<std::vector<int32_t>> children;
  std::vector<int32_t> roots;
};

/// The sizes that went into and came out of a module's first call, as its ops saw them.
struct ModuleShapes {
  const TensorInfo* input = nullptr;
  const TensorInfo* output = nullptr;
  double contraction_flops = 0;  ///< of that call
};
ModuleShapes module_shapes(const Profile& p, int32_t call);

}  // namespace pellucid::profile
