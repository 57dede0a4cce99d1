// DLPack, both ways: tensors of other libraries without copying.
#pragma once

#include <Python.h>

#include "pellucid/tensor.h"

namespace pellucid::python {

/// A capsule "dltensor" that owns a reference to the tensor's memory.
PyObject* to_dlpack(const Tensor& t);
/// A tensor over the memory of a capsule, which is then used up.
Tensor from_dlpack(PyObject* capsule);

}  // namespace pellucid::python
