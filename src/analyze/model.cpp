// count_parameters, count_flops, measure_memory, measure_latency and the profiles of a layer, a
// forward and a backward pass.
#include <algorithm>
#include <cmath>

#include "pellucid/analyze.h"
#include "pellucid/autograd.h"
#include "pellucid/lazy.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

constexpr double kMega = 1e6;  // keys that end in _mb are decimal

constexpr std::string_view kRule =
    "flops: one sample, contractions (2 a multiply-add) + 1 an activation element, no bias; rates: "
    "the whole batch's full cost";

double bytes_of(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& t : tensors) bytes += static_cast<double>(t.nbytes());
  return bytes;
}

std::vector<Tensor> trainable(const AnalyzedModel& model) {
  std::vector<Tensor> out;
  for (const Tensor& p : model.parameters())
    if (p.requires_grad()) out.push_back(p);
  return out;
}

Tensor loss_of(const LossFunction& loss, const Tensor& output) {
  return loss ? loss(output) : output.sum();
}

// The gradients of all parameters, or of the input where there are none; .grad stays as it is.
std::vector<Tensor> backward_of(const Tensor& loss, const std::vector<Tensor>& wanted) {
  return autograd::grad({loss}, wanted, {}, std::nullopt, false, true);
}

std::vector<EstimatedCall> estimate_forward(const AnalyzedModel& model, const Tensor& input) {
  const EstimateGuard guard;
  const NoGradGuard off;
  model(input);
  return guard.calls();
}

// FLOPs and bytes are counts: a whole number is an integer, in JSON too.
Value count_of(double n) {
  return n == std::floor(n) && std::abs(n) < 0x1p53 ? Value(static_cast<int64_t>(n)) : Value(n);
}

double textbook_flops(std::span<const EstimatedCall> calls, const Tensor& input) {
  double flops = 0;
  for (const EstimatedCall& c : calls)
    flops += c.flops.contraction + (c.op->activation ? c.elements : 0);
  const int64_t samples = input.dim() > 1 ? std::max<int64_t>(input.size(0), 1) : 1;
  return flops / static_cast<double>(samples);
}

double textbook_macs(std::span<const EstimatedCall> calls, const Tensor& input) {
  const int64_t samples = input.dim() > 1 ? std::max<int64_t>(input.size(0), 1) : 1;
  return sum_costs(calls).flops.contraction / 2 / static_cast<double>(samples);
}

// Where work is timed with gradients, the tensors whose gradients are taken.
std::vector<Tensor> wanted_gradients(const AnalyzedModel& model, Tensor& input) {
  std::vector<Tensor> wanted = trainable(model);
  if (wanted.empty()) {
    input = input.detach().requires_grad_();
    wanted.push_back(input);
  }
  return wanted;
}

// What calls that took `seconds` reached of the machine. Of a machine that was given, a share above
// 1 is shown as it is. A ceiling that was measured here and passed now was too low, because the
// machine just did more: then the share is 1, and the warning says why.
void add_bound(Figures& out, std::span<const EstimatedCall> calls, double seconds,
               const MachineRates& machine) {
  const CostSum cost = sum_costs(calls);
  const LeastTime least = least_time(calls, machine);
  const bool memory_bound = least.bottleneck() == "memory";
  const double efficiency = cost.flops.total / seconds / machine.flops_per_second;
  const double share = least.seconds / seconds;
  out.add("memory_bandwidth_mbs", cost.bytes / seconds / kMega);
  const double most = machine.measured() ? 1.0 : std::max({1.0, efficiency, share});
  out.add("computational_efficiency", std::min(efficiency, most));
  out.add("share_of_ceiling", std::min(share, most));
  out.add("least_ms", 1e3 * least.seconds);
  if (const std::string why = machine.warning(std::max(share, efficiency)); !why.empty())
    out.add("ceiling_warning", why);
  out.add("is_memory_bound", memory_bound);
  out.add("is_compute_bound", !memory_bound);
  out.add("bottleneck", memory_bound ? "memory" : "compute");
}

}  // namespace

std::vector<Tensor> AnalyzedModel::parameters() const {
  return module_ ? module_->parameters() : parameters_;
}

int64_t count_parameters(const AnalyzedModel& model) {
  int64_t n = 0;
  for (const Tensor& p : model.parameters()) n += p.numel();
  return n;
}

double count_flops(const AnalyzedModel& model, const Tensor& input) {
  return textbook_flops(estimate_forward(model, input), input);
}

