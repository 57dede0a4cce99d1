// Gradients in Python: nodes, modes, backward and grad, hooks, checkpoints.
#include "pellucid/autograd.h"

#include <unordered_map>

#include "caster.h"
#include "collect.h"
#include "graph_objects.h"
#include "hooks.h"
#include "pellucid/lazy.h"
#include "pellucid/ops.h"
#include "profiler.h"
#include "register.h"

namespace pellucid::python {
namespace {

using autograd::Node;
using autograd::NodeRef;
using autograd::variable_list;

struct PyNode {
  NodeRef node;
};

nb::object node_object(const NodeRef& node) { return nb::steal(wrap_node(node)); }

nb::tuple next_functions(const PyNode& n) {
  nb::list out;
  for (const autograd::Edge& e : n.node->next_edges())
    out.append(nb::make_tuple(node_object(e.function), e.input_nr));
  return nb::tuple(out);
}

// Without the GIL: the node may be running on another thread, whose backward needs it.
std::vector<autograd::SavedInfo> saved_of(const PyNode& n) {
  const nb::gil_scoped_release unlocked;
  return n.node->saved_tensors();
}

// _saved_self and its like, as PyTorch's nodes show what they keep.
nb::object saved_attribute(const PyNode& n, const std::string& name) {
  if (name.rfind("_saved_", 0) == 0)
    for (const autograd::SavedInfo& s : saved_of(n))
      if ("_saved_" + s.name == name) return nb::cast(s.tensor);
  throw nb::attribute_error(
      fmt::format("'{}' object has no attribute '{}'", n.node->name(), name).c_str());
}

uint64_t node_hook(const PyNode& n, nb::object hook) {
  return n.node->add_post_hook(NodePostHook{shared(std::move(hook))});
}

uint64_t node_prehook(const PyNode& n, nb::object hook) {
  return n.node->add_pre_hook(NodePreHook{shared(std::move(hook))});
}

unsigned tensor_hook(nb::handle tensor, nb::object hook) {
  track(tensor.ptr());
  return tensor_of(tensor.ptr())
      .register_hook(std::function<Tensor(Tensor)>(TensorHook{shared(std::move(hook))}));
}

// Post-accumulate hooks run on the accumulator, after the gradient was added. A leaf does not own
// its accumulator, so the caller keeps the node.
nb::tuple accumulate_hook(const Tensor& t, nb::object hook) {
  const autograd::Edge edge = autograd::gradient_edge(t);
  PELLUCID_CHECK(
      edge.function && edge.function->is_accumulate(), AutogradError,
      "register_post_accumulate_grad_hook: only a leaf that requires a gradient has one.");
  const Node* node = edge.function.get();
  const uint64_t id = edge.function->add_post_hook(AccumulateHook{{shared(std::move(hook))}, node});
  return nb::make_tuple(node_object(edge.function), id);
}

void run_backward(const variable_list& tensors, const variable_list& grads,
                  std::optional<bool> retain_graph, bool create_graph,
                  const variable_list& inputs) {
  remember_place();
  const nb::gil_scoped_release unlocked;
  autograd::backward(tensors, grads, retain_graph, create_graph, inputs);
}

variable_list run_grad(const variable_list& outputs, const variable_list& inputs,
                       const variable_list& grads, std::optional<bool> retain_graph,
                       bool create_graph, bool allow_unused) {
  remember_place();
  const nb::gil_scoped_release unlocked;
  return autograd::grad(outputs, inputs, grads, retain_graph, create_graph, allow_unused);
}

// A C++ function of tensors from a Python one.
std::function<variable_list(const variable_list&)> function_of(nb::object f) {
  return [f = shared(std::move(f))](const variable_list& in) {
    const nb::gil_scoped_acquire gil;
    nb::list args;
    for (const Tensor& t : in) args.append(nb::cast(t));
    return returned_tensors((*f)(*nb::tuple(args)), "the function");
  };
}

variable_list run_checkpoint(nb::object f, const variable_list& inputs, bool preserve_rng_state) {
  return autograd::checkpoint(function_of(std::move(f)), inputs, preserve_rng_state);
}

bool run_gradcheck(nb::object f, const variable_list& inputs, double eps, double atol, double rtol,
                   bool raise_exception, bool second) {
  const auto function = function_of(std::move(f));
  const nb::gil_scoped_release unlocked;
  return second ? autograd::gradgradcheck(function, inputs, eps, atol, rtol, raise_exception)
                : autograd::gradcheck(function, inputs, eps, atol, rtol, raise_exception);
}

// Scopes that Python opens and closes: with saved_tensors_hooks(pack, unpack).
struct SavedScope {
  std::unique_ptr<autograd::SavedTensorsHooks> hooks;
};

SavedScope* open_saved_scope(nb::object pack, nb::object unpack) {
  auto packer = shared(std::move(pack)), unpacker = shared(std::move(unpack));
  return new SavedScope{std::make_unique<autograd::SavedTensorsHooks>(
      [packer](const Tensor& t) -> std::any {
        const nb::gil_scoped_acquire gil;
        return shared((*packer)(t));
      },
      [unpacker](const std::any& packed) -> Tensor {
        const nb::gil_scoped_acquire gil;
        const nb::object t = (*unpacker)(*std::any_cast<std::shared_ptr<nb::object>>(packed));
        PELLUCID_CHECK(is_tensor(t.ptr()), TypeError,
                       "Output of saved tensor unpack_hook expected to be a Tensor but got result "
                       "of type {}",
                       Py_TYPE(t.ptr())->tp_name);
        return tensor_of(t.ptr());
      })};
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? visit_node(nb::inst_ptr<PyNode>(self)->node, visit, arg) : 0;
}

int node_clear(PyObject* self) {
  clear_node(nb::inst_ptr<PyNode>(self)->node);
  return 0;
}

// The class of nodes of one name, made on first use: programs ask type(fn).__name__.
nb::handle node_type(const std::string& name) {
  static auto& types = *new std::unordered_map<std::string, PyObject*>;  // as long as the program
  PyObject*& type = types[name];
  if (!type) {
    nb::handle base = nb::type<PyNode>();
    nb::dict members;
    members["__slots__"] = nb::make_tuple();
    members["__module__"] = "torch.autograd";
    type = base.type()(name, nb::make_tuple(base), members).release().ptr();
  }
  return type;
}

// The guards of a kind that this thread has entered, the innermost last.
template <class Guard> auto& open_guards() {
  thread_local std::vector<std::unique_ptr<Guard>> guards;
  return guards;
}
template <class Guard> void enter(bool on) {
  open_guards<Guard>().push_back(std::make_unique<Guard>(on));
}
template <class Guard> void leave() {
  if (!open_guards<Guard>().empty()) open_guards<Guard>().pop_back();
}

}  // namespace

PyObject* wrap_node(const NodeRef& node) {
  if (!node) Py_RETURN_NONE;
  nb::object made = nb::inst_alloc(node_type(node->name()));
  new (nb::inst_ptr<PyNode>(made)) PyNode{node};
  nb::inst_mark_ready(made);
  return made.release().ptr();
}

std::shared_ptr<nb::object> shared(nb::object o) {
  return {new nb::object(std::move(o)), [](nb::object* p) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire gil;
            delete p;
          }};
}

