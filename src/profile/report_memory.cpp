// Memory by source line, what was alive at the peak, and memory over time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
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

struct LineMemory {
  int64_t usage = 0, increment = 0, occurrences = 0, at_peak = 0;
};

// For each line: the most that was in use after one of its allocations, what its allocations and
// frees come to, how often it ran, and its share of the peak.
std::map<int32_t, LineMemory> memory_by_line(const Profile& p, const Names& names) {
  std::map<int32_t, LineMemory> lines;
  int64_t now = p.run.memory_at_start;
  for (const MemoryChange& c : memory_changes(p)) {
    now += c.bytes;
    const Allocation& a = p.allocations[c.allocation];
    LineMemory& line = lines[site_of_event(p, names, c.bytes > 0 ? a.event : a.freed_by)];
    line.increment += c.bytes;
    if (c.bytes > 0) line.usage = std::max(line.usage, now);
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
    lines[site_of_event(p, names, p.allocations[i].event)].at_peak += p.allocations[i].bytes;
  return lines;
}

// The lines of a source file that is still there; nothing otherwise. A file that is no text or has
// lines without end gives no more than it must.
std::vector<std::string> source_lines(const std::string& file, int last) {
  constexpr size_t kLongest = 500;
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; static_cast<int>(lines.size()) < last && std::getline(in, line);)
    lines.push_back(line.substr(0, kLongest));
  return lines;
}

Cell mebibytes(int64_t bytes) {
  return cell(fmt::format("{:.3f} MiB", static_cast<double>(bytes) / 0x1p20),
              static_cast<double>(bytes));
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
                        mebibytes(m.increment), count_cell(m.occurrences), mebibytes(m.at_peak),
                        cell(known ? source[static_cast<size_t>(number) - 1] : "")});
    }
    tables.push_back(std::move(t));
  }
  int64_t end = p.run.memory_at_start;
  for (const auto& entry : lines) end += entry.second.increment;
  const auto elsewhere = lines.find(-1);
  ReportTable rest{.name = "memory-totals"};
  rest.footing = fmt::format(
      "{:.3f} MiB at the start + increments ({:.3f} MiB of them without a line) = {:.3f} MiB at "
      "the "
      "end\n",
      static_cast<double>(p.run.memory_at_start) / 0x1p20,
      elsewhere == lines.end() ? 0 : static_cast<double>(elsewhere->second.increment) / 0x1p20,
      static_cast<double>(end) / 0x1p20);
  tables.push_back(std::move(rest));
  return tables;
}

// ---- what was alive at the peak

namespace {

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
  if (peak.at_start > 0) groups["(before the recording)"].first += peak.at_start;
  if (peak.unrecorded != 0) groups["(not recorded)"].first += peak.unrecorded;
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
  head.heading = fmt::format("Peak: {} bytes ({}) after {}; {} recorded blocks were alive.\n",
                             text::group_digits(peak.total),
                             text::format_bytes_binary(static_cast<double>(peak.total)),
                             format_duration(static_cast<double>(peak.time)),
                             text::group_digits(static_cast<int64_t>(peak.alive.size())));
  return {std::move(head),
          peak_table(p, peak, "category", o,
                     [](const Allocation& a) { return std::string(name_of(a.category)); }),
          peak_table(p, peak, "line", o,
                     [&](const Allocation& a) {
                       const int32_t site = site_of_event(p, names, a.event);
                       return site < 0 ? std::string("(line unknown)")
                                       : place_of(p, site, o.full_paths);
                     }),
          peak_table(p, peak, "op", o,
                     [&](const Allocation& a) {
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

// The run in `count` slices of time, each with the most that was in use in it.
std::vector<TimelinePoint> timeline(const Profile& p, int count) {
  const std::vector<MemoryChange> changes = memory_changes(p);
  int64_t duration = p.run.duration;
  if (!changes.empty()) duration = std::max(duration, changes.back().time + 1);
  std::vector<TimelinePoint> points;
  std::array<int64_t, kMemoryCategoryCount> now{};
  int64_t total = p.run.memory_at_start;
  size_t next = 0;
  for (int i = 0; i < count; ++i) {
    TimelinePoint point{duration * i / count, total, now};
    const int64_t until = i + 1 == count ? duration + 1 : duration * (i + 1) / count;
    for (; next < changes.size() && changes[next].time < until; ++next) {
      const MemoryChange& c = changes[next];
      total += c.bytes;
      now[static_cast<size_t>(p.allocations[c.allocation].category)] += c.bytes;
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
      "Memory in use, the most in each slice of time:\n" + plot(drawn, p.run.duration) + "\n";
  const auto points =
      timeline(p, o.limit > 0 ? static_cast<int>(std::min<int64_t>(o.limit, 100'000)) : 24);
  t.columns = {{"Time", "time_seconds"}, {"In use", "bytes"}, {"before", "before_bytes"}};
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
    std::vector<Cell> row = {time_cell(static_cast<double>(x.time)), memory_cell(x.most),
                             memory_cell(p.run.memory_at_start)};
    for (const int c : shown) row.push_back(memory_cell(x.by_category[static_cast<size_t>(c)]));
    t.rows.push_back(std::move(row));
  }
  return {std::move(t)};
}

}  // namespace pellucid::profile
