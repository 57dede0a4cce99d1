// Events with the same key, added up: by op, by sizes, by line, by module or by stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/profile_report.h"
#include "profile/index.h"

namespace pellucid::profile {

enum class GroupBy : uint8_t { Op, Shape, Line, Module, Stack };
/// "" is `otherwise`; throws ValueError for a word that is none.
GroupBy group_by(std::string_view word, GroupBy otherwise = GroupBy::Op);

/// Ops' time against their cost, which rates and shares of a ceiling are made of. Nanoseconds.
struct Rate {
  int64_t calls = 0;
  double time = 0, flops = 0, bytes = 0, least = 0;
  void add(const Event& e, const Signature& s, double least_time);
};

/// The sums of one group. Times in nanoseconds; `total` counts no moment twice.
struct Average {
  int32_t event = -1;  ///< one of them: it has the key's name, sizes, line, module, stack
  int64_t calls = 0, self = 0, total = 0;
  int64_t memory = 0, self_memory = 0;  ///< allocated and not freed
  double flops = 0, contraction_flops = 0, bytes = 0;
  int64_t op_calls = 0, op_time = 0;         ///< of ops alone
  double least_time = 0;                     ///< nanoseconds its ops would take at the ceilings
  double compute_time = 0, memory_time = 0;  ///< the same at each ceiling alone
  /// The first call of a kind (op, sizes, dtypes, attributes) touches its memory for the first
  /// time and makes its primitives, so rates are of the calls after it.
  Rate warm, first;
  double first_excess = 0;  ///< what first calls took beyond the mean of the others of their kind
  /// The warm calls, or the first ones where there are no others.
  const Rate& rate() const { return warm.calls > 0 ? warm : first; }
  int64_t faults = 0, switches = 0;          ///< of its ops, those of the pool's threads too
  double fault_time = 0, off_core_time = 0;  ///< nanoseconds that they took of op_time
  /// "memory" or "compute": which ceiling is the nearer one.
  std::string_view bound() const { return memory_time > compute_time ? "memory" : "compute"; }
};

/// What the time of a group's ops went to; the shares sum to 1.
struct TimeShares {
  TimeShares(const Average& a, double dispatch_of_call);
  double ceiling = 0;      ///< what the work takes at the ceiling that binds
  double dispatch = 0;     ///< what calling takes
  double faults = 0;       ///< pages that the system had to bring
  double off_core = 0;     ///< time in which the thread had no core
  double first = 0;        ///< what else first calls of a kind took beyond later ones
  double unexplained = 0;  ///< the rest
};

struct Averages {
  Averages(const Profile& p, GroupBy by);
  std::vector<Average> rows;
  Grouping group;
  int64_t self = 0;  ///< of all events
};

/// The share of its ceiling that a group's rate reaches, marked where it is of first calls; empty
/// unless `known`.
Cell ceiling_cell(const Average& a, bool known);
/// What the rates of a table are of, as a line below it.
std::string rate_note(const std::vector<Average>& rows);

/// How a group is called in tables: "addmm", "two_layer.cpp:24", "layer1.0.conv1".
std::string group_name(const Profile& p, GroupBy by, int32_t event, bool full_paths);

}  // namespace pellucid::profile
