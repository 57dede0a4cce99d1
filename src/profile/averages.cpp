// See averages.h; and torch.profiler's table, which shows averages.
#include "profile/averages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "profile/overhead.h"
#include "profile/reports.h"
#include "profile/table.h"
#include "profile/time_parts.h"

namespace pellucid::profile {

GroupBy group_by(std::string_view word, GroupBy otherwise) {
  if (word.empty()) return otherwise;
  return static_cast<GroupBy>(choose(word, {"op", "shape", "line", "module", "stack"}, "groups"));
}

namespace {

// Signatures of one name and the same input sizes are one shape, whatever their attributes.
std::vector<int32_t> shapes_by_signature(const Profile& p) {
  std::vector<int32_t> shape;
  std::unordered_map<std::string, int32_t> number;
  for (const Signature& s : p.signatures)
    shape.push_back(
        number.try_emplace(s.name + '\n' + shapes_of(s.inputs), static_cast<int32_t>(number.size()))
            .first->second);
  return shape;
}

std::vector<int32_t> keys_of(const Profile& p, GroupBy by, Numbering& number) {
  const Names names(p);
  const std::vector<int32_t> shape =
      by == GroupBy::Shape ? shapes_by_signature(p) : std::vector<int32_t>();
  const auto key = [&](const Event& e) {
    const int32_t name = names.of_signature[at(e.signature)];
    const int32_t site = e.site < 0 ? -1 : names.of_site[at(e.site)];
    switch (by) {
      case GroupBy::Op:
        return number(0, name);
      case GroupBy::Shape:
        return number(0, shape[at(e.signature)]);
      case GroupBy::Line:
        return number(0, site);
      case GroupBy::Module:
        return number(0, e.module);
      case GroupBy::Stack:  // a line alone where no stack was recorded, apart from all stacks
        return number(e.stack >= 0 ? e.stack : -2 - site, name);
    }
    return 0;
  };
  std::vector<int32_t> keys;
  keys.reserve(p.events.size());
  for (const Event& e : p.events) keys.push_back(key(e));
  return keys;
}

}  // namespace

std::vector<int32_t> first_calls(const Profile& p) {
  std::vector<int32_t> first(p.signatures.size(), -1);
  for (size_t i = 0; i < p.events.size(); ++i) {
    int32_t& f = first[at(p.events[i].signature)];
    if (f < 0 || p.events[i].begin < p.events[at(f)].begin) f = static_cast<int32_t>(i);
  }
  return first;
}

void Rate::add(const Event& e, const Signature& s, double least_time) {
  ++calls;
  time += static_cast<double>(e.self);
  flops += s.flops;
  bytes += s.bytes;
  least += least_time;
}

void TimeSplit::add(const TimeSplit& o) {
  compute += o.compute;
  memory += o.memory;
  dispatch += o.dispatch;
  faults += o.faults;
  preempted += o.preempted;
  waiting += o.waiting;
  first += o.first;
  unexplained += o.unexplained;
}

namespace {

// Splits the time of single ops.
class OpSplitter {
 public:
  OpSplitter(const Profile& p, const std::vector<int32_t>& first,
             const std::vector<LeastSeconds>& ceilings)
      : p_(p),
        ceilings_(ceilings),
        dispatch_(find_dispatch(p).nanoseconds),
        excess_(p.events.size()),
        stalls_(p.events.size()) {
    std::vector<Rate> later(p.signatures.size());
    for (size_t i = 0; i < p.events.size(); ++i) {
      const int32_t s = p.events[i].signature;
      if (first[at(s)] != static_cast<int32_t>(i))
        later[at(s)].add(p.events[i], p.signatures[at(s)], 0);
    }
    for (size_t s = 0; s < later.size(); ++s)
      if (later[s].calls > 0)
        excess_[at(first[s])] = static_cast<double>(p.events[at(first[s])].self) -
                                later[s].time / static_cast<double>(later[s].calls);
    for (const Stall& s : p.stalls) {
      if (s.event < 0 || s.thread != p.events[at(s.event)].thread) continue;  // beside the op
      stalls_[at(s.event)][static_cast<size_t>(s.kind)] += static_cast<double>(s.duration);
    }
  }

  TimeSplit operator()(size_t event) const {
    auto left = static_cast<double>(p_.events[event].self);
    const auto take = [&left](double nanoseconds) {
      const double part = std::clamp(nanoseconds, 0.0, std::max(0.0, left));
      left -= part;
      return part;
    };
    const LeastSeconds& c = ceilings_[at(p_.events[event].signature)];
    TimeSplit split;
    (c.memory_bound() ? split.memory : split.compute) = take(1e9 * c.least());
    split.dispatch = take(dispatch_);
    const auto stall = [&](Stall::Kind kind) { return stalls_[event][static_cast<size_t>(kind)]; };
    split.faults = take(stall(Stall::Kind::PageFault));
    split.preempted = take(stall(Stall::Kind::Preempted));
    split.waiting = take(stall(Stall::Kind::Waiting));
    split.first = take(excess_[event]);
    split.unexplained = left;
    return split;
  }

