// Adam (Kingma and Ba, 2015) with L2 regularisation, and its amsgrad variant.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API AdamOptions : OptimizerCloneableOptions<AdamOptions> {
  using betas_t = std::tuple<double, double>;
  template <::pellucid::detail::Mistaken<double> Given> AdamOptions(Given) = delete;
  AdamOptions(double lr = 1e-3) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(betas_t, betas) = {0.9, 0.999};
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(double, weight_decay) = 0;
  PELLUCID_ARG(bool, amsgrad) = false;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API AdamParamState : CountingParamState<AdamParamState> {
  PELLUCID_ARG(Tensor, exp_avg);
  PELLUCID_ARG(Tensor, exp_avg_sq);
  PELLUCID_ARG(Tensor, max_exp_avg_sq);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<OptimizerParamGroup>& groups, AdamOptions defaults = {});
  explicit Adam(std::vector<Tensor> params, AdamOptions defaults = {})
      : Adam(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
