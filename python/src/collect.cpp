// Traversal of tensors and nodes for Python's cycle collector. An object behind a counted C++
// pointer may be visited only where the visitor holds the only reference: otherwise C++ may still
// need what the collector would take for garbage.
#include "collect.h"

#include <mutex>

#include "core/autograd_meta.h"
#include "hooks.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

template <class T> bool held_once(const T* p) {
  return p && p->refs.load(std::memory_order_relaxed) == 1;
}

// The Python function in a std::function that holds a Hook and shares it with nobody; else null.
template <class Hook, class F> PyObject* function_in(const F& f) {
  const Hook* hook = f.template target<Hook>();
  return hook && hook->function.use_count() == 1 ? hook->function->ptr() : nullptr;
}

int visit_extras(const autograd::Node::Extras& e, visitproc visit, void* arg) {
  for (const auto& [output, hooks] : e.tensor_hooks)
    for (const auto& [id, f] : hooks) Py_VISIT(function_in<TensorHook>(f));
  for (const auto& [id, f] : e.pre_hooks) Py_VISIT(function_in<NodePreHook>(f));
  for (const auto& [id, f] : e.post_hooks) {
    Py_VISIT(function_in<NodePostHook>(f));
    Py_VISIT(function_in<AccumulateHook>(f));
  }
  return 0;
}

const detail::AutogradMeta* own_meta(PyObject* self) {
  const detail::TensorImpl* impl = tensor_of(self).impl_ref().get();
  return held_once(impl) ? impl->meta : nullptr;
}

}  // namespace

void track(PyObject* tensor) {
  if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}

int visit_node(const autograd::NodeRef& node, visitproc visit, void* arg) {
  if (!held_once(node.get())) return 0;
  Py_VISIT(context_of(*node));
  return node->extras_if() ? visit_extras(*node->extras_if(), visit, arg) : 0;
}

void clear_node(const autograd::NodeRef& node) {
  if (!held_once(node.get()) || !node->extras_if()) return;
  // Moved out first: what a hook's end runs may look at the node.
  autograd::Node::Extras& e = node->extras();
  decltype(e.tensor_hooks) tensor_hooks;
  decltype(e.pre_hooks) before;
  decltype(e.post_hooks) after;
  const std::lock_guard lock(e.mutex);
  std::swap(tensor_hooks, e.tensor_hooks);
  std::swap(before, e.pre_hooks);
  std::swap(after, e.post_hooks);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<TensorObject*>(self)->dict);
  if (const detail::AutogradMeta* meta = own_meta(self)) {
    for (const auto& [id, f] : meta->hooks) Py_VISIT(function_in<TensorHook>(f));
    return visit_node(meta->grad_fn, visit, arg);
  }
  return 0;
}

int tensor_clear(PyObject* self) {
  if (const detail::AutogradMeta* meta = own_meta(self)) {
    const auto hooks = std::exchange(const_cast<detail::AutogradMeta*>(meta)->hooks, {});
    const_cast<detail::AutogradMeta*>(meta)->hooked = false;
    clear_node(meta->grad_fn);
  }
  Py_CLEAR(reinterpret_cast<TensorObject*>(self)->dict);
  return 0;
}

}  // namespace pellucid::python
