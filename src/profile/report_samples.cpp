// What the sampler saw, as a histogram; and the calls of a recording that only counts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "pellucid/error.h"
#include "profile/index.h"
#include "profile/reports.h"
#include "profile/symbols.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

struct SampleCount {
  int64_t self = 0, total = 0;
  int64_t last = -1;  // the sample that was counted in `total` last: recursion counts once
};

std::string bar(double share) {
  constexpr double kColumns = 40;
  std::string out;
  for (int i = 0; i < static_cast<int>(std::lround(share * kColumns)); ++i) out += "█";
  return out;
}

std::string line_name(const Profile& p, int32_t site, bool full) {
  if (site < 0) return "(unknown)";
  const Site& s = p.sites[at(site)];
  if (!s.file.empty()) return function_name(p, site, s.function, full);
  if (!s.function.empty()) return fmt::format("{{{}}}", s.function);
  if (s.object.empty()) return "(unknown)";
  const size_t slash = full ? std::string::npos : s.object.rfind('/');
  return fmt::format("({})", slash == std::string::npos ? s.object : s.object.substr(slash + 1));
}

// How many samples there are, and how many of those that were asked for: the system fires timers of
// processor time with its own tick, often 250 a second.
std::string samples_line(const Profile& p) {
  const auto count = static_cast<int64_t>(p.samples.size());
  const auto clock = std::find_if(p.counters.begin(), p.counters.end(),
                                  [](const Counter& c) { return c.name == "task-clock"; });
  if (clock == p.counters.end() || clock->value <= 0)
    return fmt::format("{} samples; {:.0f} per second of CPU time were requested\n",
                       text::group_digits(count), p.run.sample_rate);
  return fmt::format("{} samples in {} of CPU time: {:.0f} per second of {:.0f} requested\n",
                     text::group_digits(count), format_duration(clock->value),
                     static_cast<double>(count) / clock->value * 1e9, p.run.sample_rate);
}

enum class SampleGroup { Line, Function, Op };

// Samples added up by line, by function or by op.
class SampleCounts {
 public:
  SampleCounts(const Profile& p, SampleGroup by, bool full_paths)
      : p_(p), names_of_(p), by_(by), full_paths_(full_paths) {
    for (size_t i = 0; i < p.samples.size(); ++i) {
      const Sample& s = p.samples[i];
      if (by == SampleGroup::Op)
        add(s.signature < 0 ? -1 : names_of_.of_signature[at(s.signature)], i, true);
      else if (s.stack < 0)
        add(key_of(s.site), i, true);
      for (int32_t f = by == SampleGroup::Op ? -1 : s.stack; f >= 0; f = p.frames[at(f)].parent)
        add(key_of(p.frames[at(f)].site), i, f == s.stack);
    }
  }
  std::vector<SampleCount> counts;
  std::vector<std::string> names;

 private:
  // Lines of one function have the key of the line that was seen first; functions of two libraries
  // may have one name.
  int32_t key_of(int32_t site) {
    if (by_ == SampleGroup::Line || site < 0) return site;
    const Site& s = p_.sites[at(site)];
    return functions_.try_emplace(s.file + '\n' + s.function + '\n' + s.object, site).first->second;
  }
  void add(int32_t key, size_t sample, bool self) {
    const int32_t n = number_(0, key);
    if (at(n) == counts.size()) {
      counts.emplace_back();
      names.push_back(by_ != SampleGroup::Op ? line_name(p_, key, full_paths_)
                      : key < 0              ? "(outside ops)"
                                             : std::string(names_of_.text[at(key)]));
    }
    SampleCount& c = counts[at(n)];
    if (self) ++c.self;
    if (c.last != static_cast<int64_t>(sample)) ++c.total;
    c.last = static_cast<int64_t>(sample);
  }

  const Profile& p_;
  Names names_of_;  // calls with other sizes are the same op
  SampleGroup by_;
  bool full_paths_;
  Numbering number_;
  std::unordered_map<std::string, int32_t> functions_;
};

// Whether a frame is the program's own code, and not a library's.
bool is_program(const Site& s) {
  if (s.file.empty()) return false;
  if (s.python) return !s.file.starts_with('<');
  return s.object.find(".so") == std::string::npos && !is_library_header(s.file) &&
         !s.file.starts_with("/usr/include/");
}

