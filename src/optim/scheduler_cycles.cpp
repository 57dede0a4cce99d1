// OneCycleLR, CyclicLR and ReduceLROnPlateau.
#include <cmath>
#include <numbers>

#include "pellucid/optim/schedulers.h"

namespace pellucid::optim {
namespace {

/// Sets the group's momentum, or beta1; false where its optimiser has neither.
bool set_momentum(OptimizerOptions& options, double value) {
  for (const OptionField& f : options.fields()) {
    if (f.name == "momentum") {
      *std::get<double*>(f.value) = value;
      return true;
    }
    if (f.name == "betas") {
      std::get<0>(*std::get<std::tuple<double, double>*>(f.value)) = value;
      return true;
    }
  }
  return false;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  OneCycleLROptions& o = options_;
  if (o.total_steps() == 0) o.total_steps(o.epochs() * o.steps_per_epoch());
  PELLUCID_CHECK(o.total_steps() > 0, ValueError,
                 "OneCycleLR: give total_steps, or epochs and steps_per_epoch, of at least 1.");
  PELLUCID_CHECK(o.pct_start() >= 0 && o.pct_start() <= 1, ValueError,
                 "OneCycleLR: pct_start must be in [0, 1], found {}.", o.pct_start());
  PELLUCID_CHECK(o.anneal_strategy() == "cos" || o.anneal_strategy() == "linear", ValueError,
                 "OneCycleLR: anneal_strategy must be \"cos\" or \"linear\", found \"{}\".",
                 o.anneal_strategy());
  const auto steps = static_cast<double>(o.total_steps());
  const double top = o.max_lr(), start = top / o.div_factor(), last = start / o.final_div_factor();
  const double high = o.max_momentum(), low = o.base_momentum();
  if (o.three_phase())
    phases_ = {{o.pct_start() * steps - 1, start, top, high, low},
               {2 * o.pct_start() * steps - 2, top, start, low, high},
               {steps - 1, start, last, high, high}};
  else
    phases_ = {{o.pct_start() * steps - 1, start, top, high, low},
               {steps - 1, top, last, low, high}};
  OneCycleLR::apply();
}

double OneCycleLR::follow(int64_t epoch, double Phase::*from, double Phase::*to) const {
  PELLUCID_CHECK(epoch < options_.total_steps() + 1, ValueError,
                 "OneCycleLR: step {} is beyond the {} that the cycle was made for.", epoch,
                 options_.total_steps());
  const auto at = static_cast<double>(epoch);
  double begin = 0;
  for (const Phase& p : phases_) {
    if (at > p.end && &p != &phases_.back()) {
      begin = p.end;
      continue;
    }
    const double share = (at - begin) / (p.end - begin), a = p.*from, b = p.*to;
    if (options_.anneal_strategy() == "linear") return a + (b - a) * share;
    return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * share));
  }
  return 0;
}

double OneCycleLR::lr_at(int64_t epoch, size_t) const {
  return follow(epoch, &Phase::lr_from, &Phase::lr_to);
}

void OneCycleLR::apply() {
  LRScheduler::apply();
  if (!options_.cycle_momentum()) return;
  const double momentum = follow(epoch_, &Phase::momentum_from, &Phase::momentum_to);
  for (OptimizerParamGroup& g : optimizer_.param_groups())
    PELLUCID_CHECK(set_momentum(g.options(), momentum), ValueError,
                   "OneCycleLR: the optimiser has neither momentum nor betas; set "
                   "cycle_momentum(false).");
}

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  const CyclicLROptions& o = options_;
  PELLUCID_CHECK(o.step_size_up() > 0 && o.step_size_down() >= 0, ValueError,
                 "CyclicLR: step_size_up must be at least 1 and step_size_down not negative, found "
                 "{} and {}.",
                 o.step_size_up(), o.step_size_down());
  PELLUCID_CHECK(
      o.mode() == "triangular" || o.mode() == "triangular2" || o.mode() == "exp_range", ValueError,
      "CyclicLR: mode must be \"triangular\", \"triangular2\" or \"exp_range\", found \"{}\".",
      o.mode());
  base_lrs_.assign(base_lrs_.size(), o.base_lr());
  CyclicLR::apply();
}

