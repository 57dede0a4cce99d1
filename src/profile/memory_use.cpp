// See memory_use.h.
#include "profile/memory_use.h"

#include <algorithm>
#include <tuple>

namespace pellucid::profile {

std::vector<MemoryChange> memory_changes(const Profile& p) {
  std::vector<MemoryChange> changes;
  changes.reserve(2 * p.allocations.size());
  for (size_t i = 0; i < p.allocations.size(); ++i) {
    const Allocation& a = p.allocations[i];
    // A block that lived no nanosecond must not be freed before it is allocated.
    const int64_t end = a.end >= 0 ? std::max(a.end, a.begin + 1) : -1;
    changes.push_back({a.begin, a.bytes, i});
    if (end >= 0) changes.push_back({end, -a.bytes, i});
  }
  std::sort(changes.begin(), changes.end(), [](const MemoryChange& a, const MemoryChange& b) {
    return std::tuple(a.time, a.bytes > 0, a.allocation) <
           std::tuple(b.time, b.bytes > 0, b.allocation);
  });
  return changes;
}

MemoryPeak::MemoryPeak(const Profile& p) : at_start(p.run.memory_at_start) {
  const std::vector<MemoryChange> changes = memory_changes(p);
  int64_t now = 0;
  size_t last = 0;  // one beyond the change that made the peak
  for (size_t i = 0; i < changes.size(); ++i) {
    now += changes[i].bytes;
    if (now <= recorded) continue;
    recorded = now;
    time = changes[i].time;
    last = i + 1;
  }
  std::vector<uint8_t> live(p.allocations.size());
  for (size_t i = 0; i < last; ++i) live[changes[i].allocation] = changes[i].bytes > 0 ? 1 : 0;
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i] != 0) alive.push_back(i);
  total = p.run.peak_memory > 0 ? p.run.peak_memory : at_start + recorded;
  unrecorded = total - at_start - recorded;
}

std::string saved_by(const Profile& p, const Allocation& a) {
  if (a.end < 0) return "(alive at the end)";
  for (int32_t i = a.freed_by; i >= 0; i = p.events[static_cast<size_t>(i)].parent) {
    const Event& e = p.events[static_cast<size_t>(i)];
    const Signature& s = p.signatures[static_cast<size_t>(e.signature)];
    if (s.kind == EventKind::Backward) {
      if (e.forward < 0) return s.name;
      return p.signatures[static_cast<size_t>(p.events[static_cast<size_t>(e.forward)].signature)]
          .name;
    }
    if (s.kind == EventKind::Engine) return "(freed by backward)";
    if (s.kind == EventKind::Optimizer) return "(freed by the optimiser)";
  }
  return a.freed_by < 0 ? "(freed by the program)" : "(freed in forward)";
}

}  // namespace pellucid::profile
