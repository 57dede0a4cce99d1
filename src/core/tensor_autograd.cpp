// The gradient side of Tensor: flags, grad, grad_fn, hooks, backward.
#include <mutex>

#include "core/autograd_meta.h"
#include "core/engine.h"
#include "core/tape.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {

using detail::AutogradMeta;
using detail::meta_of;

bool Tensor::requires_grad() const {
  check_defined();
  return tape::requires_grad(*this);
}

const Tensor& Tensor::requires_grad_(bool on) const {
  if (!on && !impl().meta) return *this;
  PELLUCID_CHECK(is_floating_point() || !on, TypeError,
                 "requires_grad_: only floating tensors can require gradients, this one is {}.",
                 dtype());
  PELLUCID_CHECK(on || !grad_fn(), AutogradError,
                 "requires_grad_: only the flag of a leaf can be changed; use detach() to cut this "
                 "tensor from its history.");
  PELLUCID_CHECK(!on || !is_inference() || autograd::InferenceMode::is_enabled(), AutogradError,
                 "requires_grad_: a tensor made in inference mode cannot be made to require "
                 "gradients outside of it; clone it.");
  if (grad_fn()) return *this;  // already part of a graph
  if (on == requires_grad()) return *this;
  meta_of(*this).requires_grad = on;
  if (impl().storage) impl().storage->tensors_changed.fetch_add(1, std::memory_order_relaxed);
  return *this;
}

// The node that made a tensor and which of its results this is; nothing for a leaf.
static autograd::Edge history_of(const Tensor& t) {
  if (!tape::requires_grad(t) || tape::is_grad_leaf(t.impl())) return {};
  return autograd::gradient_edge(t);
}

bool Tensor::is_leaf() const { return !grad_fn(); }

detail::Ref<autograd::Node> Tensor::grad_fn() const {
  check_defined();
  return history_of(*this).function;
}

uint32_t Tensor::output_nr() const {
  check_defined();
  return history_of(*this).input_nr;
}

const Tensor& Tensor::grad() const {
  static const Tensor none;
  const AutogradMeta* meta = detail::meta_if(impl());
  return meta ? meta->grad : none;
}

Tensor& Tensor::mutable_grad() const { return meta_of(*this).grad; }

void Tensor::set_grad(const Tensor& g) const {
  PELLUCID_CHECK(!g.defined() || g.sizes() == sizes(), ShapeError,
                 "set_grad: the gradient is {} but the tensor is {}; their sizes must be the same.",
                 describe(g), describe(*this));
  PELLUCID_CHECK(!g.defined() || g.dtype() == dtype(), TypeError,
                 "set_grad: the gradient is {} but the tensor is {}; convert it with .to({}).",
                 describe(g), describe(*this), dtype());
  AutogradMeta& meta = meta_of(*this);
  Tensor before = g;  // what is replaced ends behind the lock
  const std::lock_guard lock(detail::leaf_lock(&impl()));
  std::swap(meta.grad, before);
}

void Tensor::zero_grad(bool set_to_none) const {
  AutogradMeta* meta = detail::meta_if(impl());
  if (!meta) return;
  if (set_to_none) return set_grad({});
  Tensor g;
  {
    const std::lock_guard lock(detail::leaf_lock(&impl()));
    g = meta->grad;
  }
  if (!g.defined()) return;
  const NoGradGuard off;
  if (g.grad_fn()) set_grad(g = g.detach());
  g.zero_();
}

void Tensor::retain_grad() const {
  PELLUCID_CHECK(requires_grad(), AutogradError,
                 "retain_grad: this tensor does not require a gradient.");
  const autograd::Edge edge = history_of(*this);
  if (!edge.is_valid()) return;
  AutogradMeta& meta = meta_of(*this);
  SmallLock& mutex = detail::leaf_lock(&impl());
  const std::lock_guard lock(mutex);
  if (meta.keeper) return;
  meta.keeper = std::make_shared<detail::GradKeeper>(meta, mutex);
  autograd::Node::Extras& e = edge.function->extras();
  const std::lock_guard extras_lock(e.mutex);
  e.retain_grad[edge.input_nr].push_back(meta.keeper);
}

