// pellucid estimate: what a training step of a model costs, from infer and cost alone.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/analyze/rates.h"
#include "cli/analyze/spec.h"
#include "cli/commands/commands.h"
#include "cli/text.h"
#include "cli/train/optimizers.h"
#include "cli/values.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EstimateFlags {
  std::string model, input, optimizer = "adam", machine, dtype = "float32";
  int64_t batch = 1, sequence = 0, modules = -1;
  bool json = false;
};

struct PhaseCost {
  EstimatedPhase memory;
  CostSum cost;
  LeastTime least;
};

struct Estimate {
  std::string name;
  int64_t parameters = 0;
  std::vector<int64_t> input;
  MachineRates machine;
  std::vector<PhaseCost> phases;   // model, forward, backward, step
  std::vector<LayerCost> modules;  // where they were asked for
};

constexpr size_t kForward = 1, kBackward = 2, kStep = 3;  // places of the phases

// What count_step leaves for the machine's rates to be applied to.
struct CountedStep {
  std::shared_ptr<nn::Module> module;
  std::vector<EstimatedCall> calls;
};

// Sets the default dtype until the end of the scope.
struct DefaultDType {
  explicit DefaultDType(DType t) : before(get_default_dtype()) { set_default_dtype(t); }
  ~DefaultDType() { set_default_dtype(before); }
  DType before;
};

DType read_dtype(const std::string& name) {
  for (const DType t : {kFloat32, kFloat64, kFloat16, kBFloat16})
    if (fmt::format("{}", t) == name) return t;
  throw UsageError(
      fmt::format("--dtype: expected float32, float64, float16 or bfloat16, found '{}'", name));
}

std::vector<int64_t> input_sizes(const EstimateFlags& o, const MadeModel& model) {
  std::vector<int64_t> sizes = {o.batch};
  const std::vector<int64_t> sample =
      o.input.empty() ? model.sample : read_sizes(o.input, "--input");
  if (sample.empty())
    throw UsageError(
        "the model does not define the sizes of its input; give those of one sample, as --input "
        "3,224,224");
  sizes.insert(sizes.end(), sample.begin(), sample.end());
  return sizes;
}

// A training step under a guard; the phases without their least times.
Estimate count_step(const EstimateFlags& o, CountedStep& step) {
  const DefaultDType dtype(read_dtype(o.dtype));
  EstimateGuard guard;
  MadeModel model = make_model(o.model, o.sequence);
  Estimate out{.name = model.name,
               .parameters = count_parameters(model.module),
               .input = input_sizes(o, model)};
  guard.phase("forward");
  {
    const MemoryCategoryGuard category(MemoryCategory::Activation);
    Tensor loss = model.loss(model.module.forward(make_input(model, out.input)));
    guard.phase("backward");
    loss.backward();
  }
  train::TrainOptions options;
  options.optimizer = o.optimizer;
  const auto optimizer = train::make_optimizer(
      options, {optim::OptimizerParamGroup(model.module.ptr()->parameters())});
  guard.phase("step");
  optimizer->step();
  for (EstimatedPhase& p : guard.phases()) out.phases.push_back({.memory = std::move(p)});
  out.phases[0].memory.name = "model";
  step = {model.module.ptr(), guard.calls()};
  std::erase_if(step.calls, [](const EstimatedCall& c) { return c.phase == 0; });  // happens once
  return out;
}

Estimate estimate(const EstimateFlags& o) {
  std::optional<MachineRates> given;
  if (!o.machine.empty()) given = read_machine(o.machine);
  CountedStep step;
  Estimate out = count_step(o, step);
  out.machine = given ? *given : this_machine();  // measured last: a mistake above is told at once
  for (const EstimatedCall& c : step.calls) {
    out.phases[c.phase].cost.add(c);
    out.phases[c.phase].least.add(c, out.machine);
  }
  if (o.modules >= 0)
    out.modules = layer_costs(*step.module, step.calls, kForward, kBackward, out.machine, kStep);
  return out;
}

std::string input_text(const Estimate& e) { return fmt::format("{}", fmt::join(e.input, " x ")); }

// Beyond a thousand seconds in minutes, hours or days.
std::string time_text(double seconds) {
  if (seconds < 1000) return seconds == 0 ? "" : format_seconds(seconds);
  const double minutes = seconds / 60;
  if (minutes < 120) return fmt::format("{:.1f} min", minutes);
  return minutes < 48 * 60 ? fmt::format("{:.1f} hours", minutes / 60)
                           : fmt::format("{:.1f} days", minutes / 60 / 24);
}

