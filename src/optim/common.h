// What the optimisers' steps share: walking over parameters with gradients, state memory, and
// checks of options.
#pragma once

#include "pellucid/memory.h"
#include "pellucid/ops.h"
#include "pellucid/optim/optimizer.h"
#include "pellucid/recorder.h"

namespace pellucid::optim {

/// Calls f(parameter, gradient, options) for each parameter that has a gradient, with tracking
/// off; Options is the class of the groups' options.
template <class Options, class F>
void for_each_gradient(std::string_view name, std::vector<OptimizerParamGroup>& groups,
                       const F& f) {
  const RecordFunction scope(name, profile::EventKind::Optimizer);
  const NoGradGuard off;
  const MemoryCategoryGuard category(MemoryCategory::Optimizer);
  for (OptimizerParamGroup& g : groups) {
    auto& options = static_cast<Options&>(g.options());
    options.note_use();
    for (const Tensor& param : g.params())
      if (const Tensor& grad = param.grad(); grad.defined()) f(param, grad, options);
  }
}

/// Contiguous zeros of the parameter's sizes and dtype.
inline Tensor zeros_for(const Tensor& param) { return zeros(param.sizes(), param.dtype()); }

/// Throws ValueError unless the option lies in [low, high) and is a number.
inline void check_option(std::string_view optimizer, std::string_view option, double value,
                         double low = 0, double high = INFINITY) {
  PELLUCID_CHECK(value >= low && value < high, ValueError,
                 "{}: {} must be at least {} and less than {}, found {}.", optimizer, option, low,
                 high, value);
}

}  // namespace pellucid::optim
