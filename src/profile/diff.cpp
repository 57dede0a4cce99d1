// Recordings of one program compared: by op, line or module from the times of their steps (or of
// single calls where nothing repeats), or by the bytes at their peaks. Of one run a side the
// interval knows the scatter inside it; of several, that between them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/statistics.h"
#include "pellucid/error.h"
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

// The measurements of one name in one run.
struct Side {
  std::vector<double> samples;  // seconds, of each step or call
  double total = 0;             // seconds
  int64_t calls = 0;
};
// By name: the measurements of each run, those of the first side before those of the second.
using Sides = std::map<std::string, std::vector<Side>>;

// One recording with its steps, null where they are not what is compared, and its place.
struct Run {
  const Profile& profile;
  const Steps* steps;
  size_t place, count;
};

void collect(const Run& run, GroupBy by, Sides& sides) {
  const Profile& p = run.profile;
  const Averages averages(p, by);
  const auto side_of = [&](int32_t key) -> Side& {
    auto& runs = sides[group_name(p, by, averages.rows[at(key)].event, false)];
    runs.resize(run.count);
    return runs[run.place];
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
    if (run.steps == nullptr) side.samples.push_back(seconds);
  }
  if (run.steps == nullptr) return;
  const auto figures = figures_by_step(p, *run.steps, key, averages.group.count);
  for (size_t k = 0; k < figures.size(); ++k) {
    if (figures[k].empty()) continue;
    Side& side = side_of(static_cast<int32_t>(k));
    side.samples.resize(run.steps->spans.size());
    for (const StepFigures& f : figures[k])
      side.samples[at(f.step)] += static_cast<double>(f.time) * 1e-9;
  }
}

Side whole_of(const Run& run) {
  Side side{.calls = 1};
  if (run.steps != nullptr)
    for (const Span& s : run.steps->spans)
      side.samples.push_back(static_cast<double>(s.end - s.begin) * 1e-9);
  for (const Event& e : run.profile.events) side.total += static_cast<double>(e.self) * 1e-9;
  return side;
}

// A change that would be printed as 0.0 % is none, however exactly it is known.
bool is_negligible(double first, double second) {
  return std::fabs(second - first) < 0.0005 * std::max(first, second);
}

// What the interval allows to say. It holds the change itself, which may be one of means while the
// interval is one of medians.
void judge(DiffRow& row) {
  row.low = std::min(row.low, row.change);
  row.high = std::max(row.high, row.change);
  if (row.low > 0) row.verdict = Verdict::Worse;
  if (row.high < 0) row.verdict = Verdict::Better;
  if (row.verdict != Verdict::Noise && is_negligible(row.first, row.second))
    row.verdict = Verdict::Same;
}

// The change of a row with figures on both sides; false where one of them has nothing.
bool set_change(DiffRow& row) {
  if (row.first == 0 && row.second == 0) return false;  // the verdict stays Same
  row.change = row.first > 0 ? row.second / row.first - 1 : std::numeric_limits<double>::infinity();
  if (row.first > 0 && row.second > 0) return true;
  row.verdict = row.first == 0 ? Verdict::Added : Verdict::Removed;
  return false;
}

// The change of one run's median with the interval that both medians' intervals allow.
void compare_medians(DiffRow& row, const Side& a, const Side& b, bool per_step,
                     const DiffOptions& o) {
  const double scale_a = per_step ? 1 : static_cast<double>(a.calls);
  const double scale_b = per_step ? 1 : static_cast<double>(b.calls);
  const double each = 1 - (1 - o.confidence) / 2;  // both must hold
  const Interval low = median_interval(a.samples, each), high = median_interval(b.samples, each);
  row.has_interval = low.confidence > 0 && high.confidence > 0 && low.low > 0 && high.low > 0;
  if (!row.has_interval) return;
  row.low = high.low * scale_b / (low.high * scale_a) - 1;
  row.high = high.high * scale_b / (low.low * scale_a) - 1;
  judge(row);
}

