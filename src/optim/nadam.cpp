// NAdam's options and step.
#include "pellucid/optim/nadam.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> NAdamOptions::fields() {
  return {{"lr", &lr()},
          {"betas", &betas_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"momentum_decay", &momentum_decay_},
          {"decoupled_weight_decay", &decoupled_weight_decay_}};
}

std::vector<StateField> NAdamParamState::fields() {
  return {{"step", &step()},
          {"exp_avg", &exp_avg_},
          {"exp_avg_sq", &exp_avg_sq_},
          {"mu_product", &mu_product()}};
}

NAdam::NAdam(const std::vector<OptimizerParamGroup>& groups, NAdamOptions defaults)
    : Optimizer(groups, std::make_unique<NAdamOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) NAdam::check_options(g.options());
  NAdam::check_options(*defaults_);
}

void NAdam::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const NAdamOptions&>(options);
  check_option("NAdam", "lr", o.lr());
  check_option("NAdam", "beta1", std::get<0>(o.betas()), 0, 1);
  check_option("NAdam", "beta2", std::get<1>(o.betas()), 0, 1);
  check_option("NAdam", "eps", o.eps());
  check_option("NAdam", "weight_decay", o.weight_decay());
  check_option("NAdam", "momentum_decay", o.momentum_decay());
}

std::unique_ptr<OptimizerParamState> NAdam::new_state() const {
  return std::make_unique<NAdamParamState>();
}

Tensor NAdam::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<NAdamOptions>("Optimizer.step#NAdam.step", groups_,
                                  [&](const Tensor& param, const Tensor& grad, NAdamOptions& o) {
                                    auto& state = state_of<NAdamParamState>(param, [&] {
                                      auto made = std::make_unique<NAdamParamState>();
                                      made->exp_avg(zeros_for(param));
                                      made->exp_avg_sq(zeros_for(param));
                                      return made;
                                    });
                                    nadam_step(param, grad, state.exp_avg(), state.exp_avg_sq(),
                                               state.mu_product_tensor(), state.step_tensor(),
                                               o.lr_tensor(), std::get<0>(o.betas()),
                                               std::get<1>(o.betas()), o.eps(), o.weight_decay(),
                                               o.decoupled_weight_decay(), o.momentum_decay());
                                  });
  return loss;
}

}  // namespace pellucid::optim
