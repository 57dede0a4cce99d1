// Optimisers and schedules by name.
#include "cli/train/optimizers.h"

#include <cmath>
#include <numbers>

#include "pellucid/error.h"

namespace pellucid::cli::train {
namespace {

using Groups = std::vector<optim::OptimizerParamGroup>;
using Made = std::unique_ptr<optim::Optimizer>;

struct Kind {
  std::string name;
  Made (*make)(const TrainOptions& o, const Groups& groups);
};

template <class O, class Options> Made made(const Groups& groups, Options options) {
  return std::make_unique<O>(groups, std::move(options));
}

const std::vector<Kind> kKinds = {
    {"sgd",
     [](const TrainOptions& o, const Groups& g) {
       return made<optim::SGD>(
           g, optim::SGDOptions(o.lr).momentum(o.momentum).weight_decay(o.weight_decay));
     }},
    {"adam",
     [](const TrainOptions& o, const Groups& g) {
       return made<optim::Adam>(g, optim::AdamOptions(o.lr).weight_decay(o.weight_decay));
     }},
    {"adamw",
     [](const TrainOptions& o, const Groups& g) {
       return made<optim::AdamW>(g, optim::AdamWOptions(o.lr).weight_decay(o.weight_decay));
     }},
    {"rmsprop",
     [](const TrainOptions& o, const Groups& g) {
       return made<optim::RMSprop>(
           g, optim::RMSpropOptions(o.lr).momentum(o.momentum).weight_decay(o.weight_decay));
     }},
    {"adagrad", [](const TrainOptions& o, const Groups& g) {
       return made<optim::Adagrad>(g, optim::AdagradOptions(o.lr).weight_decay(o.weight_decay));
     }}};

}  // namespace

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Kind& k : kKinds) names.push_back(k.name);
    return names;
  }();
  return kNames;
}

bool takes_momentum(const std::string& optimizer) {
  return optimizer == "sgd" || optimizer == "rmsprop";
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> kNames = {"constant", "linear", "cosine"};
  return kNames;
}

Made make_optimizer(const TrainOptions& o, const Groups& groups) {
  for (const Kind& k : kKinds)
    if (k.name == o.optimizer) return k.make(o, groups);
  pellucid::detail::raise<ValueError>("train: there is no optimiser '{}'.", o.optimizer);
}

std::unique_ptr<optim::LRScheduler> make_schedule(const TrainOptions& o,
                                                  optim::Optimizer& optimizer,
                                                  int64_t total_steps) {
  if (o.schedule == "constant" && o.warmup == 0) return nullptr;
  const auto factor = [kind = o.schedule, warmup = static_cast<double>(o.warmup),
                       total = static_cast<double>(total_steps)](int64_t step) {
    const auto at = static_cast<double>(step);
    if (at < warmup) return (at + 1) / (warmup + 1);
    const double done = std::min(1.0, (at - warmup) / std::max(1.0, total - warmup));
    if (kind == "linear") return 1 - done;
    return kind == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1.0;
  };
  return std::make_unique<optim::LambdaLR>(optimizer, factor);
}

}  // namespace pellucid::cli::train
