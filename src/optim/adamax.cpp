// Adamax's options and step.
#include "pellucid/optim/adamax.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> AdamaxOptions::fields() {
  return {{"lr", &lr()}, {"betas", &betas_}, {"eps", &eps_}, {"weight_decay", &weight_decay_}};
}

std::vector<StateField> AdamaxParamState::fields() {
  return {{"step", &step()}, {"exp_avg", &exp_avg_}, {"exp_inf", &exp_inf_}};
}

Adamax::Adamax(const std::vector<OptimizerParamGroup>& groups, AdamaxOptions defaults)
    : Optimizer(groups, std::make_unique<AdamaxOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) Adamax::check_options(g.options());
  Adamax::check_options(*defaults_);
}

void Adamax::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const AdamaxOptions&>(options);
  check_option("Adamax", "lr", o.lr());
  check_option("Adamax", "beta1", std::get<0>(o.betas()), 0, 1);
  check_option("Adamax", "beta2", std::get<1>(o.betas()), 0, 1);
  check_option("Adamax", "eps", o.eps());
  check_option("Adamax", "weight_decay", o.weight_decay());
}

std::unique_ptr<OptimizerParamState> Adamax::new_state() const {
  return std::make_unique<AdamaxParamState>();
}

Tensor Adamax::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<AdamaxOptions>("Optimizer.step#Adamax.step", groups_,
                                   [&](const Tensor& param, const Tensor& grad, AdamaxOptions& o) {
                                     auto& state = state_of<AdamaxParamState>(param, [&] {
                                       auto made = std::make_unique<AdamaxParamState>();
                                       made->exp_avg(zeros_for(param));
                                       made->exp_inf(zeros_for(param));
                                       return made;
                                     });
                                     adamax_step(param, grad, state.exp_avg(), state.exp_inf(),
                                                 state.step_tensor(), o.lr_tensor(),
                                                 std::get<0>(o.betas()), std::get<1>(o.betas()),
                                                 o.eps(), o.weight_decay());
                                   });
  return loss;
}

}  // namespace pellucid::optim
