// See index.h.
#include "profile/index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/statistics.h"
#include "pellucid/error.h"

namespace pellucid::profile {
namespace {

void check_index(int32_t index, size_t size, const char* what, const char* of, size_t number) {
  PELLUCID_CHECK(index >= -1 && index < static_cast<int64_t>(size), IoError,
                 "profile: {} {} refers to {} {} of {}; the file is damaged.", of, number, what,
                 index, size);
}

}  // namespace

void validate(const Profile& p) {
  const auto parents = [](const auto& list, const char* of) {
    for (size_t i = 0; i < list.size(); ++i)
      PELLUCID_CHECK(list[i].parent >= -1 && list[i].parent < static_cast<int64_t>(i), IoError,
                     "profile: {} {} has the parent {}, which does not come before it; the file is "
                     "damaged.",
                     of, i, list[i].parent);
  };
  parents(p.events, "event");
  parents(p.modules, "module");
  parents(p.frames, "frame");
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    check_index(e.signature, p.signatures.size(), "signature", "event", i);
    check_index(e.thread, p.threads.size(), "thread", "event", i);
    check_index(e.site, p.sites.size(), "site", "event", i);
    check_index(e.module, p.modules.size(), "module", "event", i);
    check_index(e.forward, p.events.size(), "event", "event", i);
    check_index(e.stack, p.frames.size(), "frame", "event", i);
    PELLUCID_CHECK(e.signature >= 0 && e.thread >= 0, IoError,
                   "profile: event {} has no signature or no thread; the file is damaged.", i);
  }
  for (size_t i = 0; i < p.allocations.size(); ++i) {
    check_index(p.allocations[i].event, p.events.size(), "event", "allocation", i);
    check_index(p.allocations[i].freed_by, p.events.size(), "event", "allocation", i);
    PELLUCID_CHECK(static_cast<int>(p.allocations[i].category) < kMemoryCategoryCount, IoError,
                   "profile: allocation {} has the category {} of {}; the file is damaged.", i,
                   static_cast<int>(p.allocations[i].category), kMemoryCategoryCount);
    const Allocation& a = p.allocations[i];
    const bool ordered = p.allocations[0].order >= 0;
    PELLUCID_CHECK(a.bytes >= 0 && (a.order >= 0) == ordered &&
                       (a.end < 0 || !ordered || a.freed_order > a.order),
                   IoError,
                   "profile: allocation {} has {} bytes and is freed at place {}, taken at {}; the "
                   "file is damaged.",
                   i, a.bytes, a.freed_order, a.order);
  }
  for (size_t i = 0; i < p.frames.size(); ++i)
    check_index(p.frames[i].site, p.sites.size(), "site", "frame", i);
  for (size_t i = 0; i < p.samples.size(); ++i) {
    check_index(p.samples[i].stack, p.frames.size(), "frame", "sample", i);
    check_index(p.samples[i].signature, p.signatures.size(), "signature", "sample", i);
    check_index(p.samples[i].site, p.sites.size(), "site", "sample", i);
  }
  for (size_t i = 0; i < p.stalls.size(); ++i) {
    check_index(p.stalls[i].event, p.events.size(), "event", "stall", i);
    check_index(p.stalls[i].thread, p.threads.size(), "thread", "stall", i);
  }
  for (size_t i = 0; i < p.uses.size(); ++i) {
    check_index(p.uses[i].event, p.events.size(), "event", "use", i);
    check_index(p.uses[i].allocation, p.allocations.size(), "allocation", "use", i);
    PELLUCID_CHECK(p.uses[i].event >= 0 && p.uses[i].allocation >= 0, IoError,
                   "profile: use {} has no event or no block; the file is damaged.", i);
  }
  for (size_t i = 0; i < p.counts.size(); ++i) {
    check_index(p.counts[i].signature, p.signatures.size(), "signature", "count", i);
    check_index(p.counts[i].site, p.sites.size(), "site", "count", i);
    PELLUCID_CHECK(p.counts[i].signature >= 0, IoError,
                   "profile: count {} has no signature; the file is damaged.", i);
  }
}

void find_outermost(const Profile& p, Grouping& g) {
  // A stack for each thread; `active` counts how often a key is on it.
  struct Walk {
    std::vector<int32_t> stack, active;
  };
  std::vector<Walk> walks(p.threads.size());
  g.outermost.assign(p.events.size(), 0);
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    Walk& w = walks[at(e.thread)];
    if (w.active.empty()) w.active.resize(static_cast<size_t>(g.count));
    while (!w.stack.empty() && w.stack.back() != e.parent) {
      const int32_t key = g.key[at(w.stack.back())];
      if (key >= 0) --w.active[at(key)];
      w.stack.pop_back();
    }
    w.stack.push_back(static_cast<int32_t>(i));
    if (g.key[i] >= 0) g.outermost[i] = w.active[at(g.key[i])]++ == 0 ? 1 : 0;
  }
}

