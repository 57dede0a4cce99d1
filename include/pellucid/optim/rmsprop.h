// RMSprop, plain or centred, with momentum.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
  template <::pellucid::detail::Mistaken<double> Given> RMSpropOptions(Given) = delete;
  RMSpropOptions(double lr = 1e-2) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(double, alpha) = 0.99;
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(double, weight_decay) = 0;
  PELLUCID_ARG(double, momentum) = 0;
  PELLUCID_ARG(bool, centered) = false;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API RMSpropParamState : CountingParamState<RMSpropParamState> {
  PELLUCID_ARG(Tensor, square_avg);
  PELLUCID_ARG(Tensor, momentum_buffer);
  PELLUCID_ARG(Tensor, grad_avg);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(const std::vector<OptimizerParamGroup>& groups, RMSpropOptions defaults = {});
  explicit RMSprop(std::vector<Tensor> params, RMSpropOptions defaults = {})
      : RMSprop(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
