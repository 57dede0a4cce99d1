// Stochastic gradient descent, with momentum and Nesterov's look-ahead.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  template <::pellucid::detail::Mistaken<double> Given> SGDOptions(Given) = delete;
  SGDOptions(double lr = 1e-3) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(double, momentum) = 0;
  PELLUCID_ARG(double, dampening) = 0;
  PELLUCID_ARG(double, weight_decay) = 0;
  PELLUCID_ARG(bool, nesterov) = false;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API SGDParamState : OptimizerCloneableParamState<SGDParamState> {
  PELLUCID_ARG(Tensor, momentum_buffer);

 public:
  std::vector<StateField> fields() override { return {{"momentum_buffer", &momentum_buffer_}}; }
};

class PELLUCID_API SGD : public Optimizer {
 public:
  explicit SGD(const std::vector<OptimizerParamGroup>& groups, SGDOptions defaults = {});
  explicit SGD(std::vector<Tensor> params, SGDOptions defaults = {})
      : SGD(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
