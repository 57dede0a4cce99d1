// pellucid diff: recordings of one program compared, one or several a side.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/escape.h"
#include "cli/commands/commands.h"
#include "cli/text.h"
#include "pellucid/profile_report.h"

namespace pellucid::cli {
namespace {

using profile::Diff;
using profile::DiffRow;
using Verdict = DiffRow::Verdict;

// "5%" or "0.05".
double read_share(const std::string& text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  const std::string_view rest(end, static_cast<size_t>(last - end));
  if (status != std::errc() || (!rest.empty() && rest != "%") || !(value >= 0))
    throw UsageError(fmt::format("--threshold: expected a share such as 5%, found '{}'", text));
  return rest.empty() ? value : value / 100;
}

// Refuses what read_share would, before anything else is looked at.
CLI::Validator share() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        try {
          read_share(text);
        } catch (const UsageError&) {
          return fmt::format("expected a share such as 5%, found '{}'", text);
        }
        return "";
      },
      "");
}

std::string amount(double value, bool bytes) {
  if (bytes) return format_bytes_binary(value);
  return value > 0 ? format_seconds(value, 4) : value < 0 ? "-" + format_seconds(-value, 4) : "0";
}

// "+3.2", "+140": nobody reads the decimals of a multiple, nor the digits of a hundredfold.
constexpr double kMostShown = 99.99;
std::string percents(double share) {
  if (share > kMostShown) return "over +9999";
  return fmt::format("{:+.{}f}", 100 * share, std::fabs(share) < 1 ? 1 : 0);
}

std::string change_text(const DiffRow& r, bool bytes) {
  if (r.verdict == Verdict::Added || r.verdict == Verdict::Removed)
    return std::string(name_of(r.verdict));
  if (!std::isfinite(r.change)) return "";
  const std::string share = percents(r.change);
  if (bytes && r.first != r.second && std::fabs(r.change) < 0.0005)
    return fmt::format("{}{} B", r.second > r.first ? "+" : "-",
                       group_digits(std::llround(std::fabs(r.second - r.first))));
  return (share == "-0.0" ? "+0.0" : share) + " %";
}

std::string interval_text(const DiffRow& r) {
  return r.low > kMostShown ? percents(r.low) + " %"
                            : fmt::format("{} to {} %", percents(r.low), percents(r.high));
}

std::string verdict_text(const DiffRow& r) {
  if (r.rest) return "";
  if (r.verdict == Verdict::Same && r.first != r.second) return "same within 0.1 %";
  return fmt::format("{}{}", name_of(r.verdict), r.regression ? ", a regression" : "");
}

Color color_of(const DiffRow& r) {
  if (r.regression) return Color::Red;
  if (r.verdict == Verdict::Worse) return Color::Yellow;
  return r.verdict == Verdict::Better ? Color::Green : Color::Dim;
}

// Which scatter the intervals know, and how to learn about the other.
std::string interval_note(const Diff& d, bool bytes) {
  if (bytes) return fmt::format("intervals: {}\n", d.scatter);
  return fmt::format("intervals: 99 %, from the scatter {}{}\n", d.scatter,
                     d.between_runs
                         ? ""
                         : "; two runs of one program may differ by more\n"
                           "(compare several runs per side: pellucid diff A1 A2 A3 --to B1 "
                           "B2 B3)");
}

void print_text(const Args& args, const Diff& d, int64_t limit) {
  const bool bytes = d.bytes;
  const bool color = use_color(args.out);
  Table table({{"Name"},
               {"First", Align::Right},
               {"Second", Align::Right},
               {"Change", Align::Right},
               {"Interval", Align::Right},
               {"Calls", Align::Right},
               {"Verdict"}});
  const size_t shown =
      limit <= 0 ? d.rows.size() : std::min(d.rows.size(), static_cast<size_t>(limit) + 1);
  for (size_t i = 0; i < shown; ++i) {
    const DiffRow& r = d.rows[i];
    const std::string interval = bytes || !r.has_interval ? "" : interval_text(r);
    const std::string calls =
        bytes || i == 0 || r.rest ? ""
        : r.first_calls == r.second_calls
            ? group_digits(r.first_calls)
            : fmt::format("{} -> {}", group_digits(r.first_calls), group_digits(r.second_calls));
    std::vector<std::string> cells = {text::visible(r.name),
                                      amount(r.first, bytes),
                                      amount(r.second, bytes),
                                      change_text(r, bytes),
                                      interval,
                                      calls,
                                      verdict_text(r)};
    for (std::string& c : cells)
      if (!c.empty()) c = paint(c, color_of(r), color);
    table.add(std::move(cells));
  }
  fmt::print(args.out, "{}\n{}{}", text::visible(d.what), interval_note(d, bytes), table.print());
  if (shown < d.rows.size())
    fmt::print(args.out, "{} of {} rows; --limit 0 shows all\n", shown, d.rows.size());
}

