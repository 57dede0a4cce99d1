// What to change, each sentence with the measurement that supports it. No measurement, no advice.
#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "base/text.h"
#include "profile/averages.h"
#include "profile/findings.h"
#include "profile/memory_use.h"
#include "profile/overhead.h"
#include "profile/reports.h"
#include "profile/table.h"
#include "profile/time_parts.h"

namespace pellucid::profile {
namespace {

struct Advice {
  double share = 0;  // of the run's time, or of the peak for memory, that it is about
  bool memory = false;
  std::string what, because;
};

// Collects the advice of one profile; each member looks at one cause.
class Adviser {
 public:
  explicit Adviser(const Profile& p)
      : p_(p),
        overhead_(p),
        averages_(p, GroupBy::Op),
        steps_(p),
        peak_(p),
        parts_(p, overhead_),
        whole_(std::max(1.0, overhead_.whole())) {}

  std::vector<Advice> collect() {
    cores();
    waits();
    dispatch();
    ceilings();
    copies();
    warm_up();
    repeats();
    outside();
    activations();
    recording();
    std::stable_sort(list_.begin(), list_.end(),
                     [](const Advice& a, const Advice& b) { return a.share > b.share; });
    return std::move(list_);
  }

 private:
  void add(double share, bool memory, std::string what, std::string because) {
    list_.push_back({share, memory, std::move(what), std::move(because)});
  }
  std::string where(int32_t event) const {
    const Event& e = p_.events[at(event)];
    return function_name(p_, e.site, p_.signatures[at(e.signature)].name);
  }

  // Times of a program that had to share its cores say little about the program.
  void cores() {
    if (overhead_.starved(p_)) {
      const auto duration = static_cast<double>(p_.run.duration);
      add(1 - overhead_.processor / duration, false,
          "find out what the program waits for, or record it on a quiet machine",
          fmt::format("cores worked for the program for {} of a run of {}",
                      format_duration(overhead_.processor), format_duration(duration)));
      return;
    }
    const double off_core = parts_.ops.preempted + parts_.ops.waiting;
    if (off_core < 0.2 * whole_) return;
    int64_t preempted = 0, waits = 0;
    for (const Stall& s : p_.stalls)
      if (s.event >= 0 && s.kind != Stall::Kind::PageFault)
        (s.kind == Stall::Kind::Preempted ? preempted : waits) += s.count;
    add(off_core / whole_, false,
        parts_.ops.preempted > parts_.ops.waiting
            ? "record it on a quiet machine, or use fewer threads than cores are free"
            : "find out what its ops wait for",
        fmt::format("ops were preempted for {} of the run ({} times) and waited for {} ({} times)",
                    overhead_.percent_of_run(parts_.ops.preempted), text::group_digits(preempted),
                    overhead_.percent_of_run(parts_.ops.waiting), text::group_digits(waits)));
  }

  void waits() {
    const auto wait = static_cast<double>(overhead_.wait_time);
    if (wait < 0.05 * whole_) return;
    add(wait / whole_, false, "give the data loader more workers, or let it load earlier",
        fmt::format("{} of the run was spent waiting for data", overhead_.percent_of_run(wait)));
  }

  // Ops that are short compared with what a call costs: the dispatcher, not the kernel, takes the
  // time.
  void dispatch() {
    if (overhead_.dispatch.nanoseconds <= 0) return;
    double time = 0;
    int64_t calls = 0;
    for (const Average& a : averages_.rows) {
      if (a.op_calls == 0) continue;
      const double floor = overhead_.dispatch.nanoseconds * static_cast<double>(a.op_calls);
      if (static_cast<double>(a.op_time) > 4 * floor ||
          a.least_time > 0.5 * static_cast<double>(a.op_time))
        continue;
      time += static_cast<double>(a.op_time);
      calls += a.op_calls;
    }
    if (time < 0.1 * whole_) return;
    add(time / whole_, false, "run larger batches or fuse small ops",
        fmt::format("{} calls that take at most four times an empty call ({}) are {} of the run",
                    text::group_digits(calls), format_duration(overhead_.dispatch.nanoseconds),
                    overhead_.percent_of_run(time)));
  }

  // The op that takes the most time, against its ceiling.
  void ceilings() {
    const Average* top = nullptr;
    for (const Average& a : averages_.rows)
      if (a.op_calls > 0 && (top == nullptr || a.op_time > top->op_time)) top = &a;
    if (top == nullptr || top->least_time <= 0 || overhead_.starved(p_) || p_.machine.busy) return;
    const auto time = static_cast<double>(top->op_time);
    if (time < 0.2 * whole_) return;
    if (top->split.preempted + top->split.waiting > 0.3 * time)
      return;  // its rate tells of the others on its cores
    const double reached = top->rate().least / std::max(1.0, top->rate().time);
    const std::string name = group_name(p_, GroupBy::Op, top->event, false);
    if (reached > 1) return;  // the ceiling is not one; the overview says so
    const std::string because =
        fmt::format("{} takes {} of the run at {} of the {} ceiling", name,
                    overhead_.percent_of_run(time), percent(reached, 1), top->bound());
    if (reached > 0.6)
      add(time / whole_, false,
          top->bound() == "memory"
              ? "move fewer bytes: fuse with neighbours or use a smaller dtype"
              : "reduce the work: the machine cannot do these FLOPs much faster",
          because);
    else if (overhead_.dispatch.nanoseconds > 0 &&
             time > 20 * overhead_.dispatch.nanoseconds * static_cast<double>(top->op_calls))
      add((1 - reached) * time / whole_, false,
          fmt::format("look at the sizes and layouts of {} (report --table roofline --by shape)",
                      name),
          because);
  }

