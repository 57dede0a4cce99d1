// See averages.h and ceiling.h; and torch.profiler's table, which shows averages.
#include "profile/averages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "profile/ceiling.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {

double memory_rate(const MachineCeilings& m, double bytes) {
  for (const MemoryLevel& level : m.levels)
    if (bytes <= static_cast<double>(level.bytes)) return std::max(level.all.read, level.all.copy);
  return m.levels.empty() ? 0 : std::max(m.levels.back().all.read, m.levels.back().all.copy);
}

Ceiling ceiling_of(const MachineCeilings& m, double flops, double bytes) {
  const double rate = memory_rate(m, bytes);
  return {.compute = m.flops_all > 0 ? 1e9 * flops / m.flops_all : 0,
          .memory = rate > 0 ? 1e9 * bytes / rate : 0};
}

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

// By signature: the event that began first, or -1.
std::vector<int32_t> first_calls(const Profile& p) {
  std::vector<int32_t> first(p.signatures.size(), -1);
  for (size_t i = 0; i < p.events.size(); ++i) {
    int32_t& f = first[at(p.events[i].signature)];
    if (f < 0 || p.events[i].begin < p.events[at(f)].begin) f = static_cast<int32_t>(i);
  }
  return first;
}

}  // namespace

void Rate::add(const Event& e, const Signature& s, double least_time) {
  ++calls;
  time += static_cast<double>(e.self);
  flops += s.flops;
  bytes += s.bytes;
  least += least_time;
}

Averages::Averages(const Profile& p, GroupBy by) {
  Numbering number;
  group.key = keys_of(p, by, number);
  group.count = number.size();
  find_outermost(p, group);
  const std::vector<int64_t> memory = inclusive_memory(p);
  std::vector<Ceiling> ceilings;
  for (const Signature& s : p.signatures)
    ceilings.push_back(ceiling_of(p.machine, s.flops, s.bytes));
  rows.resize(at(number.size()));
  const std::vector<int32_t> first = first_calls(p);
  std::vector<Rate> later(p.signatures.size());
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
    const Ceiling& ceiling = ceilings[at(e.signature)];
    a.least_time += ceiling.least();
    a.compute_time += ceiling.compute;
    a.memory_time += ceiling.memory;
    ++a.op_calls;
    a.op_time += e.self;
    const bool is_first = first[at(e.signature)] == static_cast<int32_t>(i);
    (is_first ? a.first : a.warm).add(e, s, ceiling.least());
    if (!is_first) later[at(e.signature)].add(e, s, 0);
  }
  for (size_t s = 0; s < later.size(); ++s) {
    if (later[s].calls == 0) continue;
    const Event& e = p.events[at(first[s])];
    rows[at(group.key[at(first[s])])].first_excess += std::max(
        0.0, static_cast<double>(e.self) - later[s].time / static_cast<double>(later[s].calls));
  }
  for (const Stall& s : p.stalls) {
    if (s.event < 0) continue;
    const Event& e = p.events[at(s.event)];
    if (p.signatures[at(e.signature)].kind != EventKind::Op) continue;
    Average& a = rows[at(group.key[at(s.event)])];
    const bool fault = s.kind == Stall::Kind::PageFault;
    (fault ? a.faults : a.switches) += s.count;
    if (s.thread == e.thread)  // the time of others runs beside that of the op
      (fault ? a.fault_time : a.off_core_time) += static_cast<double>(s.duration);
  }
}

Cell ceiling_cell(const Average& a, bool known) {
  if (!known) return no_cell();
  Cell c = share_cell(a.rate().least, std::max(1.0, a.rate().time));
  if (a.warm.calls == 0) c.text += '*';
  return c;
}

std::string rate_note(const std::vector<Average>& rows) {
  const bool cold = std::any_of(rows.begin(), rows.end(), [](const Average& a) {
    return a.first.calls > 0 && a.warm.calls == 0;
  });
  return fmt::format(
      "rates and % of ceiling: without the first call of each kind, which touches its memory for "
      "the first time{}\n",
      cold ? "; * first calls alone" : "");
}

TimeShares::TimeShares(const Average& a, double dispatch_of_call) {
  double left = 1;
  const auto take = [&](double nanoseconds) {
    const double share =
        std::min(left, nanoseconds / std::max(1.0, static_cast<double>(a.op_time)));
    left -= share;
    return share;
  };
  ceiling = take(a.least_time);
  dispatch = take(dispatch_of_call * static_cast<double>(a.op_calls));
  faults = take(a.fault_time);
  off_core = take(a.off_core_time);
  first = take(a.first_excess);
  unexplained = left;
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

// torch.profiler's own units, which are binary ones.
Cell torch_memory(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  const double size = std::fabs(b);
  return cell(size >= 0x1p30   ? fmt::format("{:.2f} GB", b / 0x1p30)
              : size >= 0x1p20 ? fmt::format("{:.2f} MB", b / 0x1p20)
              : size >= 0x1p10 ? fmt::format("{:.2f} KB", b / 0x1p10)
                               : fmt::format("{} B", bytes),
              b);
}

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
                               torch_memory(a.memory),
                               torch_memory(a.self_memory),
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
