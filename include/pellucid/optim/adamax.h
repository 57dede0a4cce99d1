// Adamax (Kingma and Ba, 2015): Adam with the greatest recent gradient in the place of the root of
// the mean square.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API AdamaxOptions : OptimizerCloneableOptions<AdamaxOptions> {
  using betas_t = std::tuple<double, double>;
  template <::pellucid::detail::Mistaken<double> Given> AdamaxOptions(Given) = delete;
  AdamaxOptions(double lr = 2e-3) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(betas_t, betas) = {0.9, 0.999};
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(double, weight_decay) = 0;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API AdamaxParamState : CountingParamState<AdamaxParamState> {
  PELLUCID_ARG(Tensor, exp_avg);
  PELLUCID_ARG(Tensor, exp_inf);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API Adamax : public Optimizer {
 public:
  explicit Adamax(const std::vector<OptimizerParamGroup>& groups, AdamaxOptions defaults = {});
  explicit Adamax(std::vector<Tensor> params, AdamaxOptions defaults = {})
      : Adamax(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
