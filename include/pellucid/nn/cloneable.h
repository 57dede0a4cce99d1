// Cloneable: gives a module clone(), by copying it, building it anew with reset() and copying all
// values over.
#pragma once

#include "pellucid/autograd.h"
#include "pellucid/nn/module.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

/// Derive from Cloneable<YourImpl> and register everything in reset() to get a deep clone().
template <class Derived> class Cloneable : public Module {
 public:
  using Module::Module;
  /// Registers parameters, buffers and submodules and initialises them.
  virtual void reset() = 0;

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override {
    if (device) device->require_available("clone");
    const NoGradGuard off;
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    this->forget(*copy);
    copy->reset();
    this->copy_values(*copy, device);
    return copy;
  }

 private:
  void clone_(Module& other, const std::optional<Device>& device) final {
    const std::shared_ptr<Module> clone = other.clone(device);
    const auto* same = dynamic_cast<const Derived*>(clone.get());
    if (!same) this->refuse_clone();
    static_cast<Derived&>(*this) = *same;
  }
};

}  // namespace pellucid::nn
