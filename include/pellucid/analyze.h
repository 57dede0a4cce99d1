// Analysis of models: parameters, FLOPs, memory and latency of anything that maps a tensor to a
// tensor, as functions and as members of Profiler.
//
// Two rules for FLOPs, both stated in the results. `count_flops` is the textbook figure: for one
// sample, contractions (two FLOPs a multiply-add) plus one for each element that an activation
// makes, without bias. Rates and rooflines use the whole batch's full cost, bias and all.
//
//   nn::Linear layer(128, 64);
//   count_parameters(layer)                      // 8256
//   count_flops(layer, randn({32, 128}))         // 16384
//   profile_forward_pass(layer, x).to_string()
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pellucid/estimate.h"
#include "pellucid/machine.h"
#include "pellucid/named_values.h"
#include "pellucid/nn/any.h"

namespace pellucid {

/// Results by name, in order. A dot in a name parts levels: "optimizer_memory_estimates.adam".
class PELLUCID_API Figures {
 public:
  Figures() = default;
  explicit Figures(NamedValues values) : values_(std::move(values)) {}
  void add(std::string name, Value value) {
    values_.push_back({std::move(name), std::move(value)});
  }
  /// Adds those of another one that are not there yet.
  void merge(const Figures& other);
  const NamedValues& values() const { return values_; }
  bool contains(std::string_view name) const { return find_value(values_, name) != nullptr; }
  /// A number, or a bool as 0 or 1; throws ValueError for a name that is not there.
  double operator[](std::string_view name) const;
  std::string text(std::string_view name) const;
  /// A line "name: value" for each.
  std::string to_string() const;
  std::string json() const;

 private:
  NamedValues values_;
};

/// What is analysed: a function of one tensor and, where it is one, the module behind it.
class PELLUCID_API AnalyzedModel {
 public:
  template <class M>
  AnalyzedModel(const nn::ModuleHolder<M>& holder) : AnalyzedModel(nn::AnyModule(holder)) {}
  AnalyzedModel(nn::AnyModule module)
      : module_(module.ptr()),
        forward_([m = std::make_shared<nn::AnyModule>(std::move(module))](const Tensor& x) {
          return m->forward(x);
        }) {}
  template <class F>
  requires(std::is_invocable_r_v<Tensor, F&, const Tensor&> && !nn::detail::IsHolder<F>)
      AnalyzedModel(F function)
      : forward_(std::move(function)) {}
  /// A function that learns these.
  AnalyzedModel(std::function<Tensor(const Tensor&)> function, std::vector<Tensor> parameters)
      : forward_(std::move(function)), parameters_(std::move(parameters)) {}

  Tensor operator()(const Tensor& x) const { return forward_(x); }
  /// Null for a plain function.
  const std::shared_ptr<nn::Module>& module() const { return module_; }
  std::vector<Tensor> parameters() const;

