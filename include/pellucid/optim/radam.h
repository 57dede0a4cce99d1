// RAdam (Liu and others, 2020): Adam whose first steps, while the mean square is not to be trusted,
// go without it.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API RAdamOptions : OptimizerCloneableOptions<RAdamOptions> {
  using betas_t = std::tuple<double, double>;
  template <::pellucid::detail::Mistaken<double> Given> RAdamOptions(Given) = delete;
  RAdamOptions(double lr = 1e-3) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(betas_t, betas) = {0.9, 0.999};
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(double, weight_decay) = 0;
  PELLUCID_ARG(bool, decoupled_weight_decay) = false;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API RAdamParamState : CountingParamState<RAdamParamState> {
  PELLUCID_ARG(Tensor, exp_avg);
  PELLUCID_ARG(Tensor, exp_avg_sq);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API RAdam : public Optimizer {
 public:
  explicit RAdam(const std::vector<OptimizerParamGroup>& groups, RAdamOptions defaults = {});
  explicit RAdam(std::vector<Tensor> params, RAdamOptions defaults = {})
      : RAdam(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
