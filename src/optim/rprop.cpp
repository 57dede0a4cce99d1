// Rprop's options and step.
#include "pellucid/optim/rprop.h"

#include "optim/common.h"

namespace pellucid::optim {

std::vector<OptionField> RpropOptions::fields() {
  return {{"lr", &lr()}, {"etas", &etas_}, {"step_sizes", &step_sizes_}};
}

std::vector<StateField> RpropParamState::fields() {
  return {{"step", &step()}, {"prev", &prev_}, {"step_size", &step_size_}};
}

Rprop::Rprop(const std::vector<OptimizerParamGroup>& groups, RpropOptions defaults)
    : Optimizer(groups, std::make_unique<RpropOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) Rprop::check_options(g.options());
  Rprop::check_options(*defaults_);
}

void Rprop::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const RpropOptions&>(options);
  check_option("Rprop", "lr", o.lr());
  const auto [low, high] = o.etas();
  PELLUCID_CHECK(low > 0 && low < 1 && high > 1, ValueError,
                 "Rprop: etas must be a number between 0 and 1 and one above 1, found {} and {}.",
                 low, high);
}

std::unique_ptr<OptimizerParamState> Rprop::new_state() const {
  return std::make_unique<RpropParamState>();
}

Tensor Rprop::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<RpropOptions>("Optimizer.step#Rprop.step", groups_,
                                  [&](const Tensor& param, const Tensor& grad, RpropOptions& o) {
                                    auto& state = state_of<RpropParamState>(param, [&] {
                                      auto made = std::make_unique<RpropParamState>();
                                      made->prev(zeros_for(param));
                                      made->step_size(full(param.sizes(), o.lr(), param.dtype()));
                                      return made;
                                    });
                                    rprop_step(param, grad, state.prev(), state.step_size(),
                                               state.step_tensor(), std::get<0>(o.etas()),
                                               std::get<1>(o.etas()), std::get<0>(o.step_sizes()),
                                               std::get<1>(o.step_sizes()));
                                  });
  return loss;
}

}  // namespace pellucid::optim