 private:
  const Profile& p_;
  const std::vector<LeastSeconds>& ceilings_;
  double dispatch_;
  std::vector<double> excess_;                 // of first calls, beyond the mean of later ones
  std::vector<std::array<double, 3>> stalls_;  // by Stall::Kind
};

}  // namespace

Averages::Averages(const Profile& p, GroupBy by) {
  Numbering number;
  group.key = keys_of(p, by, number);
  group.count = number.size();
  find_outermost(p, group);
  const std::vector<int64_t> memory = inclusive_memory(p);
  const MachineRates rates = rates_of(p.machine);
  std::vector<LeastSeconds> ceilings;
  for (const Signature& s : p.signatures) ceilings.push_back(rates.least(s.flops, s.bytes));
  rows.resize(at(number.size()));
  const std::vector<int32_t> first = first_calls(p);
  const OpSplitter split(p, first, ceilings);
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    Average& a = rows[at(group.key[i])];
    if (a.event < 0) a.event = static_cast<int32_t>(i);
    ++a.calls;
    a.self += e.self;
    self += e.self;
    a.self_memory += e.allocated - e.freed;
    if (group.outermost[i] != 0) {
      a.total += e.end - e.begin;
      a.memory += memory[i];
    }
    const Signature& s = p.signatures[at(e.signature)];
    if (s.kind != EventKind::Op) continue;
    a.flops += s.flops;
    a.contraction_flops += s.contraction_flops;
    a.bytes += s.bytes;
    const LeastSeconds& ceiling = ceilings[at(e.signature)];
    const double least = 1e9 * ceiling.least();
    a.least_time += least;
    a.compute_time += 1e9 * ceiling.compute;
    a.memory_time += 1e9 * ceiling.memory;
    ++a.op_calls;
    a.op_time += e.self;
    a.split.add(split(i));
    const bool is_first = first[at(e.signature)] == static_cast<int32_t>(i);
    (is_first ? a.first : a.warm).add(e, s, least);
  }
  for (const Stall& s : p.stalls) {
    if (s.event < 0) continue;
    const Event& e = p.events[at(s.event)];
    if (p.signatures[at(e.signature)].kind != EventKind::Op) continue;
    Average& a = rows[at(group.key[at(s.event)])];
    (s.kind == Stall::Kind::PageFault ? a.faults : a.switches) += s.count;
  }
}

TimeParts::TimeParts(const Profile& p, const Overhead& o)
    : scopes(static_cast<double>(o.scope_time - o.wait_time)),
      waits(static_cast<double>(o.wait_time)),
      outside(static_cast<double>(o.outside)) {
  for (const Average& a : Averages(p, GroupBy::Op).rows) ops.add(a.split);
}

Cell ceiling_cell(const Average& a, bool known) {
  if (!known) return no_cell();
  Cell c = share_cell(a.rate().least, std::max(1.0, a.rate().time));
  if (a.warm.calls == 0) c.text += '*';
  return c;
}

std::string ceiling_lines(const Profile& p, const std::vector<Average>& rows) {
  const MachineRates rates = rates_of(p.machine);
  if (!rates.known()) return "ceilings: not measured yet; run `pellucid doctor` once\n";
  double most = 0;
  for (const Average& a : rows)
    if (a.rate().time > 0) most = std::max(most, a.rate().least / a.rate().time);
  std::string out = fmt::format("ceilings: {}, {} thread{}\n", rates.text(), p.machine.threads,
                                p.machine.threads == 1 ? "" : "s");
  if (const std::string why = rates.warning(most); !why.empty())
    out += fmt::format("warning: {}\n", why);
  return out;
}

std::string rate_note(const std::vector<Average>& rows) {
  const bool cold = std::any_of(rows.begin(), rows.end(), [](const Average& a) {
    return a.first.calls > 0 && a.warm.calls == 0;
  });
  return fmt::format(
      "rates and % of ceiling exclude the first call of each kind, which touches its memory for "
      "the first time{}\n",
      cold ? "; * only first calls" : "");
}

std::string group_name(const Profile& p, GroupBy by, int32_t event, bool full_paths) {
  const Event& e = p.events[at(event)];
  switch (by) {
    case GroupBy::Line:
      return e.site < 0 ? "(line unknown)" : place_of(p, e.site, full_paths);
    case GroupBy::Module:
      if (e.module < 0) return "(outside modules)";
      return p.modules[at(e.module)].path.empty() ? p.modules[at(e.module)].type
                                                  : p.modules[at(e.module)].path;
    default:
      return p.signatures[at(e.signature)].name;
  }
}

