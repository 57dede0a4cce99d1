// A model's table by module: costs, forward and backward, and the time of a run. Each call and each
// moment belongs to one module's own work, so a parent is the sum of its own ops and its children.
#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "pellucid/analyze.h"
#include "pellucid/autograd.h"
#include "pellucid/lazy.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

using Clock = std::chrono::steady_clock;

// Watches a model's modules by hooks, which are taken away at the end. The time of a module is what
// it takes itself, without the modules that it calls.
class Watch {
 public:
  explicit Watch(nn::Module& model) {
    for (const auto& m : model.modules()) {
      handles_.push_back(m->register_forward_pre_hook(
          [this](nn::Module& module, const Tensors&) { enter(&module); }));
      handles_.push_back(m->register_forward_hook(
          [this](nn::Module& module, const Tensors&, const Tensors& outputs) {
            if (!outputs.empty() && outputs[0].defined()) sizes[&module] = outputs[0].sizes().vec();
            leave(&module);
          }));
    }
  }
  ~Watch() {
    for (nn::HookHandle& h : handles_) h.remove();
  }
  Watch(const Watch&) = delete;

  using Times = std::unordered_map<const nn::Module*, double>;  // milliseconds
  /// Begins a run anew: one that threw left modules open.
  void begin_run() {
    open_.clear();
    spent_.clear();
  }
  /// Ends a run.
  Times end_run() { return std::move(spent_); }

  std::unordered_map<const nn::Module*, std::vector<int64_t>> sizes;

 private:
  void charge(Clock::time_point now) {
    if (!open_.empty())
      spent_[open_.back()] += std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
  }
  void enter(const nn::Module* module) {
    charge(Clock::now());
    open_.push_back(module);
  }
  void leave(const nn::Module* module) {
    charge(Clock::now());
    while (!open_.empty() && open_.back() != module) open_.pop_back();
    if (!open_.empty()) open_.pop_back();
  }

  std::vector<nn::HookHandle> handles_;
  std::vector<const nn::Module*> open_;  // innermost last
  Clock::time_point last_;
  Times spent_;
};

bool is_below(std::string_view path, std::string_view parent) {
  return parent.empty() ||
         (path.starts_with(parent) && (path.size() == parent.size() || path[parent.size()] == '.'));
}

// What one module does itself.
struct Own {
  CostSum forward, backward;
  LeastTime least;
  double ms = 0;
  bool any() const { return forward.calls + backward.calls > 0 || ms > 0; }
  void add_to(LayerCost& row) const {
    row.cost.add(forward);
    row.backward.add(backward);
    row.least.add(least);
    row.forward_ms += ms;
  }
};

struct OwnCosts {
  std::unordered_map<const nn::Module*, Own> modules;
  Own outside, optimizer;
};

size_t depth_of(std::string_view path) {
  return path.empty() ? 0 : 1 + static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
}

// The rows of a model; `costs` are by module, and each of those lies in the model.
std::vector<LayerCost> rows_of(const nn::Module& model, const OwnCosts& costs) {
  const auto modules = model.named_modules();
  std::unordered_set<const void*> seen;
  std::unordered_map<const nn::Module*, int64_t> parameters;  // a module's own, each tensor once
  for (const auto& m : modules)
    for (const Tensor& p : m.value()->parameters(false))
      if (seen.insert(p.impl_ref().get()).second) parameters[m.value().get()] += p.numel();
  std::vector<LayerCost> rows;
  for (const auto& m : modules) {
    LayerCost row;
    row.path = m.key();
    row.type = m.value()->name();
    row.depth = depth_of(row.path);
    bool parent = false;
    for (const auto& other : modules) {
      if (!is_below(other.key(), row.path)) continue;
      parent = parent || other.key() != row.path;
      if (const auto n = parameters.find(other.value().get()); n != parameters.end())
        row.parameters += n->second;
      if (const auto c = costs.modules.find(other.value().get()); c != costs.modules.end())
        c->second.add_to(row);
    }
    rows.push_back(row);
    const auto own = costs.modules.find(m.value().get());
    if (!parent || own == costs.modules.end() || !own->second.any()) continue;
    LayerCost between{.part = LayerPart::OwnOps, .path = m.key(), .depth = row.depth + 1};
    if (const auto n = parameters.find(m.value().get()); n != parameters.end())
      between.parameters = n->second;
    own->second.add_to(between);
    rows.push_back(std::move(between));
  }
  const auto add = [&](LayerPart part, const Own& own) {
    if (!own.any()) return;
    LayerCost row{.part = part};
    own.add_to(row);
    rows.push_back(std::move(row));
  };
  add(LayerPart::Outside, costs.outside);
  add(LayerPart::Optimizer, costs.optimizer);
  return rows;
}

