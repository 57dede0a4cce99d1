// From the kernel's records to stalls: what belongs together is paired, and charged to the event
// that ran. Threads of the pool have no events of their own; a page that they miss, or a core that
// is taken from them, delays the one op that runs on another thread of the process. That they wait
// for work is no stall.
#include <algorithm>
#include <fstream>
#include <map>

#include "base/files.h"
#include "profile/collect.h"
#include "profile/index.h"
#include "recorder/stalls.h"

namespace pellucid::profile {
namespace {

// A process's events by thread, to find the innermost one at a moment.
class Timeline {
 public:
  Timeline(const Profile& p, int32_t process) : p_(p) {
    for (size_t i = 0; i < p.events.size(); ++i)
      if (p.threads[at(p.events[i].thread)].process == process)
        events_[p.events[i].thread].push_back(static_cast<int32_t>(i));
  }
  bool has(int32_t thread) const { return events_.contains(thread); }

  int32_t innermost(int32_t thread, int64_t time) const {
    const auto it = events_.find(thread);
    return it == events_.end() ? -1 : innermost(it->second, time);
  }
  /// The one op that runs on any thread then; -1 where there are several or none.
  int32_t only_op(int64_t time) const {
    int32_t found = -1;
    for (const auto& [thread, list] : events_) {
      const int32_t e = innermost(list, time);
      if (e < 0 || p_.signatures[at(p_.events[at(e)].signature)].kind != EventKind::Op) continue;
      if (found >= 0) return -1;
      found = e;
    }
    return found;
  }

 private:
  int32_t innermost(const std::vector<int32_t>& list, int64_t time) const {
    auto next = std::upper_bound(list.begin(), list.end(), time,
                                 [&](int64_t t, int32_t e) { return t < p_.events[at(e)].begin; });
    if (next == list.begin()) return -1;
    int32_t e = *--next;
    while (e >= 0 && p_.events[at(e)].end <= time) e = p_.events[at(e)].parent;
    return e;
  }

  const Profile& p_;
  std::map<int32_t, std::vector<int32_t>> events_;
};

// The records of one thread in the order of time; a page fault may wait for the disk, and what
// happens meanwhile is part of it.
std::vector<Stall> pair_records(std::vector<RawStall>& records, int64_t start_ns) {
  std::stable_sort(records.begin(), records.end(),
                   [](const RawStall& a, const RawStall& b) { return a.at < b.at; });
  std::vector<Stall> found;
  int32_t fault = -1, out = -1;  // what is not over yet
  const auto begin = [&](Stall::Kind kind, const RawStall& r) {
    found.push_back({kind, r.at - start_ns, 0, 0, -1});
    return static_cast<int32_t>(found.size() - 1);
  };
  const auto end = [&](int32_t& open, const RawStall& r) {
    if (open >= 0) found[at(open)].duration = r.at - start_ns - found[at(open)].begin;
    open = -1;
  };
  for (const RawStall& r : records) {
    if (r.kind == RawStall::kFault) {
      fault = begin(Stall::Kind::PageFault, r);
    } else if (r.kind == RawStall::kFaultDone) {
      end(fault, r);
    } else if (r.kind == RawStall::kIn) {
      end(out, r);
    } else if (fault < 0) {
      const bool preempted = r.kind == RawStall::kOutPreempted;
      out = begin(preempted ? Stall::Kind::Preempted : Stall::Kind::Waiting, r);
    }
  }
  return found;
}

int32_t thread_of(const Profile& p, int32_t process, int32_t id) {
  for (size_t i = 0; i < p.threads.size(); ++i)
    if (p.threads[i].process == process && p.threads[i].id == id) return static_cast<int32_t>(i);
  return -1;
}

// What a scope counted for itself: it began at that tick.
void add_counted(Collected& all, const RawStall& r, int32_t process, const ProcessClock& clock,
                 const Timeline& timeline) {
  constexpr uint32_t kKind = (1u << RawStall::kCountShift) - 1;
  const auto kind = (r.kind & kKind) == RawStall::kFaultsCounted  ? Stall::Kind::PageFault
                    : (r.kind & kKind) == RawStall::kWaitsCounted ? Stall::Kind::Waiting
                                                                  : Stall::Kind::Preempted;
  const int32_t thread = thread_of(all.profile, process, r.thread);
  const int64_t begin = clock.at(static_cast<uint64_t>(r.at)) - all.start_ns;
  if (thread < 0) return;
  all.profile.stalls.push_back({kind, begin, 0, thread, timeline.innermost(thread, begin),
                                static_cast<int64_t>(r.kind >> RawStall::kCountShift)});
}

}  // namespace

void read_stalls(Collected& all, const std::string& folder, const std::string& tag, int32_t process,
                 const ProcessClock& clock) {
  const std::string path = fmt::format("{}/stalls-{}", folder, tag);
  if (!io::is_regular(path)) return;
  std::ifstream file(path, std::ios::binary);
  Profile& p = all.profile;
  std::map<int32_t, std::vector<RawStall>> by_thread;
  const Timeline timeline(p, process);
  for (RawStall r; file.read(reinterpret_cast<char*>(&r), sizeof r);) {
    if (r.kind == RawStall::kLost)
      p.run.stalls_lost += r.thread;
    else if (r.kind >= RawStall::kFault && r.kind < RawStall::kLost)
      by_thread[r.thread].push_back(r);
    else if (r.kind >> RawStall::kCountShift)
      add_counted(all, r, process, clock, timeline);
  }
  for (auto& [id, records] : by_thread) {
    int32_t thread = thread_of(p, process, id);
    const bool own = thread >= 0 && timeline.has(thread);
    for (Stall& s : pair_records(records, all.start_ns)) {
      if (s.begin < 0) continue;
      s.event = own ? timeline.innermost(thread, s.begin) : timeline.only_op(s.begin);
      if (!own && (s.kind == Stall::Kind::Waiting || s.event < 0)) continue;
      if (thread < 0) thread = all.thread_index(process, id);
      s.thread = thread;
      p.stalls.push_back(s);
    }
  }
}

}  // namespace pellucid::profile