 private:
  std::shared_ptr<nn::Module> module_;
  std::function<Tensor(const Tensor&)> forward_;
  std::vector<Tensor> parameters_;  ///< of a function
};

/// Turns an output into a loss.
using LossFunction = std::function<Tensor(const Tensor& output)>;

/// This machine's measured ceilings (pellucid/machine.h), as every report uses them.
PELLUCID_API MachineRates this_machine();

/// Times of repeated runs.
struct PELLUCID_API Latency {
  double median_ms = 0, iqr_ms = 0, mean_ms = 0, min_ms = 0, max_ms = 0, p95_ms = 0, p99_ms = 0;
  int64_t warmup_runs = 0, iterations = 0;
  int64_t preempted = 0;  ///< how often the system gave a core of the timed runs to somebody else
  bool noisy = false;     ///< other programs disturbed the runs
  bool stable = true;     ///< warm-up ended because times had settled
  std::string warning;    ///< why the figures should not be relied on; empty if there is no reason
  Figures figures() const;
};
/// The value below which the share q of the values lies, between neighbours by proportion.
PELLUCID_API double quantile(std::vector<double> values, double q);
/// Runs `work` at least `warmup` times, on until times have settled (at most ten times as often, or
/// a second), then times `iterations` runs.
PELLUCID_API Latency measure_latency_of(const std::function<void()>& work, int64_t warmup = 10,
                                        int64_t iterations = 100);

/// Sums of estimated calls.
struct PELLUCID_API CostSum {
  int64_t calls = 0;
  FlopSplit flops;
  double bytes = 0;
  void add(const EstimatedCall& call);
  void add(const CostSum& other);
};
PELLUCID_API CostSum sum_costs(std::span<const EstimatedCall> calls);
/// The least time that calls take one after another, each bound by arithmetic or by memory.
struct PELLUCID_API LeastTime {
  double seconds = 0;
  double compute_seconds = 0;  ///< of calls that arithmetic binds
  double memory_seconds = 0;   ///< of calls that memory binds
  void add(const EstimatedCall& call, const MachineRates& machine);
  void add(const LeastTime& other);
  std::string_view bottleneck() const {
    return compute_seconds >= memory_seconds ? "compute" : "memory";
  }
};
PELLUCID_API LeastTime least_time(std::span<const EstimatedCall> calls,
                                  const MachineRates& machine);

/// What a row of a model's table is of.
enum class LayerPart : uint8_t {
  Module,     ///< a module with all modules below it
  OwnOps,     ///< what a module that has modules below does itself, between them
  Outside,    ///< what ran outside every module of the model, as the loss
  Optimizer,  ///< the optimiser's step
};
/// One row. A module's figures are those of its own ops and of its children's rows together; the
/// model, the outside and the optimiser together are all that was counted.
struct PELLUCID_API LayerCost {
  LayerPart part = LayerPart::Module;
  std::string path, type;  ///< "" is the model itself; of own ops the path of their module
  size_t depth = 0;
  int64_t parameters = 0;  ///< a tensor that several modules share counts for the first alone
  std::vector<int64_t> output_sizes;
  CostSum cost;           ///< forward
  CostSum backward;       ///< of the calls that the module's forward caused in backward
  LeastTime least;        ///< of both; 0 where no machine is given
  double forward_ms = 0;  ///< of the run with the median time; 0 where it was not asked for
  /// "conv1", "(model)", "(own ops)", "(outside modules)" or "(optimizer)".
  std::string label() const;
};
/// The rows of a model's table, parents first; the gradient of the output is taken as ones.
/// `iterations` forward runs are timed, 0 for none. Rows without any calls are left out, but for
/// modules.
PELLUCID_API std::vector<LayerCost> layer_costs(const AnalyzedModel& model, const Tensor& input,
                                                int64_t iterations = 0);
/// The same from calls that an estimate counted, by the places of its two phases.
PELLUCID_API std::vector<LayerCost> layer_costs(const nn::Module& model,
                                                std::span<const EstimatedCall> calls,
                                                size_t forward_phase, size_t backward_phase,
                                                const MachineRates& machine = {},
                                                size_t step_phase = SIZE_MAX);
/// The sum of a table's rows: everything that was counted, each call once.
PELLUCID_API LayerCost sum_layers(std::span<const LayerCost> rows);

/// How many numbers the model learns; a tensor with several names counts once.
PELLUCID_API int64_t count_parameters(const AnalyzedModel& model);
/// FLOPs of one sample by the textbook rule, whatever the batch. Nothing is run.
PELLUCID_API double count_flops(const AnalyzedModel& model, const Tensor& input);
/// parameter_memory_mb, activation_memory_mb, gradient_memory_mb, peak_memory_mb,
/// memory_efficiency; from the allocator's counters in a forward and a backward run.
PELLUCID_API Figures measure_memory(const AnalyzedModel& model, const Tensor& input);
/// The forward run without gradients.
PELLUCID_API Latency measure_latency(const AnalyzedModel& model, const Tensor& input,
                                     int64_t warmup = 10, int64_t iterations = 100);
/// parameters, flops, macs, latency_ms, gflops_per_second and memory of one layer.
PELLUCID_API Figures profile_layer(const AnalyzedModel& layer, const Tensor& input);
/// That, and memory_bandwidth_mbs, computational_efficiency (of the machine's FLOP/s),
/// share_of_ceiling, least_ms, is_memory_bound, is_compute_bound and bottleneck against the
/// machine's ceilings. ceiling_warning says where a measured ceiling was passed, so that it was too
/// low; a share of a machine that was given may be above 1.
PELLUCID_API Figures profile_forward_pass(const AnalyzedModel& model, const Tensor& input,
                                          const MachineRates& machine = this_machine());
/// forward_/backward_/total_ flops and latency_ms, forward_/total_memory_mb,
/// total_gflops_per_second and optimizer_memory_estimates; backward is measured. The model's
/// gradients stay as they are. Without a loss the output's sum is taken.
PELLUCID_API Figures profile_backward_pass(const AnalyzedModel& model, const Tensor& input,
                                           const LossFunction& loss = {},
                                           const MachineRates& machine = this_machine());

/// The functions above as members.
class PELLUCID_API Profiler {
 public:
  int64_t count_parameters(const AnalyzedModel& model) const {
    return pellucid::count_parameters(model);
  }
  double count_flops(const AnalyzedModel& model, const Tensor& input) const {
    return pellucid::count_flops(model, input);
  }
  Figures measure_memory(const AnalyzedModel& model, const Tensor& input) const {
    return pellucid::measure_memory(model, input);
  }
  Latency measure_latency(const AnalyzedModel& model, const Tensor& input, int64_t warmup = 10,
                          int64_t iterations = 100) const {
    return pellucid::measure_latency(model, input, warmup, iterations);
  }
  Figures profile_layer(const AnalyzedModel& layer, const Tensor& input) const {
    return pellucid::profile_layer(layer, input);
  }
  Figures profile_forward_pass(const AnalyzedModel& model, const Tensor& input) const {
    return pellucid::profile_forward_pass(model, input);
  }
  Figures profile_backward_pass(const AnalyzedModel& model, const Tensor& input,
                                const LossFunction& loss = {}) const {
    return pellucid::profile_backward_pass(model, input, loss);
  }
};

}  // namespace pellucid
