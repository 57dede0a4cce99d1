// Two recordings of one program compared: by op, line or module from the times of their steps (or
// of single calls where nothing repeats), or by the bytes at their peaks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/statistics.h"
#include "pellucid/profile_report.h"
#include "profile/averages.h"
#include "profile/memory_use.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

using Verdict = DiffRow::Verdict;

// A row that adds less than this share of the whole is shown, but no regression: two runs of the
// same program differ by as much in their small ops.
constexpr double kLeastShare = 0.01;

// The measurements of one name on one side.
struct Side {
  std::vector<double> samples;  // seconds, of each step or call
  double total = 0;             // seconds
  int64_t calls = 0;
};
using Sides = std::map<std::string, std::pair<Side, Side>>;

Sides& collect(const Profile& p, GroupBy by, const Steps* steps, bool second, Sides& sides) {
  const Averages averages(p, by);
  const auto side_of = [&](int32_t key) -> Side& {
    auto& pair = sides[group_name(p, by, averages.rows[at(key)].event, false)];
    return second ? pair.second : pair.first;
  };
  // By op only what has a kernel counts: a scope's own time is no op's.
  std::vector<int32_t> key = averages.group.key;
  for (size_t i = 0; i < key.size(); ++i)
    if (by == GroupBy::Op && p.signatures[at(p.events[i].signature)].kind != EventKind::Op)
      key[i] = -1;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] < 0) continue;
    const double seconds = static_cast<double>(p.events[i].self) * 1e-9;
    Side& side = side_of(key[i]);
    side.total += seconds;
    ++side.calls;
    if (steps == nullptr) side.samples.push_back(seconds);
  }
  if (steps == nullptr) return sides;
  const auto figures = figures_by_step(p, *steps, key, averages.group.count);
  for (size_t k = 0; k < figures.size(); ++k) {
    if (figures[k].empty()) continue;
    Side& side = side_of(static_cast<int32_t>(k));
    side.samples.resize(steps->spans.size());
    for (const StepFigures& f : figures[k])
      side.samples[at(f.step)] += static_cast<double>(f.time) * 1e-9;
  }
  return sides;
}

// The change of the medians with the interval that both medians' intervals allow.
void compare(DiffRow& row, const Side& a, const Side& b, bool per_step, const DiffOptions& o) {
  row.first_calls = a.calls;
  row.second_calls = b.calls;
  const double scale_a = per_step ? 1 : static_cast<double>(a.calls);
  const double scale_b = per_step ? 1 : static_cast<double>(b.calls);
  row.first = per_step ? median(a.samples) : a.total;
  row.second = per_step ? median(b.samples) : b.total;
  if (a.calls == 0 || b.calls == 0) {
    row.verdict = a.calls == 0 ? Verdict::Added : Verdict::Removed;
    return;
  }
  row.change = row.first > 0 ? row.second / row.first - 1 : 0;
  if (row.first == 0 && row.second == 0) return;   // not in the steps
  const double each = 1 - (1 - o.confidence) / 2;  // both must hold
  const Interval low = median_interval(a.samples, each), high = median_interval(b.samples, each);
  row.has_interval = low.confidence > 0 && high.confidence > 0 && low.low > 0;
  row.verdict = Verdict::Noise;
  if (!row.has_interval) return;
  row.low = high.low * scale_b / (low.high * scale_a) - 1;
  row.high = high.high * scale_b / (low.low * scale_a) - 1;
  if (row.low > 0) row.verdict = Verdict::Worse;
  if (row.high < 0) row.verdict = Verdict::Better;
}

Side whole_of(const Profile& p, const Steps* steps) {
  Side side{.calls = 1};
  if (steps != nullptr)
    for (const Span& s : steps->spans)
      side.samples.push_back(static_cast<double>(s.end - s.begin) * 1e-9);
  for (const Event& e : p.events) side.total += static_cast<double>(e.self) * 1e-9;
  return side;
}

