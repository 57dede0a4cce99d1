// Writes what every schedule does in 40 epochs for tests/parity/training.py: the learning rates of
// two groups and the momentum, with the schedule's name and keyword arguments in PyTorch. Nothing
// happens unless PELLUCID_PARITY_DIR is set.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "pellucid/io/safetensors.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using namespace pellucid::optim;
using nlohmann::json;

namespace {

constexpr int kEpochs = 40;
constexpr double kFirstLr = 0.1, kSecondLr = 0.03;

/// The metric that ReduceLROnPlateau sees: falls, stays, falls a little, rises.
double metric(int epoch) {
  if (epoch < 8) return 1.0 / (1 + epoch);
  return epoch < 24 ? 0.125 - 1e-6 * epoch : 0.124 + 0.01 * (epoch % 3);
}

template <class O, class Options> O make_optimizer(const Options& options) {
  Options second = options;
  second.lr(kSecondLr);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{ones({1}).requires_grad_()});
  groups.emplace_back(std::vector{ones({1}).requires_grad_()}, std::make_unique<Options>(second));
  return O(groups, options);
}

double momentum_of(OptimizerOptions& options) {
  if (auto* o = dynamic_cast<SGDOptions*>(&options)) return o->momentum();
  return std::get<0>(dynamic_cast<AdamOptions&>(options).betas());
}

class Recorder {
 public:
  explicit Recorder(std::string folder) : folder_(std::move(folder)) {}

  template <class Make> void add(const std::string& name, const json& keywords, const Make& make) {
    auto sgd = make_optimizer<SGD>(SGDOptions(kFirstLr).momentum(0.9));
    run("SGD", sgd, name, keywords, make);
    auto adam = make_optimizer<Adam>(AdamOptions(kFirstLr));
    run("Adam", adam, name, keywords, make);
  }

 private:
  template <class Make>
  void run(const std::string& optimizer_name, Optimizer& optimizer, const std::string& name,
           const json& keywords, const Make& make) {
    const auto schedule = make(optimizer);
    const Tensor rates = empty({kEpochs, 3}, kFloat64);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      if (epoch) step(*schedule, epoch);
      double* row = rates.data_ptr<double>() + 3 * epoch;
      for (size_t g = 0; g < 2; ++g) row[g] = optimizer.param_groups()[g].options().get_lr();
      row[2] = momentum_of(optimizer.param_groups()[0].options());
    }
    const json facts = {{"kind", "schedule"},          {"schedule", name},
                        {"keywords", keywords},        {"metrics", metrics()},
                        {"optimizer", optimizer_name}, {"lrs", {kFirstLr, kSecondLr}},
                        {"tolerance", 1e-12}};
    io::save_safetensors(fmt::format("{}/schedule-{:02}-{}.safetensors", folder_, number_++, name),
                         {{"rates", rates}}, {{"run", facts.dump()}});
  }
  static void step(LRScheduler& schedule, int) { schedule.step(); }
  static void step(ReduceLROnPlateau& schedule, int epoch) { schedule.step(metric(epoch)); }
  static json metrics() {
    json out = json::array();
    for (int epoch = 0; epoch < kEpochs; ++epoch) out.push_back(metric(epoch));
    return out;
  }

  std::string folder_;
  int number_ = 0;
};

void add_simple(Recorder& r) {
  r.add("StepLR", {{"step_size", 7}, {"gamma", 0.5}},
        [](Optimizer& o) { return std::make_unique<StepLR>(o, 7, 0.5); });
  r.add("MultiStepLR", {{"milestones", {3, 10, 10, 25}}, {"gamma", 0.3}}, [](Optimizer& o) {
    return std::make_unique<MultiStepLR>(o, std::vector<int64_t>{3, 10, 10, 25}, 0.3);
  });
  r.add("ExponentialLR", {{"gamma", 0.93}},
        [](Optimizer& o) { return std::make_unique<ExponentialLR>(o, 0.93); });
  r.add("LinearLR", {{"start_factor", 0.2}, {"end_factor", 0.9}, {"total_iters", 12}},
        [](Optimizer& o) { return std::make_unique<LinearLR>(o, 0.2, 0.9, 12); });
  r.add("LinearLR", json::object(), [](Optimizer& o) { return std::make_unique<LinearLR>(o); });
  r.add("LambdaLR", {{"lr_lambda", "1 / (1 + epoch)"}}, [](Optimizer& o) {
    return std::make_unique<LambdaLR>(o,
                                      [](int64_t e) { return 1 / (1 + static_cast<double>(e)); });
  });
}