void print_phases(std::FILE* out, const Estimate& e) {
  Table table({{"phase"},
               {"memory at peak", Align::Right},
               {"at end", Align::Right},
               {"contractions", Align::Right},
               {"other FLOPs", Align::Right},
               {"bytes moved", Align::Right},
               {"least time", Align::Right},
               {"bound by"}});
  CostSum total;
  LeastTime least;
  int64_t peak = 0;
  const auto row = [&](const std::string& name, int64_t most, int64_t end, const CostSum& c,
                       const LeastTime& t) {
    const bool works = c.calls > 0;
    table.add({name, format_bytes(static_cast<double>(most)),
               format_bytes(static_cast<double>(end)),
               works ? format_count(c.flops.contraction, "FLOP") : "",
               works ? format_count(c.flops.other, "FLOP") : "", works ? format_bytes(c.bytes) : "",
               time_text(t.seconds), works ? std::string(t.bottleneck()) : ""});
  };
  for (const PhaseCost& p : e.phases) {
    row(p.memory.name, p.memory.peak.total, p.memory.end.total, p.cost, p.least);
    total.add(p.cost);
    least.add(p.least);
    peak = std::max(peak, p.memory.peak.total);
  }
  row("a step", peak, e.phases.back().memory.end.total, total, least);
  fmt::print(out, "{}", table.print());
}

// The categories as they are listed.
const std::vector<std::pair<std::string, std::vector<MemoryCategory>>>& memory_rows() {
  using C = MemoryCategory;
  static const std::vector<std::pair<std::string, std::vector<C>>> kRows = {
      {"parameters", {C::Parameter}},
      {"activations", {C::Activation}},
      {"gradients", {C::Gradient}},
      {"optimizer state", {C::Optimizer}},
      {"buffers and others", {C::Other, C::Temporary, C::Data, C::Packed}}};
  return kRows;
}

double bytes_at_end(const PhaseCost& phase, const std::vector<MemoryCategory>& categories) {
  int64_t bytes = 0;
  for (const MemoryCategory c : categories) bytes += phase.memory.end.of(c);
  return static_cast<double>(bytes);
}

void print_memory(std::FILE* out, const Estimate& e) {
  Table table({{"memory"},
               {"after forward", Align::Right},
               {"after backward", Align::Right},
               {"after step", Align::Right}});
  for (const auto& [name, categories] : memory_rows()) {
    std::vector<std::string> cells = {name};
    for (size_t i = 1; i < e.phases.size(); ++i)
      cells.push_back(format_bytes(bytes_at_end(e.phases[i], categories)));
    table.add(cells);
  }
  fmt::print(out, "{}", table.print());
  // In one unit, so that the parts can be added up; what is less than a thousandth is not named.
  const auto whole = static_cast<double>(e.phases.back().memory.end.total);
  std::vector<std::string> parts;
  for (const auto& [name, categories] : memory_rows())
    if (const double bytes = bytes_at_end(e.phases.back(), categories); bytes * 1000 > whole)
      parts.push_back(fmt::format("{} {}", name, format_megabytes(bytes)));
  fmt::print(out, "After the step: {} ({}).\n", format_megabytes(whole), fmt::join(parts, ", "));
}

// Forward and backward by module, to the depth that was asked for.
void print_modules(std::FILE* out, const Estimate& e, int64_t depth) {
  Table table({{"module"},
               {"type"},
               {"parameters", Align::Right},
               {"forward", Align::Right},
               {"backward", Align::Right},
               {"other FLOPs", Align::Right},
               {"bytes moved", Align::Right},
               {"least time", Align::Right},
               {"share", Align::Right},
               {"bound by"}});
  const LayerCost sum = sum_layers(e.modules);
  const auto row = [&](const std::string& label, const LayerCost& l) {
    table.add({label, l.type,
               l.part == LayerPart::Module || l.parameters > 0 ? group_digits(l.parameters) : "",
               format_count(l.cost.flops.contraction, "FLOP"),
               format_count(l.backward.flops.contraction, "FLOP"),
               format_count(l.cost.flops.other + l.backward.flops.other, "FLOP"),
               format_bytes(l.cost.bytes + l.backward.bytes), time_text(l.least.seconds),
               sum.least.seconds > 0
                   ? fmt::format("{:.1f} %", 100 * l.least.seconds / sum.least.seconds)
                   : "",
               l.least.seconds > 0 ? std::string(l.least.bottleneck()) : ""});
  };
  for (const LayerCost& l : e.modules)
    if (static_cast<int64_t>(l.depth) <= depth) row(std::string(2 * l.depth, ' ') + l.label(), l);
  row("sum", sum);
  fmt::print(out,
             "\n{}Backward work counts for the module whose forward caused it. (own ops): what a "
             "module runs itself, outside\nthe modules below it; (outside modules): what runs in "
             "no module, such as the loss. The sum is the whole step.\n",
             table.print());
}

Json modules_json(const Estimate& e) {
  const auto cost = [](const CostSum& c) {
    return Json{{"contraction_flops", count_json(c.flops.contraction)},
                {"other_flops", count_json(c.flops.other)},
                {"bytes_moved", count_json(c.bytes)}};
  };
  Json rows = Json::array();
  for (const LayerCost& l : e.modules)
    rows.push_back({{"part", part_name(l.part)},
                    {"path", l.path},
                    {"type", l.type},
                    {"parameters", l.parameters},
                    {"forward", cost(l.cost)},
                    {"backward", cost(l.backward)},
                    {"least_seconds", l.least.seconds},
                    {"bound_by", l.least.bottleneck()}});
  return rows;
}

