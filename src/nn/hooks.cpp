// Hooks of modules: before and after forward, and on the gradients of a module's inputs. The last
// need two identity nodes in the graph, one around the outputs that remembers their gradients and
// one around the inputs that hands both to the hooks.
#include <algorithm>
#include <atomic>

#include "pellucid/autograd.h"
#include "pellucid/nn/pimpl.h"
#include "pellucid/ops.h"
#include "recorder/recorder.h"

namespace pellucid::nn {

namespace detail {

struct ModuleHooks {
  template <class F> using List = std::vector<std::pair<uint64_t, F>>;
  List<ForwardPreHook> before;
  List<ForwardHook> after;
  List<nn::BackwardHook> backward;
  std::function<void()> release;  ///< lets the module forget the lists when they are empty
  static uint64_t new_id() {      // no two hooks of the process have one, of whatever kind they are
    static std::atomic<uint64_t> last{0};
    return ++last;
  }
  template <class F> uint64_t add(List<F>& list, F hook) {
    return list.emplace_back(new_id(), std::move(hook)).first;
  }
  void remove(uint64_t id) {
    const auto drop = [id](auto& list) {
      std::erase_if(list, [id](const auto& h) { return h.first == id; });
    };
    drop(before);
    drop(after);
    drop(backward);
    if (before.empty() && after.empty() && backward.empty() && release) release();
  }
};

uint64_t fingerprint(const ModuleHooks& hooks) {
  uint64_t h = 0;
  const auto add = [&h](const auto& list, uint64_t kind) {
    for (const auto& [id, hook] : list) h = profile::mix(h, id, kind);
  };
  add(hooks.before, 1);
  add(hooks.after, 2);
  add(hooks.backward, 3);
  return h;
}

namespace {

using autograd::variable_list;
using autograd::detail_fn::CustomNode;

void check_count(const Module& m, std::string_view hook, size_t got, size_t wanted) {
  PELLUCID_CHECK(got == wanted, ValueError, "{}: a {} returned {} tensors where there are {}.",
                 m.name(), hook, got, wanted);
}

void check_same(const Module& m, size_t i, const Tensor& replaced, const Tensor& grad) {
  if (!replaced.defined() || !grad.defined()) return;
  PELLUCID_CHECK(replaced.sizes() == grad.sizes(), ShapeError,
                 "{}: a backward hook returned a gradient of sizes {} for input {} where {} were "
                 "expected.",
                 m.name(), replaced.sizes(), i, grad.sizes());
  PELLUCID_CHECK(replaced.dtype() == grad.dtype(), TypeError,
                 "{}: a backward hook returned a gradient of dtype {} for input {} where {} was "
                 "expected.",
                 m.name(), replaced.dtype(), i, grad.dtype());
}

}  // namespace

struct HookedCall::Backward {
  Module* module;
  std::shared_ptr<Module> keep;  ///< alive as long as the graph, where the module is shared
  std::vector<nn::BackwardHook> hooks;
  Tensors grad_outputs;
  bool inputs_need_grad = false;

