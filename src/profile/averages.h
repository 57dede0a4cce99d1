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

/// What the time of ops went to, in nanoseconds. Each op's time is split by itself, so that the
/// parts of any group are the sums of its ops' parts, and all groups tell the same of the run.
struct TimeSplit {
  double compute = 0, memory = 0;  ///< what the work takes at the ceiling that binds
  double dispatch = 0;             ///< what calling takes
  double faults = 0;               ///< pages that the system had to bring
  double preempted = 0;            ///< the thread's core was given to somebody else
  double waiting = 0;              ///< the thread waited for something
  double first = 0;                ///< what else first calls of a kind took beyond later ones
  double unexplained = 0;          ///< the rest: below both ceilings
  double sum() const {
    return compute + memory + dispatch + faults + preempted + waiting + first + unexplained;
  }
  void add(const TimeSplit& o);
};

/// The sums of one group. Times in nanoseconds; `total` counts no moment twice.
struct Average {
  int32_t event = -1;  ///< one of them: it has the key's name, sizes, line, module, stack
  int64_t calls = 0, self = 0, total = 0;
  int64_t memory = 0, self_memory = 0;  ///< allocated and not freed
  double flops = 0, contraction_flops = 0, bytes = 0;
  int64_t op_calls = 0, op_time = 0;         ///< of ops alone
  TimeSplit split;                           ///< of op_time
  double least_time = 0;                     ///< nanoseconds its ops would take at the ceilings
  double compute_time = 0, memory_time = 0;  ///< the same at each ceiling alone
  /// The first call of a kind (op, sizes, dtypes, attributes) touches its memory for the first
  /// time and makes its primitives, so rates are of the calls after it.
  Rate warm, first;
  /// The warm calls, or the first ones where there are no others.
  const Rate& rate() const { return warm.calls > 0 ? warm : first; }
  int64_t faults = 0, switches = 0;  ///< of its ops, those of the pool's threads too
  /// "memory" or "compute": which ceiling is the nearer one.
  std::string_view bound() const { return memory_time > compute_time ? "memory" : "compute"; }
};

struct Averages {
  Averages(const Profile& p, GroupBy by);
  std::vector<Average> rows;
  Grouping group;
  int64_t self = 0;  ///< of all events
};

/// By signature: the event that began first, or -1.
std::vector<int32_t> first_calls(const Profile& p);
/// The share of its ceiling that a group's rate reaches, marked where it is of first calls; empty
/// unless `known`.
Cell ceiling_cell(const Average& a, bool known);
/// "ceilings: 111.22 GFLOP/s, 28.40 GB/s (read from memory…)", and a warning where they are too low
/// or an op went beyond them.
std::string ceiling_lines(const Profile& p, const std::vector<Average>& rows);
/// What the rates of a table are of, as a line below it.
std::string rate_note(const std::vector<Average>& rows);

/// How a group is called in tables: "addmm", "two_layer.cpp:24", "layer1.0.conv1".
std::string group_name(const Profile& p, GroupBy by, int32_t event, bool full_paths);

}  // namespace pellucid::profile