Names::Names(const Profile& p) {
  std::map<std::string_view, int32_t> number;
  for (const Signature& s : p.signatures) {
    const auto [place, fresh] = number.try_emplace(s.name, static_cast<int32_t>(text.size()));
    if (fresh) text.push_back(s.name);
    of_signature.push_back(place->second);
  }
  std::map<std::pair<std::string_view, int>, int32_t> first;
  for (size_t i = 0; i < p.sites.size(); ++i)
    of_site.push_back(first.try_emplace({p.sites[i].file, p.sites[i].line}, static_cast<int32_t>(i))
                          .first->second);
}

Functions::Functions(const Profile& p, const Names& names) {
  group.key.reserve(p.events.size());
  for (const Event& e : p.events)
    group.key.push_back(
        number(e.site < 0 ? -1 : names.of_site[at(e.site)], names.of_signature[at(e.signature)]));
  group.count = number.size();
  find_outermost(p, group);
}

CallTree::CallTree(const Profile& p, const Functions& functions) {
  std::vector<int32_t> node(p.events.size());
  Numbering number;
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    const int32_t parent = e.parent < 0 ? -1 : node[at(e.parent)];
    node[i] = number(parent, functions.group.key[i]);
    if (at(node[i]) == nodes.size())
      nodes.push_back({.parent = parent, .function = functions.group.key[i]});
    CallNode& n = nodes[at(node[i])];
    ++n.calls;
    n.total += e.end - e.begin;
    n.self += e.self;
  }
}

std::vector<int64_t> inclusive_memory(const Profile& p) {
  std::vector<int64_t> sum(p.events.size());
  for (size_t i = p.events.size(); i-- > 0;) {
    const Event& e = p.events[i];
    sum[i] += e.allocated - e.freed;
    if (e.parent >= 0) sum[at(e.parent)] += sum[i];
  }
  return sum;
}