void finish(Diff& d, const DiffOptions& o) {
  const double whole = std::max(d.rows[0].first, d.rows[0].second);
  std::stable_sort(d.rows.begin() + 1, d.rows.end(), [](const DiffRow& a, const DiffRow& b) {
    return std::fabs(a.second - a.first) > std::fabs(b.second - b.first);
  });
  for (DiffRow& r : d.rows) {
    r.regression = r.verdict == Verdict::Worse && r.change > o.threshold &&
                   r.second - r.first >= kLeastShare * whole;
    d.regression = d.regression || r.regression;
  }
}

// ---- memory: bytes are the same in every run, so a difference is one

void add_bytes(Diff& d, const std::string& name, int64_t first, int64_t second) {
  DiffRow r{
      .name = name, .first = static_cast<double>(first), .second = static_cast<double>(second)};
  r.change = first > 0 ? r.second / r.first - 1 : 0;
  r.low = r.high = r.change;
  r.has_interval = first > 0;
  r.verdict = first == second  ? Verdict::Same
              : first == 0     ? Verdict::Added
              : second == 0    ? Verdict::Removed
              : second > first ? Verdict::Worse
                               : Verdict::Better;
  d.rows.push_back(std::move(r));
}

Diff diff_memory(const Profile& first, const Profile& second, const DiffOptions& o) {
  Diff d{.what = "bytes at the peak"};
  const MemoryPeak peaks[] = {MemoryPeak(first), MemoryPeak(second)};
  add_bytes(d, "peak", peaks[0].total, peaks[1].total);
  std::map<std::string, std::array<int64_t, 2>> groups;
  for (size_t side = 0; side < 2; ++side) {
    const Profile& p = side == 0 ? first : second;
    groups["before the recording"][side] += peaks[side].at_start;
    groups["not recorded"][side] += peaks[side].unrecorded;
    for (const size_t i : peaks[side].alive) {
      const Allocation& a = p.allocations[i];
      const int32_t site = a.event < 0 ? -1 : p.events[at(a.event)].site;
      groups[fmt::format("{} of {}", name_of(a.category),
                         site < 0 ? "an unknown line" : place_of(p, site))][side] += a.bytes;
    }
  }
  for (const auto& [name, bytes] : groups)
    if (bytes[0] != 0 || bytes[1] != 0) add_bytes(d, name, bytes[0], bytes[1]);
  finish(d, o);
  return d;
}

}  // namespace

std::string_view name_of(DiffRow::Verdict verdict) {
  constexpr std::string_view kNames[] = {"same",  "cannot tell", "better",
                                         "worse", "added",       "removed"};
  return kNames[static_cast<size_t>(verdict)];
}

Diff diff(const Profile& first, const Profile& second, const DiffOptions& o) {
  validate(first);
  validate(second);
  const size_t by = choose(o.by, {"op", "line", "module", "memory"}, "groups");
  if (by == 3) return diff_memory(first, second, o);
  constexpr GroupBy kGroups[] = {GroupBy::Op, GroupBy::Line, GroupBy::Module};
  const Steps a(first), b(second);
  constexpr size_t kEnough = 8;
  const bool per_step = a.spans.size() >= kEnough && b.spans.size() >= kEnough;
  Diff d{.what = per_step ? fmt::format("median seconds of {} and {} {}", a.spans.size(),
                                        b.spans.size(), a.what)
                          : "seconds in all, intervals from the calls"};
  DiffRow total{.name = "total"};
  compare(total, whole_of(first, per_step ? &a : nullptr),
          whole_of(second, per_step ? &b : nullptr), per_step, o);
  d.rows.push_back(std::move(total));
  Sides sides;
  collect(first, kGroups[by], per_step ? &a : nullptr, false, sides);
  collect(second, kGroups[by], per_step ? &b : nullptr, true, sides);
  for (const auto& [name, pair] : sides) {
    DiffRow row{.name = name};
    compare(row, pair.first, pair.second, per_step, o);
    d.rows.push_back(std::move(row));
  }
  finish(d, o);
  return d;
}

}  // namespace pellucid::profile
