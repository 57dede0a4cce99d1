// The overview: one sentence on where time and memory go and what binds, then totals, the first ops
// and lines, and the advice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "profile/averages.h"
#include "profile/functions.h"
#include "profile/memory_use.h"
#include "profile/overhead.h"
#include "profile/reports.h"
#include "profile/table.h"
#include "profile/time_parts.h"

namespace pellucid::profile {
namespace {

// What the run as a whole goes to most.
std::string_view what_binds(const Profile& p, const Overhead& o, const TimeParts& parts) {
  if (o.starved(p)) return "waiting or being preempted";
  const std::array<std::pair<double, std::string_view>, 10> causes = {
      {{parts.ops.compute, "ops at the compute ceiling"},
       {parts.ops.memory, "ops at the memory ceiling"},
       {parts.ops.dispatch, "dispatching ops"},
       {parts.ops.faults, "page faults"},
       {parts.ops.preempted, "ops that were preempted: other processes were using the cores"},
       {parts.ops.waiting, "ops that wait for other threads or the system"},
       {parts.ops.first, "first calls of ops, which touch new memory and create primitives"},
       {parts.ops.unexplained, "kernels that stay below both ceilings"},
       {parts.scopes + parts.outside, "code between the ops"},
       {parts.waits, "waiting for data"}}};
  return std::max_element(causes.begin(), causes.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

std::string ending_of(const RunInfo& run) {
  std::string out;
  if (run.signal != 0)
    out = fmt::format("was killed by signal {} ({}); the profile ends there", run.signal,
                      strsignal(run.signal));
  else if (!run.complete)
    out = "did not close its recording";
  else if (run.exit_code != 0)
    out = fmt::format("ended with exit code {}", run.exit_code);
  if (run.dropped > 0)
    out += fmt::format("{}{} events beyond the limit were dropped", out.empty() ? "" : "; ",
                       text::group_digits(run.dropped));
  return out;
}

namespace {

std::string sentence(const Profile& p, const FunctionStats& stats, const Overhead& o,
                     const TimeParts& parts, const MemoryPeak& peak) {
  std::string out;
  int32_t top = -1;
  for (size_t i = 0; i < p.events.size(); ++i) {
    const int32_t f = stats.functions.group.key[i];
    if (p.signatures[at(p.events[i].signature)].kind != EventKind::Op) continue;
    if (top < 0 || stats.figures[at(f)].own > stats.figures[at(top)].own) top = f;
  }
  if (top >= 0)
    out = fmt::format("{} takes {} of the time; most of the run goes to {}",
                      function_name(p, stats.site(top), stats.name(top)),
                      o.percent_of_run(static_cast<double>(stats.figures[at(top)].own)),
                      what_binds(p, o, parts));
  if (p.events.empty() && !p.samples.empty()) out = sampled_sentence(p);
  if (peak.total > 0) {
    const auto most = std::max_element(peak.by_category.begin(), peak.by_category.end());
    const bool before = peak.unknown > *most;
    constexpr std::array<std::string_view, kMemoryCategoryCount> kPlural = {
        "other blocks",    "parameters",       "activations", "gradients",
        "optimizer state", "kernels' scratch", "data",        "packed weights"};
    out += fmt::format("{}the peak of {} is {} {}", out.empty() ? "" : "; ",
                       text::format_bytes(static_cast<double>(peak.total)),
                       percent(static_cast<double>(before ? peak.unknown : *most),
                               static_cast<double>(peak.total)),
                       before ? "from before the recording"
                              : kPlural[static_cast<size_t>(most - peak.by_category.begin())]);
  }
  return out.empty() ? "" : out + ".";
}

ReportTable head_table(const Profile& p, const Overhead& o, const TimeParts& parts,
                       const FunctionStats& stats) {
  const MemoryPeak peak(p);
  ReportTable t{.name = "overview"};
  const RunInfo& run = p.run;
  t.heading = fmt::format("{}\n{} recorded{}{}{}{}, {} events on {} thread{}, mode {}\n",
                          run.program, format_duration(static_cast<double>(run.duration)),
                          run.started.empty() ? "" : " at ", run.started,
                          run.version.empty() ? "" : ", pellucid ", run.version,
                          text::group_digits(static_cast<int64_t>(p.events.size())),
                          p.threads.size(), p.threads.size() == 1 ? "" : "s", run.mode);
  if (const std::string end = ending_of(run); !end.empty())
    t.heading += fmt::format("The program {}.\n", end);
  const std::string first = sentence(p, stats, o, parts, peak);
  t.heading += '\n' + first + (first.empty() ? "\n" : "\n\n");
  t.footing = coverage_lines(p, o) + o.counters;
  t.footing += ceiling_lines(p, Averages(p, GroupBy::Op).rows);
  if (p.events.empty()) return t;
  t.columns = {{"Where the time goes", "part", false}, {"Time", "seconds"}, {"Share", "share"}};
  const auto add = [&](const char* name, double time) {
    if (time > 0) t.rows.push_back({cell(name), time_cell(time), share_cell(time, o.whole())});
  };
  add("ops, at the compute ceiling", parts.ops.compute);
  add("ops, at the memory ceiling", parts.ops.memory);
  add("ops, dispatch", parts.ops.dispatch);
  add("ops, in page faults", parts.ops.faults);
  add("ops, preempted", parts.ops.preempted);
  add("ops, waiting", parts.ops.waiting);
  add("ops, first calls of a kind", parts.ops.first);
  add("ops, below both ceilings", parts.ops.unexplained);
  add("scopes between their ops", parts.scopes);
  add("waiting for data", parts.waits);
  add("outside every op and scope", parts.outside);
  add("sum", o.whole());
  if (o.whole() > 1.001 * static_cast<double>(run.duration))
    t.footing = fmt::format("time: the sum over all threads, {} in a run of {}\n",
                            format_duration(o.whole()),
                            format_duration(static_cast<double>(run.duration))) +
                t.footing;
  double flops = 0, bytes = 0;
  for (const Event& e : p.events) {
    const Signature& s = p.signatures[at(e.signature)];
    if (s.kind != EventKind::Op) continue;
    flops += s.flops;
    bytes += s.bytes;
  }
  t.footing = fmt::format("totals: {}, at least {} moved, peak memory {} ({} bytes)\n",
                          with_prefix(flops, "FLOPs"), with_prefix(bytes, "B"),
                          text::format_bytes(static_cast<double>(peak.total)),
                          text::group_digits(peak.total)) +
              t.footing;
  return t;
}

ReportTable top_ops(const Profile& p, const ReportOptions& o) {
  const Averages averages(p, GroupBy::Op);
  ReportTable t{.name = "top-ops"};
  t.columns = {{"Op", "name", false},
               {"Calls", "calls"},
               {"Time", "seconds"},
               {"% of ops", "share"},
               {"Per call", "percall_seconds"},
               {"GFLOP/s", "gflops_per_second"},
               {"GB/s", "gigabytes_per_second"},
               {"% of ceiling", "ceiling_share"},
               {"Bound", "bound", false}};
  std::vector<size_t> order =
      ranked(averages.rows.size(), [&](size_t i) { return averages.rows[i].op_time; });
  std::erase_if(order, [&](size_t i) { return averages.rows[i].op_calls == 0; });
  int64_t all = 0;
  for (const Average& a : averages.rows) all += a.op_time;
  cut_rows(order, o, 10, t.footing);
  for (const size_t i : order) {
    const Average& a = averages.rows[i];
    const auto time = static_cast<double>(a.op_time);
    const Rate& rate = a.rate();
    const double spent = std::max(1.0, rate.time);
    t.rows.push_back({cell(group_name(p, GroupBy::Op, a.event, false)), count_cell(a.op_calls),
                      time_cell(time), share_cell(time, static_cast<double>(all)),
                      time_cell(spent / static_cast<double>(rate.calls)),
                      cell(fmt::format("{:.2f}", rate.flops / spent), rate.flops / spent),
                      cell(fmt::format("{:.2f}", rate.bytes / spent), rate.bytes / spent),
                      ceiling_cell(a, rate.least > 0),
                      rate.least > 0 ? cell(std::string(a.bound())) : no_cell()});
  }
  t.footing += rate_note(averages.rows);
  return t;
}

ReportTable top_lines(const Profile& p, const ReportOptions& o) {
  const Averages averages(p, GroupBy::Line);
  ReportTable t{.name = "top-lines"};
  t.columns = {{"Line", "line", false},  {"In", "function", false},       {"Self", "self_seconds"},
               {"% of events", "share"}, {"Cumulative", "total_seconds"}, {"Ops", "op_calls"}};
  std::vector<size_t> order =
      ranked(averages.rows.size(), [&](size_t i) { return averages.rows[i].self; });
  cut_rows(order, o, 10, t.footing);
  for (const size_t i : order) {
    const Average& a = averages.rows[i];
    const int32_t site = p.events[at(a.event)].site;
    t.rows.push_back({cell(group_name(p, GroupBy::Line, a.event, o.full_paths)),
                      cell(site < 0 ? "" : p.sites[at(site)].function),
                      time_cell(static_cast<double>(a.self)),
                      share_cell(static_cast<double>(a.self), static_cast<double>(averages.self)),
                      time_cell(static_cast<double>(a.total)), count_cell(a.op_calls)});
  }
  return t;
}

}  // namespace

std::string overview_sentence(const Profile& p) {
  const Overhead overhead(p);
  return sentence(p, FunctionStats(p), overhead, TimeParts(p, overhead), MemoryPeak(p));
}

std::vector<ReportTable> overview_report(const Profile& p, const ReportOptions& o) {
  const Overhead overhead(p);
  const TimeParts parts(p, overhead);
  std::vector<ReportTable> tables;
  tables.push_back(head_table(p, overhead, parts, FunctionStats(p)));
  if (!p.events.empty()) {
    tables.push_back(top_ops(p, o));
    tables.push_back(top_lines(p, o));
    tables.push_back(advice_report(p, {}).front());
  }
  if (p.run.mode == "count") tables.push_back(counts_report(p, o).front());
  if (!p.samples.empty())
    tables.push_back(samples_report(p, {.limit = o.limit < 0 ? 15 : o.limit}).front());
  return tables;
}

}  // namespace pellucid::profile
