// AdamW (Loshchilov and Hutter, 2019): Adam whose weight decay does not pass through the averages.
#pragma once

#include "pellucid/optim/adam.h"

namespace pellucid::optim {

struct PELLUCID_API AdamWOptions : OptimizerCloneableOptions<AdamWOptions> {
  using betas_t = std::tuple<double, double>;
  template <::pellucid::detail::Mistaken<double> Given> AdamWOptions(Given) = delete;
  AdamWOptions(double lr = 1e-3) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(betas_t, betas) = {0.9, 0.999};
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(double, weight_decay) = 1e-2;
  PELLUCID_ARG(bool, amsgrad) = false;

 public:
  std::vector<OptionField> fields() override;
};

using AdamWParamState = AdamParamState;

class PELLUCID_API AdamW : public Optimizer {
 public:
  explicit AdamW(const std::vector<OptimizerParamGroup>& groups, AdamWOptions defaults = {});
  explicit AdamW(std::vector<Tensor> params, AdamWOptions defaults = {})
      : AdamW(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
