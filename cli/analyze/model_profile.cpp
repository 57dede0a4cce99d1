// See model_profile.h.
#include "cli/analyze/model_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/analyze/rates.h"
#include "cli/analyze/spec.h"
#include "cli/text.h"
#include "cli/values.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ModelProfile {
  std::string name;
  std::vector<int64_t> input;
  MachineRates machine;
  std::vector<LayerCost> layers;
  Figures forward, backward;
};

ModelProfile measure(const ModelProfileFlags& o) {
  const MadeModel model = make_model(o.model, o.sequence);
  std::vector<int64_t> sizes = {o.batch};
  if (!o.input.empty())
    sizes = read_sizes(o.input, "--input");
  else if (model.sample.empty())
    throw UsageError(
        "the model does not define the sizes of its input; give them, as --input 64,784");
  else
    sizes.insert(sizes.end(), model.sample.begin(), model.sample.end());
  const MachineRates machine = o.machine.empty() ? this_machine() : read_machine(o.machine);
  const Tensor x = make_input(model, sizes);
  constexpr int64_t kTimedRuns = 10;
  return {.name = model.name,
          .input = sizes,
          .machine = machine,
          .layers = layer_costs(model.module, x, kTimedRuns),
          .forward = profile_forward_pass(model.module, x, machine),
          .backward = profile_backward_pass(model.module, x, model.loss, machine)};
}

void print_layers(std::FILE* out, const ModelProfile& p, int64_t depth) {
  Table table({{"layer"},
               {"type"},
               {"output"},
               {"parameters", Align::Right},
               {"MACs", Align::Right},
               {"FLOPs", Align::Right},
               {"other FLOPs", Align::Right},
               {"backward FLOPs", Align::Right},
               {"bytes", Align::Right},
               {"time", Align::Right},
               {"share", Align::Right}});
  const double whole = sum_layers(p.layers).forward_ms;
  for (const LayerCost& l : p.layers) {
    if (static_cast<int64_t>(l.depth) > depth) continue;
    const FlopSplit& f = l.cost.flops;
    table.add({std::string(2 * l.depth, ' ') + l.label(), l.type,
               l.output_sizes.empty() ? "" : fmt::format("[{}]", fmt::join(l.output_sizes, ", ")),
               l.part == LayerPart::Module || l.parameters > 0 ? group_digits(l.parameters) : "",
               group_digits(static_cast<int64_t>(f.contraction / 2)),
               group_digits(static_cast<int64_t>(f.contraction)),
               group_digits(static_cast<int64_t>(f.other)),
               group_digits(static_cast<int64_t>(l.backward.flops.contraction)),
               format_bytes(l.cost.bytes), format_seconds(l.forward_ms / 1e3),
               whole > 0 ? fmt::format("{:.1f} %", 100 * l.forward_ms / whole) : ""});
  }
  fmt::print(out, "{}(own ops): what a module runs itself, outside the modules below it.\n",
             table.print());
}

// "at least 0.67 ms at 50.00 GFLOP/s": what the batch takes on the machine whatever the code, one
// op after another.
std::string least_text(const ModelProfile& p) {
  const double ms = p.forward["least_ms"];
  std::string rate = format_count(p.machine.flops_per_second, "FLOP/s");
  if (p.forward.text("bottleneck") == "memory") {
    rate = format_count(p.machine.bytes_per_second, "B/s");
    if (p.machine.measured())
      rate += fmt::format(" ({}; more from caches)", name_of(p.machine.levels.back().access));
  }
  return fmt::format("at least {} at {}",
                     ms < 0.1 ? format_seconds(ms / 1e3) : fmt::format("{:.2f} ms", ms), rate);
}

