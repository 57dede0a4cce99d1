// autograd.Function in Python: forward and backward are Python functions, the node is the library's
// CustomNode. The context that both see is a Python object; it knows its node without owning it.
#include "caster.h"
#include "collect.h"
#include "core/engine.h"
#include "graph_objects.h"
#include "hooks.h"
#include "pellucid/autograd.h"
#include "register.h"

namespace pellucid::python {
namespace {

using autograd::AutogradContext;
using autograd::variable_list;
using autograd::detail_fn::CustomNode;

/// The base of the contexts: what forward hands to backward.
struct ContextLink {
  CustomNode* node = nullptr;  ///< not owned; null once the node died
};

// What a node keeps of Python; dropped with the node, from any thread.
struct PythonSide {
  PyObject* context;
  PyObject* function;  ///< the class
  PythonSide(nb::handle c, nb::handle f)
      : context(c.inc_ref().ptr()), function(f.inc_ref().ptr()) {}
  PythonSide(const PythonSide&) = delete;
  ~PythonSide() {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire gil;
    nb::cast<ContextLink&>(nb::handle(context)).node = nullptr;
    Py_DECREF(context);
    Py_DECREF(function);
  }
};

variable_list call_backward(AutogradContext* ctx, variable_list grads) {
  const nb::gil_scoped_acquire gil;
  const auto& side = *std::any_cast<std::shared_ptr<PythonSide>>(ctx->saved_object);
  nb::list args;
  args.append(nb::borrow(side.context));
  for (const Tensor& g : grads) args.append(nb::cast(g));
  nb::object backward = nb::borrow(side.function).attr("backward");
  nb::object result = backward(*nb::tuple(args));
  const std::string who = ctx->node_->name() + ": backward";
  if (result.is_none()) return {Tensor()};
  return returned_tensors(result, who);
}

variable_list list_attribute(nb::handle context, const char* name, std::string_view method) {
  variable_list out;
  for (nb::handle item : nb::getattr(context, name)) {
    PELLUCID_CHECK(item.is_none() || is_tensor(item.ptr()), TypeError,
                   "{}: takes tensors, but argument {} is of type {}; keep other objects as "
                   "attributes of ctx.",
                   method, out.size(), Py_TYPE(item.ptr())->tp_name);
    out.push_back(item.is_none() ? Tensor() : tensor_of(item.ptr()));
  }
  return out;
}

// Takes over what forward left in the context.
void read_context(nb::handle context, AutogradContext& ctx) {
  ctx.save_for_backward(list_attribute(context, "_to_save", "save_for_backward"));
  ctx.mark_dirty(list_attribute(context, "_dirty", "mark_dirty"));
  ctx.mark_non_differentiable(
      list_attribute(context, "_non_differentiable", "mark_non_differentiable"));
  ctx.set_materialize_grads(nb::cast<bool>(nb::getattr(context, "_materialize")));
  nb::setattr(context, "_to_save", nb::make_tuple());
}

nb::object apply(nb::object function, nb::object context, nb::args args) {
  const std::string name = nb::cast<std::string>(function.attr("__name__"));
  auto node = detail::Ref<CustomNode>::adopt(new CustomNode(name + "Backward", call_backward));
  variable_list inputs;
  size_t position = 0;
  for (nb::handle a : args) {
    if (is_tensor(a.ptr())) {
      inputs.push_back(tensor_of(a.ptr()));
      node->tensor_positions_.push_back(position);
    }
    ++position;
  }
  node->argument_count_ = position;
  node->weakly_held = true;  // by the context
  node->context.node_ = node.get();
  node->context.saved_object = std::make_shared<PythonSide>(context, function);
  nb::cast<ContextLink&>(context).node = node.get();
  const bool needs = GradMode::is_enabled() && autograd::detail_fn::any_requires_grad(inputs);
  autograd::detail_fn::collect_edges(*node, inputs);
  nb::list needs_input;
  for (nb::handle a : args)
    needs_input.append(needs && is_tensor(a.ptr()) && tensor_of(a.ptr()).requires_grad());
  nb::setattr(context, "needs_input_grad", nb::tuple(needs_input));
  nb::object result;
  {
    const AutoGradMode off(false);
    result = function.attr("_run_forward")(context, *args);
  }
  read_context(context, node->context);

  const bool single = is_tensor(result.ptr());
  nb::list items;
  if (single)
    items.append(result);
  else if (PyTuple_Check(result.ptr()) || PyList_Check(result.ptr()))
    for (nb::handle item : result) items.append(item);
  else
    return result;
  variable_list outputs;
  for (nb::handle item : items)
    outputs.push_back(is_tensor(item.ptr()) ? tensor_of(item.ptr()) : Tensor());
  outputs = autograd::detail_fn::wrap_outputs(node, inputs, std::move(outputs), needs);
  nb::list wrapped;
  for (size_t i = 0; i < outputs.size(); ++i) {
    nb::handle original = items[i];
    const bool same = !outputs[i].defined() || outputs[i].is_same(tensor_of(original.ptr()));
    wrapped.append(same ? nb::borrow(original) : nb::steal(wrap(outputs[i])));
    if (is_tensor(wrapped[i].ptr())) track(wrapped[i].ptr());  // its node holds the context
  }
  return single ? nb::object(wrapped[0]) : nb::object(nb::tuple(wrapped));
}

}  // namespace

PyObject* context_of(const autograd::Node& node) {
  const auto* custom = dynamic_cast<const CustomNode*>(&node);
  const auto* side =
      custom ? std::any_cast<std::shared_ptr<PythonSide>>(&custom->context.saved_object) : nullptr;
  return side && side->use_count() == 1 ? (*side)->context : nullptr;
}

void register_function(nb::module_& m) {
  nb::class_<ContextLink>(m, "_FunctionContext", nb::dynamic_attr())
      .def(nb::init<>())
      .def_prop_ro("saved_tensors", [](const ContextLink& c) {
        const auto node = c.node ? autograd::share_if_alive(c.node) : detail::Ref<CustomNode>();
        PELLUCID_CHECK(node, AutogradError,
                       "saved_tensors: the graph that kept them is gone already.");
        variable_list saved;
        {  // the node may be running on another thread, whose backward needs the GIL
          const nb::gil_scoped_release unlocked;
          saved = node->context.get_saved_variables();
        }
        nb::list out;
        for (const Tensor& t : saved) out.append(nb::cast(t));
        return nb::tuple(out);
      });
  m.def("_apply_function", apply);
}

}  // namespace pellucid::python
