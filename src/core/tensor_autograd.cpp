// The gradient side of Tensor: flags, grad, grad_fn, hooks, backward.
#include "core/tape.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor/autograd_meta.h"

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
  PELLUCID_CHECK(
      !on || !is_inference(), AutogradError,
      "requires_grad_: a tensor made in inference mode cannot require gradients; clone it.");
  if (grad_fn()) return *this;  // already part of a graph
  meta_of(*this).requires_grad = on;
  return *this;
}

bool Tensor::is_leaf() const { return !grad_fn(); }

detail::Ref<autograd::Node> Tensor::grad_fn() const {
  const detail::TensorImpl& t = impl();
  if (!tape::requires_grad(*this)) return {};
  if (t.meta && t.meta->requires_grad && !t.meta->grad_fn) return {};
  return autograd::gradient_edge(*this).function;
}

uint32_t Tensor::output_nr() const { return impl().meta ? impl().meta->output_nr : 0; }

const Tensor& Tensor::grad() const {
  static const Tensor none;
  return impl().meta ? impl().meta->grad : none;
}

Tensor& Tensor::mutable_grad() const { return meta_of(*this).grad; }

void Tensor::set_grad(const Tensor& g) const {
  PELLUCID_CHECK(!g.defined() || (g.sizes() == sizes() && g.dtype() == dtype()), ShapeError,
                 "set_grad: the gradient is {} but the tensor is {}.", describe(g),
                 describe(*this));
  meta_of(*this).grad = g;
}

void Tensor::zero_grad(bool set_to_none) const {
  if (!impl().meta || !impl().meta->grad.defined()) return;
  Tensor& g = impl().meta->grad;
  if (set_to_none) {
    g.reset();
    return;
  }
  const NoGradGuard off;
  if (g.grad_fn()) g = g.detach();
  g.zero_();
}

void Tensor::retain_grad() const {
  PELLUCID_CHECK(requires_grad(), AutogradError,
                 "retain_grad: this tensor does not require a gradient.");
  const auto node = grad_fn();
  if (!node) return;
  AutogradMeta& meta = meta_of(*this);
  if (meta.keeper) return;
  meta.keeper = std::make_shared<detail::GradKeeper>(meta);
  node->extras().retain_grad[meta.output_nr].push_back(meta.keeper);
}

bool Tensor::retains_grad() const { return impl().meta && impl().meta->keeper; }

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
  if (const auto node = grad_fn())
    node->extras().tensor_hooks[output_nr()].emplace_back(id, std::move(hook));
  else
    meta_of(*this).hooks.emplace_back(id, std::move(hook));
  return id;
}

void Tensor::remove_hook(unsigned position) const {
  const auto same = [position](const auto& h) { return h.first == position; };
  if (const auto node = grad_fn()) {
    if (node->extras_if())
      for (auto& [output, hooks] : node->extras().tensor_hooks) std::erase_if(hooks, same);
  } else if (impl().meta) {
    std::erase_if(impl().meta->hooks, same);
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
  if (to.storage != from.storage) to.base = {};  // no longer a view of what it was
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