namespace {

struct FlopsUnit {
  double scale = 1;
  std::string_view name = "FLOPs";
};

// The unit in which the smallest cost is still a number above 1, as torch.profiler chooses it.
FlopsUnit flops_unit(const std::vector<Average>& rows) {
  constexpr std::string_view kUnits[] = {"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};
  double least = 0;
  for (const Average& a : rows)
    if (a.flops > 0 && (least == 0 || a.flops < least)) least = a.flops;
  if (least == 0) return {};
  const int unit = std::clamp(static_cast<int>(std::log10(least) / 3), 0, 5);
  return {std::pow(10, -3 * unit), kUnits[unit]};
}

double sort_value(const Average& a, size_t key) {
  const double values[] = {
      static_cast<double>(a.self),
      static_cast<double>(a.total),
      static_cast<double>(a.total) / static_cast<double>(std::max<int64_t>(1, a.calls)),
      static_cast<double>(a.memory),
      static_cast<double>(a.self_memory),
      static_cast<double>(a.calls),
      a.flops};
  return values[key];
}

// The lines of the stack, the innermost first.
std::string stack_text(const Profile& p, const Event& e, bool full) {
  if (e.stack < 0) return e.site < 0 ? "" : place_of(p, e.site, full);
  std::string out;
  for (int32_t f = e.stack; f >= 0; f = p.frames[at(f)].parent) {
    const int32_t site = p.frames[at(f)].site;
    if (site < 0) continue;
    out += (out.empty() ? "" : " < ") + function_name(p, site, p.sites[at(site)].function, full);
  }
  return out;
}

}  // namespace

std::vector<ReportTable> averages_report(const Profile& p, const ReportOptions& o) {
  const GroupBy by = group_by(o.by);
  const Averages averages(p, by);
  const auto& rows = averages.rows;
  const size_t key = choose(o.sort.empty() ? "self_cpu_time_total" : o.sort,
                            {"self_cpu_time_total", "cpu_time_total", "cpu_time",
                             "cpu_memory_usage", "self_cpu_memory_usage", "count", "flops"},
                            "sort keys");
  ReportTable t{.name = "torch", .style = TableStyle::Torch};
  t.columns = {{"Name", "name"},
               {"Self CPU %", "self_cpu_share"},
               {"Self CPU", "self_cpu_seconds"},
               {"CPU total %", "cpu_total_share"},
               {"CPU total", "cpu_total_seconds"},
               {"CPU time avg", "cpu_time_avg_seconds"},
               {"CPU Mem", "cpu_memory_bytes"},
               {"Self CPU Mem", "self_cpu_memory_bytes"},
               {"# of Calls", "calls"}};
  if (by == GroupBy::Shape) t.columns.push_back({"Input Shapes", "input_shapes"});
  if (by == GroupBy::Stack) t.columns.push_back({"Source Location", "source_location", false});
  const FlopsUnit unit = flops_unit(rows);
  t.columns.push_back({fmt::format("Total {}", unit.name), "flops"});
  std::vector<size_t> order =
      ranked(rows.size(), [&](size_t i) { return sort_value(rows[i], key); });
  std::string note;
  cut_rows(order, o, 100, note);
  const auto whole = static_cast<double>(averages.self);
  for (const size_t i : order) {
    const Average& a = rows[i];
    const auto self = static_cast<double>(a.self), total = static_cast<double>(a.total);
    std::vector<Cell> cells = {cell(group_name(p, by, a.event, o.full_paths)),
                               share_cell(self, whole),
                               time_cell(self),
                               share_cell(total, whole),
                               time_cell(total),
                               time_cell(total / static_cast<double>(a.calls)),
                               memory_cell(a.memory),
                               memory_cell(a.self_memory),
                               cell(fmt::format("{}", a.calls), static_cast<double>(a.calls))};
    const Event& e = p.events[at(a.event)];
    if (by == GroupBy::Shape)
      cells.push_back(cell(shapes_of(p.signatures[at(e.signature)].inputs)));
    if (by == GroupBy::Stack) cells.push_back(cell(stack_text(p, e, o.full_paths)));
    cells.push_back(a.flops > 0 ? cell(fmt::format("{:.3f}", a.flops * unit.scale), a.flops)
                                : no_cell());
    t.rows.push_back(std::move(cells));
  }
  t.footing = note + fmt::format("Self CPU time total: {}\n", format_duration(whole));
  return {std::move(t)};
}

}  // namespace pellucid::profile
