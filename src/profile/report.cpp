// The names of the reports and which function makes each.
#include "pellucid/error.h"
#include "profile/index.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

struct Report {
  ReportName name;
  std::vector<ReportTable> (*make)(const Profile&, const ReportOptions&);
  bool needs_events;
};

const std::vector<Report>& reports() {
  static const std::vector<Report> kReports = {
      {{"overview", "where time and memory go, what binds, the top ops and lines, advice"},
       overview_report,
       false},
      {{"cprofile", "functions in cProfile's columns; callers and callees"}, function_report, true},
      {{"torch", "ops in torch.profiler's columns, by op, shape, line, module or stack"},
       averages_report,
       true},
      {{"modules", "the model's tree with parameters, FLOPs, times and memory"},
       module_report,
       true},
      {{"summary", "the layers in torchinfo's columns"}, summary_report, true},
      {{"memory", "memory by source line, in memory_profiler's columns"},
       memory_lines_report,
       true},
      {{"peak", "what was alive at the peak, by category, line, op and saving op"},
       peak_report,
       true},
      {{"timeline", "memory in use over time"}, timeline_report, true},
      {{"roofline", "each op against the machine's ceilings"}, roofline_report, true},
      {{"samples", "the sampler's stacks by line, function or op"}, samples_report, false},
      {{"steps", "what each step repeats, and what grows"}, steps_report, true},
      {{"advice", "what to change, with the measurement that says so"}, advice_report, true},
      {{"counts", "calls by op and line"}, counts_report, false}};
  return kReports;
}

}  // namespace

const std::vector<ReportName>& report_names() {
  static const std::vector<ReportName> kNames = [] {
    std::vector<ReportName> names;
    for (const Report& r : reports()) names.push_back(r.name);
    return names;
  }();
  return kNames;
}

std::vector<ReportTable> report(const Profile& p, const std::string& name,
                                const ReportOptions& options) {
  std::vector<std::string_view> words;
  for (const Report& r : reports()) words.push_back(r.name.name);
  const Report& chosen = reports()[choose(name, words, "tables")];
  validate(p);
  PELLUCID_CHECK(!chosen.needs_events || p.run.mode == "trace" || !p.events.empty(), ValueError,
                 "report: '{}' needs every op with its times, but this recording was made with "
                 "--{}; record with --trace.",
                 name, p.run.mode);
  return chosen.make(p, options);
}

}  // namespace pellucid::profile
