// pellucid time: timeit for tensor expressions, with timeit's options and output, and --against.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/commands/commands.h"
#include "cli/expr/compile.h"
#include "cli/text.h"
#include "cli/timed_code.h"
#include "cli/values.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TimeFlags {
  std::vector<std::string> statements, setup;
  std::string unit, against, mode = "eager";
  int64_t number = 0;
  int repeat = 5;
  int verbose = 0;
  bool repeat_given = false, json = false;

  int digits() const {
    return 3 + std::max(0, verbose - 1);
  }  // as timeit: each further -v one more
  std::string time(double seconds) const { return format_timeit(seconds, unit, digits()); }
};

constexpr int kDefaultPairs = 15;  // of --against: a 99 % interval needs at least 8
constexpr double kBlockSeconds = 0.02;

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& l : lines) out += (out.empty() ? "" : "\n") + l;
  return out;
}

const char* plural(int64_t n) { return n == 1 ? "" : "s"; }

// What the loop and the machine cost when there is nothing to do, per loop; the best of three.
double empty_loop(Machine& machine) {
  const expr::Code nothing = expr::compile("pass");
  const TimedLoop loop = loop_of(machine, nothing);
  constexpr int64_t kLoops = 20'000;
  return std::min({loop(kLoops), loop(kLoops), loop(kLoops)}) / kLoops;
}

// timeit's warning, in the words and place that Python's warnings module gives it.
void warn_if_unreliable(const Args& args, const TimeFlags& o, const std::vector<double>& timings) {
  const auto [best, worst] = std::minmax_element(timings.begin(), timings.end());
  if (*worst < *best * 4) return;
  fmt::print(
      args.err,
      ":0: UserWarning: The test results are likely unreliable. The worst time ({}) was more "
      "than four times slower than the best time ({}).\n",
      o.time(*worst), o.time(*best));
}

int run_single(const Args& args, TimeFlags& o, Machine& machine) {
  const expr::Code code = expr::compile(joined(o.statements));
  const TimedLoop loop = loop_of(machine, code, way_from_name(o.mode));
  const bool talk = o.verbose > 0 && !o.json;
  if (o.number == 0) {
    o.number = autorange(loop, 0.2, [&](int64_t number, double seconds) {
      if (talk)
        fmt::print(args.out, "{} loop{} -> {:.{}g} secs\n", number, plural(number), seconds,
                   o.digits());
    });
    if (talk) fmt::print(args.out, "\n");
  }
  std::vector<double> raw, timings;
  for (int i = 0; i < o.repeat; ++i) raw.push_back(loop(o.number));
  for (const double seconds : raw) timings.push_back(seconds / static_cast<double>(o.number));
  const double best = *std::min_element(timings.begin(), timings.end());
  const double empty = o.verbose > 0 || o.json ? empty_loop(machine) : 0;

  if (o.json) {
    const Json j = {{"expression", joined(o.statements)},
                    {"setup", joined(o.setup)},
                    {"mode", o.mode},
                    {"number", o.number},
                    {"repeat", o.repeat},
                    {"raw_seconds", raw},
                    {"best_seconds_per_loop", best},
                    {"median_seconds_per_loop", median(timings)},
                    {"worst_seconds_per_loop", *std::max_element(timings.begin(), timings.end())},
                    {"empty_loop_seconds", empty}};
    fmt::print(args.out, "{}", json_text(j));
  } else {
    if (o.verbose > 0) {
      std::string list;
      for (const double seconds : raw) list += (list.empty() ? "" : ", ") + o.time(seconds);
      fmt::print(args.out, "raw times: {}\n\n", list);
    }
    fmt::print(args.out, "{} loop{}, best of {}: {} per loop\n", o.number, plural(o.number),
               o.repeat, o.time(best));
    if (o.verbose > 0)
      fmt::print(args.out, "an empty loop takes {} (not subtracted)\n", o.time(empty));
  }
  warn_if_unreliable(args, o, timings);
  return 0;
}

std::string_view word(Comparison::Verdict verdict) {
  switch (verdict) {
    case Comparison::Verdict::Faster:
      return "faster";
    case Comparison::Verdict::Slower:
      return "slower";
    case Comparison::Verdict::CannotTell:
      break;
  }
  return "cannot tell";
}

