// RMSprop's options and step.
#include "pellucid/optim/rmsprop.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> RMSpropOptions::fields() {
  return {{"lr", &lr()},
          {"alpha", &alpha_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"momentum", &momentum_},
          {"centered", &centered_}};
}

std::vector<StateField> RMSpropParamState::fields() {
  return {{"step", &step()},
          {"square_avg", &square_avg_},
          {"momentum_buffer", &momentum_buffer_},
          {"grad_avg", &grad_avg_}};
}

RMSprop::RMSprop(const std::vector<OptimizerParamGroup>& groups, RMSpropOptions defaults)
    : Optimizer(groups, std::make_unique<RMSpropOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) RMSprop::check_options(g.options());
  RMSprop::check_options(*defaults_);
}

void RMSprop::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const RMSpropOptions&>(options);
  check_option("RMSprop", "lr", o.lr());
  check_option("RMSprop", "alpha", o.alpha());
  check_option("RMSprop", "eps", o.eps());
  check_option("RMSprop", "weight_decay", o.weight_decay());
  check_option("RMSprop", "momentum", o.momentum());
}

std::unique_ptr<OptimizerParamState> RMSprop::new_state() const {
  return std::make_unique<RMSpropParamState>();
}

Tensor RMSprop::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<RMSpropOptions>(
      "Optimizer.step#RMSprop.step", groups_,
      [&](const Tensor& param, const Tensor& grad, RMSpropOptions& o) {
        auto& state = state_of<RMSpropParamState>(param, [&] {
          auto made = std::make_unique<RMSpropParamState>();
          made->square_avg(zeros_for(param));
          return made;
        });
        const bool momentum = o.momentum() > 0;
        if (momentum && !state.momentum_buffer().defined()) state.momentum_buffer(zeros_for(param));
        if (o.centered() && !state.grad_avg().defined()) state.grad_avg(zeros_for(param));
        rmsprop_step(param, grad, state.square_avg(), o.centered() ? state.grad_avg() : Tensor(),
                     momentum ? state.momentum_buffer() : Tensor(), state.step_tensor(),
                     o.lr_tensor(), o.alpha(), o.eps(), o.weight_decay(), o.momentum());
      });
  return loss;
}

}  // namespace pellucid::optim
