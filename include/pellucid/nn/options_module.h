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

}  // namespace pellucid::nn::detail