std::vector<profile::Profile> load_all(const std::vector<std::string>& files) {
  std::vector<profile::Profile> out;
  out.reserve(files.size());
  for (const std::string& file : files) out.push_back(profile::Profile::load(file));
  return out;
}

// Two files are the two sides; more need --to between them.
void part_sides(std::vector<std::string>& first, std::vector<std::string>& second) {
  if (!second.empty()) return;
  if (first.size() < 2)
    throw UsageError("two profiles are needed: the baseline, and the one to compare with it");
  if (first.size() > 2)
    throw UsageError(fmt::format(
        "{} profiles were given; write --to between the runs of the baseline and the others, as in "
        "`pellucid diff before-1 before-2 before-3 --to after-1 after-2 after-3`",
        first.size()));
  second = {first.back()};
  first.pop_back();
}

int run_diff(const Args& args) {
  std::vector<std::string> first, second;
  std::string threshold = "5%";
  profile::DiffOptions o;
  int64_t limit = 20;
  bool json = false;
  CommandLine line(args);
  line.add_option("FILE", first,
                  "The baseline profile and the profile to compare with it, or several runs of the "
                  "baseline")
      ->required();
  line.add_option("--to", second, "The runs to compare with the baseline")
      ->type_name("FILE")
      ->expected(1, -1);
  line.add_option("--by", o.by, "op, line, module or memory")
      ->type_name("GROUP")
      ->check(one_of({"op", "line", "module", "memory"}))
      ->capture_default_str();
  line.add_option("--threshold", threshold, "How much slower counts as a regression")
      ->type_name("SHARE")
      ->check(share())
      ->capture_default_str();
  line.add_option("--limit", limit, "Print at most N rows; 0 for all")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_json(json);
  line.read();
  o.threshold = read_share(threshold);
  part_sides(first, second);
  Diff d;
  const std::vector<profile::Profile> before = load_all(first), after = load_all(second);
  try {
    d = profile::diff(before, after, o);
  } catch (const ValueError& e) { throw UsageError(e.what()); }
  for (const std::string& warning : d.warnings)
    fmt::print(args.err, "warning: {}\n", text::visible(warning));
  if (json)
    fmt::print(args.out, "{}", profile::to_json(d));
  else
    print_text(args, d, limit);
  return d.regression ? 1 : 0;
}

}  // namespace

const Command kDiff{
    .name = "diff",
    .summary = "Compare profiles of one program",
    .description =
        "Compares the second profile with the first: medians of their steps (of their calls if "
        "nothing repeats) with 99 % intervals that hold for any distribution. With one run per "
        "side, the intervals contain only the scatter inside each run. With several runs per side, "
        "separated by --to, they come from the scatter between runs (Welch's test on logarithms). "
        "Rows whose "
        "interval contains no change are noise and shown dim. The row (rest) is the remainder of "
        "the total: code between the ops, and what medians do not add up to. A row is a regression "
        "if it is certainly slower, by more than the threshold, and adds at least 1 % to the "
        "whole; the exit code is then 1.",
    .examples =
        "pellucid diff before.pellucid after.pellucid\n"
        "pellucid diff before-*.pellucid --to after-*.pellucid\n"
        "pellucid diff before.pellucid after.pellucid --by line --threshold 10%\n"
        "pellucid diff before.pellucid after.pellucid --by memory --json",
    .run = run_diff};

}  // namespace pellucid::cli