double CyclicLR::height(int64_t epoch) const {
  const CyclicLROptions& o = options_;
  const auto up = static_cast<double>(o.step_size_up());
  const double down = o.step_size_down() ? static_cast<double>(o.step_size_down()) : up;
  const double cycles = static_cast<double>(epoch) / (up + down), turn = up / (up + down);
  const double cycle = std::floor(1 + cycles), place = 1 + cycles - cycle;
  const double share = place <= turn ? place / turn : (place - 1) / (turn - 1);
  if (o.mode() == "triangular2") return share / std::pow(2.0, cycle - 1);
  if (o.mode() == "exp_range") return share * std::pow(o.gamma(), static_cast<double>(epoch));
  return share;
}

double CyclicLR::lr_at(int64_t epoch, size_t group) const {
  return base_lrs_[group] + (options_.max_lr() - base_lrs_[group]) * height(epoch);
}

void CyclicLR::apply() {
  LRScheduler::apply();
  if (!options_.cycle_momentum()) return;
  const double high = options_.max_momentum(), low = options_.base_momentum();
  for (OptimizerParamGroup& g : optimizer_.param_groups())
    PELLUCID_CHECK(set_momentum(g.options(), high - (high - low) * height(epoch_)), ValueError,
                   "CyclicLR: the optimiser has neither momentum nor betas; set "
                   "cycle_momentum(false).");
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, SchedulerMode mode, double factor,
                                     int64_t patience, double threshold,
                                     ThresholdMode threshold_mode, int64_t cooldown,
                                     std::vector<double> min_lr, double eps)
    : optimizer_(optimizer),
      mode_(mode),
      threshold_mode_(threshold_mode),
      factor_(factor),
      threshold_(threshold),
      eps_(eps),
      patience_(patience),
      cooldown_(cooldown),
      min_lrs_(std::move(min_lr)),
      best_(mode == min ? INFINITY : -INFINITY) {
  const size_t groups = optimizer.param_groups().size();
  PELLUCID_CHECK(factor < 1, ValueError, "ReduceLROnPlateau: factor must be below 1, found {}.",
                 factor);
  if (min_lrs_.size() <= 1) min_lrs_.assign(groups, min_lrs_.empty() ? 0 : min_lrs_[0]);
  PELLUCID_CHECK(min_lrs_.size() == groups, ValueError,
                 "ReduceLROnPlateau: {} least learning rates were given but there are {} groups.",
                 min_lrs_.size(), groups);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = mode_ == min ? -1 : 1;
  if (threshold_mode_ == rel) {
    const double bound = best_ * (1 + sign * threshold_);
    return mode_ == min ? metric < bound : metric > bound;
  }
  return mode_ == min ? metric < best_ - threshold_ : metric > best_ + threshold_;
}

void ReduceLROnPlateau::reduce() {
  std::vector<OptimizerParamGroup>& groups = optimizer_.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const double old = groups[g].options().get_lr();
    const double less = std::max(old * factor_, min_lrs_[std::min(g, min_lrs_.size() - 1)]);
    if (old - less > eps_) groups[g].options().set_lr(less);
  }
}

void ReduceLROnPlateau::step(double metric) {
  ++epoch_;
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > patience_) {
    reduce();
    cooldown_left_ = cooldown_;
    bad_epochs_ = 0;
  }
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> rates;
  for (const OptimizerParamGroup& g : optimizer_.param_groups())
    rates.push_back(g.options().get_lr());
  return rates;
}

NamedValues ReduceLROnPlateau::state_dict() const {
  return {{"best", best_},
          {"last_epoch", epoch_},
          {"num_bad_epochs", bad_epochs_},
          {"cooldown_counter", cooldown_left_}};
}

void ReduceLROnPlateau::load_state_dict(const NamedValues& values) {
  constexpr std::string_view who = "ReduceLROnPlateau::load_state_dict";
  const double best = number_of(values, "best", who);
  const int64_t epoch = integer_of(values, "last_epoch", who);
  const int64_t bad = integer_of(values, "num_bad_epochs", who);
  cooldown_left_ = integer_of(values, "cooldown_counter", who);
  best_ = best, epoch_ = epoch, bad_epochs_ = bad;
}

}  // namespace pellucid::optim
