// ASGD's options and step.
#include "pellucid/optim/asgd.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> ASGDOptions::fields() {
  return {{"lr", &lr()},
          {"lambd", &lambd_},
          {"alpha", &alpha_},
          {"t0", &t0_},
          {"weight_decay", &weight_decay_}};
}

std::vector<StateField> ASGDParamState::fields() {
  return {{"step", &step()}, {"ax", &ax_}, {"eta", &eta()}, {"mu", &mu()}};
}

ASGD::ASGD(const std::vector<OptimizerParamGroup>& groups, ASGDOptions defaults)
    : Optimizer(groups, std::make_unique<ASGDOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) ASGD::check_options(g.options());
  ASGD::check_options(*defaults_);
}

void ASGD::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const ASGDOptions&>(options);
  check_option("ASGD", "lr", o.lr());
  check_option("ASGD", "weight_decay", o.weight_decay());
}

std::unique_ptr<OptimizerParamState> ASGD::new_state() const {
  return std::make_unique<ASGDParamState>();
}

Tensor ASGD::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<ASGDOptions>("Optimizer.step#ASGD.step", groups_,
                                 [&](const Tensor& param, const Tensor& grad, ASGDOptions& o) {
                                   auto& state = state_of<ASGDParamState>(param, [&] {
                                     auto made = std::make_unique<ASGDParamState>();
                                     made->ax(zeros_for(param));
                                     made->eta(o.lr());
                                     return made;
                                   });
                                   asgd_step(param, grad, state.ax(), state.eta_tensor(),
                                             state.mu_tensor(), state.step_tensor(), o.lr_tensor(),
                                             o.lambd(), o.alpha(), o.t0(), o.weight_decay());
                                 });
  return loss;
}

}  // namespace pellucid::optim
