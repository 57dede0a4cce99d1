// Learning-rate schedules, with the names and numbers of torch.optim.lr_scheduler. Each is a
// function of the epoch and the learning rate at the start, so its state is one counter. As in
// PyTorch, construction sets the learning rate of epoch 0 and step() goes on to the next.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

/// Sets the learning rates of an optimiser, which must outlive it.
class PELLUCID_API LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer);
  virtual ~LRScheduler() = default;
  /// Goes on to the next epoch (or step, whatever the program counts).
  void step();
  int64_t last_epoch() const { return epoch_; }
  /// The learning rates of the groups as last set.
  std::vector<double> get_last_lr() const;
  /// The learning rate of group `group` in `epoch`.
  virtual double lr_at(int64_t epoch, size_t group) const = 0;
  NamedValues state_dict() const;
  /// Goes on from a saved state; the optimiser's learning rates are set too.
  void load_state_dict(const NamedValues& values);

 protected:
  /// Called before the epoch changes, for schedules that go on from rates which others set.
  virtual void before_step() {}
  /// Sets the learning rates of the present epoch, and whatever else a schedule moves.
  virtual void apply();
  Optimizer& optimizer_;
  std::vector<double> base_lrs_;  ///< by group, at the start
  int64_t epoch_ = 0;
};

/// lr * function(epoch).
class PELLUCID_API LambdaLR : public LRScheduler {
 public:
  using Function = std::function<double(int64_t epoch)>;
  LambdaLR(Optimizer& optimizer, const Function& function);
  /// One function a group.
  LambdaLR(Optimizer& optimizer, std::vector<Function> functions);
  double lr_at(int64_t epoch, size_t group) const override;

 protected:
  std::vector<Function> functions_;
};

/// lr * gamma every step_size epochs.
class PELLUCID_API StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  int64_t step_size_;
  double gamma_;
};

/// lr * gamma at each milestone.
class PELLUCID_API MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  std::vector<int64_t> milestones_;
  double gamma_;
};

/// lr * gamma^epoch.
class PELLUCID_API ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  double gamma_;
};

/// lr times a factor that goes from start_factor to end_factor in total_iters epochs: a warm-up.
class PELLUCID_API LinearLR : public LRScheduler {
 public:
  LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
           int64_t total_iters = 5);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  double start_factor_, end_factor_;
  int64_t total_iters_;
};

/// lr * factor in the first total_iters epochs, then lr.
class PELLUCID_API ConstantLR : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  double factor_;
  int64_t total_iters_;
};

/// lr * (1 - epoch / total_iters)^power, down to zero.
class PELLUCID_API PolynomialLR : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  int64_t total_iters_;
  double power_;
};

/// lr * function(1) * … * function(epoch).
class PELLUCID_API MultiplicativeLR : public LambdaLR {
 public:
  MultiplicativeLR(Optimizer& optimizer, const Function& function);
  MultiplicativeLR(Optimizer& optimizer, std::vector<Function> functions);
  double lr_at(int64_t epoch, size_t group) const override;
};

/// Half a cosine from lr to eta_min in t_max epochs, and back.
class PELLUCID_API CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  int64_t t_max_;
  double eta_min_;
};

/// Half a cosine from lr to eta_min in t_0 epochs, then again from lr, each time t_mult longer.
class PELLUCID_API CosineAnnealingWarmRestarts : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t t_0, int64_t t_mult = 1,
                              double eta_min = 0);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  int64_t t_0_, t_mult_;
  double eta_min_;
};

/// The options of OneCycleLR beyond max_lr; total_steps, or epochs and steps_per_epoch, must be
/// set.
struct PELLUCID_API OneCycleLROptions {
  template <::pellucid::detail::Mistaken<double> Given> OneCycleLROptions(Given) = delete;
  OneCycleLROptions(double max_lr) : max_lr_(max_lr) {}
  PELLUCID_ARG(double, max_lr);
  PELLUCID_ARG(int64_t, total_steps) = 0;
  PELLUCID_ARG(int64_t, epochs) = 0;
  PELLUCID_ARG(int64_t, steps_per_epoch) = 0;
  PELLUCID_ARG(double, pct_start) = 0.3;
  PELLUCID_ARG(std::string, anneal_strategy) = "cos";  ///< or "linear"
  PELLUCID_ARG(bool, cycle_momentum) = true;
  PELLUCID_ARG(double, base_momentum) = 0.85;
  PELLUCID_ARG(double, max_momentum) = 0.95;
  PELLUCID_ARG(double, div_factor) = 25;
  PELLUCID_ARG(double, final_div_factor) = 1e4;
  PELLUCID_ARG(bool, three_phase) = false;
};

