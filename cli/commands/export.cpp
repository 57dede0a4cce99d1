// pellucid export: a recording for another program's eyes.
#include <fmt/format.h>

#include <ostream>
#include <streambuf>

#include "base/atomic_file.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "pellucid/profile_report.h"
#include "profile/recording_file.h"

namespace pellucid::cli {
namespace {

// A stream into a file that appears whole or not at all, or into the output.
class FileBuffer final : public std::streambuf {
 public:
  explicit FileBuffer(io::AtomicFile& file) : file_(&file) {}
  explicit FileBuffer(std::FILE* stream) : stream_(stream) {}

 private:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    const auto size = static_cast<size_t>(count);
    if (file_ != nullptr)
      file_->write(bytes, size);
    else if (std::fwrite(bytes, 1, size, stream_) != size)
      return 0;
    return count;
  }
  int overflow(int c) override {
    const char byte = static_cast<char>(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  io::AtomicFile* file_ = nullptr;
  std::FILE* stream_ = nullptr;
};

void write(const profile::Profile& p, const std::string& format, FileBuffer buffer) {
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);  // lets the file's own error through
  profile::export_profile(p, format, out);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const profile::ReportName& f : profile::export_formats()) names.emplace_back(f.name);
  return names;
}

int run_export(const Args& args) {
  std::string file, format, output;
  CommandLine line(args);
  line.add_option("FILE", file, "A profile that `pellucid profile` wrote")->required();
  line.add_option("--format", format, "chrome, speedscope, pstats, collapsed, csv, json or html")
      ->type_name("FORMAT")
      ->check(one_of(format_names()))
      ->required();
  line.add_option("-o,--output", output, "Write to this file (default: standard output)")
      ->type_name("FILE");
  line.read();
  check_output("--output", output, {file, file + ".raw"});
  if (profile::is_profile(output))
    throw UsageError(
        fmt::format("--output: '{}' is a profile; name another file, or remove it first", output));
  const profile::Profile p = profile::Profile::load(file);
  if (output.empty()) {
    write(p, format, FileBuffer(target_of(args.out)));  // some formats are no text
    return 0;
  }
  io::AtomicFile target("export", output);
  write(p, format, FileBuffer(target));
  target.commit();
  return 0;
}

}  // namespace

const Command kExport{
    .name = "export",
    .summary = "Export a profile to another program's format",
    .description =
        "Writes a profile in a format that other programs read:\n"
        "chrome: Perfetto (ui.perfetto.dev), chrome://tracing, TensorBoard's torch plugin\n"
        "speedscope: speedscope.app\n"
        "pstats: Python's pstats, SnakeViz, tuna\n"
        "collapsed: flamegraph.pl and inferno; stacks with nanoseconds\n"
        "csv: spreadsheets; one line for each event\n"
        "json: other programs; everything that was recorded\n"
        "html: any browser; one page that loads nothing else",
    .examples =
        "pellucid export profile.pellucid --format chrome -o trace.json\n"
        "pellucid export profile.pellucid --format pstats -o run.prof && snakeviz run.prof\n"
        "pellucid export profile.pellucid --format html -o run.html",
    .run = run_export};

}  // namespace pellucid::cli
