// See findings.h; and the table that shows steps and findings.
#include "profile/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/statistics.h"
#include "base/text.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

const Signature& signature_of(const Profile& p, int32_t event) {
  return p.signatures[at(p.events[at(event)].signature)];
}

// The same call of one line and one module; forward work alone, since backward repeats forward.
struct Calls {
  std::vector<int32_t> key;    // by event
  std::vector<int32_t> first;  // by key: an event
};

Calls same_calls(const Profile& p, const Names& names) {
  Calls calls;
  Numbering pair, triple;
  calls.key.reserve(p.events.size());
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    const bool counts =
        e.phase == Phase::Forward && signature_of(p, static_cast<int32_t>(i)).kind == EventKind::Op;
    if (!counts) {
      calls.key.push_back(-1);
      continue;
    }
    const int32_t site = e.site < 0 ? -1 : names.of_site[at(e.site)];
    const int32_t n = triple(pair(e.signature, site), e.module);
    if (at(n) == calls.first.size()) calls.first.push_back(static_cast<int32_t>(i));
    calls.key.push_back(n);
  }
  return calls;
}

int64_t calls_in(const std::vector<StepFigures>& list) {
  int64_t n = 0;
  for (const StepFigures& f : list) n += f.calls;
  return n;
}
double time_in(const std::vector<StepFigures>& list) {
  double t = 0;
  for (const StepFigures& f : list) t += static_cast<double>(f.time);
  return t;
}

// A call without tensors makes the same every time, unless it is random.
bool makes_the_same(const Signature& s) {
  return s.inputs.empty() && !s.outputs.empty() && s.op_kind != "random" && s.op_kind != "opaque";
}

// Calls that read the same values as an earlier one, and could have used its result. Returns for
// each kind of call whether the inputs of most calls are known.
std::vector<bool> find_same_inputs(const Profile& p, const Calls& calls,
                                   std::vector<Finding>& found) {
  struct Group {
    int64_t calls = 0;
    double time = 0;
  };
  Numbering numbering;
  std::vector<Group> groups;
  std::vector<int64_t> all(calls.first.size()), known(calls.first.size());
  for (size_t i = 0; i < p.events.size(); ++i) {
    if (calls.key[i] < 0) continue;
    ++all[at(calls.key[i])];
    if (p.events[i].inputs == 0) continue;
    ++known[at(calls.key[i])];
    const int32_t n = numbering(calls.key[i], static_cast<int32_t>(p.events[i].inputs));
    if (at(n) == groups.size()) groups.emplace_back();
    ++groups[at(n)].calls;
    groups[at(n)].time += static_cast<double>(p.events[i].self);
  }
  std::vector<Group> again(calls.first.size());
  for (size_t n = 0; n < groups.size(); ++n) {
    const Group& g = groups[n];
    if (g.calls < 2) continue;
    Group& sum = again[at(numbering.high(static_cast<int32_t>(n)))];
    sum.calls += g.calls - 1;
    sum.time += g.time * static_cast<double>(g.calls - 1) / static_cast<double>(g.calls);
  }
  std::vector<bool> is_known(calls.first.size());
  for (size_t k = 0; k < again.size(); ++k) {
    const Signature& s = signature_of(p, calls.first[k]);
    is_known[k] = 2 * known[k] > all[k];
    if (again[k].calls == 0 || s.op_kind == "random" || s.op_kind == "opaque") continue;
    found.push_back({Finding::Kind::Same, calls.first[k], all[k], again[k].time,
                     fmt::format("{} of {} calls read the same inputs as one before",
                                 text::group_digits(again[k].calls), text::group_digits(all[k]))});
  }
  return is_known;
}