OwnCosts own_costs(const nn::Module& model, std::span<const EstimatedCall> calls,
                   size_t forward_phase, size_t backward_phase, size_t step_phase,
                   const MachineRates& machine) {
  std::unordered_set<const nn::Module*> known;
  for (const auto& m : model.named_modules()) known.insert(m.value().get());
  OwnCosts out;
  for (const EstimatedCall& c : calls) {
    if (c.phase != forward_phase && c.phase != backward_phase && c.phase != step_phase) continue;
    Own& own = c.phase == step_phase      ? out.optimizer
               : known.contains(c.module) ? out.modules[c.module]
                                          : out.outside;
    (c.phase == backward_phase ? own.backward : own.forward).add(c);
    if (machine.known()) own.least.add(c, machine);
  }
  return out;
}

// The times of the run whose whole is the median: medians of parts would not sum to a whole.
Watch::Times median_run(std::vector<Watch::Times> runs) {
  if (runs.empty()) return {};
  const auto whole = [](const Watch::Times& t) {
    double ms = 0;
    for (const auto& [module, own] : t) ms += own;
    return ms;
  };
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end(),
                   [&](const auto& a, const auto& b) { return whole(a) < whole(b); });
  return std::move(*middle);
}

}  // namespace

std::string LayerCost::label() const {
  switch (part) {
    case LayerPart::OwnOps:
      return "(own ops)";
    case LayerPart::Outside:
      return "(outside modules)";
    case LayerPart::Optimizer:
      return "(optimizer)";
    case LayerPart::Module:
      break;
  }
  return path.empty() ? "(model)" : path.substr(path.rfind('.') + 1);
}

std::vector<LayerCost> layer_costs(const nn::Module& model, std::span<const EstimatedCall> calls,
                                   size_t forward_phase, size_t backward_phase,
                                   const MachineRates& machine, size_t step_phase) {
  return rows_of(model,
                 own_costs(model, calls, forward_phase, backward_phase, step_phase, machine));
}

LayerCost sum_layers(std::span<const LayerCost> rows) {
  LayerCost sum;
  for (const LayerCost& row : rows) {
    const bool root = row.part == LayerPart::Module && row.path.empty();
    if (!root && row.part != LayerPart::Outside && row.part != LayerPart::Optimizer) continue;
    sum.parameters += row.parameters;
    sum.cost.add(row.cost);
    sum.backward.add(row.backward);
    sum.least.add(row.least);
    sum.forward_ms += row.forward_ms;
  }
  return sum;
}

std::vector<LayerCost> layer_costs(const AnalyzedModel& model, const Tensor& input,
                                   int64_t iterations) {
  PELLUCID_CHECK(model.module() != nullptr, TypeError,
                 "layer_costs: a module is needed, but a plain function was given.");
  const LazyGuard eager(false);  // what is measured runs while it is measured
  Watch watch(*model.module());
  OwnCosts costs;
  {
    const autograd::AutoGradMode on(true);
    EstimateGuard guard;
    const Tensor output = model(input);
    guard.phase("gradient");  // the analysis's own
    const Tensor ones = ones_like(output.detach());
    guard.phase("backward");
    std::vector<Tensor> learned = model.parameters();
    std::erase_if(learned, [](const Tensor& p) { return !p.requires_grad(); });
    if (!learned.empty() && output.requires_grad())
      autograd::grad({output}, learned, {ones}, std::nullopt, false, true);
    costs = own_costs(*model.module(), guard.calls(), 0, 2, SIZE_MAX, {});
  }
  const NoGradGuard off;
  std::vector<Watch::Times> runs;
  for (int64_t i = 0; i < iterations; ++i) {
    watch.begin_run();
    model(input);
    runs.push_back(watch.end_run());
  }
  for (const auto& [module, ms] : median_run(std::move(runs))) costs.modules[module].ms = ms;
  std::vector<LayerCost> rows = rows_of(*model.module(), costs);
  for (const auto& m : model.module()->named_modules())
    for (LayerCost& row : rows)
      if (row.part == LayerPart::Module && row.path == m.key())
        row.output_sizes = watch.sizes[m.value().get()];
  return rows;
}

}  // namespace pellucid