namespace {

// Spans of the outermost events of one kind, in the order of time.
std::vector<Span> spans_of(const Profile& p, EventKind kind) {
  std::vector<Span> spans;
  for (const Event& e : p.events)
    if (p.signatures[at(e.signature)].kind == kind &&
        (e.parent < 0 || p.signatures[at(p.events[at(e.parent)].signature)].kind != kind))
      spans.push_back({e.begin, e.end});
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

// Where the first of these steps begins. What came before it, a download or the making of the
// model, is no part of it: it begins with what most of the other steps begin with, as often before
// its end as they have it.
int64_t first_begin(const Profile& p, const std::vector<Span>& spans) {
  const Names names(p);
  using Key = std::pair<int32_t, int32_t>;  // name, line
  const auto key_of = [&](const Event& e) {
    return Key(names.of_signature[at(e.signature)], e.site < 0 ? -1 : names.of_site[at(e.site)]);
  };
  std::vector<const Event*> top;
  for (const Event& e : p.events)
    if (e.parent < 0) top.push_back(&e);
  std::stable_sort(top.begin(), top.end(),
                   [](const Event* a, const Event* b) { return a->begin < b->begin; });
  std::map<Key, int64_t> openings;
  std::vector<std::map<Key, int64_t>> calls(spans.size());
  for (size_t i = 0, step = 0; i < top.size() && step < spans.size(); ++i) {
    while (step < spans.size() && top[i]->begin >= spans[step].end) ++step;
    if (step == 0 || step == spans.size()) continue;
    if (calls[step].empty()) ++openings[key_of(*top[i])];
    ++calls[step][key_of(*top[i])];
  }
  if (openings.empty()) return spans[0].begin;
  const Key opening =
      std::max_element(openings.begin(), openings.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  std::vector<double> counts;
  for (size_t step = 1; step < spans.size(); ++step)
    if (const auto it = calls[step].find(opening); it != calls[step].end())
      counts.push_back(static_cast<double>(it->second));
  auto left = static_cast<int64_t>(median(counts));
  int64_t begin = spans[0].begin;
  for (size_t i = top.size(); i-- > 0 && left > 0;) {
    if (top[i]->begin >= spans[0].end || key_of(*top[i]) != opening) continue;
    begin = std::min(begin, top[i]->begin);
    --left;
  }
  return begin;
}

// Steps that end where these events end: an optimiser's step closes what came before it.
std::vector<Span> up_to_each_end(const Profile& p, std::vector<Span> spans) {
  if (spans.empty()) return spans;
  const int64_t begin = first_begin(p, spans);
  for (size_t i = spans.size(); i-- > 1;) spans[i].begin = spans[i - 1].end;
  spans[0].begin = begin;
  return spans;
}

// Steps that begin where these events begin and last until the next one.
std::vector<Span> from_each_begin(std::vector<Span> spans) {
  for (size_t i = 0; i + 1 < spans.size(); ++i) spans[i].end = spans[i + 1].begin;
  return spans;
}

constexpr size_t kLeastSteps = 3;

}  // namespace

Steps::Steps(const Profile& p) {
  if (spans = spans_of(p, EventKind::Step); spans.size() >= kLeastSteps) {
    what = "steps marked by the program";
    return;
  }
  if (spans = up_to_each_end(p, spans_of(p, EventKind::Optimizer)); spans.size() >= kLeastSteps) {
    what = "optimiser steps";
    return;
  }
  if (spans = up_to_each_end(p, spans_of(p, EventKind::Engine)); spans.size() >= kLeastSteps) {
    what = "runs of backward()";
    return;
  }
  // The scope at the top that takes the most time.
  std::map<int32_t, std::pair<int64_t, std::vector<Span>>> top;
  for (const Event& e : p.events) {
    if (e.parent >= 0 || p.signatures[at(e.signature)].kind == EventKind::Op) continue;
    auto& [time, list] = top[e.signature];
    time += e.end - e.begin;
    list.push_back({e.begin, e.end});
  }
  spans.clear();
  int64_t most = 0;
  for (auto& [signature, found] : top)
    if (found.second.size() >= kLeastSteps && found.first > most) {
      most = found.first;
      spans = from_each_begin(std::move(found.second));
      what = fmt::format("calls of {}", p.signatures[at(signature)].name);
    }
}

int32_t Steps::find(int64_t time) const {
  const auto after = std::upper_bound(spans.begin(), spans.end(), time,
                                      [](int64_t t, const Span& s) { return t < s.begin; });
  if (after == spans.begin() || time >= std::prev(after)->end) return -1;
  return static_cast<int32_t>(after - spans.begin()) - 1;
}

std::vector<std::vector<StepFigures>> figures_by_step(const Profile& p, const Steps& steps,
                                                      const std::vector<int32_t>& key,
                                                      int32_t count) {
  std::vector<std::vector<StepFigures>> figures(static_cast<size_t>(count));
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    const int32_t step = key[i] < 0 ? -1 : steps.find(e.begin);
    if (step < 0) continue;
    auto& list = figures[at(key[i])];
    if (list.empty() || list.back().step != step) list.push_back({.step = step});
    list.back().calls += 1;
    list.back().time += e.self;
    const Signature& s = p.signatures[at(e.signature)];
    if (s.kind == EventKind::Op) list.back().flops += s.flops;
  }
  for (auto& list : figures) {  // threads may take turns: a step then has several entries
    std::stable_sort(list.begin(), list.end(),
                     [](const StepFigures& a, const StepFigures& b) { return a.step < b.step; });
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (kept > 0 && list[kept - 1].step == list[i].step) {
        list[kept - 1].calls += list[i].calls;
        list[kept - 1].time += list[i].time;
        list[kept - 1].flops += list[i].flops;
      } else {
        list[kept++] = list[i];
      }
    }
    list.resize(kept);
  }
  return figures;
}

std::string place_of(const Profile& p, int32_t site, bool full) {
  if (site < 0 || p.sites[at(site)].file.empty()) return "~:0";
  const Site& s = p.sites[at(site)];
  const size_t slash = full ? std::string::npos : s.file.rfind('/');
  return fmt::format("{}:{}", slash == std::string::npos ? s.file : s.file.substr(slash + 1),
                     s.line);
}

std::string function_name(const Profile& p, int32_t site, std::string_view name, bool full) {
  if (site < 0 || p.sites[at(site)].file.empty()) return fmt::format("{{{}}}", name);
  return fmt::format("{}({})", place_of(p, site, full), name);
}

std::string shapes_of(const std::vector<TensorInfo>& tensors) {
  std::string out = "[";
  for (const TensorInfo& t : tensors)
    out += fmt::format("{}[{}]", out.size() > 1 ? ", " : "", fmt::join(t.sizes, ", "));
  return out + "]";
}

}  // namespace pellucid::profile