void add_factors(Recorder& r) {
  r.add("ConstantLR", {{"factor", 0.2}, {"total_iters", 9}},
        [](Optimizer& o) { return std::make_unique<ConstantLR>(o, 0.2, 9); });
  r.add("ConstantLR", json::object(), [](Optimizer& o) { return std::make_unique<ConstantLR>(o); });
  r.add("PolynomialLR", {{"total_iters", 30}, {"power", 1.7}},
        [](Optimizer& o) { return std::make_unique<PolynomialLR>(o, 30, 1.7); });
  r.add("MultiplicativeLR", {{"lr_lambda", "1 - 1 / (2 + epoch)"}}, [](Optimizer& o) {
    return std::make_unique<MultiplicativeLR>(
        o, [](int64_t e) { return 1 - 1 / (2 + static_cast<double>(e)); });
  });
  r.add("ChainedScheduler",
        {{"schedulers",
          json::array({json::array({"ConstantLR", {{"factor", 0.1}, {"total_iters", 6}}}),
                       json::array({"ExponentialLR", {{"gamma", 0.9}}})})}},
        [](Optimizer& o) {
          std::vector<std::shared_ptr<LRScheduler>> parts{std::make_shared<ConstantLR>(o, 0.1, 6),
                                                          std::make_shared<ExponentialLR>(o, 0.9)};
          return std::make_unique<ChainedScheduler>(o, parts);
        });
  for (const std::string strategy : {"cos", "linear"})
    r.add("SWALR", {{"swa_lr", 0.05}, {"anneal_epochs", 12}, {"anneal_strategy", strategy}},
          [&](Optimizer& o) { return std::make_unique<SWALR>(o, 0.05, 12, strategy); });
}

void add_cycles(Recorder& r) {
  r.add("CyclicLR", {{"base_lr", 0.01}, {"max_lr", 0.2}, {"step_size_up", 6}}, [](Optimizer& o) {
    return std::make_unique<CyclicLR>(o, CyclicLROptions(0.01, 0.2).step_size_up(6));
  });
  r.add("CyclicLR",
        {{"base_lr", 0.01},
         {"max_lr", 0.2},
         {"step_size_up", 5},
         {"step_size_down", 9},
         {"mode", "triangular2"},
         {"base_momentum", 0.6},
         {"max_momentum", 0.95}},
        [](Optimizer& o) {
          return std::make_unique<CyclicLR>(o, CyclicLROptions(0.01, 0.2)
                                                   .step_size_up(5)
                                                   .step_size_down(9)
                                                   .mode("triangular2")
                                                   .base_momentum(0.6)
                                                   .max_momentum(0.95));
        });
  r.add("CyclicLR",
        {{"base_lr", 0.01},
         {"max_lr", 0.2},
         {"step_size_up", 4},
         {"mode", "exp_range"},
         {"gamma", 0.97},
         {"cycle_momentum", false}},
        [](Optimizer& o) {
          return std::make_unique<CyclicLR>(o, CyclicLROptions(0.01, 0.2)
                                                   .step_size_up(4)
                                                   .mode("exp_range")
                                                   .gamma(0.97)
                                                   .cycle_momentum(false));
        });
}

