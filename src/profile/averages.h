// Events with the same key, added up: by op, by sizes, by line, by module or by stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profile/index.h"

namespace pellucid::profile {

enum class GroupBy : uint8_t { Op, Shape, Line, Module, Stack };
/// "" is `otherwise`; throws ValueError for a word that is none.
GroupBy group_by(std::string_view word, GroupBy otherwise = GroupBy::Op);

/// The sums of one group. Times in nanoseconds; `total` counts no moment twice.
struct Average {
  int32_t event = -1;  ///< one of them: it has the key's name, sizes, line, module, stack
  int64_t calls = 0, self = 0, total = 0;
  int64_t memory = 0, self_memory = 0;  ///< allocated and not freed
  double flops = 0, contraction_flops = 0, bytes = 0;
  int64_t op_calls = 0, op_time = 0;         ///< of ops alone
  double least_time = 0;                     ///< nanoseconds its ops would take at the ceilings
  double compute_time = 0, memory_time = 0;  ///< the same at each ceiling alone
  /// "memory" or "compute": which ceiling is the nearer one.
  std::string_view bound() const { return memory_time > compute_time ? "memory" : "compute"; }
};

struct Averages {
  Averages(const Profile& p, GroupBy by);
  std::vector<Average> rows;
  Grouping group;
  int64_t self = 0;  ///< of all events
};

/// How a group is called in tables: "addmm", "two_layer.cpp:24", "layer1.0.conv1".
std::string group_name(const Profile& p, GroupBy by, int32_t event, bool full_paths);

}  // namespace pellucid::profile