/// Up from max_lr / div_factor to max_lr and down again; momentum (or beta1) goes the other way.
class PELLUCID_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);
  OneCycleLR(Optimizer& optimizer, double max_lr, int64_t total_steps)
      : OneCycleLR(optimizer, OneCycleLROptions(max_lr).total_steps(total_steps)) {}
  double lr_at(int64_t epoch, size_t group) const override;

 protected:
  void apply() override;

 private:
  struct Phase {
    double end;
    double lr_from, lr_to, momentum_from, momentum_to;
  };
  /// The value at `epoch` of what goes from `from` to `to` in each phase.
  double follow(int64_t epoch, double Phase::*from, double Phase::*to) const;
  OneCycleLROptions options_;
  std::vector<Phase> phases_;
};

/// The options of CyclicLR beyond the two rates.
struct PELLUCID_API CyclicLROptions {
  CyclicLROptions(double base_lr, double max_lr) : base_lr_(base_lr), max_lr_(max_lr) {}
  PELLUCID_ARG(double, base_lr);
  PELLUCID_ARG(double, max_lr);
  PELLUCID_ARG(int64_t, step_size_up) = 2000;
  PELLUCID_ARG(int64_t, step_size_down) = 0;  ///< 0: as step_size_up
  /// "triangular"; "triangular2" halves each cycle, "exp_range" scales by gamma^epoch.
  PELLUCID_ARG(std::string, mode) = "triangular";
  PELLUCID_ARG(double, gamma) = 1;
  PELLUCID_ARG(bool, cycle_momentum) = true;
  PELLUCID_ARG(double, base_momentum) = 0.8;
  PELLUCID_ARG(double, max_momentum) = 0.9;
};

/// Up and down between base_lr and max_lr; momentum (or beta1) goes the other way.
class PELLUCID_API CyclicLR : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, CyclicLROptions options);
  double lr_at(int64_t epoch, size_t group) const override;

 protected:
  void apply() override;

 private:
  /// How far up the cycle is at `epoch`: 0 to 1.
  double height(int64_t epoch) const;
  CyclicLROptions options_;
};

/// Several schedules at once: lr times the factors of all. Those that move momentum or go beyond
/// factors of lr (OneCycleLR, CyclicLR) do not fit in.
class PELLUCID_API ChainedScheduler : public LRScheduler {
 public:
  ChainedScheduler(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
};

/// One schedule after another: schedules[i] rules until milestones[i], counting from its own 0.
class PELLUCID_API SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
               std::vector<int64_t> milestones);
  double lr_at(int64_t epoch, size_t group) const override;

 private:
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
  std::vector<int64_t> milestones_;
};

/// Multiplies the learning rate by `factor` when a metric has not improved for `patience` epochs.
class PELLUCID_API ReduceLROnPlateau {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  explicit ReduceLROnPlateau(Optimizer& optimizer, SchedulerMode mode = min, double factor = 0.1,
                             int64_t patience = 10, double threshold = 1e-4,
                             ThresholdMode threshold_mode = rel, int64_t cooldown = 0,
                             std::vector<double> min_lr = {}, double eps = 1e-8);
  void step(double metric);
  std::vector<double> get_last_lr() const;
  int64_t num_bad_epochs() const { return bad_epochs_; }
  NamedValues state_dict() const;
  void load_state_dict(const NamedValues& values);

 private:
  bool is_better(double metric) const;
  void reduce();
  Optimizer& optimizer_;
  SchedulerMode mode_;
  ThresholdMode threshold_mode_;
  double factor_, threshold_, eps_;
  int64_t patience_, cooldown_;
  std::vector<double> min_lrs_;
  double best_;
  int64_t epoch_ = 0, bad_epochs_ = 0, cooldown_left_ = 0;
};
using ReduceLROnPlateauScheduler = ReduceLROnPlateau;

}  // namespace pellucid::optim