bool Tensor::retains_grad() const {
  const AutogradMeta* meta = detail::meta_if(impl());
  return meta && meta->keeper;
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                      std::optional<TensorList> inputs) const {
  autograd::backward({*this}, {gradient}, retain_graph, create_graph,
                     inputs ? inputs->vec() : Tensors());
}

unsigned Tensor::register_hook(std::function<Tensor(Tensor)> hook) const {
  PELLUCID_CHECK(requires_grad(), AutogradError,
                 "register_hook: this tensor does not require a gradient.");
  static std::atomic<unsigned> next{1};
  const unsigned id = next++;
  if (const autograd::Edge edge = history_of(*this); edge.is_valid()) {
    autograd::Node::Extras& e = edge.function->extras();
    const std::lock_guard lock(e.mutex);
    e.tensor_hooks[edge.input_nr].emplace_back(id, std::move(hook));
    return id;
  }
  AutogradMeta& meta = meta_of(*this);
  const std::lock_guard lock(detail::leaf_lock(&impl()));
  meta.hooks.emplace_back(id, std::move(hook));
  meta.hooked.store(true, std::memory_order_release);
  return id;
}

void Tensor::remove_hook(unsigned position) const {
  if (const auto node = grad_fn()) {
    autograd::Node::Extras* e = node->extras_if();
    if (!e) return;
    std::pair<uint64_t, std::function<Tensor(Tensor)>> removed;
    const std::lock_guard lock(e->mutex);
    for (auto& [output, hooks] : e->tensor_hooks)
      if (!removed.second) removed = autograd::take_hook(hooks, uint64_t{position});
  } else if (AutogradMeta* meta = impl().meta) {
    std::pair<unsigned, std::function<Tensor(Tensor)>> removed;
    const std::lock_guard lock(detail::leaf_lock(&impl()));
    removed = autograd::take_hook(meta->hooks, position);
    meta->hooked.store(!meta->hooks.empty(), std::memory_order_release);
  }
}

const Tensor& Tensor::detach_() const {
  PELLUCID_CHECK(!is_view(), AutogradError,
                 "detach_: a view cannot be cut from its base in place; use detach().");
  if (AutogradMeta* meta = impl().meta) {
    tape::drop_keeper(*meta);
    meta->keeper.reset();
    meta->grad_fn.reset();
    meta->requires_grad = false;
    meta->output_nr = 0;
  }
  return *this;
}

Tensor Tensor::data() const {
  expose();
  Tensor t(detail::alias_impl(impl()));
  t.impl().untracked = true;
  t.impl().inference = false;
  return t;
}

void Tensor::set_data(const Tensor& other) const {
  other.expose();
  detail::TensorImpl& to = impl();
  const detail::TensorImpl& from = other.impl();
  PELLUCID_CHECK(from.dtype == to.dtype || !(to.meta && to.meta->grad.defined()), TypeError,
                 "set_data: dtype {} cannot replace {} while a gradient exists.", from.dtype,
                 to.dtype);
  PELLUCID_CHECK(is_floating(from.dtype) || !requires_grad(), TypeError,
                 "set_data: a tensor that requires a gradient cannot become {}.", from.dtype);
  if (to.storage != from.storage) {
    to.base = {};  // no longer a view of what it was
    if (to.storage) to.storage->tensors_changed.fetch_add(1, std::memory_order_relaxed);
  }
  to.dtype = from.dtype;
  to.hidden_layout = false;
  to.sizes = from.sizes;
  to.strides = from.strides;
  to.numel = from.numel;
  to.offset = from.offset;
  to.storage = from.storage;
}

Tensor Tensor::_base() const { return Tensor(impl().base); }

const std::string& Tensor::name() const {
  static const std::string none;
  return impl().meta ? impl().meta->name : none;
}

const Tensor& Tensor::set_name(std::string name) const {
  meta_of(*this).name = std::move(name);
  return *this;
}

}  // namespace pellucid
