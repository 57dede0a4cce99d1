// nn::Functional: a function as a module, so that it can stand in a Sequential.
#pragma once

#include <functional>
#include <utility>

#include "pellucid/nn/cloneable.h"
#include "pellucid/nn/pimpl.h"

namespace pellucid::nn {

/// Functional(relu), Functional(log_softmax, 1, nullopt): the further arguments are bound.
class PELLUCID_API FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;
  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  template <class F, class... Args>
  requires(sizeof...(Args) > 0) explicit FunctionalImpl(F function, Args&&... args)
      : function_([function, ... bound = std::decay_t<Args>(std::forward<Args>(args))](
                      const Tensor& input) -> Tensor { return function(input, bound...); }) {}
  void reset() override {}
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
using Functional = ModuleHolder<FunctionalImpl>;

}  // namespace pellucid::nn
