// Adagrad's options and step.
#include "pellucid/optim/adagrad.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> AdagradOptions::fields() {
  return {{"lr", &lr()},
          {"lr_decay", &lr_decay_},
          {"weight_decay", &weight_decay_},
          {"initial_accumulator_value", &initial_accumulator_value_},
          {"eps", &eps_}};
}

std::vector<StateField> AdagradParamState::fields() { return {{"step", &step()}, {"sum", &sum_}}; }

Adagrad::Adagrad(const std::vector<OptimizerParamGroup>& groups, AdagradOptions defaults)
    : Optimizer(groups, std::make_unique<AdagradOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) Adagrad::check_options(g.options());
  Adagrad::check_options(*defaults_);
}

void Adagrad::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const AdagradOptions&>(options);
  check_option("Adagrad", "lr", o.lr());
  check_option("Adagrad", "lr_decay", o.lr_decay());
  check_option("Adagrad", "weight_decay", o.weight_decay());
  check_option("Adagrad", "initial_accumulator_value", o.initial_accumulator_value());
  check_option("Adagrad", "eps", o.eps());
}

std::unique_ptr<OptimizerParamState> Adagrad::new_state() const {
  return std::make_unique<AdagradParamState>();
}

Tensor Adagrad::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<AdagradOptions>(
      "Optimizer.step#Adagrad.step", groups_,
      [&](const Tensor& param, const Tensor& grad, AdagradOptions& o) {
        auto& state = state_of<AdagradParamState>(param, [&] {
          auto made = std::make_unique<AdagradParamState>();
          made->sum(full(param.sizes(), o.initial_accumulator_value(), param.dtype()));
          return made;
        });
        adagrad_step(param, grad, state.sum(), state.step_tensor(), o.lr_tensor(), o.lr_decay(),
                     o.weight_decay(), o.eps());
      });
  return loss;
}

}  // namespace pellucid::optim