void print_summary(std::FILE* out, const ModelProfile& p) {
  const Figures &f = p.forward, &b = p.backward;
  const auto ms = [](double value) { return format_seconds(value / 1e3); };
  const auto mb = [](double value) { return format_megabytes(value * 1e6); };
  fmt::print(out, "\nFLOPs of one sample: {} ({} MACs)\n",
             group_digits(static_cast<int64_t>(f["flops"])),
             group_digits(static_cast<int64_t>(f["macs"])));
  const FlopSplit batch = sum_layers(p.layers).cost.flops;
  fmt::print(out, "FLOPs of the batch:  {} (contractions {}, others {}); {}\n",
             group_digits(static_cast<int64_t>(f["batch_flops"])),
             group_digits(static_cast<int64_t>(batch.contraction)),
             group_digits(static_cast<int64_t>(batch.other)), least_text(p));
  fmt::print(out, "  {}\n", f.text("rule"));
  fmt::print(
      out, "forward:  {} (IQR {}, p95 {}, p99 {}, {} runs after {}), {:.2f} GFLOP/s, {:.0f} MB/s\n",
      ms(f["latency_ms"]), ms(f["iqr_ms"]), ms(f["p95_ms"]), ms(f["p99_ms"]), f.text("iterations"),
      f.text("warmup_runs"), f["gflops_per_second"], f["memory_bandwidth_mbs"]);
  fmt::print(out, "training: forward {}, backward {} ({:.2f} times), {:.2f} GFLOP/s\n",
             ms(b["forward_latency_ms"]), ms(b["backward_latency_ms"]),
             b["backward_latency_ms"] / b["forward_latency_ms"], b["total_gflops_per_second"]);
  fmt::print(out,
             "memory:   parameters {}, activations {}, gradients {}, peak {}; Adam's state would "
             "take {}\n",
             mb(f["parameter_memory_mb"]), mb(f["activation_memory_mb"]),
             mb(f["gradient_memory_mb"]), mb(f["peak_memory_mb"]),
             mb(b["optimizer_memory_estimates.adam"]));
  const std::string_view whose = p.machine.measured() ? "machine's" : "given machine's";
  fmt::print(out, "bottleneck: {}; {:.1f} % of the {} FLOP/s, {:.1f} % of the ceiling that binds\n",
             f.text("bottleneck"), 100 * f["computational_efficiency"], whose,
             100 * f["share_of_ceiling"]);
}

Json to_json(const ModelProfile& p) {
  Json layers = Json::array();
  for (const LayerCost& l : p.layers)
    layers.push_back({{"part", part_name(l.part)},
                      {"path", l.path},
                      {"type", l.type},
                      {"output", l.output_sizes},
                      {"parameters", l.parameters},
                      {"macs", count_json(l.cost.flops.contraction / 2)},
                      {"contraction_flops", count_json(l.cost.flops.contraction)},
                      {"other_flops", count_json(l.cost.flops.other)},
                      {"backward_contraction_flops", count_json(l.backward.flops.contraction)},
                      {"backward_other_flops", count_json(l.backward.flops.other)},
                      {"bytes", count_json(l.cost.bytes)},
                      {"forward_ms", l.forward_ms}});
  return {{"model", p.name},
          {"input", p.input},
          {"machine", machine_json(p.machine)},
          {"layers", layers},
          {"forward", Json::parse(p.forward.json())},
          {"backward", Json::parse(p.backward.json())}};
}

}  // namespace

bool is_model(const std::string& word) {
  const std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), word) != names.end()) return true;
  std::string head = word.substr(0, word.find('('));
  if (const size_t times = head.find('*'); times != std::string::npos)  // "12 * Linear(8, 8)"
    head.erase(0, std::min(head.find_first_not_of(' ', times + 1), head.size()));
  const std::vector<std::string> layers = layer_names();
  return word.find('(') != std::string::npos &&
         std::find(layers.begin(), layers.end(), head) != layers.end();
}

void add_model_options(CommandLine& line, ModelProfileFlags& o, const std::string& group) {
  line.add_option("--input", o.input, "Sizes of the input, the batch first")
      ->type_name("SIZES")
      ->group(group);
  line.add_option("--batch", o.batch, "Samples in a batch, if the model defines the other sizes")
      ->type_name("N")
      ->check(at_least(1))
      ->group(group)
      ->capture_default_str();
  line.add_option("--sequence", o.sequence, "Tokens in a sample (default: the model's maximum)")
      ->type_name("T")
      ->check(at_least(1))
      ->group(group);
  line.add_option("--depth", o.depth, "Levels of modules to show")
      ->type_name("N")
      ->check(at_least(0))
      ->group(group)
      ->capture_default_str();
  line.add_option("--machine", o.machine,
                  "Rates, as 100GFLOP/s,50GB/s (default: this machine's, measured)")
      ->type_name("RATES")
      ->group(group);
  line.add_flag("--json", o.json, "Write JSON to standard output")->group(group);
}

int run_model_profile(const Args& args, const ModelProfileFlags& o) {
  const ModelProfile p = measure(o);
  if (o.json) {
    fmt::print(args.out, "{}", json_text(to_json(p)));
  } else {
    fmt::print(args.out, "{}, input {}: {} parameters = {}\n\n", p.name, fmt::join(p.input, " x "),
               group_digits(p.layers[0].parameters),
               format_megabytes(p.forward["parameter_memory_mb"] * 1e6));
    print_layers(args.out, p, o.depth);
    print_summary(args.out, p);
  }
  for (const char* kind : {"warning", "ceiling_warning"})
    for (const Figures* f : {&p.forward, &p.backward})
      if (f->contains(kind)) {
        fmt::print(args.err, "warning: {}\n", f->text(kind));
        break;
      }
  return 0;
}

}  // namespace pellucid::cli
