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
    Module& made = *copy;
    made.parameters_.clear();
    made.buffers_.clear();
    made.children_.clear();
    made.transient_.clear();
    made.hooks_.reset();
    copy->reset();
    check_same("parameters", made.parameters_.size(), this->parameters_.size());
    check_same("buffers", made.buffers_.size(), this->buffers_.size());
    check_same("submodules", made.children_.size(), this->children_.size());
    copy_values(this->parameters_, made.parameters_);
    copy_values(this->buffers_, made.buffers_);
    for (const auto& child : this->children_)
      made.children_[child.key()]->clone_(*child.value(), device);
    return copy;
  }

 private:
  void check_same(std::string_view what, size_t made, size_t had) const {
    PELLUCID_CHECK(made == had, ValueError,
                   "clone: {} has {} {} after reset() but had {} before. Register all of them in "
                   "reset(), not in the constructor.",
                   this->name(), made, what, had);
  }
  static void copy_values(const OrderedDict<std::string, Tensor>& from,
                          OrderedDict<std::string, Tensor>& to) {
    for (const auto& item : from) {
      if (!item.value().defined()) continue;
      Tensor& target = to[item.key()];
      target.set_data(item.value().detach().clone());
      target.requires_grad_(item.value().requires_grad());
    }
  }
  void clone_(Module& other, const std::optional<Device>& device) final {
    auto clone = std::dynamic_pointer_cast<Derived>(other.clone(device));
    PELLUCID_CHECK(clone != nullptr, TypeError,
                   "clone: {} was replaced by a module of another type.", this->name());
    static_cast<Derived&>(*this) = *clone;
  }
};

}  // namespace pellucid::nn
