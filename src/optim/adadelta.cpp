// Adadelta's options and step.
#include "pellucid/optim/adadelta.h"

#include <cmath>

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> AdadeltaOptions::fields() {
  return {{"lr", &lr()}, {"rho", &rho_}, {"eps", &eps_}, {"weight_decay", &weight_decay_}};
}

std::vector<StateField> AdadeltaParamState::fields() {
  return {{"step", &step()}, {"square_avg", &square_avg_}, {"acc_delta", &acc_delta_}};
}

Adadelta::Adadelta(const std::vector<OptimizerParamGroup>& groups, AdadeltaOptions defaults)
    : Optimizer(groups, std::make_unique<AdadeltaOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) Adadelta::check_options(g.options());
  Adadelta::check_options(*defaults_);
}

void Adadelta::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const AdadeltaOptions&>(options);
  check_option("Adadelta", "lr", o.lr());
  check_option("Adadelta", "rho", o.rho(), 0, std::nextafter(1.0, 2.0));
  check_option("Adadelta", "eps", o.eps());
  check_option("Adadelta", "weight_decay", o.weight_decay());
}

std::unique_ptr<OptimizerParamState> Adadelta::new_state() const {
  return std::make_unique<AdadeltaParamState>();
}

Tensor Adadelta::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<AdadeltaOptions>(
      "Optimizer.step#Adadelta.step", groups_,
      [&](const Tensor& param, const Tensor& grad, AdadeltaOptions& o) {
        auto& state = state_of<AdadeltaParamState>(param, [&] {
          auto made = std::make_unique<AdadeltaParamState>();
          made->square_avg(zeros_for(param));
          made->acc_delta(zeros_for(param));
          return made;
        });
        adadelta_step(param, grad, state.square_avg(), state.acc_delta(), state.step_tensor(),
                      o.lr_tensor(), o.rho(), o.eps(), o.weight_decay());
      });
  return loss;
}

}  // namespace pellucid::optim
