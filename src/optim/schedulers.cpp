// The schedules that are functions of the epoch. ReduceLROnPlateau, OneCycleLR and CyclicLR are in
// scheduler_cycles.cpp.
#include "pellucid/optim/schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pellucid::optim {

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (OptimizerParamGroup& g : optimizer.param_groups()) base_lrs_.push_back(g.initial_lr());
}

void LRScheduler::step() {
  before_step();
  ++epoch_;
  try {
    apply();
  } catch (...) {
    --epoch_;
    throw;
  }
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (const OptimizerParamGroup& g : optimizer_.param_groups())
    rates.push_back(g.options().get_lr());
  return rates;
}

void LRScheduler::apply() {
  std::vector<OptimizerParamGroup>& groups = optimizer_.param_groups();
  for (size_t g = 0; g < std::min(groups.size(), base_lrs_.size()); ++g)
    groups[g].options().set_lr(lr_at(epoch_, g));
}

NamedValues LRScheduler::state_dict() const {
  return {{"last_epoch", epoch_}, {"base_lrs", Values(base_lrs_.begin(), base_lrs_.end())}};
}

void LRScheduler::load_state_dict(const NamedValues& values) {
  constexpr std::string_view who = "LRScheduler::load_state_dict";
  std::vector<double> base = numbers_of(values, "base_lrs", who);
  const int64_t epoch = integer_of(values, "last_epoch", who);
  PELLUCID_CHECK(base.size() == base_lrs_.size(), ValueError,
                 "{}: {} learning rates were saved but the optimiser has {} groups.", who,
                 base.size(), base_lrs_.size());
  PELLUCID_CHECK(epoch >= 0, ValueError, "{}: the saved epoch is {}.", who, epoch);
  base_lrs_ = std::move(base);
  epoch_ = epoch;
  apply();
}

LambdaLR::LambdaLR(Optimizer& optimizer, const Function& function)
    : LambdaLR(optimizer, std::vector<Function>(optimizer.param_groups().size(), function)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Function> functions)
    : LRScheduler(optimizer), functions_(std::move(functions)) {
  PELLUCID_CHECK(functions_.size() == base_lrs_.size(), ValueError,
                 "LambdaLR: {} functions were given but the optimiser has {} groups.",
                 functions_.size(), base_lrs_.size());
  LRScheduler::apply();
}

double LambdaLR::lr_at(int64_t epoch, size_t group) const {
  return base_lrs_[group] * functions_[group](epoch);
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  PELLUCID_CHECK(step_size > 0, ValueError, "StepLR: step_size must be at least 1, found {}.",
                 step_size);
  LRScheduler::apply();
}

double StepLR::lr_at(int64_t epoch, size_t group) const {
  const int64_t passed = epoch / step_size_;
  return base_lrs_[group] * std::pow(gamma_, static_cast<double>(passed));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  std::sort(milestones_.begin(), milestones_.end());
  LRScheduler::apply();
}

double MultiStepLR::lr_at(int64_t epoch, size_t group) const {
  const auto passed =
      std::upper_bound(milestones_.begin(), milestones_.end(), epoch) - milestones_.begin();
  return base_lrs_[group] * std::pow(gamma_, static_cast<double>(passed));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
  LRScheduler::apply();
}

double ExponentialLR::lr_at(int64_t epoch, size_t group) const {
  return base_lrs_[group] * std::pow(gamma_, static_cast<double>(epoch));
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   int64_t total_iters)
    : LRScheduler(optimizer),
      start_factor_(start_factor),
      end_factor_(end_factor),
      total_iters_(total_iters) {
  PELLUCID_CHECK(start_factor > 0 && start_factor <= 1 && end_factor >= 0 && end_factor <= 1,
                 ValueError,
                 "LinearLR: start_factor must be in (0, 1] and end_factor in [0, 1], found {} and "
                 "{}.",
                 start_factor, end_factor);
  PELLUCID_CHECK(total_iters > 0, ValueError, "LinearLR: total_iters must be at least 1, found {}.",
                 total_iters);
  LRScheduler::apply();
}

double LinearLR::lr_at(int64_t epoch, size_t group) const {
  const double done = static_cast<double>(std::min(epoch, total_iters_));
  return base_lrs_[group] *
         (start_factor_ + (end_factor_ - start_factor_) * done / static_cast<double>(total_iters_));
}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LRScheduler(optimizer), factor_(factor), total_iters_(total_iters) {
  PELLUCID_CHECK(factor >= 0 && factor <= 1, ValueError,
                 "ConstantLR: factor must be in [0, 1], found {}.", factor);
  LRScheduler::apply();
}