Figures measure_memory(const AnalyzedModel& model, const Tensor& given) {
  const LazyGuard eager(false);  // what is measured runs while it is measured
  Tensor input = given;
  const std::vector<Tensor> wanted = wanted_gradients(model, input);
  const double parameters = bytes_of(model.parameters());
  reset_peak_memory_stats();
  const int64_t before = memory_stats().allocated;
  Tensor output, loss;
  double activations = 0, gradients = 0;
  {
    const autograd::AutoGradMode on(true);
    const MemoryCategoryGuard category(MemoryCategory::Activation);
    output = model(input);
    activations = static_cast<double>(memory_stats().allocated - before) +
                  static_cast<double>(input.nbytes());
    loss = loss_of({}, output);
  }
  gradients = bytes_of(backward_of(loss, wanted));
  const double peak = static_cast<double>(memory_stats().peak - before) + parameters +
                      static_cast<double>(input.nbytes());
  return Figures(
      {{"parameter_memory_mb", parameters / kMega},
       {"activation_memory_mb", activations / kMega},
       {"gradient_memory_mb", gradients / kMega},
       {"peak_memory_mb", peak / kMega},
       {"memory_efficiency", peak > 0 ? std::min(1.0, (parameters + activations) / peak) : 1.0}});
}

Latency measure_latency(const AnalyzedModel& model, const Tensor& input, int64_t warmup,
                        int64_t iterations) {
  const NoGradGuard off;
  return measure_latency_of([&] { model(input); }, warmup, iterations);
}

Figures profile_layer(const AnalyzedModel& layer, const Tensor& input) {
  const std::vector<EstimatedCall> calls = estimate_forward(layer, input);
  const CostSum cost = sum_costs(calls);
  const Latency latency = measure_latency(layer, input);
  Figures out({{"parameters", count_parameters(layer)},
               {"flops", count_of(textbook_flops(calls, input))},
               {"macs", count_of(textbook_macs(calls, input))},
               {"batch_flops", count_of(cost.flops.total)},
               {"batch_bytes", count_of(cost.bytes)},
               {"gflops_per_second", cost.flops.total / latency.median_ms / kMega},
               {"rule", kRule}});
  out.merge(latency.figures());
  out.merge(measure_memory(layer, input));
  return out;
}

Figures profile_forward_pass(const AnalyzedModel& model, const Tensor& input,
                             const MachineRates& machine) {
  Figures out = profile_layer(model, input);
  add_bound(out, estimate_forward(model, input), out["latency_ms"] / 1e3, machine);
  return out;
}

Figures profile_backward_pass(const AnalyzedModel& model, const Tensor& given,
                              const LossFunction& loss, const MachineRates& machine) {
  Tensor input = given;
  const std::vector<Tensor> wanted = wanted_gradients(model, input);
  const autograd::AutoGradMode on(true);
  CostSum forward, backward;
  std::vector<EstimatedCall> calls;
  {
    EstimateGuard guard;
    const Tensor value = loss_of(loss, model(input));
    guard.phase("backward");
    backward_of(value, wanted);
    calls = guard.calls();
  }
  for (const EstimatedCall& c : calls) (c.phase == 0 ? forward : backward).add(c);
  std::vector<double> backward_ms;
  Tensor value;
  // Both halves of a run follow each other, as in training; each is timed on its own.
  const Latency forward_time = measure_latency_of([&] { value = loss_of(loss, model(input)); });
  for (int i = 0; i < 50; ++i) {
    value = loss_of(loss, model(input));
    backward_ms.push_back(measure_latency_of([&] { backward_of(value, wanted); }, 0, 1).median_ms);
  }
  const double backward_time = quantile(backward_ms, 0.5);
  const double total_ms = forward_time.median_ms + backward_time;
  const double total_flops = forward.flops.total + backward.flops.total;
  const Figures memory = measure_memory(model, given);
  const double parameters = memory["parameter_memory_mb"];
  const double forward_mb = parameters + memory["activation_memory_mb"];
  Figures out({{"forward_flops", count_of(forward.flops.total)},
               {"backward_flops", count_of(backward.flops.total)},
               {"total_flops", count_of(total_flops)},
               {"forward_latency_ms", forward_time.median_ms},
               {"backward_latency_ms", backward_time},
               {"total_latency_ms", total_ms},
               {"forward_memory_mb", forward_mb},
               {"backward_memory_mb", memory["gradient_memory_mb"]},
               {"total_memory_mb", forward_mb + memory["gradient_memory_mb"]},
               {"peak_memory_mb", memory["peak_memory_mb"]},
               {"total_gflops_per_second", total_flops / total_ms / kMega},
               {"optimizer_memory_estimates.sgd", 0.0},  // without momentum: no state
               {"optimizer_memory_estimates.adam", 2 * parameters},
               {"optimizer_memory_estimates.adamw", 2 * parameters}});
  add_bound(out, calls, total_ms / 1e3, machine);
  if (!forward_time.warning.empty()) out.add("warning", forward_time.warning);
  return out;
}

}  // namespace pellucid
