// pellucid report: the tables of a recording. What they hold is made in src/profile.
#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "io/atomic_file.h"
#include "pellucid/profile_report.h"

namespace pellucid::cli {
namespace {

struct ReportFlags {
  std::string file, table, format = "text", output;
  profile::ReportOptions report;
};

// The table that fits the other options when none is named: cProfile's for its keys,
// torch.profiler's for its own, the overview for none.
std::string table_for(const ReportFlags& o) {
  if (!o.table.empty()) return o.table;
  if (!o.report.callers.empty() || !o.report.callees.empty()) return "cprofile";
  if (!o.report.by.empty()) return "torch";
  if (o.report.sort.empty()) return "overview";
  const bool torch = o.report.sort.find("cpu_") != std::string::npos || o.report.sort == "count" ||
                     o.report.sort == "flops";
  return torch ? "torch" : "cprofile";
}

std::string rendered(const ReportFlags& o, const std::vector<profile::ReportTable>& tables) {
  if (o.format == "json") return profile::to_json(tables);
  if (o.format == "csv") return profile::to_csv(tables);
  if (o.format == "text") return profile::to_text(tables);
  throw UsageError(fmt::format("--format: expected text, json or csv, found '{}'", o.format));
}

int run_report(const Args& args) {
  ReportFlags o;
  bool json = false;
  CommandLine line(args);
  line.add_option("FILE", o.file, "A recording that `pellucid profile` made")->required();
  line.add_option("--table", o.table, "Which table; the overview when not given")
      ->type_name("NAME");
  line.add_option(
          "-s,--sort", o.report.sort,
          "cProfile's keys (tottime, cumulative, calls…), or torch.profiler's (cpu_time_total…)")
      ->type_name("KEY");
  line.add_option("--by", o.report.by,
                  "op, shape, line, module or stack; of samples: line, function or op")
      ->type_name("GROUP");
  line.add_option("--limit", o.report.limit, "How many rows; 0 for all")->type_name("N");
  line.add_option("--callers", o.report.callers, "Who calls the functions whose name contains this")
      ->type_name("NAME");
  line.add_option("--callees", o.report.callees, "Whom they call")->type_name("NAME");
  line.add_option("-u,--unit", o.report.unit, "Of cProfile's times: sec, msec or usec")
      ->type_name("UNIT");
  line.add_flag("--full-paths", o.report.full_paths, "Files with all their folders");
  line.add_option("--format", o.format, "text, json or csv")->type_name("FORMAT");
  line.add_option("-o,--output", o.output, "Write to this file")->type_name("FILE");
  line.add_json(json);
  line.read();
  if (json) o.format = "json";
  rendered(o, {});  // a wrong format is a wrong call, before any file is read

  const profile::Profile p = profile::Profile::load(o.file);
  std::string text;
  try {
    text = rendered(o, profile::report(p, table_for(o), o.report));
  } catch (const ValueError& e) { throw UsageError(e.what()); }
  if (o.output.empty())
    fmt::print(args.out, "{}", text);
  else
    io::write_file("report", o.output, text);
  return 0;
}

}  // namespace

const Command kReport{
    .name = "report",
    .summary = "Show what a recorded run did and what it cost",
    .description =
        "Reads a recording and prints where time and memory went, what binds, and what to change, "
        "or one "
        "of its tables:\n"
        "overview: where time and memory go, first ops and lines, advice\n"
        "cprofile: functions in cProfile's columns; callers and callees\n"
        "torch: ops in torch.profiler's columns, by op, shape, line, module or stack\n"
        "modules: the model's tree with parameters, FLOPs, times and memory\n"
        "summary: the layers in torchinfo's columns\n"
        "memory: memory by source line, in memory_profiler's columns\n"
        "peak: what was alive at the peak, by category, line, op and saving op\n"
        "timeline: memory in use over time\n"
        "roofline: each op against the machine's ceilings\n"
        "samples: the sampler's stacks by line, function or op\n"
        "steps: what each step repeats, and what grows\n"
        "advice: what to change, with the measurement that says so\n"
        "counts: calls by op and line",
    .examples =
        "pellucid report profile.pellucid\n"
        "pellucid report profile.pellucid -s cumulative --limit 20\n"
        "pellucid report profile.pellucid --table torch --by shape -s cpu_time_total\n"
        "pellucid report profile.pellucid --table roofline --format csv -o roofline.csv\n"
        "pellucid report profile.pellucid --callers linear",
    .run = run_report};

}  // namespace pellucid::cli