void find_repeats(const Profile& p, const Steps& steps, std::vector<Finding>& found) {
  const Names names(p);
  const Calls calls = same_calls(p, names);
  const std::vector<bool> inputs_known = find_same_inputs(p, calls, found);
  const auto figures =
      figures_by_step(p, steps, calls.key, static_cast<int32_t>(calls.first.size()));
  for (size_t k = 0; k < figures.size(); ++k) {
    const auto& list = figures[k];
    const int64_t n = calls_in(list);
    if (n < 2) continue;
    const double time = time_in(list);
    const Signature& s = signature_of(p, calls.first[k]);
    if (makes_the_same(s)) {
      found.push_back({Finding::Kind::Constant, calls.first[k], n,
                       time * static_cast<double>(n - 1) / static_cast<double>(n),
                       fmt::format("{} calls with the same arguments ({}) make the same tensor",
                                   text::group_digits(n), s.attributes)});
      continue;
    }
    if (inputs_known[k]) continue;
    const auto least = std::min_element(
        list.begin(), list.end(), [](const auto& a, const auto& b) { return a.calls < b.calls; });
    if (least->calls < 2 || list.size() * 2 < steps.spans.size()) continue;
    const double each = static_cast<double>(least->calls);
    found.push_back(
        {Finding::Kind::Repeated, calls.first[k], n, time * (each - 1) / each,
         fmt::format("{} calls a step with the same sizes {}", least->calls, shapes_of(s.inputs))});
  }
}

// Whether the values rise: the last third lies above the first by a quarter, and hardly any step
// falls.
bool rises(const std::vector<double>& values) {
  constexpr size_t kLeast = 6;
  if (values.size() < kLeast) return false;
  const size_t third = values.size() / 3;
  size_t falls = 0;
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] < values[i - 1]) ++falls;
  const double before =
      median({values.begin(), values.begin() + static_cast<std::ptrdiff_t>(third)});
  const double after = median({values.end() - static_cast<std::ptrdiff_t>(third), values.end()});
  return after > 1.25 * before && falls * 20 < values.size();
}

void find_growth(const Profile& p, const Steps& steps, std::vector<Finding>& found) {
  const Names names(p);
  const Functions functions(p, names);
  std::vector<int32_t> key = functions.group.key,
                       first(static_cast<size_t>(functions.group.count), -1);
  for (size_t i = 0; i < key.size(); ++i) {
    const Event& e = p.events[i];
    const bool counts =
        signature_of(p, static_cast<int32_t>(i)).kind == EventKind::Op && e.phase == Phase::Forward;
    if (!counts) key[i] = -1;
    if (counts && first[at(key[i])] < 0) first[at(key[i])] = static_cast<int32_t>(i);
  }
  const auto figures = figures_by_step(p, steps, key, functions.group.count);
  for (size_t k = 0; k < figures.size(); ++k) {
    const auto& list = figures[k];
    if (list.size() * 2 < steps.spans.size()) continue;
    std::vector<double> flops, calls;
    for (const StepFigures& f : list) {
      flops.push_back(f.flops);
      calls.push_back(static_cast<double>(f.calls));
    }
    const bool more_work = rises(flops), more_calls = rises(calls);
    if (!more_work && !more_calls) continue;
    const double begun = static_cast<double>(list.front().time);
    const double cost = std::max(0.0, time_in(list) - begun * static_cast<double>(list.size()));
    found.push_back({Finding::Kind::Growing, first[k], calls_in(list), cost,
                     more_calls
                         ? fmt::format("from {:.0f} calls in the first step to {:.0f} in the last",
                                       calls.front(), calls.back())
                         : fmt::format("from {} in the first step to {} in the last",
                                       with_prefix(flops.front(), "FLOPs"),
                                       with_prefix(flops.back(), "FLOPs"))});
  }
}

