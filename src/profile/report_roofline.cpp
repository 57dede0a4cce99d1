// Each op against the ceilings of the machine, and the time that neither of them explains.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/statistics.h"
#include "base/text.h"
#include "profile/averages.h"
#include "profile/overhead.h"
#include "profile/reports.h"
#include "profile/table.h"
#include "recorder/raw.h"

namespace pellucid::profile {
// Without enough views it is not known, and nothing is charged to it.
DispatchCost find_dispatch(const Profile& p) {
  std::vector<double> views;
  for (const Event& e : p.events) {
    const Signature& s = p.signatures[at(e.signature)];
    if (s.kind == EventKind::Op && s.op_kind == "view" && !e.open)
      views.push_back(static_cast<double>(e.self));
  }
  constexpr size_t kEnough = 10;
  if (views.size() < kEnough) return {.source = "not measured: the run has fewer than 10 views"};
  const auto count = static_cast<int64_t>(views.size());
  return {median(std::move(views)),
          fmt::format("the median of {} views", text::group_digits(count))};
}

RecordingCost::RecordingCost(const Profile& p) : what("events"), each(p.run.event_cost) {
  if (p.run.mode == "sample") {
    what = "samples";
    count = static_cast<int64_t>(p.samples.size());
    each = p.run.sample_cost;
    scopes = p.run.scopes;
    scope = p.run.event_cost;
  } else if (p.run.mode == "count") {
    what = "calls";
    for (const CallCount& c : p.counts) count += c.calls;
  } else {
    count = std::max(static_cast<int64_t>(p.events.size()),
                     p.run.recorded_bytes / static_cast<int64_t>(sizeof(RawEvent)));
  }
}

std::string RecordingCost::text(double nanoseconds) {
  return nanoseconds < 1000 ? fmt::format("{:.0f} ns", nanoseconds)
                            : fmt::format("{:.1f} us", nanoseconds / 1000);
}

Overhead::Overhead(const Profile& p) : dispatch(find_dispatch(p)) {
  std::vector<int64_t> covered(p.threads.size());
  for (const Event& e : p.events) {
    const Signature& s = p.signatures[at(e.signature)];
    if (e.parent < 0) covered[at(e.thread)] += e.end - e.begin;
    if (s.kind == EventKind::Wait) wait_time += e.self;
    if (s.kind != EventKind::Op) {
      scope_time += e.self;
      continue;
    }
    ++ops;
    op_time += e.self;
    if (s.has_cost) ++with_cost;
  }
  const int64_t busiest = covered.empty() ? 0 : *std::max_element(covered.begin(), covered.end());
  outside = std::max<int64_t>(0, p.run.duration - busiest);
  recording = RecordingCost(p).total();
  std::map<std::string, std::string> missing;  // by the reason: the names
  for (const Counter& c : p.counters) {
    if (!c.missing.empty()) {
      std::string& names = missing[c.missing];
      names += (names.empty() ? "" : ", ") + c.name;
      continue;
    }
    if (c.name == "task-clock") processor = c.value;
    counters +=
        fmt::format("{}: {}\n", c.name,
                    c.name == "task-clock" ? format_duration(c.value) + " of processor time"
                                           : text::group_digits(static_cast<int64_t>(c.value)));
  }
  for (const auto& [reason, names] : missing)
    counters += fmt::format("{}: none ({})\n", names, reason);
}

std::string Overhead::percent_of_run(double nanoseconds) const {
  return percent(nanoseconds, whole());
}

std::string coverage_lines(const Profile& p, const Overhead& o) {
  std::string out;
  if (o.ops > 0)
    out +=
        fmt::format("coverage: {} % of {} ops have a cost\n",
                    o.with_cost == o.ops ? 100 : std::min<int64_t>(99, 100 * o.with_cost / o.ops),
                    text::group_digits(o.ops));
  if (const RecordingCost c(p); c.count > 0 && c.each > 0) {
    out += fmt::format("recording: {} {} x {}", text::group_digits(c.count), c.what,
                       RecordingCost::text(c.each));
    if (c.scopes > 0)
      out += fmt::format(" + {} ops and scopes x {}", text::group_digits(c.scopes),
                         RecordingCost::text(c.scope));
    out += fmt::format(" = {}, {} of the time; {} of raw {}\n", format_duration(o.recording),
                       o.percent_of_run(o.recording),
                       text::format_bytes(static_cast<double>(p.run.recorded_bytes)),
                       c.what == "calls" ? "counters" : c.what);
  }
  for (const std::string& note : p.run.notes) out += fmt::format("note: {}\n", note);
  return out;
}

namespace {

// What the system took of the ops, or why that is not known.
std::string stall_line(const Profile& p) {
  if (!p.run.stalls_missing.empty() && p.stalls.empty())
    return fmt::format("page faults and switches by op: none ({})\n", p.run.stalls_missing);
  int64_t faults = 0, waits = 0, preempted = 0;
  double times[3] = {};  // by Stall::Kind
  for (const Stall& s : p.stalls) {
    if (s.event < 0) continue;
    const bool fault = s.kind == Stall::Kind::PageFault;
    (fault ? faults : (s.kind == Stall::Kind::Waiting ? waits : preempted)) += s.count;
    if (s.thread == p.events[at(s.event)].thread)
      times[static_cast<size_t>(s.kind)] += static_cast<double>(s.duration);
  }
  if (p.stalls.empty() && p.run.stalls_lost == 0) return {};
  if (!p.run.stalls_missing.empty())
    return fmt::format(
        "inside steps and large calls, as getrusage counts them for their thread: {} page faults, "
        "{} "
        "waits, {} times preempted; how long they took is not known ({})\n",
        text::group_digits(faults), text::group_digits(waits), text::group_digits(preempted),
        p.run.stalls_missing);
  std::string line = fmt::format(
      "inside events: {} page faults took {}, {} waits {}; preempted {} times for {}",
      text::group_digits(faults), format_duration(times[0]), text::group_digits(waits),
      format_duration(times[1]), text::group_digits(preempted), format_duration(times[2]));
  if (p.run.stalls_lost > 0)
    line += fmt::format("; {} of them were lost", text::group_digits(p.run.stalls_lost));
  return line + "\n";
}

// What is known of page faults and switches: each with its time, or how many.
struct StallsKnown {
  explicit StallsKnown(const Profile& p)
      : time(p.run.mode == "trace" && p.run.stalls_missing.empty()),
        number(time || !p.stalls.empty()) {}
  bool time, number;
};

// The cells from Calls to Unexplained.
void add_figures(std::vector<Cell>& row, const Average& a, const Overhead& overhead, bool measured,
                 const StallsKnown& stalls) {
  const auto time = static_cast<double>(a.op_time);
  const auto share = [&](double part, bool known) {
    return known ? share_cell(part, time) : no_cell();
  };
  const auto number = [](double value) { return cell(fmt::format("{:.2f}", value), value); };
  const Rate& rate = a.rate();
  const double spent = std::max(1.0, rate.time);
  row.push_back(count_cell(a.op_calls));
  row.push_back(time_cell(time));
  row.push_back(share_cell(time, static_cast<double>(overhead.op_time)));
  row.push_back(cell(with_prefix(a.flops, ""), a.flops));
  row.push_back(cell(with_prefix(a.bytes, "B"), a.bytes));
  row.push_back(a.bytes > 0 ? number(a.flops / a.bytes) : no_cell());
  row.push_back(number(rate.flops / spent));
  row.push_back(number(rate.bytes / spent));
  row.push_back(ceiling_cell(a, measured));
  row.push_back(measured && a.least_time > 0 ? cell(std::string(a.bound())) : no_cell());
  row.push_back(share(a.split.dispatch, measured));
  row.push_back(stalls.number ? count_cell(a.faults) : no_cell());
  row.push_back(share(a.split.faults, stalls.time));
  row.push_back(stalls.number ? count_cell(a.switches) : no_cell());
  row.push_back(share(a.split.preempted, stalls.time));
  row.push_back(share(a.split.waiting, stalls.time));
  row.push_back(share(a.split.first, measured));
  row.push_back(share(a.split.unexplained, measured));
}

}  // namespace

std::vector<ReportTable> roofline_report(const Profile& p, const ReportOptions& o) {
  const GroupBy by = group_by(o.by);
  const Averages averages(p, by);
  const Overhead overhead(p);
  const bool measured = rates_of(p.machine).known();
  const StallsKnown stalls(p);
  ReportTable t{.name = "roofline"};
  t.heading = ceiling_lines(p, averages.rows);
  t.columns = {{"Name", "name", false},
               {"Calls", "calls"},
               {"Time", "seconds"},
               {"% of time", "time_share"},
               {"FLOPs", "flops"},
               {"Bytes", "bytes"},
               {"FLOP/B", "intensity"},
               {"GFLOP/s", "gflops_per_second"},
               {"GB/s", "gigabytes_per_second"},
               {"% of ceiling", "ceiling_share"},
               {"Bound", "bound", false},
               {"Dispatch", "dispatch_share"},
               {"Faults", "page_faults"},
               {"In faults", "fault_share"},
               {"Switches", "switches"},
               {"Preempted", "preempted_share"},
               {"Waiting", "waiting_share"},
               {"First calls", "first_share"},
               {"Unexplained", "unexplained_share"}};
  if (by == GroupBy::Shape) t.columns.push_back({"Input Shapes", "input_shapes", false});
  std::vector<size_t> order =
      ranked(averages.rows.size(), [&](size_t i) { return averages.rows[i].op_time; });
  std::erase_if(order, [&](size_t i) { return averages.rows[i].op_calls == 0; });
  cut_rows(order, o, 30, t.footing);
  for (const size_t i : order) {
    const Average& a = averages.rows[i];
    std::vector<Cell> row = {cell(group_name(p, by, a.event, o.full_paths))};
    add_figures(row, a, overhead, measured, stalls);
    if (by == GroupBy::Shape)
      row.push_back(cell(shapes_of(p.signatures[at(p.events[at(a.event)].signature)].inputs)));
    t.rows.push_back(std::move(row));
  }
  t.footing += rate_note(averages.rows);
  t.footing +=
      fmt::format("dispatch: {} per call ({})\n", format_duration(overhead.dispatch.nanoseconds),
                  overhead.dispatch.source);
  t.footing += fmt::format("waiting for data: {} ({} of the run)\n",
                           format_duration(static_cast<double>(overhead.wait_time)),
                           overhead.percent_of_run(static_cast<double>(overhead.wait_time)));
  t.footing += stall_line(p) + overhead.counters + coverage_lines(p, overhead);
  return {std::move(t)};
}

}  // namespace pellucid::profile
