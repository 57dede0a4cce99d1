// The options and steps of Adam and AdamW, which differ in where the weight decay goes.
#include "optim/common.h"
#include "pellucid/optim/adamw.h"

namespace pellucid::optim {
namespace {

template <class Options> void check(std::string_view name, const OptimizerOptions& options) {
  const auto& o = static_cast<const Options&>(options);
  check_option(name, "lr", o.lr());
  check_option(name, "beta1", std::get<0>(o.betas()), 0, 1);
  check_option(name, "beta2", std::get<1>(o.betas()), 0, 1);
  check_option(name, "eps", o.eps());
  check_option(name, "weight_decay", o.weight_decay());
}

std::unique_ptr<OptimizerParamState> fresh_state(const Tensor& param) {
  auto state = std::make_unique<AdamParamState>();
  state->exp_avg(zeros_for(param));
  state->exp_avg_sq(zeros_for(param));
  return state;
}

void move(AdamParamState& state, const Tensor& param, const Tensor& grad, auto& o, bool decoupled) {
  if (o.amsgrad() && !state.max_exp_avg_sq().defined()) state.max_exp_avg_sq(zeros_for(param));
  adam_step(param, grad, state.exp_avg(), state.exp_avg_sq(),
            o.amsgrad() ? state.max_exp_avg_sq() : Tensor(), state.step_tensor(), o.lr_tensor(),
            std::get<0>(o.betas()), std::get<1>(o.betas()), o.eps(), o.weight_decay(), decoupled);
}

}  // namespace

std::vector<OptionField> AdamOptions::fields() {
  return {{"lr", &lr()},
          {"betas", &betas_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"amsgrad", &amsgrad_}};
}

std::vector<OptionField> AdamWOptions::fields() {
  return {{"lr", &lr()},
          {"betas", &betas_},
          {"eps", &eps_},
          {"weight_decay", &weight_decay_},
          {"amsgrad", &amsgrad_}};
}

std::vector<StateField> AdamParamState::fields() {
  return {{"step", &step()},
          {"exp_avg", &exp_avg_},
          {"exp_avg_sq", &exp_avg_sq_},
          {"max_exp_avg_sq", &max_exp_avg_sq_}};
}

Adam::Adam(const std::vector<OptimizerParamGroup>& groups, AdamOptions defaults)
    : Optimizer(groups, std::make_unique<AdamOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) Adam::check_options(g.options());
  Adam::check_options(*defaults_);
}

void Adam::check_options(const OptimizerOptions& options) const {
  check<AdamOptions>("Adam", options);
}

std::unique_ptr<OptimizerParamState> Adam::new_state() const {
  return std::make_unique<AdamParamState>();
}

Tensor Adam::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<AdamOptions>(
      "Optimizer.step#Adam.step", groups_,
      [&](const Tensor& param, const Tensor& grad, AdamOptions& o) {
        move(state_of<AdamParamState>(param, [&] { return fresh_state(param); }), param, grad, o,
             false);
      });
  return loss;
}

AdamW::AdamW(const std::vector<OptimizerParamGroup>& groups, AdamWOptions defaults)
    : Optimizer(groups, std::make_unique<AdamWOptions>(std::move(defaults))) {
  for (const OptimizerParamGroup& g : groups_) AdamW::check_options(g.options());
  AdamW::check_options(*defaults_);
}

void AdamW::check_options(const OptimizerOptions& options) const {
  check<AdamWOptions>("AdamW", options);
}

std::unique_ptr<OptimizerParamState> AdamW::new_state() const {
  return std::make_unique<AdamParamState>();
}

Tensor AdamW::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for_each_gradient<AdamWOptions>(
      "Optimizer.step#AdamW.step", groups_,
      [&](const Tensor& param, const Tensor& grad, AdamWOptions& o) {
        move(state_of<AdamParamState>(param, [&] { return fresh_state(param); }), param, grad, o,
             true);
      });
  return loss;
}

}  // namespace pellucid::optim