// Lines whose blocks pile up: of nearly every step since the second one (the first makes gradients
// and moments) something is still alive when the last one ends. What only the last steps left is
// in use, not left behind.
void find_retained(const Profile& p, const Steps& steps, std::vector<Finding>& found) {
  constexpr size_t kLeast = 6;
  const size_t count = steps.spans.size();
  if (count < kLeast) return;
  struct Left {
    int64_t bytes = 0, blocks = 0;
    int32_t event = -1;
    std::vector<bool> steps;
  };
  const Names names(p);
  std::map<int32_t, Left> lines;
  for (const Allocation& a : p.allocations) {
    if (a.event < 0 || a.bytes == 0 || (a.end >= 0 && a.end < steps.spans.back().end)) continue;
    const int32_t step = steps.find(a.begin);
    if (step < 2) continue;
    const int32_t site = p.events[at(a.event)].site;
    Left& left = lines[site < 0 ? -1 : names.of_site[at(site)]];
    left.bytes += a.bytes;
    ++left.blocks;
    if (left.event < 0) left.event = a.event;
    left.steps.resize(count);
    left.steps[at(step)] = true;
  }
  for (const auto& [site, left] : lines) {
    const auto with_some = std::count(left.steps.begin() + 2, left.steps.end(), true);
    if (static_cast<size_t>(with_some) * 10 < (count - 2) * 9) continue;
    const auto bytes = static_cast<double>(left.bytes);
    found.push_back(
        {Finding::Kind::Retained, left.event, left.blocks, bytes,
         fmt::format("{} of the {} steps after the second left blocks that are alive at "
                     "the end: {}, {} a step",
                     text::group_digits(with_some),
                     text::group_digits(static_cast<int64_t>(count) - 2), text::format_bytes(bytes),
                     text::format_bytes(bytes / static_cast<double>(with_some)))});
  }
}

}  // namespace

std::string_view name_of(Finding::Kind kind) {
  constexpr std::string_view kNames[] = {"constant", "same inputs", "repeated", "growing",
                                         "retained"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Finding> find_repeated_work(const Profile& p, const Steps& steps) {
  std::vector<Finding> found;
  find_repeats(p, steps, found);
  if (!steps.spans.empty()) find_growth(p, steps, found);
  // What costs less than a thousandth of the run is no finding.
  std::erase_if(
      found, [&](const Finding& f) { return f.cost * 1000 < static_cast<double>(p.run.duration); });
  if (!steps.spans.empty()) find_retained(p, steps, found);
  std::stable_sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.cost > b.cost;
  });
  return found;
}

namespace {

std::string steps_line(const Steps& steps) {
  if (steps.spans.empty())
    return "This profile has no steps: none was marked, and no optimiser or module ran three "
           "times.\n";
  std::vector<double> times;
  for (const Span& s : steps.spans) times.push_back(static_cast<double>(s.end - s.begin));
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  return fmt::format("{} {}: median {}, quartiles {} to {}, first {}, last {}\n",
                     text::group_digits(static_cast<int64_t>(times.size())), steps.what,
                     format_duration(median(times)), format_duration(sorted[sorted.size() / 4]),
                     format_duration(sorted[sorted.size() * 3 / 4]), format_duration(times.front()),
                     format_duration(times.back()));
}

}  // namespace

std::vector<ReportTable> steps_report(const Profile& p, const ReportOptions& o) {
  const Steps steps(p);
  ReportTable t{.name = "steps"};
  t.heading = steps_line(steps);
  const std::vector<Finding> findings = find_repeated_work(p, steps);
  t.columns = {{"Finding", "finding", false},
               {"Where", "where", false},
               {"Calls", "calls"},
               {"Costs at most", "cost"},
               {"Evidence", "evidence", false}};
  std::vector<size_t> order(findings.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  cut_rows(order, o, 30, t.footing);
  for (const size_t i : order) {
    const Finding& f = findings[i];
    const Event& e = p.events[at(f.event)];
    t.rows.push_back({cell(std::string(name_of(f.kind))),
                      cell(function_name(p, e.site, signature_of(p, f.event).name, o.full_paths)),
                      count_cell(f.calls),
                      f.kind == Finding::Kind::Retained ? memory_cell(static_cast<int64_t>(f.cost))
                                                        : time_cell(f.cost),
                      cell(f.evidence)});
  }
  if (findings.empty()) {
    t.columns.clear();
    t.footing = "No call reads the same inputs again, and nothing grows.\n";
  } else {
    t.footing +=
        "repeated: the sizes are the same; the values may differ, because the program can change "
        "them outside of ops.\n";
  }
  return {std::move(t)};
}

}  // namespace pellucid::profile