// What the runs of a side come to.
struct Runs {
  std::vector<double> values;  // seconds of each run: the median of its steps, or all of it
  double typical = 0;          // their geometric mean; their mean where one is 0
  int64_t calls = 0;           // of a run
};

Runs runs_of(std::span<const Side> sides, bool per_step) {
  Runs out;
  double logs = 0, sum = 0;
  for (const Side& s : sides) {
    out.values.push_back(per_step ? median(s.samples) : s.total);
    out.calls += s.calls;
    sum += out.values.back();
    logs += std::log(out.values.back());
  }
  const auto n = static_cast<double>(sides.size());
  out.typical = std::isfinite(logs) ? std::exp(logs / n) : sum / n;
  if (sides.size() == 1) out.typical = sum;  // exp(log(x)) is not x to the last bit
  out.calls =
      (out.calls + static_cast<int64_t>(sides.size()) - 1) / static_cast<int64_t>(sides.size());
  return out;
}

// Compares the first `cut` sides with the rest.
void compare(DiffRow& row, std::span<const Side> sides, size_t cut, bool per_step,
             const DiffOptions& o) {
  const Runs a = runs_of(sides.first(cut), per_step), b = runs_of(sides.subspan(cut), per_step);
  row.first_calls = a.calls;
  row.second_calls = b.calls;
  row.first = a.typical;
  row.second = b.typical;
  if (!set_change(row)) return;
  row.verdict = Verdict::Noise;
  if (sides.size() == 2) return compare_medians(row, sides[0], sides[1], per_step, o);
  const auto positive = [](double v) { return v > 0; };
  if (!std::all_of(a.values.begin(), a.values.end(), positive) ||
      !std::all_of(b.values.begin(), b.values.end(), positive))
    return;  // not in every run
  const Interval ratio = ratio_interval(a.values, b.values, o.confidence);
  row.has_interval = true;
  row.low = ratio.low - 1;
  row.high = ratio.high - 1;
  judge(row);
}

// What the total has beyond the rows: with it they sum to the total on each side.
void add_rest(Diff& d) {
  DiffRow rest{.name = "(rest)", .verdict = Verdict::Noise, .rest = true};
  rest.first = d.rows[0].first;
  rest.second = d.rows[0].second;
  for (size_t i = 1; i < d.rows.size(); ++i) {
    rest.first -= d.rows[i].first;
    rest.second -= d.rows[i].second;
  }
  // What is left of sums of the same numbers in another order is nothing.
  for (auto [side, total] :
       {std::pair(&rest.first, d.rows[0].first), {&rest.second, d.rows[0].second}})
    if (std::fabs(*side) < 1e-9 * std::fabs(total)) *side = 0;
  if (rest.first == 0 && rest.second == 0) return;
  rest.change = rest.first > 0 && rest.second >= 0 ? rest.second / rest.first - 1
                                                   : std::numeric_limits<double>::quiet_NaN();
  d.rows.push_back(std::move(rest));
}

void finish(Diff& d, const DiffOptions& o) {
  add_rest(d);
  const double whole = std::max(d.rows[0].first, d.rows[0].second);
  std::stable_sort(d.rows.begin() + 1, d.rows.end(), [](const DiffRow& a, const DiffRow& b) {
    return std::fabs(a.second - a.first) > std::fabs(b.second - b.first);
  });
  for (DiffRow& r : d.rows) {
    r.regression = r.verdict == Verdict::Worse && r.change > o.threshold && !r.rest &&
                   r.second - r.first >= kLeastShare * whole;
    d.regression = d.regression || r.regression;
  }
}

// Recordings that cannot be compared at all.
void check_modes(std::span<const Profile* const> profiles) {
  for (const Profile* p : profiles) {
    PELLUCID_CHECK(p->run.mode == profiles[0]->run.mode, ValueError,
                   "diff: a profile of mode {} cannot be compared with one of mode {}; record both "
                   "sides in the same way.",
                   p->run.mode, profiles[0]->run.mode);
    PELLUCID_CHECK(p->run.mode == "trace", ValueError,
                   "diff: profiles of mode {} have no times of ops; record both sides without "
                   "--{}.",
                   p->run.mode, p->run.mode);
  }
}

