// Tensors from Python data: numbers, nested sequences, buffers; and back to lists.
#pragma once

#include <Python.h>

#include <optional>

#include "pellucid/tensor.h"

namespace pellucid::python {

/// A new tensor with the data of nested sequences, numbers, tensors or an array. Without a dtype
/// it is inferred as PyTorch infers it.
Tensor tensor_from(PyObject* data, std::optional<DType> dtype);
/// A tensor over the memory of an object with the buffer protocol, which stays alive as long.
Tensor tensor_over_buffer(PyObject* object);
/// The dtype of such an object, a NumPy number for example; nothing where it has none that we know.
std::optional<DType> dtype_of_buffer(PyObject* object);
/// Nested lists of numbers.
PyObject* to_list(const Tensor& t);

}  // namespace pellucid::python
