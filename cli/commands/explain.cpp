// pellucid explain: which calls of an expression run as one when it is evaluated lazily, what that
// saves, and why others do not.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/expr/compile.h"
#include "cli/text.h"
#include "cli/timed_code.h"
#include "cli/values.h"
#include "pellucid/autograd.h"
#include "pellucid/lazy.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPairs = 15;
constexpr double kBlockSeconds = 0.02;

// After how many calls what they save is more than making the program took; none if they save
// nothing that can be told from noise.
std::optional<int64_t> calls_until_paid(const Explanation& e, const Comparison& times) {
  const double saved = median(times.first) - median(times.second);
  if (times.interval.low <= 1 || saved <= 0) return std::nullopt;
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(e.made_seconds / saved)));
}

Json as_json(const Explanation& e, const Comparison* times) {
  Json j = {{"calls", e.calls}, {"fused", e.fused()}, {"forgotten", e.forgotten}};
  j["parts"] = Json::array();
  for (const Explanation::Part& p : e.parts)
    j["parts"].push_back({{"ops", p.ops},
                          {"dtype", fmt::format("{}", p.dtype)},
                          {"sizes", p.sizes},
                          {"results_without_memory", p.unmade},
                          {"bytes_not_made", p.unmade_bytes},
                          {"ends_because", p.end}});
  j["passes"] = Json::array();
  for (const Explanation::Pass& p : e.passes)
    j["passes"].push_back({{"name", p.name},
                           {"seconds", p.seconds},
                           {"nodes_before", p.nodes_before},
                           {"nodes_after", p.nodes_after},
                           {"changed", p.changed}});
  j["beside"] = Json::array();
  for (const Explanation::Beside& b : e.beside)
    j["beside"].push_back({{"ops", b.ops},
                           {"threads", b.threads},
                           {"serial_seconds", b.serial_seconds},
                           {"beside_seconds", b.beside_seconds},
                           {"measured_serial_seconds", b.measured_serial},
                           {"measured_beside_seconds", b.measured_beside},
                           {"refused", b.refused}});
  j["plan"] = {{"peak_bytes", e.peak_bytes}, {"arena_bytes", e.arena_bytes}, {"reused", e.reused}};
  j["made_seconds"] = e.made_seconds;
  j["gradient_bytes_left"] = e.gradient_bytes_left;
  if (times) {
    const std::optional<int64_t> paid = calls_until_paid(e, *times);
    j["paid_after_calls"] = paid ? Json(*paid) : Json(nullptr);
    j["eager_seconds"] = median(times->first);
    j["lazy_seconds"] = median(times->second);
    j["ratio"] = times->ratio;
    j["interval"] = {times->interval.low, times->interval.high};
  }
  return j;
}

int run_explain(const Args& args) {
  std::string expression;
  std::vector<std::string> bindings;
  bool json = false, strict = false, no_time = false;
  CommandLine line(args);
  line.add_option("EXPR", expression, "What to compute; statements are separated by ';'")
      ->required();
  line.add_option("NAME=VALUE", bindings, "Variables: numbers, lists or expressions");
  line.add_flag("--strict", strict, "Exit with 1 if some call ran outside a group");
  line.add_flag("--no-time", no_time, "Do not measure");
  line.add_json(json);
  line.read();

  const NoGradGuard off;
  Machine machine;
  for (const std::string& binding : bindings) {
    const size_t equals = binding.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("'{}' is no NAME=VALUE", binding));
    machine.run(expr::compile(binding));
  }
  const expr::Code code = expr::compile(expression);
  Object result;
  Explanation e = explain([&] { result = machine.run(code); });
  for (Explanation::Part& p : e.parts) p.lines.clear();  // those of this command, not the user's
  std::optional<Comparison> times;
  if (!no_time && e.calls > 0) {
    const TimedLoop eager = loop_of(machine, code), lazy = loop_of(machine, code, Way::Lazy);
    times = compare_loops(eager, lazy, autorange(eager, kBlockSeconds),
                          autorange(lazy, kBlockSeconds), kPairs);
  }
  if (json) {
    fmt::print(args.out, "{}", json_text(as_json(e, times ? &*times : nullptr)));
  } else {
    fmt::print(args.out, "{}", e.text());
    if (times)
      fmt::print(args.out,
                 "eager {}, lazy {}: {:.2f} times as fast ({:.0f} % interval {:.2f} to {:.2f})\n",
                 format_seconds(median(times->first)), format_seconds(median(times->second)),
                 times->ratio, std::floor(100 * times->interval.confidence), times->interval.low,
                 times->interval.high);
    if (times) {
      const std::optional<int64_t> paid = calls_until_paid(e, *times);
      fmt::print(args.out, "{}\n",
                 !paid ? "no gain that can be told from noise: it does not pay here"
                       : fmt::format("what it took to make the program is saved after {} call{}",
                                     *paid, *paid == 1 ? "" : "s"));
    }
  }
  return strict && e.fused() < e.calls ? 1 : 0;
}

}  // namespace

const Command kExplain{
    .name = "explain",
    .summary = "Tell which ops of an expression run as one, and why others do not",
    .description =
        "Evaluates the expression lazily: its calls are captured, and neighbours over one shape "
        "run as a group, tile by tile, so that what only the group reads needs no memory. Lists "
        "the groups and the calls that ran alone, in order, with the bytes that were neither "
        "written nor read and the reason why each group ends; then measures the expression "
        "eagerly and lazily, in turns. Results have the same bits both ways.",
    .examples =
        "pellucid explain 'layer_norm(gelu(x*100+10)+x, [1024])' 'x=rand(4096,1024)'\n"
        "pellucid explain 'softmax(q*0.125 + mask, -1)' 'q=randn(8,128,128)' "
        "'mask=zeros(128,128)'\n"
        "pellucid explain 'a @ b + c' 'a=rand(64,64)' 'b=rand(64,64)' c=1 --json",
    .run = run_explain};

}  // namespace pellucid::cli