double ConstantLR::lr_at(int64_t epoch, size_t group) const {
  return base_lrs_[group] * (epoch < total_iters_ ? factor_ : 1);
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : LRScheduler(optimizer), total_iters_(total_iters), power_(power) {
  PELLUCID_CHECK(total_iters > 0, ValueError,
                 "PolynomialLR: total_iters must be at least 1, found {}.", total_iters);
  LRScheduler::apply();
}

double PolynomialLR::lr_at(int64_t epoch, size_t group) const {
  const double done = static_cast<double>(std::min(epoch, total_iters_));
  return base_lrs_[group] * std::pow(1 - done / static_cast<double>(total_iters_), power_);
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, const Function& function)
    : MultiplicativeLR(optimizer,
                       std::vector<Function>(optimizer.param_groups().size(), function)) {}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<Function> functions)
    : LambdaLR(optimizer, std::move(functions)) {
  LRScheduler::apply();  // LambdaLR has set its own rate
}

double MultiplicativeLR::lr_at(int64_t epoch, size_t group) const {
  double rate = base_lrs_[group];
  for (int64_t e = 1; e <= epoch; ++e) rate *= functions_[group](e);
  return rate;
}

namespace {
/// From `high` at share 0 to `low` at share 1, and back until share 2.
double cosine(double high, double low, double share) {
  return low + (high - low) * (1 + std::cos(std::numbers::pi * share)) / 2;
}
}  // namespace

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  PELLUCID_CHECK(t_max > 0, ValueError, "CosineAnnealingLR: t_max must be at least 1, found {}.",
                 t_max);
  LRScheduler::apply();
}

double CosineAnnealingLR::lr_at(int64_t epoch, size_t group) const {
  return cosine(base_lrs_[group], eta_min_,
                static_cast<double>(epoch) / static_cast<double>(t_max_));
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0,
                                                         int64_t t_mult, double eta_min)
    : LRScheduler(optimizer), t_0_(t_0), t_mult_(t_mult), eta_min_(eta_min) {
  PELLUCID_CHECK(t_0 > 0 && t_mult >= 1, ValueError,
                 "CosineAnnealingWarmRestarts: t_0 and t_mult must be at least 1, found {} and {}.",
                 t_0, t_mult);
  LRScheduler::apply();
}

double CosineAnnealingWarmRestarts::lr_at(int64_t epoch, size_t group) const {
  int64_t length = t_0_, at = epoch;
  if (t_mult_ == 1)
    at %= t_0_;
  else
    for (; at >= length; length *= t_mult_) at -= length;
  return cosine(base_lrs_[group], eta_min_, static_cast<double>(at) / static_cast<double>(length));
}

ChainedScheduler::ChainedScheduler(Optimizer& optimizer,
                                   std::vector<std::shared_ptr<LRScheduler>> schedulers)
    : LRScheduler(optimizer), schedulers_(std::move(schedulers)) {
  PELLUCID_CHECK(!schedulers_.empty(), ValueError,
                 "ChainedScheduler: at least one schedule is needed.");
  LRScheduler::apply();
}

double ChainedScheduler::lr_at(int64_t epoch, size_t group) const {
  const double base = base_lrs_[group];
  double rate = base;
  for (const auto& schedule : schedulers_)
    if (base != 0) rate *= schedule->lr_at(epoch, group) / base;
  return rate;
}

SequentialLR::SequentialLR(Optimizer& optimizer,
                           std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  PELLUCID_CHECK(
      !schedulers_.empty() && milestones_.size() + 1 == schedulers_.size(), ValueError,
      "SequentialLR: {} schedules need one milestone less than there are of them, found {}.",
      schedulers_.size(), milestones_.size());
  PELLUCID_CHECK(std::is_sorted(milestones_.begin(), milestones_.end()), ValueError,
                 "SequentialLR: milestones must rise.");
  LRScheduler::apply();
}

double SequentialLR::lr_at(int64_t epoch, size_t group) const {
  const auto which = static_cast<size_t>(
      std::upper_bound(milestones_.begin(), milestones_.end(), epoch) - milestones_.begin());
  return schedulers_[which]->lr_at(epoch - (which ? milestones_[which - 1] : 0), group);
}

}  // namespace pellucid::optim