  void copies() {
    double time = 0;
    int32_t event = -1;
    int64_t most = 0, calls = 0;
    for (const Average& a : averages_.rows) {
      const std::string& name = p_.signatures[at(p_.events[at(a.event)].signature)].name;
      if (a.op_calls == 0 ||
          (name != "clone" && name != "contiguous" && name != "copy_" && name != "reorder"))
        continue;
      time += static_cast<double>(a.op_time);
      calls += a.op_calls;
      if (a.op_time > most) {
        most = a.op_time;
        event = a.event;
      }
    }
    if (time < 0.05 * whole_) return;
    add(time / whole_, false, "avoid copies: keep one layout, use views",
        fmt::format("{} copies take {} of the run, the first of them at {}",
                    text::group_digits(calls), overhead_.percent_of_run(time), where(event)));
  }

  void warm_up() {
    if (steps_.spans.size() < 6) return;
    std::vector<double> times;
    for (const Span& s : steps_.spans) times.push_back(static_cast<double>(s.end - s.begin));
    const double first = times.front(), usual = median(times);
    if (first < 3 * usual || first - usual < 0.05 * whole_) return;
    add((first - usual) / whole_, false, "exclude the first step from comparisons, or run longer",
        fmt::format("the first of {} {} took {}, the median {}", times.size(), steps_.what,
                    format_duration(first), format_duration(usual)));
  }

  void repeats() {
    int given[5] = {};
    for (const Finding& f : find_repeated_work(p_, steps_)) {
      constexpr int kMostOfAKind = 3;
      const bool memory = f.kind == Finding::Kind::Retained;
      const double share =
          f.cost / (memory ? static_cast<double>(std::max<int64_t>(1, peak_.total)) : whole_);
      if (share < 0.02 || ++given[static_cast<int>(f.kind)] > kMostOfAKind) continue;
      const std::string at_line = where(f.event);
      const auto text_of = [&]() -> std::string {
        switch (f.kind) {
          case Finding::Kind::Constant:
            return fmt::format("make the tensor of {} once", at_line);
          case Finding::Kind::Same:
            return fmt::format("keep the result of {}: its inputs have not changed", at_line);
          case Finding::Kind::Repeated:
            return fmt::format("if its inputs are the same, call {} once a step", at_line);
          case Finding::Kind::Growing:
            return fmt::format("cache what {} computes: its work grows", at_line);
          case Finding::Kind::Retained:
            return fmt::format("free what {} allocates: it stays alive after its step", at_line);
        }
        return "";
      };
      add(share, memory, text_of(), f.evidence);
    }
  }

  void outside() {
    const auto time = static_cast<double>(overhead_.outside);
    if (overhead_.ops == 0 || time < 0.2 * whole_) return;
    add(time / whole_, false, "look at the program's own code (profile --sample shows its lines)",
        fmt::format("{} of the run lies outside every op and scope",
                    overhead_.percent_of_run(time)));
  }

  void activations() {
    const int64_t bytes = peak_.by_category[static_cast<size_t>(MemoryCategory::Activation)];
    const auto total = static_cast<double>(peak_.total);
    if (peak_.total == 0 || static_cast<double>(bytes) < 0.5 * total) return;
    add(static_cast<double>(bytes) / total, true,
        "checkpoint the modules that keep the most memory (report --table modules)",
        fmt::format("activations are {} of the peak of {}",
                    percent(static_cast<double>(bytes), total), text::format_bytes(total)));
  }

  void recording() {
    if (p_.run.mode != "trace" || overhead_.recording < 0.05 * whole_) return;
    add(overhead_.recording / whole_, false, "record with --sample or --count",
        fmt::format("recording took {} of the run", overhead_.percent_of_run(overhead_.recording)));
  }

  const Profile& p_;
  Overhead overhead_;
  Averages averages_;
  Steps steps_;
  MemoryPeak peak_;
  TimeParts parts_;
  double whole_;  // the time of the run: every share of time is one of it
  std::vector<Advice> list_;
};

}  // namespace

std::vector<ReportTable> advice_report(const Profile& p, const ReportOptions& o) {
  const std::vector<Advice> list = Adviser(p).collect();
  ReportTable t{.name = "advice"};
  if (list.empty()) {
    t.footing = "No advice: no measurement of this run supports any.\n";
    return {std::move(t)};
  }
  t.columns = {{"About", "share"},
               {"of", "of", false},
               {"Advice", "advice", false},
               {"Because", "because", false}};
  std::vector<size_t> order(list.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  cut_rows(order, o, 0, t.footing);
  for (const size_t i : order)
    t.rows.push_back({cell(percent(list[i].share, 1), list[i].share),
                      cell(list[i].memory ? "peak" : "time"), cell(list[i].what),
                      cell(list[i].because)});
  return {std::move(t)};
}

}  // namespace pellucid::profile