  /// What the hooks make of the gradients of the inputs.
  Tensors run(Tensors grad_inputs) {
    for (const auto& hook : hooks)
      if (auto replaced = hook(*module, grad_inputs, grad_outputs)) {
        check_count(*module, "backward hook", replaced->size(), grad_inputs.size());
        for (size_t i = 0; i < grad_inputs.size(); ++i)
          check_same(*module, i, (*replaced)[i], grad_inputs[i]);
        grad_inputs = std::move(*replaced);
      }
    grad_outputs.clear();
    return grad_inputs;
  }
  /// Puts an identity node behind `tensors`, whose backward is `backward`.
  void wrap(const std::vector<Tensor*>& tensors, const std::shared_ptr<Backward>& self,
            CustomNode::Backward backward) {
    variable_list values;
    for (Tensor* t : tensors) {
      t->expose();  // the alias below must see the same layout
      values.push_back(*t);
    }
    auto node = pellucid::detail::Ref<CustomNode>::adopt(
        new CustomNode("BackwardHookFunctionBackward", backward));
    node->context.node_ = node.get();
    node->context.saved_object = self;
    node->context.materialize_ = false;
    for (size_t i = 0; i < values.size(); ++i) node->tensor_positions_.push_back(i);
    node->argument_count_ = values.size();
    autograd::detail_fn::collect_edges(*node, values);
    values = autograd::detail_fn::wrap_outputs(node, values, values, true);
    for (size_t i = 0; i < values.size(); ++i) {
      // The program does not see what is behind the node, so it may change the tensor in place.
      values[i].impl().base = {};
      values[i].impl().no_grad_view = false;
      *tensors[i] = values[i];
    }
  }
  static Backward& of(autograd::AutogradContext* c) {
    return *std::any_cast<std::shared_ptr<Backward>&>(c->saved_object);
  }
};

HookedCall::HookedCall(Module& module, std::vector<Tensor*> inputs) : module_(module) {
  const auto read = [&] {
    inputs_.clear();
    for (const Tensor* t : inputs) inputs_.push_back(*t);
  };
  read();
  const auto before = module.hooks().before;  // a hook may take itself away
  for (const auto& [id, hook] : before)
    if (auto replaced = hook(module, inputs_)) {
      check_count(module, "forward pre-hook", replaced->size(), inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) *inputs[i] = (*replaced)[i];
      read();
    }
  if (module.hooks().backward.empty() || !GradMode::is_enabled()) return;
  backward_ = std::make_shared<Backward>();
  backward_->module = &module;
  backward_->keep = module.weak_from_this().lock();
  for (const auto& [id, hook] : module.hooks().backward) backward_->hooks.push_back(hook);
  std::erase_if(inputs, [](Tensor* t) { return !t->defined() || !t->requires_grad(); });
  backward_->inputs_need_grad = !inputs.empty();
  if (inputs.empty()) return;
  backward_->wrap(inputs, backward_, [](autograd::AutogradContext* c, variable_list grads) {
    return Backward::of(c).run(std::move(grads));
  });
}

void HookedCall::finish(const std::vector<Tensor*>& outputs) {
  const auto after = module_.hooks().after;
  for (const auto& [id, hook] : after) {
    Tensors values;
    for (const Tensor* t : outputs) values.push_back(*t);
    if (auto replaced = hook(module_, inputs_, values)) {
      check_count(module_, "forward hook", replaced->size(), outputs.size());
      for (size_t i = 0; i < outputs.size(); ++i) *outputs[i] = (*replaced)[i];
    }
  }
  if (!backward_) return;
  std::vector<Tensor*> with_grad = outputs;
  std::erase_if(with_grad, [](Tensor* t) { return !t->defined() || !t->requires_grad(); });
  if (with_grad.empty()) return;
  backward_->wrap(with_grad, backward_, [](autograd::AutogradContext* c, variable_list grads) {
    Backward& b = Backward::of(c);
    b.grad_outputs = grads;
    if (!b.inputs_need_grad) b.run({});
    return grads;
  });
}

}  // namespace detail

detail::ModuleHooks& Module::hooks() {
  if (!hooks_) {
    hooks_ = std::make_shared<detail::ModuleHooks>();
    // A module whose hooks are all gone is called as one that never had any. A copy of the module
    // shares the lists, and keeps them.
    hooks_->release = [module = weak_from_this(), hooks = hooks_.get()] {
      const auto owner = module.lock();
      if (owner && owner->hooks_.get() == hooks) owner->hooks_.reset();
    };
  }
  return *hooks_;
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  auto& h = hooks();
  return {hooks_, h.add(h.before, std::move(hook))};
}

HookHandle Module::register_forward_hook(ForwardHook hook) {
  auto& h = hooks();
  return {hooks_, h.add(h.after, std::move(hook))};
}

HookHandle Module::register_full_backward_hook(BackwardHook hook) {
  auto& h = hooks();
  return {hooks_, h.add(h.backward, std::move(hook))};
}

void HookHandle::remove() {
  if (const auto hooks = hooks_.lock()) hooks->remove(id_);
}

}  // namespace pellucid::nn