// The different values of one fact on each side: where the sides differ, that may be why.
template <class Fact>
void warn(Diff& d, std::span<const Profile> first, std::span<const Profile> second,
          std::string_view what, Fact fact) {
  std::set<std::string> sides[2];
  for (const Profile& p : first) sides[0].insert(fact(p));
  for (const Profile& p : second) sides[1].insert(fact(p));
  if (sides[0] == sides[1] && sides[0].size() == 1) return;
  d.warnings.push_back(fmt::format("{} differ: {} and {}", what, fmt::join(sides[0], ", "),
                                   fmt::join(sides[1], ", ")));
}

void add_warnings(Diff& d, std::span<const Profile> first, std::span<const Profile> second) {
  warn(d, first, second, "the programs", [](const Profile& p) { return p.run.program; });
  warn(d, first, second, "the versions of pellucid",
       [](const Profile& p) { return p.run.version; });
  warn(d, first, second, "the processors", [](const Profile& p) { return p.machine.cpu; });
  warn(d, first, second, "the numbers of threads",
       [](const Profile& p) { return fmt::format("{}", p.machine.threads); });
  warn(d, first, second, "the ways in which the programs ended", [](const Profile& p) {
    return p.run.signal != 0    ? fmt::format("signal {}", p.run.signal)
           : !p.run.complete    ? std::string("an unfinished recording")
           : p.run.dropped != 0 ? std::string("events beyond the limit were dropped")
                                : fmt::format("exit code {}", p.run.exit_code);
  });
}

// ---- memory: bytes do not scatter inside a run, and hardly between runs

// The bytes of one name, a figure a run.
void add_bytes(Diff& d, const std::string& name, std::vector<int64_t> first,
               std::vector<int64_t> second) {
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  const auto middle = [](const std::vector<int64_t>& v) {
    return median(std::vector<double>(v.begin(), v.end()));
  };
  DiffRow r{.name = name, .first = middle(first), .second = middle(second)};
  if (!set_change(r)) {
    d.rows.push_back(std::move(r));
    return;
  }
  r.has_interval = first.front() > 0 && second.front() > 0;
  if (r.has_interval) {
    r.low = static_cast<double>(second.front()) / static_cast<double>(first.back()) - 1;
    r.high = static_cast<double>(second.back()) / static_cast<double>(first.front()) - 1;
  }
  r.verdict = first == second || is_negligible(r.first, r.second) ? Verdict::Same
              : second.front() > first.back()                     ? Verdict::Worse
              : second.back() < first.front()                     ? Verdict::Better
                                                                  : Verdict::Noise;
  d.rows.push_back(std::move(r));
}

// The bytes at a recording's peak by category and line; "" is all of them.
std::map<std::string, int64_t> peak_groups(const Profile& p) {
  const MemoryPeak peak(p);
  std::map<std::string, int64_t> groups;
  groups[""] = peak.total;
  groups["before the recording"] = peak.unknown;
  groups["not recorded"] = peak.unrecorded;
  for (const size_t i : peak.alive) {
    const Allocation& a = p.allocations[i];
    const int32_t site = a.event < 0 ? -1 : p.events[at(a.event)].site;
    if (a.before) {
      groups[fmt::format("{} from before the recording", name_of(a.category))] += a.bytes;
      continue;
    }
    groups[fmt::format("{} of {}", name_of(a.category),
                       site < 0 ? "an unknown line" : place_of(p, site))] += a.bytes;
  }
  return groups;
}

