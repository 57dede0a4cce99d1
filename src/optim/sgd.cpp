// SGD's options and step.
#include "pellucid/optim/sgd.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> SGDOptions::fields() {
  return {{"lr", &lr()},
          {"momentum", &momentum_},
          {"dampening", &dampening_},
          {"weight_decay", &weight_decay_},
          {"nesterov", &nesterov_}};
}

SGD::SGD(const std::vector<OptimizerParamGroup>& groups, SGDOptions defaults)
    : Optimizer(groups, std::make_unique<SGDOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) SGD::check_options(g.options());
  SGD::check_options(*defaults_);
}

void SGD::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const SGDOptions&>(options);
  check_option("SGD", "lr", o.lr());
  check_option("SGD", "momentum", o.momentum());
  check_option("SGD", "weight_decay", o.weight_decay());
  PELLUCID_CHECK(!o.nesterov() || (o.momentum() > 0 && o.dampening() == 0), ValueError,
                 "SGD: Nesterov momentum needs a momentum above 0 and no dampening, found momentum "
                 "{} and dampening {}.",
                 o.momentum(), o.dampening());
}

std::unique_ptr<OptimizerParamState> SGD::new_state() const {
  return std::make_unique<SGDParamState>();
}

Tensor SGD::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<SGDOptions>(
      "Optimizer.step#SGD.step", groups_,
      [&](const Tensor& param, const Tensor& grad, SGDOptions& o) {
        if (o.momentum() == 0) {
          sgd_step(param, grad, {}, o.lr_tensor(), 0, 0, o.weight_decay(), false, false);
          return;
        }
        auto& state =
            state_of<SGDParamState>(param, [] { return std::make_unique<SGDParamState>(); });
        const bool first = !state.momentum_buffer().defined();
        if (first) state.momentum_buffer(zeros_for(param));
        sgd_step(param, grad, state.momentum_buffer(), o.lr_tensor(), o.momentum(), o.dampening(),
                 o.weight_decay(), o.nesterov(), first);
      });
  return loss;
}

}  // namespace pellucid::optim
