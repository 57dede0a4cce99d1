// Nodes of the autograd graph as Python objects.
#pragma once

#include <Python.h>

#include "pellucid/autograd.h"

namespace pellucid::python {

/// A Node object, or None.
PyObject* wrap_node(const autograd::NodeRef& node);

}  // namespace pellucid::python
