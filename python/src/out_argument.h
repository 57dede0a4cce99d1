// The keyword out= of op functions.
#pragma once

#include <Python.h>

#include <cstddef>

namespace pellucid::python {

/// Whether the keywords of a call contain `out`.
bool has_out(PyObject* names);

/// The call without `out`, whose result is then written to the given tensor, or to each of a tuple:
/// same sizes are copied, others make it a tensor of the result's.
PyObject* call_with_out(PyObject* function, PyObject* name, PyObject* const* args, size_t count,
                        PyObject* names);

}  // namespace pellucid::python
