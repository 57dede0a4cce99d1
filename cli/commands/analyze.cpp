// pellucid analyze: measured studies, each a table, a CSV file, a plot and one sentence.
#include <fmt/format.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "cli/analyze/analysis.h"
#include "cli/analyze/rates.h"
#include "cli/analyze/spec.h"
#include "cli/commands/commands.h"
#include "cli/text.h"

namespace pellucid::cli {
namespace {

const AnalysisKind& find_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const AnalysisKind& k : analysis_kinds()) {
    if (k.name == name) return k;
    names.emplace_back(k.name);
  }
  throw UsageError(fmt::format("there is no analysis '{}' (there are {}){}", name,
                               fmt::join(names, ", "), did_you_mean(name, names)));
}

void write_files(const std::string& folder, std::string_view name, const Analysis& a) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  PELLUCID_CHECK(!error, IoError, "analyze: cannot make the folder '{}': {}.", folder,
                 error.message());
  const std::string base = fmt::format("{}/{}", folder, name);
  io::write_file("analyze", base + ".csv", analysis_csv(a));
  io::write_file("analyze", base + ".svg", chart_svg(a.chart));
  io::write_file("analyze", base + ".png", chart_png(a.chart));
}

int run_analyze(const Args& args) {
  std::string kind, out = "analysis", sizes, machine;
  AnalysisOptions options;
  bool json = false;
  CommandLine line(args);
  line.add_option("KIND", kind, "What to analyse (default: list the kinds)");
  line.add_flag("--quick", options.quick, "Smaller sizes and fewer runs");
  line.add_option("--sizes", sizes, "Use these sizes, for example 64,128,256")->type_name("SIZES");
  line.add_option("--machine", machine, "Rates, as 100GFLOP/s,50GB/s (default: measured)")
      ->type_name("RATES");
  line.add_option("--out", out, "The folder for KIND.csv, KIND.svg and KIND.png")
      ->type_name("DIR")
      ->capture_default_str();
  line.add_json(json);
  line.read();
  if (kind.empty()) {
    Table table({{"kind"}, {"what it measures"}, {"--sizes"}});
    for (const AnalysisKind& k : analysis_kinds())
      table.add({std::string(k.name), std::string(k.summary), std::string(k.sizes)});
    fmt::print(args.out, "{}", table.print());
    return 0;
  }
  const AnalysisKind& found = find_kind(kind);
  if (!sizes.empty()) {
    if (found.sizes.empty()) throw UsageError(fmt::format("{} takes no --sizes", kind));
    options.sizes = read_sizes(sizes, "--sizes");
  }
  if (!machine.empty()) options.machine = read_machine(machine);
  Analysis a = found.run(options);
  if (!a.warning.empty()) a.conclusion += " (Measured on a busy machine: do not rely on it.)";
  write_files(out, found.name, a);
  fmt::print(args.out, "{}", json ? analysis_json(found.name, a) : analysis_text(a));
  if (!json) fmt::print(args.err, "written: {}/{}.csv, .svg, .png\n", out, found.name);
  if (!a.warning.empty()) fmt::print(args.err, "warning: {}\n", a.warning);
  return 0;
}

}  // namespace

const Command kAnalyze{
    .name = "analyze",
    .summary = "Measure how cost grows: depth, width, batch, dtype, threads…",
    .description =
        "Measured studies of what things cost here. Each prints a table, writes it as CSV with a "
        "plot (SVG and PNG), and ends with one sentence that follows from the numbers. Nothing is "
        "simulated: times are medians of real runs, bytes are the allocator's.",
    .examples =
        "pellucid analyze\n"
        "pellucid analyze dtype\n"
        "pellucid analyze batch --sizes 1,4,16,64 --out results\n"
        "pellucid analyze checkpoint --quick --json",
    .run = run_analyze};

}  // namespace pellucid::cli
