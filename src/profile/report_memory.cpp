// Memory by source line, what was alive at the peak, and memory over time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/text.h"
#include "profile/index.h"
#include "profile/memory_use.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

int32_t site_of_event(const Profile& p, const Names& names, int32_t event) {
  const int32_t site = event < 0 ? -1 : p.events[at(event)].site;
  return site < 0 ? -1 : names.of_site[at(site)];
}

// ---- by source line

// memory_profiler's figures are of the line that ran: the most that was in use after one of its
// allocations, what memory in use grew by while it ran (frees are of what any line took), and how
// often it ran. The others are of the line that took the blocks, whoever freed them.
struct LineMemory {
  int64_t usage = 0, increment = 0, occurrences = 0;
  int64_t allocated = 0, freed = 0, at_peak = 0;
};

// The line that ran when this happened in an event: of backward work that of backward(), since its
// events have the lines of the forward calls.
int32_t running_site(const Profile& p, const Names& names, int32_t event) {
  int32_t i = event;
  while (i >= 0 && p.events[at(i)].phase == Phase::Backward &&
         p.signatures[at(p.events[at(i)].signature)].kind != EventKind::Engine)
    i = p.events[at(i)].parent;
  return site_of_event(p, names, i >= 0 ? i : event);
}

std::map<int32_t, LineMemory> memory_by_line(const Profile& p, const Names& names) {
  std::map<int32_t, LineMemory> lines;
  int64_t now = unknown_at_start(p);
  for (const MemoryChange& c : memory_changes(p)) {
    now += c.bytes;
    const Allocation& a = p.allocations[c.allocation];
    if (a.before && c.bytes > 0) continue;
    const bool taken = c.bytes > 0;
    LineMemory& ran = lines[running_site(p, names, taken ? a.event : a.freed_by)];
    ran.increment += c.bytes;
    if (taken) ran.usage = std::max(ran.usage, now);
    if (a.before) continue;
    LineMemory& owner = lines[site_of_event(p, names, a.event)];
    (taken ? owner.allocated : owner.freed) += a.bytes;
  }
  std::vector<int64_t> runs(p.sites.size());
  for (const Event& e : p.events) {
    // Backward work has the line of its forward call, which did not run again for it.
    const EventKind kind = p.signatures[at(e.signature)].kind;
    if (e.site < 0 || (e.phase == Phase::Backward && kind != EventKind::Engine)) continue;
    const int32_t site = names.of_site[at(e.site)];
    if (e.parent < 0 || site_of_event(p, names, e.parent) != site) ++runs[at(site)];
  }
  for (auto& [site, line] : lines)
    if (site >= 0) line.occurrences = runs[at(site)];
  for (const size_t i : MemoryPeak(p).alive)
    if (!p.allocations[i].before)
      lines[site_of_event(p, names, p.allocations[i].event)].at_peak += p.allocations[i].bytes;
  return lines;
}

// The lines of a source file that is still there; nothing otherwise. A file that is no text or has
// lines without end gives no more than it must.
std::vector<std::string> source_lines(const std::string& file, int last) {
  constexpr size_t kLongest = 500;
  std::vector<std::string> lines;
  std::error_code unknown;
  // The name comes from the profile: it may be that of a device or a pipe without end.
  if (!std::filesystem::is_regular_file(file, unknown)) return lines;
  std::ifstream in(file);
  for (std::string line; static_cast<int>(lines.size()) < last && std::getline(in, line);)
    lines.push_back(line.substr(0, kLongest));
  return lines;
}

std::string mebibytes_text(int64_t bytes) {
  return fmt::format("{:.3f} MiB", static_cast<double>(bytes) / 0x1p20);
}
Cell mebibytes(int64_t bytes) { return cell(mebibytes_text(bytes), static_cast<double>(bytes)); }

// What the tables of all files sum to, and what of it has no line.
ReportTable memory_totals(const Profile& p, const std::map<int32_t, LineMemory>& lines) {
  LineMemory all, none;
  for (const auto& [site, line] : lines) {
    for (LineMemory* sum : {&all, site < 0 ? &none : nullptr}) {
      if (sum == nullptr) continue;
      sum->increment += line.increment;
      sum->allocated += line.allocated;
      sum->freed += line.freed;
    }
  }
  ReportTable t{.name = "memory-totals"};
  t.footing = fmt::format(
      "{} at the start + increments ({} of them without a line) = {} at the end\n"
      "allocated {} - freed {} = {} net ({} of it without a line)\n",
      mebibytes_text(p.run.memory_at_start), mebibytes_text(none.increment),
      mebibytes_text(p.run.memory_at_start + all.increment), mebibytes_text(all.allocated),
      mebibytes_text(all.freed), mebibytes_text(all.allocated - all.freed),
      mebibytes_text(none.allocated - none.freed));
  return t;
}

}  // namespace