Tensor returned_tensor(nb::handle o, std::string_view who) {
  if (o.is_none()) return {};
  PELLUCID_CHECK(is_tensor(o.ptr()), TypeError,
                 "{} returned an object of type {}; it must return a Tensor or None.", who,
                 Py_TYPE(o.ptr())->tp_name);
  return tensor_of(o.ptr());
}

variable_list returned_tensors(nb::handle o, std::string_view who) {
  variable_list out;
  if (o.is_none()) return out;
  if (is_tensor(o.ptr())) return {tensor_of(o.ptr())};
  PELLUCID_CHECK(PyTuple_Check(o.ptr()) || PyList_Check(o.ptr()), TypeError,
                 "{} returned an object of type {}; it must return a Tensor, or a tuple of Tensors "
                 "and None.",
                 who, Py_TYPE(o.ptr())->tp_name);
  for (nb::handle item : o) out.push_back(returned_tensor(item, who));
  return out;
}

namespace {

// What a hook of a node returned in the place of `grads`: as many, of the same sizes and dtypes.
variable_list replaced_gradients(nb::handle result, const variable_list& grads,
                                 std::string_view who) {
  if (result.is_none()) return grads;
  variable_list out = returned_tensors(result, who);
  PELLUCID_CHECK(out.size() == grads.size(), AutogradError,
                 "{} has returned an incorrect number of values (got {}, but expected {})", who,
                 out.size(), grads.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].defined()) continue;
    PELLUCID_CHECK(grads[i].defined(), AutogradError,
                   "{}: can't replace a None gradient with a non-None value (at index {}).", who,
                   i);
    PELLUCID_CHECK(out[i].sizes() == grads[i].sizes(), ShapeError,
                   "{} has changed the size of value {} (was {}, got {})", who, i, grads[i].sizes(),
                   out[i].sizes());
    PELLUCID_CHECK(out[i].dtype() == grads[i].dtype(), TypeError,
                   "{} has changed the type of value {} (was {}, got {})", who, i, grads[i].dtype(),
                   out[i].dtype());
  }
  return out;
}

std::string hook_name(const nb::object& hook) {
  return fmt::format("hook '{}'",
                     nb::cast<std::string>(nb::str(nb::getattr(hook, "__name__", nb::repr(hook)))));
}

}  // namespace

// The engine runs without the GIL.
Tensor TensorHook::operator()(Tensor grad) const {
  const nb::gil_scoped_acquire gil;
  return returned_tensor((*function)(grad), hook_name(*function));
}

