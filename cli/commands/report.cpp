// pellucid report: the tables of a recording. What they hold is made in src/profile.
#include <fmt/format.h>

#include "base/atomic_file.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "pellucid/profile_report.h"
#include "profile/recording_file.h"

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
  bool json = false, check = false;
  CommandLine line(args);
  line.add_option("FILE", o.file, "A profile that `pellucid profile` wrote")->required();
  line.add_option("--table", o.table, "The table to print (default: overview)")->type_name("NAME");
  line.add_option("-s,--sort", o.report.sort,
                  "Sort by a key of cProfile (tottime, cumulative, calls…) or of torch.profiler "
                  "(cpu_time_total…)")
      ->type_name("KEY");
  line.add_option("--by", o.report.by,
                  "Group by op, shape, line, module or stack; samples by line, function or op")
      ->type_name("GROUP");
  line.add_option("--limit", o.report.limit, "Print at most N rows; 0 for all")
      ->type_name("N")
      ->check(at_least(0));
  line.add_option("--callers", o.report.callers,
                  "List the callers of functions whose name contains NAME")
      ->type_name("NAME");
  line.add_option("--callees", o.report.callees,
                  "List the callees of functions whose name contains NAME")
      ->type_name("NAME");
  line.add_option("-u,--unit", o.report.unit,
                  "Unit of the times in cProfile's tables: sec, msec or usec")
      ->type_name("UNIT");
  line.add_flag("--full-paths", o.report.full_paths, "Print the full paths of files");
  line.add_option("--format", o.format, "text, json or csv")
      ->type_name("FORMAT")
      ->check(one_of({"text", "json", "csv"}))
      ->capture_default_str();
  line.add_option("-o,--output", o.output, "Write to this file")->type_name("FILE");
  line.add_flag("--verify", check, "Compare the profile's rows with its packed columns, and stop");
  line.add_json(json);
  line.read();
  if (check) {
    fmt::print(args.out, "{}: {}\n", o.file, profile::verify(o.file));
    return 0;
  }
  if (json) o.format = "json";
  check_output("--output", o.output, {o.file, o.file + ".raw"});
  if (profile::is_profile(o.output))
    throw UsageError(fmt::format(
        "--output: '{}' is a profile; name another file, or remove it first", o.output));
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
        "Prints where the time and memory of a profiled run went, what limits it and what to "
        "change, or one of these tables:\n"
        "overview: where time and memory go, the top ops and lines, advice\n"
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
        "advice: what to change, and the measurement behind it\n"
        "counts: calls by op and line",
    .examples =
        "pellucid report profile.pellucid\n"
        "pellucid report profile.pellucid -s cumulative --limit 20\n"
        "pellucid report profile.pellucid --table torch --by shape -s cpu_time_total\n"
        "pellucid report profile.pellucid --table roofline --format csv -o roofline.csv\n"
        "pellucid report profile.pellucid --callers linear",
    .run = run_report};

}  // namespace pellucid::cli