void add_cosines(Recorder& r) {
  r.add("CosineAnnealingLR", {{"T_max", 15}, {"eta_min", 0.002}},
        [](Optimizer& o) { return std::make_unique<CosineAnnealingLR>(o, 15, 0.002); });
  r.add("CosineAnnealingLR", {{"T_max", 50}},
        [](Optimizer& o) { return std::make_unique<CosineAnnealingLR>(o, 50); });
  r.add("CosineAnnealingWarmRestarts", {{"T_0", 5}, {"T_mult", 2}, {"eta_min", 0.001}},
        [](Optimizer& o) { return std::make_unique<CosineAnnealingWarmRestarts>(o, 5, 2, 0.001); });
  r.add("CosineAnnealingWarmRestarts", {{"T_0", 6}},
        [](Optimizer& o) { return std::make_unique<CosineAnnealingWarmRestarts>(o, 6); });
}

void add_one_cycle(Recorder& r) {
  r.add("OneCycleLR", {{"max_lr", 0.3}, {"total_steps", kEpochs}},
        [](Optimizer& o) { return std::make_unique<OneCycleLR>(o, 0.3, kEpochs); });
  r.add("OneCycleLR",
        {{"max_lr", 0.3},
         {"epochs", 5},
         {"steps_per_epoch", 9},
         {"anneal_strategy", "linear"},
         {"pct_start", 0.4},
         {"base_momentum", 0.7},
         {"max_momentum", 0.8}},
        [](Optimizer& o) {
          return std::make_unique<OneCycleLR>(o, OneCycleLROptions(0.3)
                                                     .epochs(5)
                                                     .steps_per_epoch(9)
                                                     .anneal_strategy("linear")
                                                     .pct_start(0.4)
                                                     .base_momentum(0.7)
                                                     .max_momentum(0.8));
        });
  r.add("OneCycleLR",
        {{"max_lr", 0.3},
         {"total_steps", 50},
         {"three_phase", true},
         {"cycle_momentum", false},
         {"div_factor", 10},
         {"final_div_factor", 100}},
        [](Optimizer& o) {
          return std::make_unique<OneCycleLR>(o, OneCycleLROptions(0.3)
                                                     .total_steps(50)
                                                     .three_phase(true)
                                                     .cycle_momentum(false)
                                                     .div_factor(10)
                                                     .final_div_factor(100));
        });
}

void add_plateaus(Recorder& r) {
  r.add("ReduceLROnPlateau", {{"factor", 0.5}, {"patience", 3}, {"cooldown", 2}}, [](Optimizer& o) {
    return std::make_unique<ReduceLROnPlateau>(o, ReduceLROnPlateau::min, 0.5, 3, 1e-4,
                                               ReduceLROnPlateau::rel, 2);
  });
  r.add("ReduceLROnPlateau",
        {{"mode", "max"},
         {"factor", 0.2},
         {"patience", 4},
         {"threshold", 1e-3},
         {"threshold_mode", "abs"},
         {"min_lr", {1e-3, 2e-3}}},
        [](Optimizer& o) {
          return std::make_unique<ReduceLROnPlateau>(o, ReduceLROnPlateau::max, 0.2, 4, 1e-3,
                                                     ReduceLROnPlateau::abs, 0,
                                                     std::vector{1e-3, 2e-3});
        });
}

}  // namespace

TEST_CASE("parity: schedules are written for PyTorch") {
  const char* folder = std::getenv("PELLUCID_PARITY_DIR");
  if (!folder) return;
  Recorder r(folder);
  add_simple(r);
  add_factors(r);
  add_cosines(r);
  add_cycles(r);
  add_one_cycle(r);
  add_plateaus(r);
  r.add("SequentialLR",
        {{"schedulers",
          json::array({json::array({"LinearLR", {{"start_factor", 0.1}, {"total_iters", 6}}}),
                       json::array({"CosineAnnealingLR", {{"T_max", 20}}}),
                       json::array({"ExponentialLR", {{"gamma", 0.9}}})})},
         {"milestones", {6, 26}}},
        [](Optimizer& o) {
          std::vector<std::shared_ptr<LRScheduler>> parts{
              std::make_shared<LinearLR>(o, 0.1, 1.0, 6),
              std::make_shared<CosineAnnealingLR>(o, 20), std::make_shared<ExponentialLR>(o, 0.9)};
          return std::make_unique<SequentialLR>(o, parts, std::vector<int64_t>{6, 26});
        });
}
