// Work that a run repeats without need or that grows from step to step, found in the events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/index.h"

namespace pellucid::profile {

/// One finding, with what it costs.
struct Finding {
  enum class Kind : uint8_t {
    Constant,  ///< a call without tensors and the same attributes: it always makes the same
    Same,      ///< the same call at the same line, module and inputs: it makes the same again
    Repeated,  ///< the same sizes at the same line and module several times in each step, where it
               ///< is not known whether the inputs are the same too
    Growing,   ///< more work or larger tensors from step to step
    Retained,  ///< memory that each step leaves behind
  };
  Kind kind = Kind::Constant;
  int32_t event = -1;  ///< one of the calls
  int64_t calls = 0;
  double cost = 0;  ///< nanoseconds that would be saved at most; bytes for Retained
  std::string evidence;
};
std::string_view name_of(Finding::Kind kind);

/// All findings, the dearest of each kind first.
std::vector<Finding> find_repeated_work(const Profile& p, const Steps& steps);

}  // namespace pellucid::profile
