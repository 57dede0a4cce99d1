// What the sampler saw, as a histogram; and the calls of a recording that only counts.
#include <fmt/format.h>

#include <cmath>

#include "pellucid/error.h"
#include "profile/index.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

size_t at(int32_t i) { return static_cast<size_t>(i); }

struct SampleCount {
  int32_t sample = -1;  // one of them
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
  return s.object.empty() ? "(unknown)" : fmt::format("({})", s.object);
}

}  // namespace

std::vector<ReportTable> samples_report(const Profile& p, const ReportOptions& o) {
  PELLUCID_CHECK(
      !p.samples.empty(), ValueError,
      "report: the recording has no samples; make one with `pellucid profile --sample`.");
  const size_t by = choose(o.by.empty() ? "line" : o.by, {"line", "function", "op"}, "groups");
  Numbering number;
  std::vector<SampleCount> counts;
  std::vector<std::string> names;
  std::unordered_map<std::string, int32_t> functions;
  const auto key_of_site = [&](int32_t site) {
    if (by == 0 || site < 0) return site;
    const Site& s = p.sites[at(site)];
    return functions.try_emplace(s.file + '\n' + s.function, site).first->second;
  };
  const auto count = [&](int32_t key, size_t sample, bool self, const auto& name) {
    const int32_t n = number(0, key);
    if (at(n) == counts.size()) {
      counts.push_back({.sample = static_cast<int32_t>(sample)});
      names.push_back(name());
    }
    SampleCount& c = counts[at(n)];
    if (self) ++c.self;
    if (c.last != static_cast<int64_t>(sample)) ++c.total;
    c.last = static_cast<int64_t>(sample);
  };
  for (size_t i = 0; i < p.samples.size(); ++i) {
    const Sample& s = p.samples[i];
    if (by == 2) {
      count(s.signature, i, true, [&] {
        return s.signature < 0 ? std::string("(outside ops)") : p.signatures[at(s.signature)].name;
      });
      continue;
    }
    const auto add = [&](int32_t site, bool self) {
      const int32_t key = key_of_site(site);
      count(key, i, self, [&] { return line_name(p, key, o.full_paths); });
    };
    if (s.stack < 0) add(s.site, true);
    for (int32_t f = s.stack; f >= 0; f = p.frames[at(f)].parent)
      add(p.frames[at(f)].site, f == s.stack);
  }
  ReportTable t{.name = "samples"};
  const auto all = static_cast<double>(p.samples.size());
  t.heading = fmt::format("{} samples at {:.0f} Hz\n", p.samples.size(), p.run.sample_rate);
  t.columns = {{"Self", "self"},           {"Self %", "self_share"},  {"Total", "total"},
               {"Total %", "total_share"}, {"Where", "where", false}, {"", "bar", false}};
  std::vector<size_t> order =
      ranked(counts.size(), [&](size_t i) { return std::pair(counts[i].self, counts[i].total); });
  cut_rows(order, o, 30, t.footing);
  for (const size_t i : order) {
    const auto self = static_cast<double>(counts[i].self),
               total = static_cast<double>(counts[i].total);
    t.rows.push_back({count_cell(counts[i].self), share_cell(self, all),
                      count_cell(counts[i].total), share_cell(total, all), cell(names[i]),
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
