// Measured ceilings as the rates that work is compared with, and what is said of them.
#include <fmt/format.h>

#include <algorithm>

#include "pellucid/machine.h"
#include "profile/table.h"

namespace pellucid {
namespace {

MemoryRate best_of(const MemoryLevel& level) {
  MemoryRate best{level.name, static_cast<double>(level.bytes), 0, MemoryAccess::Read};
  const auto offer = [&](double rate, MemoryAccess access) {
    if (rate > best.bytes_per_second) {
      best.bytes_per_second = rate;
      best.access = access;
    }
  };
  for (const MemoryRates* r : {&level.all, &level.one}) {
    offer(r->read, MemoryAccess::Read);
    offer(r->write, MemoryAccess::Write);
    offer(r->copy, MemoryAccess::Copy);
  }
  return best;
}

}  // namespace

std::string_view name_of(MemoryAccess access) {
  constexpr std::string_view kNames[] = {"read", "write", "copy"};
  return kNames[static_cast<int>(access)];
}

MachineRates rates_of(const MachineCeilings& c) {
  MachineRates out;
  out.flops_per_second = std::max(c.flops_all, c.flops_one);
  out.busy = c.busy;
  for (const MemoryLevel& level : c.levels) out.levels.push_back(best_of(level));
  for (size_t i = out.levels.size(); i-- > 1;) {
    MemoryRate& nearer = out.levels[i - 1];
    const MemoryRate& farther = out.levels[i];
    if (nearer.bytes_per_second >= farther.bytes_per_second) continue;
    nearer.bytes_per_second = farther.bytes_per_second;
    nearer.access = farther.access;
  }
  if (!out.levels.empty()) out.bytes_per_second = out.levels.back().bytes_per_second;
  return out;
}

double MachineRates::memory_rate(double bytes) const {
  for (const MemoryRate& level : levels)
    if (bytes <= level.bytes) return level.bytes_per_second;
  return bytes_per_second;
}

LeastSeconds MachineRates::least(double flops, double bytes) const {
  const double rate = memory_rate(bytes);
  return {.compute = flops_per_second > 0 ? flops / flops_per_second : 0,
          .memory = rate > 0 ? bytes / rate : 0};
}

std::string MachineRates::text(bool caches) const {
  std::string out = fmt::format("{}, {}", profile::with_prefix(flops_per_second, "FLOP/s"),
                                profile::with_prefix(bytes_per_second, "B/s"));
  if (!measured()) return out + " (given)";
  out += fmt::format(" ({} {} memory", name_of(levels.back().access),
                     levels.back().access == MemoryAccess::Read ? "from" : "in");
  for (size_t i = levels.size() - 1; caches && i-- > 0;)
    out += fmt::format(", {} {} {}", name_of(levels[i].access), levels[i].level,
                       profile::with_prefix(levels[i].bytes_per_second, "B/s"));
  return out + ")";
}

std::string MachineRates::warning(double share) const {
  std::string out;
  if (busy)
    out =
        "the ceilings were measured while other programs were using the cores, so they are too low "
        "and least times too long; measure again on a quiet machine with `pellucid doctor --fresh`";
  if (share <= 1) return out;
  if (!out.empty()) out += "; ";
  out += fmt::format("{:.0f} % of the ceiling was reached: ", 100 * share);
  if (!measured()) return out + "this machine is faster than the rates that were given";
  return out + (busy ? "more than such ceilings allow"
                     : "3x3 convolutions run with fewer multiplications than are counted; for "
                       "other ops the ceilings are too low, and `pellucid doctor --fresh` measures "
                       "them again");
}

}  // namespace pellucid