variable_list NodePreHook::operator()(const variable_list& grads) const {
  const nb::gil_scoped_acquire gil;
  return replaced_gradients((*function)(nb::tuple(nb::cast(grads))), grads, hook_name(*function));
}

variable_list NodePostHook::operator()(const variable_list& inputs,
                                       const variable_list& outputs) const {
  const nb::gil_scoped_acquire gil;
  nb::object result = (*function)(nb::tuple(nb::cast(inputs)), nb::tuple(nb::cast(outputs)));
  return replaced_gradients(result, inputs, hook_name(*function));
}

variable_list AccumulateHook::operator()(const variable_list& inputs, const variable_list&) const {
  const nb::gil_scoped_acquire gil;
  const nb::object result = (*function)(nb::cast(node->variable()));
  PELLUCID_CHECK(result.is_none(), TypeError,
                 "{} returned an object of type {}; a hook that runs after a gradient was "
                 "accumulated must return None.",
                 hook_name(*function), Py_TYPE(result.ptr())->tp_name);
  return inputs;
}

void register_autograd(nb::module_& m) {
  static PyType_Slot node_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                                     {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                                     {0, nullptr}};
  nb::class_<PyNode>(m, "Node", nb::type_slots(node_slots), "A step of backward.")
      .def("name", [](const PyNode& n) { return n.node->name(); })
      .def_prop_ro("next_functions", next_functions)
      .def_prop_ro("variable",
                   [](const PyNode& n) {
                     if (!n.node->is_accumulate())
                       throw nb::attribute_error("only a leaf's AccumulateGrad has a variable");
                     return n.node->variable();
                   })
      .def_prop_ro("saved_tensors",
                   [](const PyNode& n) {
                     nb::list out;
                     for (const autograd::SavedInfo& s : saved_of(n))
                       out.append(nb::cast(s.tensor));
                     return nb::tuple(out);
                   })
      .def("_sequence_nr", [](const PyNode& n) { return n.node->sequence_nr(); })
      .def("_register_hook", node_hook)
      .def("_register_prehook", node_prehook)
      .def("_remove_hook", [](const PyNode& n, uint64_t id) { n.node->remove_hook(id); })
      .def("__getattr__", saved_attribute)
      .def(
          "__eq__",
          [](const PyNode& a, nb::object b) {
            return nb::isinstance<PyNode>(b) && nb::cast<PyNode&>(b).node == a.node;
          },
          nb::arg().none())
      .def("__hash__",
           [](const PyNode& n) { return reinterpret_cast<uintptr_t>(n.node.get()) >> 4; })
      .def("__repr__", [](const PyNode& n) {
        return fmt::format("<{} object at {}>", n.node->name(),
                           static_cast<const void*>(n.node.get()));
      });

  m.def("_backward", run_backward, nb::arg("tensors"), nb::arg("grads"),
        nb::arg("retain_graph").none(), nb::arg("create_graph"), nb::arg("inputs"));
  m.def("_grad", run_grad, nb::arg("outputs"), nb::arg("inputs"), nb::arg("grads"),
        nb::arg("retain_graph").none(), nb::arg("create_graph"), nb::arg("allow_unused"));
  m.def("_tensor_hook", tensor_hook);
  m.def("_remove_tensor_hook", [](const Tensor& t, unsigned id) { t.remove_hook(id); });
  m.def("_accumulate_hook", accumulate_hook);
  m.def("_checkpoint", run_checkpoint);
  m.def("_gradcheck", run_gradcheck);
  nb::class_<SavedScope>(m, "_SavedScope").def("close", [](SavedScope& s) { s.hooks.reset(); });
  m.def("_open_saved_scope", open_saved_scope, nb::rv_policy::take_ownership);

  m.def("is_grad_enabled", autograd::GradMode::is_enabled);
  m.def("_set_grad_enabled", autograd::GradMode::set_enabled);
  m.def("is_inference_mode_enabled", autograd::InferenceMode::is_enabled);
  m.def("_enter_inference", enter<autograd::InferenceMode>);
  m.def("_leave_inference", leave<autograd::InferenceMode>);
  m.def("_is_inference", [](const Tensor& t) { return t.impl().inference; });
  m.def("is_anomaly_enabled", autograd::AnomalyMode::is_enabled);
  m.def("is_anomaly_check_nan_enabled", autograd::AnomalyMode::should_check_nan);
  m.def("_set_anomaly", autograd::AnomalyMode::set_enabled);

  m.def("is_lazy", LazyGuard::is_enabled);
  m.def("_enter_lazy", enter<LazyGuard>);
  m.def("_leave_lazy", leave<LazyGuard>);
  m.def("_eval", [](const std::vector<Tensor>& tensors) { eval(tensors); });
  m.def("_eval_all", [] { eval(); });
  m.def("is_pending", [](const Tensor& t) { return is_pending(t); });
}

}  // namespace pellucid::python
