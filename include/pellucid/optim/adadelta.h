// Adadelta (Zeiler, 2012): steps by the gradient times the root of the mean square of the last
// steps over that of the gradient.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API AdadeltaOptions : OptimizerCloneableOptions<AdadeltaOptions> {
  template <::pellucid::detail::Mistaken<double> Given> AdadeltaOptions(Given) = delete;
  AdadeltaOptions(double lr = 1.0) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(double, rho) = 0.9;
  PELLUCID_ARG(double, eps) = 1e-6;
  PELLUCID_ARG(double, weight_decay) = 0;

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API AdadeltaParamState : CountingParamState<AdadeltaParamState> {
  PELLUCID_ARG(Tensor, square_avg);
  PELLUCID_ARG(Tensor, acc_delta);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API Adadelta : public Optimizer {
 public:
  explicit Adadelta(const std::vector<OptimizerParamGroup>& groups, AdadeltaOptions defaults = {});
  explicit Adadelta(std::vector<Tensor> params, AdadeltaOptions defaults = {})
      : Adadelta(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