// The line of the program that a sample belongs to: that of the op that ran, or the innermost
// frame of the program's own.
int32_t program_site(const Profile& p, const Sample& s) {
  if (s.site >= 0 && is_program(p.sites[at(s.site)])) return s.site;
  for (int32_t f = s.stack; f >= 0; f = p.frames[at(f)].parent)
    if (const int32_t site = p.frames[at(f)].site; site >= 0 && is_program(p.sites[at(site)]))
      return site;
  return -1;
}

}  // namespace

std::string sampled_sentence(const Profile& p) {
  std::map<std::pair<std::string, int>, std::pair<int64_t, int32_t>> lines;
  for (const Sample& s : p.samples)
    if (const int32_t site = program_site(p, s); site >= 0) {
      auto& [count, first] = lines[{p.sites[at(site)].file, p.sites[at(site)].line}];
      ++count;
      first = site;
    }
  const auto most = std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return a.second.first < b.second.first;
  });
  if (most == lines.end()) return "no sample has a line of the program (build it with -g)";
  const int32_t site = most->second.second;
  return fmt::format(
      "{} holds {} of the samples", function_name(p, site, p.sites[at(site)].function),
      percent(static_cast<double>(most->second.first), static_cast<double>(p.samples.size())));
}

std::vector<ReportTable> samples_report(const Profile& p, const ReportOptions& o) {
  PELLUCID_CHECK(
      !p.samples.empty(), ValueError,
      "report: the profile has no samples; record some with `pellucid profile --sample`.");
  const auto by = static_cast<SampleGroup>(
      choose(o.by.empty() ? "line" : o.by, {"line", "function", "op"}, "groups"));
  const SampleCounts found(p, by, o.full_paths);
  const auto& counts = found.counts;
  ReportTable t{.name = "samples"};
  const auto all = static_cast<double>(p.samples.size());
  t.heading = samples_line(p);
  t.columns = {{"Self", "self"},           {"Self %", "self_share"},  {"Total", "total"},
               {"Total %", "total_share"}, {"Where", "where", false}, {"", "bar", false}};
  std::vector<size_t> order =
      ranked(counts.size(), [&](size_t i) { return std::pair(counts[i].self, counts[i].total); });
  cut_rows(order, o, 30, t.footing);
  for (const size_t i : order) {
    const auto self = static_cast<double>(counts[i].self);
    const auto total = static_cast<double>(counts[i].total);
    t.rows.push_back({count_cell(counts[i].self), share_cell(self, all),
                      count_cell(counts[i].total), share_cell(total, all), cell(found.names[i]),
                      cell(bar(self / all))});
  }
  return {std::move(t)};
}

std::vector<ReportTable> counts_report(const Profile& p, const ReportOptions& o) {
  // A trace has no counts of its own: its events are counted.
  std::vector<CallCount> counts = p.counts;
  if (counts.empty()) {
    Numbering number;
    for (const Event& e : p.events) {
      const int32_t n = number(e.signature, e.site);
      if (at(n) == counts.size()) counts.push_back({e.signature, e.site, 0});
      ++counts[at(n)].calls;
    }
  }
  ReportTable t{.name = "counts"};
  t.columns = {{"Calls", "calls"},
               {"FLOPs", "flops"},
               {"Bytes", "bytes"},
               {"Name", "name", false},
               {"Input Shapes", "input_shapes", false},
               {"Where", "where", false}};
  std::vector<size_t> order = ranked(counts.size(), [&](size_t i) { return counts[i].calls; });
  double flops = 0;
  int64_t calls = 0;
  for (const CallCount& c : counts) {
    calls += c.calls;
    flops += static_cast<double>(c.calls) * p.signatures[at(c.signature)].flops;
  }
  t.heading = fmt::format("{} calls, {}\n", calls, with_prefix(flops, "FLOPs"));
  cut_rows(order, o, 50, t.footing);
  for (const size_t i : order) {
    const Signature& s = p.signatures[at(counts[i].signature)];
    const auto n = static_cast<double>(counts[i].calls);
    t.rows.push_back({count_cell(counts[i].calls), cell(with_prefix(n * s.flops, ""), n * s.flops),
                      cell(with_prefix(n * s.bytes, "B"), n * s.bytes), cell(s.name),
                      cell(s.inputs.empty() ? "" : shapes_of(s.inputs)),
                      cell(counts[i].site < 0 ? "" : place_of(p, counts[i].site, o.full_paths))});
  }
  return {std::move(t)};
}

}  // namespace pellucid::profile