std::vector<ReportTable> memory_lines_report(const Profile& p, const ReportOptions&) {
  const Names names(p);
  const std::map<int32_t, LineMemory> lines = memory_by_line(p, names);
  std::map<std::string, std::map<int, int32_t>> files;  // file, line, site
  for (const auto& [site, line] : lines)
    if (site >= 0) files[p.sites[at(site)].file][p.sites[at(site)].line] = site;
  std::vector<ReportTable> tables;
  const std::vector<ReportTable::Column> columns = {{"Line #", "line"},
                                                    {"Mem usage", "usage_bytes"},
                                                    {"Increment", "increment_bytes"},
                                                    {"Occurrences", "occurrences"},
                                                    {"Allocated", "allocated_bytes"},
                                                    {"Freed", "freed_bytes"},
                                                    {"Net", "net_bytes"},
                                                    {"At peak", "at_peak_bytes"},
                                                    {"Line Contents", "contents", false}};
  for (const auto& [file, sites] : files) {
    ReportTable t{.name = "memory", .columns = columns};
    t.heading = fmt::format("Filename: {}\n\n", file.empty() ? "(unknown)" : file);
    const auto source = source_lines(file, sites.rbegin()->first);
    for (const auto& [number, site] : sites) {
      const LineMemory& m = lines.at(site);
      const bool known = number > 0 && number <= static_cast<int>(source.size());
      t.rows.push_back({cell(fmt::format("{}", number), number), mebibytes(m.usage),
                        mebibytes(m.increment), count_cell(m.occurrences), mebibytes(m.allocated),
                        mebibytes(m.freed), mebibytes(m.allocated - m.freed), mebibytes(m.at_peak),
                        cell(known ? source[static_cast<size_t>(number) - 1] : "")});
    }
    tables.push_back(std::move(t));
  }
  tables.push_back(memory_totals(p, lines));
  return tables;
}

// ---- what was alive at the peak

namespace {

constexpr const char* kBefore = "(before the recording)";

// The bytes alive at the peak, added up by a name, with what lies outside the recording; the rows
// sum to the peak.
template <class NameOf>
ReportTable peak_table(const Profile& p, const MemoryPeak& peak, std::string title,
                       const ReportOptions& o, NameOf name_of_allocation) {
  std::map<std::string, std::pair<int64_t, int64_t>> groups;  // bytes, blocks
  for (const size_t i : peak.alive) {
    auto& [bytes, blocks] = groups[name_of_allocation(p.allocations[i])];
    bytes += p.allocations[i].bytes;
    ++blocks;
  }
  if (peak.unknown > 0) groups[kBefore].first += peak.unknown;
  if (peak.unrecorded > 0) groups["(not recorded)"].first += peak.unrecorded;
  std::vector<std::pair<std::string, std::pair<int64_t, int64_t>>> rows(groups.begin(),
                                                                        groups.end());
  ReportTable t{.name = "peak-by-" + title};
  t.heading = fmt::format("By {}:\n", title);
  t.columns = {{title, "name", false},
               {"Bytes", "bytes"},
               {"Size", "size_bytes"},
               {"% of peak", "share"},
               {"Blocks", "blocks"}};
  std::vector<size_t> order = ranked(rows.size(), [&](size_t i) { return rows[i].second.first; });
  const size_t all = order.size();
  std::string note;
  cut_rows(order, o, 20, note);
  int64_t shown = 0;
  const auto add = [&](const std::string& name, int64_t bytes, Cell blocks) {
    t.rows.push_back({cell(name), count_cell(bytes), memory_cell(bytes),
                      share_cell(static_cast<double>(bytes), static_cast<double>(peak.total)),
                      std::move(blocks)});
  };
  for (const size_t i : order) {
    add(rows[i].first, rows[i].second.first, count_cell(rows[i].second.second));
    shown += rows[i].second.first;
  }
  if (order.size() < all)
    add(fmt::format("({} more)", all - order.size()), peak.total - shown, no_cell());
  add("sum", peak.total, no_cell());
  return t;
}

}  // namespace

std::vector<ReportTable> peak_report(const Profile& p, const ReportOptions& o) {
  const MemoryPeak peak(p);
  const Names names(p);
  ReportTable head{.name = "peak"};
  const auto recorded = std::count_if(peak.alive.begin(), peak.alive.end(),
                                      [&](size_t i) { return !p.allocations[i].before; });
  head.heading = fmt::format(
      "Peak: {} bytes ({}) after {}; {} recorded blocks were alive.\n",
      text::group_digits(peak.total), text::format_bytes_binary(static_cast<double>(peak.total)),
      format_duration(static_cast<double>(peak.time)), text::group_digits(recorded));
  return {std::move(head),
          peak_table(p, peak, "category", o,
                     [](const Allocation& a) { return std::string(name_of(a.category)); }),
          peak_table(p, peak, "line", o,
                     [&](const Allocation& a) {
                       const int32_t site = site_of_event(p, names, a.event);
                       if (a.before) return std::string(kBefore);
                       return site < 0 ? std::string("(line unknown)")
                                       : place_of(p, site, o.full_paths);
                     }),
          peak_table(p, peak, "op", o,
                     [&](const Allocation& a) {
                       if (a.before) return std::string(kBefore);
                       return a.event < 0 ? std::string("(outside ops)")
                                          : p.signatures[at(p.events[at(a.event)].signature)].name;
                     }),
          peak_table(p, peak, "saving op", o, [&](const Allocation& a) { return saved_by(p, a); })};
}

