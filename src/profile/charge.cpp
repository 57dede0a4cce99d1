// What is known only when all events are read: when events that were cut off ended, and whose line
// and module backward work has.
#include <algorithm>
#include <map>

#include "profile/collect.h"

namespace pellucid::profile {
namespace {

// An event that was cut off lasts as long as what is known of it.
void close_open_events(Profile& p) {
  std::map<int32_t, int64_t> last;
  for (const Event& e : p.events) last[e.thread] = std::max(last[e.thread], e.end);
  for (size_t i = p.events.size(); i-- > 0;) {
    Event& e = p.events[i];
    if (!e.open) continue;
    const int64_t end = std::max(last[e.thread], e.begin);
    e.self += end - e.end;
    if (e.parent >= 0) p.events[static_cast<size_t>(e.parent)].self -= end - e.end;
    e.end = end;
  }
}

// Templates of our headers run in the program's own code; the line that called them is that of the
// scope around.
void skip_headers(Profile& p) {
  std::vector<char> ours;
  for (const Site& s : p.sites) ours.push_back(is_library_header(s.file));
  for (Event& e : p.events) {
    if (e.parent < 0 || (e.site >= 0 && !ours[static_cast<size_t>(e.site)])) continue;
    int32_t around = e.parent;  // the mark of a step is beside what runs in it, and did not call it
    const auto marks = [&](const Event& x) {
      return p.signatures[static_cast<size_t>(x.signature)].kind == EventKind::Step;
    };
    while (around >= 0 && marks(p.events[static_cast<size_t>(around)]))
      around = p.events[static_cast<size_t>(around)].parent;
    if (around < 0) continue;
    const int32_t above = p.events[static_cast<size_t>(around)].site;
    if (above >= 0) e.site = above;
  }
}

// Backward work belongs to the forward call that left the node: its line and module.
void charge_backward(Collected& all) {
  Profile& p = all.profile;
  for (const Collected::BackwardNode& b : all.backward) {
    const auto it = all.nodes.find(Collected::key(b.process, b.node));
    if (it != all.nodes.end()) p.events[static_cast<size_t>(b.event)].forward = it->second;
  }
  for (Event& e : p.events) {
    // A run of backward() itself belongs to the line that called it.
    if (e.phase != Phase::Backward ||
        p.signatures[static_cast<size_t>(e.signature)].kind == EventKind::Engine)
      continue;
    if (e.forward >= 0) {
      const Event& f = p.events[static_cast<size_t>(e.forward)];
      e.site = f.site;
      e.module = f.module;
    } else if (e.parent >= 0) {
      const Event& above = p.events[static_cast<size_t>(e.parent)];
      if (p.signatures[static_cast<size_t>(above.signature)].kind != EventKind::Engine) {
        e.site = above.site;
        e.module = above.module;
      }
    }
  }
}

}  // namespace

void charge_events(Collected& all) {
  close_open_events(all.profile);
  skip_headers(all.profile);
  charge_backward(all);
}

}  // namespace pellucid::profile
