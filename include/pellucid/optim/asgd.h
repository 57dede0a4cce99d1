// ASGD (Polyak and Juditsky, 1992): stochastic gradient descent that also keeps the average of the
// parameters, the state's ax.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API ASGDOptions : OptimizerCloneableOptions<ASGDOptions> {
  template <::pellucid::detail::Mistaken<double> Given> ASGDOptions(Given) = delete;
  ASGDOptions(double lr = 1e-2) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(double, lambd) = 1e-4;
  PELLUCID_ARG(double, alpha) = 0.75;
  PELLUCID_ARG(double, t0) = 1e6;
  PELLUCID_ARG(double, weight_decay) = 0;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API ASGDParamState : CountingParamState<ASGDParamState> {
  PELLUCID_ARG(Tensor, ax);

 public:
  /// The rate of the next step; it lives in a 0-dim tensor, which the step's op moves.
  ASGDParamState& eta(double value) {
    eta_.get() = value;
    return *this;
  }
  double& eta() { return eta_.get(); }
  double eta() const { return eta_.get(); }
  const Tensor& eta_tensor() const { return eta_.tensor(); }
  /// The share of the next step in the average; it lives in a 0-dim tensor, which the step's op
  /// moves.
  ASGDParamState& mu(double value) {
    mu_.get() = value;
    return *this;
  }
  double& mu() { return mu_.get(); }
  double mu() const { return mu_.get(); }
  const Tensor& mu_tensor() const { return mu_.tensor(); }
  std::vector<StateField> fields() override;

 private:
  detail::TensorNumber<double> eta_{0};
  detail::TensorNumber<double> mu_{1};
};

class PELLUCID_API ASGD : public Optimizer {
 public:
  explicit ASGD(const std::vector<OptimizerParamGroup>& groups, ASGDOptions defaults = {});
  explicit ASGD(std::vector<Tensor> params, ASGDOptions defaults = {})
      : ASGD(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
