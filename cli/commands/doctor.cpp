// pellucid doctor: what machine this is, what the library found on it, and what it can do at best.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/machine_facts.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "cli/values.h"
#include "pellucid/machine.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string rate(double bytes_per_second) {
  return bytes_per_second > 0 ? fmt::format("{:.1f}", bytes_per_second / 1e9) : "-";
}

std::string levels_text(const MachineCeilings& c) {
  Table table({{"GB/s"},
               {"data", Align::Right},
               {"read", Align::Right},
               {"write", Align::Right},
               {"copy", Align::Right},
               {fmt::format("read x{}", c.threads), Align::Right},
               {fmt::format("write x{}", c.threads), Align::Right},
               {fmt::format("copy x{}", c.threads), Align::Right}});
  for (const MemoryLevel& l : c.levels)
    table.add({l.name, format_bytes_binary(static_cast<double>(l.bytes)), rate(l.one.read),
               rate(l.one.write), rate(l.one.copy), rate(l.all.read), rate(l.all.write),
               rate(l.all.copy)});
  return table.print(2);
}

std::string as_text(const std::vector<FactGroup>& groups, const MachineCeilings& c) {
  std::string out;
  for (const FactGroup& group : groups) {
    out += group.title + "\n";
    Table table({{""}, {""}});
    for (const Fact& f : group.facts) table.add({f.name, f.value});
    out += table.print(2) + "\n";
  }
  out += fmt::format("measured ceilings ({})\n",
                     c.from_cache ? "kept from an earlier run; --fresh measures again"
                                  : fmt::format("in {:.1f} s", c.seconds));
  out += fmt::format("  float32 multiply-adds  {:.1f} GFLOP/s on 1 thread, {:.1f} on {}\n\n",
                     c.flops_one / 1e9, c.flops_all / 1e9, c.threads);
  out += levels_text(c);
  out +=
      "  plain loops; a copy counts what it reads and writes; tensor: a copy of 4096 x 1024 "
      "floats\n";
  out += fmt::format("  reports compare with: {}\n", rates_of(c).text(true));
  if (!c.file.empty()) out += fmt::format("  kept in {}\n", c.file);
  return out;
}

Json rates_json(const MemoryRates& r) {
  return {{"read", r.read}, {"write", r.write}, {"copy", r.copy}};
}

Json as_json(const std::vector<FactGroup>& groups, const MachineCeilings& c) {
  Json j;
  for (const FactGroup& group : groups) {
    Json facts;
    for (const Fact& f : group.facts)
      facts[f.key] = f.number ? count_json(*f.number) : Json(f.value);
    j[group.key] = facts;
  }
  Json levels = Json::array();
  for (const MemoryLevel& l : c.levels)
    levels.push_back({{"name", l.name},
                      {"bytes", l.bytes},
                      {"one_thread", rates_json(l.one)},
                      {"all_threads", rates_json(l.all)}});
  j["ceilings"] = {{"threads", c.threads},
                   {"flops_one_thread", c.flops_one},
                   {"flops_all_threads", c.flops_all},
                   {"bytes_per_second", levels},
                   {"busy", c.busy},
                   {"from_cache", c.from_cache},
                   {"measured_in_seconds", c.seconds},
                   {"file", c.file.empty() ? Json(nullptr) : Json(c.file)}};
  return j;
}

int run_doctor(const Args& args) {
  bool json = false, fresh = false, replace = false;
  CommandLine line(args);
  line.add_flag("--fresh", fresh, "Measure again and keep the better value of each figure");
  line.add_flag("--replace", replace, "Measure again and replace all kept figures");
  line.add_json(json);
  line.read();
  if (fresh && replace)
    throw UsageError(
        "--fresh keeps the better figures and --replace replaces them all: choose one");

  const std::vector<FactGroup> groups = machine_facts(args.app->version);
  // On a terminal the line is written over; elsewhere each step is a line.
  const bool terminal = isatty(fileno(target_of(args.err))) == 1;
  const Remeasure when = replace ? Remeasure::Replace
                         : fresh ? Remeasure::Again
                                 : Remeasure::IfMissing;
  const MachineCeilings c = machine_ceilings(when, [&](std::string_view step, double done) {
    if (terminal) control(args.err, "\r\x1b[K");
    if (terminal && done < 1)
      fmt::print(args.err, "measuring {} ({:.0f} %)", step, 100 * done);
    else if (done < 1)
      fmt::print(args.err, "measuring {} ({:.0f} %)\n", step, 100 * done);
    std::fflush(args.err);
  });
  if (c.busy)
    fmt::print(
        args.err,
        "warning: other programs were using the cores during the measurement, so the figures "
        "are too low; close them and repeat it with --fresh\n");
  fmt::print(args.out, "{}", json ? json_text(as_json(groups, c)) : as_text(groups, c));
  return 0;
}

}  // namespace

const Command kDoctor{
    .name = "doctor",
    .summary = "Describe this machine and measure what it can do at best",
    .description =
        "Prints the CPU, its caches, the ISA level that the kernels use, threads, memory, the "
        "versions of the libraries and whether hardware counters are available. Measures the peak "
        "of float32 multiply-adds and the bandwidth of each level of memory; the results are kept "
        "in a file for this CPU, ISA level, number of threads and version. Other programs only "
        "make a loop slower, so a new measurement replaces a figure only where it is better.",
    .examples =
        "pellucid doctor\npellucid doctor --fresh\npellucid doctor --replace\npellucid doctor "
        "--json",
    .run = run_doctor};

}  // namespace pellucid::cli
