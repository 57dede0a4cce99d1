// The bases of modules without parameters of their own.
#pragma once

#include "pellucid/nn/cloneable.h"
#include "pellucid/nn/pimpl.h"

namespace pellucid::nn::detail {

/// A module that its options describe completely.
template <class Derived, class Options> class OptionsModule : public Cloneable<Derived> {
 public:
  explicit OptionsModule(const Options& o = {}) : options(o) {}
  void reset() override {}
  Options options;
};

/// A module without options.
template <class Derived> class PlainModule : public Cloneable<Derived> {
 public:
  void reset() override {}
};

/// A module that is one function of its input: an activation without options is one line,
///     class SoftsignImpl : public detail::FunctionModule<SoftsignImpl, softsign> {};
template <class Derived, Tensor (*function)(const Tensor&)>
class FunctionModule : public PlainModule<Derived> {
 public:
  Tensor forward(const Tensor& input) {
    const ModuleScope scope(*this);
    return function(input);
  }
};

}  // namespace pellucid::nn::detail
