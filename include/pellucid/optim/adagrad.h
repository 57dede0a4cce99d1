// Adagrad (Duchi, Hazan and Singer, 2011).
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API AdagradOptions : OptimizerCloneableOptions<AdagradOptions> {
  template <::pellucid::detail::Mistaken<double> Given> AdagradOptions(Given) = delete;
  AdagradOptions(double lr = 1e-2) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(double, lr_decay) = 0;
  PELLUCID_ARG(double, weight_decay) = 0;
  PELLUCID_ARG(double, initial_accumulator_value) = 0;
  PELLUCID_ARG(double, eps) = 1e-10;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API AdagradParamState : CountingParamState<AdagradParamState> {
  PELLUCID_ARG(Tensor, sum);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const std::vector<OptimizerParamGroup>& groups, AdagradOptions defaults = {});
  explicit Adagrad(std::vector<Tensor> params, AdagradOptions defaults = {})
      : Adagrad(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