std::string comparison_text(const TimeFlags& o, const Comparison& c, const std::string& expression,
                            int64_t n, int64_t m) {
  Table table(
      {{"expression"}, {"median", Align::Right}, {"best", Align::Right}, {"blocks", Align::Right}});
  const auto row = [&](const std::string& e, const std::vector<double>& times, int64_t number) {
    table.add({e, o.time(median(times)), o.time(*std::min_element(times.begin(), times.end())),
               fmt::format("{} x {} loop{}", times.size(), number, plural(number))});
  };
  row(expression, c.first, n);
  row(o.against, c.second, m);
  std::string out = table.print();
  if (c.interval.confidence > 0)
    out += fmt::format("ratio {:.3f}, {:.0f} % interval {:.3f} to {:.3f}: {}\n", c.ratio,
                       std::floor(100 * c.interval.confidence), c.interval.low, c.interval.high,
                       word(c.verdict));
  else
    out += fmt::format("ratio {:.3f}: cannot tell from {} block{}; ask for at least 8 with -r\n",
                       c.ratio, c.first.size(), plural(static_cast<int64_t>(c.first.size())));
  return out;
}

int run_against(const Args& args, const TimeFlags& o, Machine& machine) {
  const std::string expression = joined(o.statements);
  const expr::Code a = expr::compile(expression), b = expr::compile(o.against);
  const Way way = way_from_name(o.mode);
  const TimedLoop first = loop_of(machine, a, way), second = loop_of(machine, b, way);
  const auto number_of = [&](const TimedLoop& loop) {
    return o.number > 0 ? o.number : autorange(loop, kBlockSeconds);
  };
  const int64_t n = number_of(first), m = number_of(second);
  const Comparison c =
      compare_loops(first, second, n, m, o.repeat_given ? o.repeat : kDefaultPairs);
  if (!o.json) {
    fmt::print(args.out, "{}", comparison_text(o, c, expression, n, m));
    return 0;
  }
  const auto side = [](const std::string& e, int64_t number, const std::vector<double>& times) {
    return Json{{"expression", e},
                {"number", number},
                {"seconds_per_loop", times},
                {"median_seconds_per_loop", median(times)}};
  };
  Json j = {{"setup", joined(o.setup)},
            {"first", side(expression, n, c.first)},
            {"second", side(o.against, m, c.second)},
            {"ratio", c.ratio}};
  j["interval"] = c.interval.confidence > 0 ? Json{c.interval.low, c.interval.high} : Json(nullptr);
  j["confidence"] = c.interval.confidence;
  j["verdict"] = word(c.verdict);
  fmt::print(args.out, "{}", json_text(j));
  return 0;
}

int run_time(const Args& args) {
  TimeFlags o;
  CommandLine line(args);
  line.add_option("EXPR", o.statements,
                  "What to time; several expressions are the lines of one program")
      ->required();
  line.add_option("-n,--number", o.number, "Loops per block (default: chosen automatically)")
      ->type_name("N")
      ->check(at_least(0));
  CLI::Option* repeat =
      line.add_option("-r,--repeat", o.repeat, "How many blocks are timed (--against: 15)")
          ->type_name("R")
          ->capture_default_str();
  line.add_option("-s,--setup", o.setup, "Code to run once before timing; may be repeated")
      ->type_name("SETUP")
      ->allow_extra_args(false);  // one text for each -s: the next word is EXPR
  line.add_option("-u,--unit", o.unit, "nsec, usec, msec or sec")->type_name("UNIT");
  line.add_flag("-v,--verbose", o.verbose, "Raw times; again for more digits");
  line.add_option("--against", o.against, "Time this too, in turns, and compare")
      ->type_name("EXPR");
  line.add_option("--mode", o.mode,
                  "eager; lazy: captured, fused and run at the end of each loop; or compiled: the "
                  "faster of both, which the first loops find out")
      ->type_name("MODE")
      ->check(one_of({"eager", "lazy", "compiled"}));
  line.add_json(o.json);
  line.read();
  if (!o.unit.empty() && !is_time_unit(o.unit))
    throw UsageError("Unrecognized unit. Please select nsec, usec, msec, or sec.");
  o.repeat = std::max(o.repeat, 1);  // as timeit
  o.repeat_given = repeat->count() > 0;

  Machine machine;
  if (!o.setup.empty()) machine.run(expr::compile(joined(o.setup)));
  return o.against.empty() ? run_single(args, o, machine) : run_against(args, o, machine);
}

}  // namespace

const Command kTime{
    .name = "time",
    .summary = "Time an expression as timeit does, or two against each other",
    .description =
        "Compiles the expression once and runs it in a loop. Options and output are those of "
        "Python's timeit. With --against, blocks of both expressions alternate; the ratio of their "
        "times comes with an interval (sign test on the pairs, 99 %) and a verdict: faster, slower "
        "or cannot tell.",
    .examples =
        "pellucid time -s 'x = rand(1000, 1000)' 'x @ x'\n"
        "pellucid time -v -n 20 -r 5 -s 'x = rand(1000,1000)' 'x @ x'\n"
        "pellucid time -s 'x = rand(1000)' 'x*x' --against 'x**2'\n"
        "pellucid time -u usec -s 'x = randn(64, 1000)' 'softmax(x, dim=1)' --json",
    .run = run_time};

}  // namespace pellucid::cli