// ---- over time

namespace {

struct TimelinePoint {
  int64_t time = 0, most = 0;
  std::array<int64_t, kMemoryCategoryCount> by_category{};  // where `most` was reached
};

// Whether it tells of what was alive when the recording began.
bool is_from_start(const Profile& p, const MemoryChange& c) {
  const Allocation& a = p.allocations[c.allocation];
  return a.before && a.begin == 0 && c.bytes > 0;
}

// The run in `count` slices of time, each with the most that was in use in it.
std::vector<TimelinePoint> timeline(const Profile& p, int count) {
  const std::vector<MemoryChange> changes = memory_changes(p);
  int64_t duration = p.run.duration;
  if (!changes.empty()) duration = std::max(duration, changes.back().time + 1);
  std::vector<TimelinePoint> points;
  std::array<int64_t, kMemoryCategoryCount> now{};
  int64_t total = unknown_at_start(p);
  size_t next = 0;
  const auto advance = [&] {
    const MemoryChange& c = changes[next++];
    total += c.bytes;
    now[static_cast<size_t>(p.allocations[c.allocation].category)] += c.bytes;
  };
  while (next < changes.size() && is_from_start(p, changes[next])) advance();
  for (int i = 0; i < count; ++i) {
    TimelinePoint point{duration * i / count, total, now};
    const int64_t until = i + 1 == count ? duration + 1 : duration * (i + 1) / count;
    while (next < changes.size() && changes[next].time < until) {
      advance();
      if (total > point.most) point = {point.time, total, now};
    }
    points.push_back(point);
  }
  return points;
}

std::string plot(const std::vector<TimelinePoint>& points, int64_t duration) {
  constexpr int kRows = 12;
  constexpr std::string_view kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  int64_t most = 1;
  for (const TimelinePoint& x : points) most = std::max(most, x.most);
  std::string out;
  for (int row = kRows; row-- > 0;) {
    const bool labelled = row == kRows - 1 || row == kRows / 2 - 1;
    const double top = static_cast<double>(most) * (row + 1) / kRows;
    out += fmt::format("{:>12} |", labelled ? text::format_bytes_binary(top) : "");
    std::string line;
    for (const TimelinePoint& x : points) {
      const double eighths =
          8 * (kRows * static_cast<double>(x.most) / static_cast<double>(most) - row);
      line += kBlocks[std::clamp(static_cast<int>(eighths + 0.5), 0, 8)];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  const std::string end = format_duration(static_cast<double>(duration));
  const int gap = std::max(1, static_cast<int>(points.size()) - 1 - static_cast<int>(end.size()));
  return out + fmt::format("{:>12} +{}\n{:>13}0{}{}\n", "0 B", std::string(points.size(), '-'), "",
                           std::string(static_cast<size_t>(gap), ' '), end);
}

}  // namespace

std::vector<ReportTable> timeline_report(const Profile& p, const ReportOptions& o) {
  constexpr int kColumns = 72;
  const auto drawn = timeline(p, kColumns);
  ReportTable t{.name = "timeline"};
  t.heading =
      "Memory in use (the maximum in each time slice):\n" + plot(drawn, p.run.duration) + "\n";
  const auto points =
      timeline(p, o.limit > 0 ? static_cast<int>(std::min<int64_t>(o.limit, 100'000)) : 24);
  t.columns = {{"Time", "time_seconds"}, {"In use", "bytes"}};
  const int64_t unknown = unknown_at_start(p);
  if (unknown > 0) t.columns.push_back({"before", "before_bytes"});
  std::vector<int> shown;
  for (int c = 0; c < kMemoryCategoryCount; ++c) {
    const bool used = std::any_of(points.begin(), points.end(), [&](const TimelinePoint& x) {
      return x.by_category[static_cast<size_t>(c)] != 0;
    });
    if (!used) continue;
    shown.push_back(c);
    const std::string name(name_of(static_cast<MemoryCategory>(c)));
    t.columns.push_back({name, name + "_bytes"});
  }
  for (const TimelinePoint& x : points) {
    std::vector<Cell> row = {time_cell(static_cast<double>(x.time)), memory_cell(x.most)};
    if (unknown > 0) row.push_back(memory_cell(unknown));
    for (const int c : shown) row.push_back(memory_cell(x.by_category[static_cast<size_t>(c)]));
    t.rows.push_back(std::move(row));
  }
  return {std::move(t)};
}

}  // namespace pellucid::profile