Json to_json(const Estimate& e, const EstimateFlags& o) {
  Json phases = Json::array();
  for (const PhaseCost& p : e.phases) {
    Json memory;
    for (int c = 0; c < kMemoryCategoryCount; ++c)
      memory[std::string(name_of(static_cast<MemoryCategory>(c)))] =
          p.memory.end.by_category[static_cast<size_t>(c)];
    phases.push_back({{"name", p.memory.name},
                      {"peak_bytes", p.memory.peak.total},
                      {"end_bytes", p.memory.end.total},
                      {"end_bytes_by_category", memory},
                      {"calls", p.cost.calls},
                      {"contraction_flops", count_json(p.cost.flops.contraction)},
                      {"other_flops", count_json(p.cost.flops.other)},
                      {"total_flops", count_json(p.cost.flops.total)},
                      {"bytes_moved", count_json(p.cost.bytes)},
                      {"least_seconds", p.least.seconds},
                      {"bound_by", p.least.bottleneck()}});
  }
  Json out = {{"model", e.name},          {"parameters", e.parameters},
              {"dtype", o.dtype},         {"input", e.input},
              {"optimizer", o.optimizer}, {"machine", machine_json(e.machine)},
              {"phases", phases}};
  if (!e.modules.empty()) out["modules"] = modules_json(e);
  return out;
}

int run_estimate(const Args& args) {
  EstimateFlags o;
  CommandLine line(args);
  line.add_option("MODEL", o.model, "A model's name, or a spec such as 'Sequential(Linear(8,4))'")
      ->required();
  line.add_option("--batch", o.batch, "Samples in a batch")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  line.add_option("--input", o.input, "Sizes of one sample, if the model does not define them")
      ->type_name("SIZES");
  line.add_option("--sequence", o.sequence, "Tokens in a sample (default: the model's maximum)")
      ->type_name("T")
      ->check(at_least(1));
  line.add_option("--optimizer", o.optimizer,
                  fmt::format("{}", fmt::join(train::optimizer_names(), ", ")))
      ->type_name("NAME")
      ->check(one_of(train::optimizer_names()))
      ->capture_default_str();
  line.add_option("--machine", o.machine,
                  "Rates, as 100GFLOP/s,50GB/s (default: this machine's, measured)")
      ->type_name("RATES");
  line.add_option("--dtype", o.dtype, "float32, float64, float16 or bfloat16")
      ->type_name("NAME")
      ->check(one_of({"float32", "float64", "float16", "bfloat16"}))
      ->capture_default_str();
  line.add_option("--modules", o.modules,
                  "Also list forward and backward by module, this many levels deep (0: the model)")
      ->type_name("DEPTH")
      ->check(at_least(0));
  line.add_json(o.json);
  line.read();
  const Estimate e = estimate(o);
  if (const std::string why = e.machine.warning(); !why.empty())
    fmt::print(args.err, "warning: {}\n", why);
  if (o.json) {
    fmt::print(args.out, "{}", json_text(to_json(e, o)));
    return 0;
  }
  fmt::print(args.out, "{}: {} parameters = {}, {}, input {}, {}\n", e.name,
             group_digits(e.parameters),
             format_megabytes(bytes_at_end(e.phases[0], {MemoryCategory::Parameter})), o.dtype,
             input_text(e), o.optimizer);
  fmt::print(args.out, "machine: {}\n\n", e.machine.text());
  print_phases(args.out, e);
  fmt::print(args.out, "\n");
  print_memory(args.out, e);
  if (o.modules >= 0) print_modules(args.out, e, o.modules);
  fmt::print(args.out,
             "\nNothing was allocated or run. Contractions are counted as torch.utils.flop_counter "
             "does, without bias;\nthe least time takes each op's full cost, one op after another; "
             "peaks include the kernels' scratch memory.\n");
  return 0;
}

}  // namespace

const Command kEstimate{
    .name = "estimate",
    .summary = "Size a model without allocating it: memory, FLOPs, least time",
    .description =
        "Builds the model and runs a training step (forward, backward, optimiser). Every op checks "
        "its arguments and makes its results, but allocates no memory and computes nothing. "
        "Prints parameters, memory at each phase, FLOPs, bytes moved, and the least time on a "
        "machine of given rates. Models may have any size; gpt3-175b takes a moment.",
    .examples =
        "pellucid estimate gpt2 --batch 16 --optimizer adamw\n"
        "pellucid estimate gpt3-175b --dtype bfloat16 --machine 300TFLOP/s,2TB/s\n"
        "pellucid estimate resnet18 --batch 64 --optimizer sgd --json\n"
        "pellucid estimate gpt2 --modules 2\n"
        "pellucid estimate 'Sequential(Linear(784,128), ReLU(), Linear(128,10))' --batch 64",
    .run = run_estimate};

}  // namespace pellucid::cli
