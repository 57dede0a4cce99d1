// Python functions as hooks of the library's tensors and nodes. They are named types, not lambdas,
// so that the cycle collector (collect.cpp) can find the Python objects behind a std::function.
#pragma once

#include <memory>

#include "caster.h"
#include "pellucid/autograd.h"

namespace pellucid::python {

/// A Python object that C++ may copy and drop without the GIL.
std::shared_ptr<nb::object> shared(nb::object o);

struct PythonHook {
  std::shared_ptr<nb::object> function;
};
/// hook(grad) of a tensor.
struct TensorHook : PythonHook {
  Tensor operator()(Tensor grad) const;
};
/// hook(grad_outputs) of a node, before it runs.
struct NodePreHook : PythonHook {
  autograd::variable_list operator()(const autograd::variable_list& grads) const;
};
/// hook(grad_inputs, grad_outputs) of a node, after it ran.
struct NodePostHook : PythonHook {
  autograd::variable_list operator()(const autograd::variable_list& inputs,
                                     const autograd::variable_list& outputs) const;
};
/// hook(leaf) after a gradient was added.
struct AccumulateHook : PythonHook {
  const autograd::Node* node;  ///< the accumulator, which owns this
  autograd::variable_list operator()(const autograd::variable_list& inputs,
                                     const autograd::variable_list&) const;
};

/// The tensor that a Python function returned, undefined for None. Anything else is a TypeError:
/// "`who` returned a str; it must return a Tensor or None."
Tensor returned_tensor(nb::handle o, std::string_view who);
/// Tensors that a Python function returned: None, one, or a tuple or list of them.
autograd::variable_list returned_tensors(nb::handle o, std::string_view who);

}  // namespace pellucid::python
