// Sums of estimated calls, the least time they take on a machine, and a model's table by module.
#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "pellucid/analyze.h"
#include "pellucid/autograd.h"
#include "pellucid/machine.h"

namespace pellucid {

void CostSum::add(const EstimatedCall& c) { add(CostSum{1, c.flops, c.bytes}); }

void CostSum::add(const CostSum& other) {
  calls += other.calls;
  flops.contraction += other.flops.contraction;
  flops.other += other.flops.other;
  flops.total += other.flops.total;
  bytes += other.bytes;
}

void LeastTime::add(const EstimatedCall& c, const MachineRates& machine) {
  const double compute = c.flops.total / machine.flops_per_second;
  const double memory = c.bytes / machine.bytes_per_second;
  seconds += std::max(compute, memory);
  (compute >= memory ? compute_seconds : memory_seconds) += std::max(compute, memory);
}

void LeastTime::add(const LeastTime& other) {
  seconds += other.seconds;
  compute_seconds += other.compute_seconds;
  memory_seconds += other.memory_seconds;
}

CostSum sum_costs(std::span<const EstimatedCall> calls) {
  CostSum out;
  for (const EstimatedCall& c : calls) out.add(c);
  return out;
}

LeastTime least_time(std::span<const EstimatedCall> calls, const MachineRates& machine) {
  PELLUCID_CHECK(machine.flops_per_second > 0 && machine.bytes_per_second > 0, ValueError,
                 "least_time: a machine's rates must be positive, found {} FLOP/s and {} B/s.",
                 machine.flops_per_second, machine.bytes_per_second);
  LeastTime out;
  for (const EstimatedCall& c : calls) out.add(c, machine);
  return out;
}

MachineRates this_machine() {
  const MachineCeilings c = machine_ceilings();
  return {c.flops_all, c.levels.empty() ? 0 : c.levels.back().all.copy};
}

namespace {

using Clock = std::chrono::steady_clock;

// Watches a model's modules by hooks, which are taken away at the end.
class Watch {
 public:
  explicit Watch(nn::Module& model) {
    for (const auto& m : model.modules()) {
      handles_.push_back(m->register_forward_pre_hook(
          [this](nn::Module& module, const Tensors&) { began_[&module] = Clock::now(); }));
      handles_.push_back(m->register_forward_hook(
          [this](nn::Module& module, const Tensors&, const Tensors& outputs) {
            if (!outputs.empty() && outputs[0].defined()) sizes[&module] = outputs[0].sizes().vec();
            spent_[&module] +=
                std::chrono::duration<double, std::milli>(Clock::now() - began_[&module]).count();
          }));
    }
  }
  ~Watch() {
    for (nn::HookHandle& h : handles_) h.remove();
  }
  Watch(const Watch&) = delete;

  /// Ends a run: the times that its modules took, all their calls together.
  void end_run() {
    for (const auto& [module, ms] : spent_) times[module].push_back(ms);
    spent_.clear();
  }

  std::unordered_map<const nn::Module*, std::vector<int64_t>> sizes;
  std::unordered_map<const nn::Module*, std::vector<double>> times;

 private:
  std::vector<nn::HookHandle> handles_;
  std::unordered_map<const nn::Module*, Clock::time_point> began_;
  std::unordered_map<const nn::Module*, double> spent_;
};

bool is_below(std::string_view path, std::string_view parent) {
  return parent.empty() ||
         (path.starts_with(parent) && (path.size() == parent.size() || path[parent.size()] == '.'));
}

std::vector<LayerCost> empty_rows(const nn::Module& model) {
  std::vector<LayerCost> rows;
  std::unordered_set<const void*> seen;
  const auto modules = model.named_modules();
  for (const auto& m : modules) {
    LayerCost row;
    row.path = m.key();
    row.type = m.value()->name();
    row.depth = m.key().empty()
                    ? 0
                    : 1 + static_cast<size_t>(std::count(m.key().begin(), m.key().end(), '.'));
    rows.push_back(std::move(row));
  }
  size_t i = 0;
  for (const auto& m : modules) {
    int64_t own = 0;
    for (const Tensor& p : m.value()->parameters(false))
      if (seen.insert(p.impl_ref().get()).second) own += p.numel();
    const std::string& path = rows[i++].path;
    for (LayerCost& row : rows)
      if (is_below(path, row.path)) row.parameters += own;
  }
  return rows;
}

}  // namespace

std::vector<LayerCost> layer_costs(const nn::Module& model, std::span<const EstimatedCall> calls,
                                   size_t forward_phase, size_t backward_phase,
                                   const MachineRates& machine) {
  struct Own {
    CostSum forward, backward;
    LeastTime least;
  };
  std::unordered_map<const nn::Module*, std::string> paths;
  for (const auto& m : model.named_modules()) paths[m.value().get()] = m.key();
  std::unordered_map<std::string, Own> own;
  for (const EstimatedCall& c : calls) {
    if (c.phase != forward_phase && c.phase != backward_phase) continue;
    const auto path = paths.find(c.module);
    Own& o = own[path == paths.end() ? "" : path->second];
    (c.phase == forward_phase ? o.forward : o.backward).add(c);
    if (machine.flops_per_second > 0 && machine.bytes_per_second > 0) o.least.add(c, machine);
  }
  std::vector<LayerCost> rows = empty_rows(model);
  for (LayerCost& row : rows)
    for (const auto& [path, cost] : own)
      if (is_below(path, row.path)) {
        row.cost.add(cost.forward);
        row.backward.add(cost.backward);
        row.least.add(cost.least);
      }
  return rows;
}

std::vector<LayerCost> layer_costs(const AnalyzedModel& model, const Tensor& input,
                                   int64_t iterations) {
  PELLUCID_CHECK(model.module() != nullptr, TypeError,
                 "layer_costs: a module is needed, but a plain function was given.");
  Watch watch(*model.module());
  std::vector<LayerCost> rows;
  {
    const autograd::AutoGradMode on(true);
    EstimateGuard guard;
    const Tensor output = model(input);
    guard.phase("backward");
    std::vector<Tensor> learned = model.parameters();
    std::erase_if(learned, [](const Tensor& p) { return !p.requires_grad(); });
    if (!learned.empty() && output.requires_grad())
      autograd::grad({output.sum()}, learned, {}, std::nullopt, false, true);
    rows = layer_costs(*model.module(), guard.calls(), 0, 1);
  }
  watch.end_run();
  watch.times.clear();
  const NoGradGuard off;
  for (int64_t i = 0; i < iterations; ++i) {
    model(input);
    watch.end_run();
  }
  size_t i = 0;
  for (const auto& m : model.module()->named_modules()) {
    rows[i].output_sizes = watch.sizes[m.value().get()];
    rows[i++].forward_ms = quantile(watch.times[m.value().get()], 0.5);
  }
  return rows;
}

}  // namespace pellucid
