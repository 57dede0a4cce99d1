// RAdam's options and step.
#include "pellucid/optim/radam.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> RAdamOptions::fields() {
  return {{"lr", &lr()},
          {"betas", &betas_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"decoupled_weight_decay", &decoupled_weight_decay_}};
}

std::vector<StateField> RAdamParamState::fields() {
  return {{"step", &step()}, {"exp_avg", &exp_avg_}, {"exp_avg_sq", &exp_avg_sq_}};
}

RAdam::RAdam(const std::vector<OptimizerParamGroup>& groups, RAdamOptions defaults)
    : Optimizer(groups, std::make_unique<RAdamOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) RAdam::check_options(g.options());
  RAdam::check_options(*defaults_);
}

void RAdam::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const RAdamOptions&>(options);
  check_option("RAdam", "lr", o.lr());
  check_option("RAdam", "beta1", std::get<0>(o.betas()), 0, 1);
  check_option("RAdam", "beta2", std::get<1>(o.betas()), 0, 1);
  check_option("RAdam", "eps", o.eps());
  check_option("RAdam", "weight_decay", o.weight_decay());
}

std::unique_ptr<OptimizerParamState> RAdam::new_state() const {
  return std::make_unique<RAdamParamState>();
}

Tensor RAdam::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<RAdamOptions>(
      "Optimizer.step#RAdam.step", groups_,
      [&](const Tensor& param, const Tensor& grad, RAdamOptions& o) {
        auto& state = state_of<RAdamParamState>(param, [&] {
          auto made = std::make_unique<RAdamParamState>();
          made->exp_avg(zeros_for(param));
          made->exp_avg_sq(zeros_for(param));
          return made;
        });
        radam_step(param, grad, state.exp_avg(), state.exp_avg_sq(), state.step_tensor(),
                   o.lr_tensor(), std::get<0>(o.betas()), std::get<1>(o.betas()), o.eps(),
                   o.weight_decay(), o.decoupled_weight_decay());
      });
  return loss;
}

}  // namespace pellucid::optim
