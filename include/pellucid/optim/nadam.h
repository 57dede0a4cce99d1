// NAdam (Dozat, 2016): Adam with Nesterov's momentum.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API NAdamOptions : OptimizerCloneableOptions<NAdamOptions> {
  using betas_t = std::tuple<double, double>;
  template <::pellucid::detail::Mistaken<double> Given> NAdamOptions(Given) = delete;
  NAdamOptions(double lr = 2e-3) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(betas_t, betas) = {0.9, 0.999};
  PELLUCID_ARG(double, eps) = 1e-8;
  PELLUCID_ARG(double, weight_decay) = 0;
  PELLUCID_ARG(double, momentum_decay) = 4e-3;
  PELLUCID_ARG(bool, decoupled_weight_decay) = false;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API NAdamParamState : CountingParamState<NAdamParamState> {
  PELLUCID_ARG(Tensor, exp_avg);
  PELLUCID_ARG(Tensor, exp_avg_sq);

 public:
  /// The product of the momenta so far; it lives in a 0-dim tensor, which the step's op moves.
  NAdamParamState& mu_product(double value) {
    mu_product_.get() = value;
    return *this;
  }
  double& mu_product() { return mu_product_.get(); }
  double mu_product() const { return mu_product_.get(); }
  const Tensor& mu_product_tensor() const { return mu_product_.tensor(); }
  std::vector<StateField> fields() override;

 private:
  detail::TensorNumber<double> mu_product_{1};
};

class PELLUCID_API NAdam : public Optimizer {
 public:
  explicit NAdam(const std::vector<OptimizerParamGroup>& groups, NAdamOptions defaults = {});
  explicit NAdam(std::vector<Tensor> params, NAdamOptions defaults = {})
      : NAdam(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
