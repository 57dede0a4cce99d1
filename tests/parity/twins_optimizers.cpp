// Optimisers: their constructors in the table of twins, in C++.
#include "parity/twins.h"

namespace pellucid::twins {

namespace {

template <class O, class Options> auto made(const Options& options) {
  return [options](std::vector<Tensor> parameters) {
    return std::unique_ptr<optim::Optimizer>(std::make_unique<O>(std::move(parameters), options));
  };
}

}  // namespace

Optimizers optimizers() {
  using namespace optim;
  return {
      {"SGD(lr=0.1)", made<SGD>(SGDOptions(0.1))},
      {"SGD(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)",
       made<SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.1).weight_decay(0.01))},
      {"SGD(lr=0.05, momentum=0.9, nesterov=True)",
       made<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true))},
      {"Adam(lr=0.05)", made<Adam>(AdamOptions(0.05))},
      {"Adam(lr=0.05, betas=(0.8, 0.95), weight_decay=0.1, amsgrad=True)",
       made<Adam>(AdamOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1).amsgrad(true))},
      {"AdamW(lr=0.05, weight_decay=0.1)", made<AdamW>(AdamWOptions(0.05).weight_decay(0.1))},
      {"RMSprop(lr=0.02)", made<RMSprop>(RMSpropOptions(0.02))},
      {"RMSprop(lr=0.02, momentum=0.5, centered=True, weight_decay=0.1)",
       made<RMSprop>(RMSpropOptions(0.02).momentum(0.5).centered(true).weight_decay(0.1))},
      {"Adagrad(lr=0.1, lr_decay=0.01, initial_accumulator_value=0.5, weight_decay=0.1)",
       made<Adagrad>(
           AdagradOptions(0.1).lr_decay(0.01).initial_accumulator_value(0.5).weight_decay(0.1))},
      {"Adadelta(lr=0.7)", made<Adadelta>(AdadeltaOptions(0.7))},
      {"Adadelta(lr=0.7, rho=0.8, eps=1e-5, weight_decay=0.1)",
       made<Adadelta>(AdadeltaOptions(0.7).rho(0.8).eps(1e-5).weight_decay(0.1))},
      {"Adamax(lr=0.05)", made<Adamax>(AdamaxOptions(0.05))},
      {"Adamax(lr=0.05, betas=(0.8, 0.95), weight_decay=0.1)",
       made<Adamax>(AdamaxOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1))},
      {"NAdam(lr=0.05)", made<NAdam>(NAdamOptions(0.05))},
      {"NAdam(lr=0.05, betas=(0.8, 0.95), weight_decay=0.1, momentum_decay=0.02)",
       made<NAdam>(NAdamOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1).momentum_decay(0.02))},
      {"NAdam(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True)",
       made<NAdam>(NAdamOptions(0.05).weight_decay(0.1).decoupled_weight_decay(true))},
      {"RAdam(lr=0.05)", made<RAdam>(RAdamOptions(0.05))},
      {"RAdam(lr=0.05, betas=(0.8, 0.95), weight_decay=0.1)",
       made<RAdam>(RAdamOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1))},
      {"RAdam(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True)",
       made<RAdam>(RAdamOptions(0.05).weight_decay(0.1).decoupled_weight_decay(true))},
      {"ASGD(lr=0.05)", made<ASGD>(ASGDOptions(0.05))},
      {"ASGD(lr=0.05, lambd=0.01, alpha=0.5, t0=10.0, weight_decay=0.1)",
       made<ASGD>(ASGDOptions(0.05).lambd(0.01).alpha(0.5).t0(10.0).weight_decay(0.1))},
      {"Rprop(lr=0.01)", made<Rprop>(RpropOptions(0.01))},
      {"Rprop(lr=0.02, etas=(0.4, 1.3), step_sizes=(1e-5, 0.5))",
       made<Rprop>(RpropOptions(0.02).etas({0.4, 1.3}).step_sizes({1e-5, 0.5}))},
  };
}

}  // namespace pellucid::twins
