// What Python's cycle collector sees behind tensors and nodes: attributes, hooks, contexts of
// custom functions.
#pragma once

#include <Python.h>

#include "pellucid/autograd.h"

namespace pellucid::python {

/// Lets the collector look at a tensor object. Most tensors hold no Python object and stay unknown
/// to it, which costs nothing; called when a tensor gets attributes, a hook or a custom function,
/// or its graph is looked into.
void track(PyObject* tensor);

int tensor_traverse(PyObject* self, visitproc visit, void* arg);
int tensor_clear(PyObject* self);

/// Visits the Python objects that a node holds, if nothing but the caller holds the node.
int visit_node(const autograd::NodeRef& node, visitproc visit, void* arg);
/// Drops the Python hooks of such a node.
void clear_node(const autograd::NodeRef& node);

/// The context of a custom function's node, borrowed; null for other nodes.
PyObject* context_of(const autograd::Node& node);

}  // namespace pellucid::python