Diff diff_memory(std::span<const Profile> first, std::span<const Profile> second,
                 const DiffOptions& o) {
  Diff d{
      .what = "bytes at the peak", .between_runs = first.size() + second.size() > 2, .bytes = true};
  d.scatter =
      d.between_runs ? "from the least to the greatest of the runs" : "none: bytes are exact";
  add_warnings(d, first, second);
  std::map<std::string, std::array<std::vector<int64_t>, 2>> groups;
  for (const size_t side : {0, 1})
    for (size_t run = 0; run < (side == 0 ? first : second).size(); ++run)
      for (const auto& [name, bytes] : peak_groups((side == 0 ? first : second)[run])) {
        auto& figures = groups[name];
        figures[0].resize(first.size());
        figures[1].resize(second.size());
        figures[side][run] = bytes;
      }
  for (const auto& [name, bytes] : groups) {  // "" is the first
    const auto nothing = [](const std::vector<int64_t>& v) {
      return std::all_of(v.begin(), v.end(), [](int64_t b) { return b == 0; });
    };
    if (name.empty() || !nothing(bytes[0]) || !nothing(bytes[1]))
      add_bytes(d, name.empty() ? "peak" : name, bytes[0], bytes[1]);
  }
  finish(d, o);
  return d;
}

std::string what_is_compared(std::span<const Steps> steps, size_t cut, bool per_step) {
  const size_t second = steps.size() - cut;
  if (steps.size() > 2)
    return fmt::format("seconds of {} and {} runs (geometric mean), {}", cut, second,
                       per_step ? "each the median of its " + steps[0].what : "all of each run");
  return per_step ? fmt::format("median seconds of {} and {} {}", steps[0].spans.size(),
                                steps[1].spans.size(), steps[0].what)
                  : "seconds in all, intervals from the calls";
}

std::string which_scatter(size_t first, size_t second) {
  if (first + second == 2) return "within one run of each";
  if (first == 1 || second == 1)
    return fmt::format("between the {} runs of the {} side, taken for both",
                       std::max(first, second), first == 1 ? "second" : "first");
  return fmt::format("between {} and {} runs", first, second);
}

}  // namespace

std::string_view name_of(DiffRow::Verdict verdict) {
  constexpr std::string_view kNames[] = {"same", "cannot tell", "better", "worse", "new", "gone"};
  return kNames[static_cast<size_t>(verdict)];
}

Diff diff(const Profile& first, const Profile& second, const DiffOptions& o) {
  return diff(std::span(&first, 1), std::span(&second, 1), o);
}

Diff diff(std::span<const Profile> first, std::span<const Profile> second, const DiffOptions& o) {
  PELLUCID_CHECK(!first.empty() && !second.empty(), ValueError,
                 "diff: at least one profile is needed on each side, found {} and {}.",
                 first.size(), second.size());
  std::vector<const Profile*> profiles;
  for (const Profile& p : first) profiles.push_back(&p);
  for (const Profile& p : second) profiles.push_back(&p);
  for (const Profile* p : profiles) validate(*p);
  check_modes(profiles);
  const size_t by = choose(o.by, {"op", "line", "module", "memory"}, "groups");
  if (by == 3) return diff_memory(first, second, o);
  constexpr GroupBy kGroups[] = {GroupBy::Op, GroupBy::Line, GroupBy::Module};
  std::vector<Steps> steps;
  steps.reserve(profiles.size());
  for (const Profile* p : profiles) steps.emplace_back(*p);
  constexpr size_t kEnough = 8;
  const bool per_step = std::all_of(steps.begin(), steps.end(),
                                    [](const Steps& s) { return s.spans.size() >= kEnough; });
  Diff d{.what = what_is_compared(steps, first.size(), per_step),
         .scatter = which_scatter(first.size(), second.size()),
         .between_runs = profiles.size() > 2};
  add_warnings(d, first, second);
  Sides sides;
  std::vector<Side> wholes;
  for (size_t i = 0; i < profiles.size(); ++i) {
    const Run run{*profiles[i], per_step ? &steps[i] : nullptr, i, profiles.size()};
    wholes.push_back(whole_of(run));
    collect(run, kGroups[by], sides);
  }
  d.rows.push_back({.name = "total"});
  compare(d.rows.back(), wholes, first.size(), per_step, o);
  for (const auto& [name, runs] : sides) {
    d.rows.push_back({.name = name});
    compare(d.rows.back(), runs, first.size(), per_step, o);
  }
  finish(d, o);
  return d;
}

}  // namespace pellucid::profile
