// AveragedModel, its averages and SWALR.
#include "pellucid/optim/swa_utils.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::optim {

AverageFunction get_swa_avg_fn() {
  return [](const Tensor& averaged, const Tensor& current, int64_t num_averaged) {
    return averaged + (current - averaged).div(static_cast<double>(num_averaged + 1));
  };
}

AverageFunction get_ema_avg_fn(double decay) {
  PELLUCID_CHECK(decay >= 0 && decay <= 1, ValueError,
                 "get_ema_avg_fn: decay must be in [0, 1], found {}.", decay);
  return [decay](const Tensor& averaged, const Tensor& current, int64_t) {
    return averaged.mul(decay) + current.mul(1 - decay);
  };
}

AveragedModel::AveragedModel(const nn::Module& model, AverageFunction average, bool use_buffers)
    : module_(model.clone()), average_(std::move(average)), use_buffers_(use_buffers) {}

void AveragedModel::update_parameters(const nn::Module& model) {
  const NoGradGuard off;
  const auto take = [&](const std::vector<Tensor>& own, const std::vector<Tensor>& given,
                        bool averages) {
    PELLUCID_CHECK(own.size() == given.size(), ValueError,
                   "AveragedModel: the model has {} tensors, the one that it was made from had {}.",
                   given.size(), own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      const bool mean = averages && n_averaged_ > 0 && own[i].is_floating_point();
      const Tensor current = given[i].detach();
      own[i].detach().copy_(mean ? average_(own[i].detach(), current, n_averaged_) : current);
    }
  };
  take(module_->parameters(), model.parameters(), true);
  take(module_->buffers(), model.buffers(), use_buffers_);
  ++n_averaged_;
}

namespace detail {

NewStatistics::NewStatistics(nn::Module& model) : model_(model), training_(model.is_training()) {
  const auto begin = [&](auto* norm) {
    if (!norm || !norm->running_mean.defined()) return;
    norm->reset_running_stats();
    momenta_.emplace_back(&norm->options, norm->options.momentum());
    norm->options.momentum(std::nullopt);
  };
  for (const std::shared_ptr<nn::Module>& m : model.modules(false)) {
    begin(dynamic_cast<nn::BatchNorm1dImpl*>(m.get()));
    begin(dynamic_cast<nn::BatchNorm2dImpl*>(m.get()));
    begin(dynamic_cast<nn::BatchNorm3dImpl*>(m.get()));
  }
  model.train();
}

NewStatistics::~NewStatistics() {
  for (const auto& [options, momentum] : momenta_) options->momentum(momentum);
  model_.train(training_);
}

}  // namespace detail

SWALR::SWALR(Optimizer& optimizer, double swa_lr, int64_t anneal_epochs,
             std::string anneal_strategy)
    : LRScheduler(optimizer),
      swa_lr_(swa_lr),
      anneal_epochs_(anneal_epochs),
      cosine_(anneal_strategy == "cos") {
  PELLUCID_CHECK(cosine_ || anneal_strategy == "linear", ValueError,
                 "SWALR: anneal_strategy must be \"cos\" or \"linear\", found \"{}\".",
                 anneal_strategy);
  PELLUCID_CHECK(anneal_epochs >= 0, ValueError,
                 "SWALR: anneal_epochs must not be negative, found {}.", anneal_epochs);
  base_lrs_ = get_last_lr();
  LRScheduler::apply();
}

double SWALR::share(int64_t epoch) const {
  if (anneal_epochs_ == 0) epoch = std::max<int64_t>(epoch, 1);
  const auto all = static_cast<double>(std::max<int64_t>(anneal_epochs_, 1));
  const double done = std::clamp(static_cast<double>(epoch) / all, 0.0, 1.0);
  return cosine_ ? (1 - std::cos(std::numbers::pi * done)) / 2 : done;
}

double SWALR::lr_at(int64_t epoch, size_t group) const {
  return swa_lr_ * share(epoch) + base_lrs_[group] * (1 - share(epoch));
}

void SWALR::before_step() {
  // Other schedules may have moved the rate: what they would have set is blended from now on.
  const double blended = share(epoch_);
  const std::vector<double> rates = get_last_lr();
  for (size_t g = 0; g < std::min(rates.size(), base_lrs_.size()); ++g)
    if (blended < 1 && rates[g] != lr_at(epoch_, g))
      base_lrs_[g] = (rates[g] - blended * swa_lr_) / (1 - blended);
}

}  // namespace pellucid::optim
