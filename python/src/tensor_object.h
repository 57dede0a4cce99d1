// The Python objects behind tensors, dtypes, sizes and memory formats. They are plain CPython
// types, not nanobind classes: making one costs an allocation and nothing else, which is what a
// one-element op can afford. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include "pellucid/tensor.h"

namespace pellucid::python {

/// A Tensor in Python. Attributes live in `dict`, made on demand.
struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;
  PyObject* weakrefs;
  bool registered;  ///< the registry knows this object as the one for its tensor
};

struct DTypeObject {
  PyObject_HEAD DType dtype;
};

struct FormatObject {
  PyObject_HEAD MemoryFormat format;
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* size_type;
extern PyTypeObject* dtype_type;
extern PyTypeObject* format_type;

inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}
inline const Tensor& tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }
inline bool is_dtype(PyObject* o) { return Py_TYPE(o) == dtype_type; }
inline DType dtype_of_object(PyObject* o) { return reinterpret_cast<DTypeObject*>(o)->dtype; }

/// A new object for a tensor that no Python object stands for yet, such as an op's result.
PyObject* wrap(Tensor t);
/// The object for a tensor that may have one: a leaf keeps its identity (x is grad_fn.variable).
/// None for an undefined tensor.
PyObject* wrap_known(const Tensor& t);
/// A new object of a subclass of Tensor.
PyObject* wrap_as(PyTypeObject* type, Tensor t);
/// Makes `o` the object that wrap_known finds for its tensor.
void remember(PyObject* o);

PyObject* dtype_object(DType t);
PyObject* format_object(MemoryFormat f);
PyObject* make_size(IntArrayRef sizes);
PyObject* make_number(const Scalar& value);

/// Turns the C++ exception in flight into the Python error of the same meaning.
void set_python_error() noexcept;
/// Runs f; a C++ exception becomes a Python error and the result null (or -1).
template <class F> auto guarded(F&& f) noexcept -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    set_python_error();
    if constexpr (std::is_pointer_v<decltype(f())>)
      return nullptr;
    else
      return -1;
  }
}

/// Thrown where the Python error is set already.
struct PythonErrorSet {};

// The parts of the Tensor type, each in a file of its own.
PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op);
PyObject* tensor_getitem(PyObject* self, PyObject* key);
int tensor_setitem(PyObject* self, PyObject* key, PyObject* value);
int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags);
void tensor_releasebuffer(PyObject* self, Py_buffer* view);
extern PyGetSetDef tensor_getset[];
extern PyMethodDef tensor_methods[];
/// Adds the slots of the arithmetic operators.
void add_number_slots(PyType_Slot* slots, size_t& count);

/// Creates the types and puts them into the module; throws PythonErrorSet.
void create_types(PyObject* module);
void create_errors(PyObject* module);

}  // namespace pellucid::python
