// Rprop (Riedmiller and Braun, 1993): steps by the gradient's sign alone, larger while it keeps its
// sign, smaller when it turns.
#pragma once

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API RpropOptions : OptimizerCloneableOptions<RpropOptions> {
  using pair_t = std::tuple<double, double>;
  template <::pellucid::detail::Mistaken<double> Given> RpropOptions(Given) = delete;
  RpropOptions(double lr = 1e-2) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(pair_t, etas) = {0.5, 1.2};
  PELLUCID_ARG(pair_t, step_sizes) = {1e-6, 50};

 public:
  std::vector<OptionField> fields() override;
};

struct PELLUCID_API RpropParamState : CountingParamState<RpropParamState> {
  PELLUCID_ARG(Tensor, prev);
  PELLUCID_ARG(Tensor, step_size);

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API Rprop : public Optimizer {
 public:
  explicit Rprop(const std::vector<OptimizerParamGroup>& groups, RpropOptions defaults = {});
  explicit Rprop(std::vector<Tensor> params, RpropOptions defaults = {})
      : Rprop(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
