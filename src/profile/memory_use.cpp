// See memory_use.h.
#include "profile/memory_use.h"

#include <algorithm>
#include <tuple>

namespace pellucid::profile {

std::vector<MemoryChange> memory_changes(const Profile& p) {
  struct Placed {
    std::tuple<int64_t, int, int64_t, int> place;
    MemoryChange change;
  };
  // Where the order is not known it is that of the times. At one moment frees come first, but for
  // blocks that lived no nanosecond: those are freed right after they were taken.
  const bool ordered = std::all_of(p.allocations.begin(), p.allocations.end(),
                                   [](const Allocation& a) { return a.order >= 0; });
  std::vector<Placed> placed;
  placed.reserve(2 * p.allocations.size());
  for (size_t i = 0; i < p.allocations.size(); ++i) {
    const Allocation& a = p.allocations[i];
    const auto n = static_cast<int64_t>(i);
    const bool is_short = a.end <= a.begin;
    placed.push_back(
        {ordered ? std::tuple(a.order, 0, int64_t{0}, 0) : std::tuple(a.begin, 1, n, 0),
         {a.begin, a.bytes, i}});
    if (a.end >= 0)
      placed.push_back({ordered ? std::tuple(a.freed_order, 0, int64_t{0}, 0)
                                : std::tuple(std::max(a.begin, a.end), is_short ? 1 : 0, n, 1),
                        {a.end, -a.bytes, i}});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.place < b.place; });
  std::vector<MemoryChange> changes;
  changes.reserve(placed.size());
  int64_t now = 0;  // the stamp of a block inside an op may be a little old
  for (const Placed& x : placed) {
    changes.push_back(x.change);
    changes.back().time = now = std::max(now, x.change.time);
  }
  return changes;
}

int64_t unknown_at_start(const Profile& p) {
  int64_t bytes = p.run.memory_at_start;
  for (const Allocation& a : p.allocations)
    if (a.before && a.begin == 0) bytes -= a.bytes;
  return std::max<int64_t>(0, bytes);
}

MemoryPeak::MemoryPeak(const Profile& p) : unknown(unknown_at_start(p)) {
  const std::vector<MemoryChange> changes = memory_changes(p);
  int64_t now = unknown;
  total = now;
  size_t last = 0;  // one beyond the change that made the peak
  for (size_t i = 0; i < changes.size(); ++i) {
    now += changes[i].bytes;
    if (now <= total) continue;
    total = now;
    time = changes[i].time;
    last = i + 1;
  }
  std::vector<uint8_t> live(p.allocations.size());
  for (size_t i = 0; i < last; ++i) live[changes[i].allocation] = changes[i].bytes > 0 ? 1 : 0;
  at_start = unknown;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i] == 0) continue;
    const Allocation& a = p.allocations[i];
    alive.push_back(i);
    by_category[static_cast<size_t>(a.category)] += a.bytes;
    (a.before ? at_start : recorded) += a.bytes;
  }
  unrecorded = std::max<int64_t>(0, p.run.peak_memory - total);
  total += unrecorded;
}

std::string saved_by(const Profile& p, const Allocation& a) {
  if (a.before) return "(before the recording)";
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
