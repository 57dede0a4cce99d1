// Facts, data and gradient of a Tensor as Python attributes and methods. What needs no speed is in
// python/pellucid/_tensor.py.
#include <mutex>

#include "arguments.h"
#include "collect.h"
#include "core/autograd_meta.h"
#include "dlpack.h"
#include "from_data.h"
#include "graph_objects.h"
#include "op_function.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

template <class F> PyObject* get(PyObject* self, F&& f) {
  return guarded([&]() -> PyObject* { return f(tensor_of(self)); });
}

int need_value(PyObject* value, const char* name) {
  if (value) return 0;
  PyErr_Format(PyExc_AttributeError, "%s cannot be deleted", name);
  throw PythonErrorSet();
}

PyObject* get_shape(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return make_size(t.sizes()); });
}
PyObject* get_dtype(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return dtype_object(t.dtype()); });
}
PyObject* get_ndim(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return PyLong_FromLongLong(t.dim()); });
}
PyObject* get_requires_grad(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return PyBool_FromLong(t.requires_grad()); });
}
int set_requires_grad(PyObject* s, PyObject* value, void*) {
  return guarded([&] {
    need_value(value, "requires_grad");
    const int on = PyObject_IsTrue(value);
    if (on < 0) throw PythonErrorSet();
    tensor_of(s).requires_grad_(on == 1);
    remember(s);
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return PyBool_FromLong(t.is_leaf()); });
}
PyObject* get_grad(PyObject* s, void*) {
  return get(s, [](const Tensor& t) {
    if (!t.impl().meta) return wrap_known(Tensor());
    Tensor grad;  // a backward on another thread may be about to replace it
    {
      const std::lock_guard lock(detail::leaf_lock(&t.impl()));
      grad = t.grad();
    }
    return wrap_known(grad);
  });
}
int set_grad(PyObject* s, PyObject* value, void*) {
  return guarded([&] {
    if (!value || value == Py_None) {
      tensor_of(s).set_grad({});
      return 0;
    }
    if (!is_tensor(value)) {
      PyErr_Format(PyExc_TypeError,
                   "assigned grad expected to be a Tensor or None but got grad of type %s",
                   Py_TYPE(value)->tp_name);
      throw PythonErrorSet();
    }
    PELLUCID_CHECK(value != s, AutogradError, "can't assign Tensor as its own grad");
    tensor_of(s).set_grad(tensor_of(value));
    remember(value);
    return 0;
  });
}
PyObject* get_grad_fn(PyObject* s, void*) {
  track(s);  // hooks of the node may come to hold this tensor
  return get(s, [](const Tensor& t) { return wrap_node(t.grad_fn()); });
}
PyObject* get_data(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return wrap(t.data()); });
}
int set_data(PyObject* s, PyObject* value, void*) {
  return guarded([&] {
    need_value(value, "data");
    if (!is_tensor(value)) {
      PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s",
                   Py_TYPE(value)->tp_name);
      throw PythonErrorSet();
    }
    tensor_of(s).set_data(tensor_of(value));
    return 0;
  });
}
PyObject* get_base(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return wrap_known(t._base()); });
}
PyObject* get_version(PyObject* s, void*) {
  return get(s, [](const Tensor& t) {
    PELLUCID_CHECK(!t.is_inference(), AutogradError,
                   "Inference tensors do not track version counter.");
    return PyLong_FromUnsignedLong(t._version());
  });
}
PyObject* get_output_nr(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return PyLong_FromUnsignedLong(t.output_nr()); });
}
PyObject* get_retains_grad(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return PyBool_FromLong(t.retains_grad()); });
}
PyObject* get_name(PyObject* s, void*) {
  return get(s, [](const Tensor& t) { return PyUnicode_FromString(t.name().c_str()); });
}
int set_name(PyObject* s, PyObject* value, void*) {
  return guarded([&] {
    need_value(value, "name");
    const char* text = PyUnicode_AsUTF8(value);
    if (!text) throw PythonErrorSet();
    tensor_of(s).set_name(text);
    return 0;
  });
}

PyObject* get_dict(PyObject* s, void* context) {
  track(s);
  return PyObject_GenericGetDict(s, context);
}

PyObject* item(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return make_number(t.item()); });
}
PyObject* tolist(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return to_list(t); });
}
PyObject* numel(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return PyLong_FromLongLong(t.numel()); });
}
PyObject* dim(PyObject* s, PyObject*) { return get_ndim(s, nullptr); }
PyObject* data_ptr(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return PyLong_FromVoidPtr(t.data_ptr()); });
}
PyObject* storage_offset(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return PyLong_FromLongLong(t.storage_offset()); });
}
PyObject* storage_key(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return PyLong_FromVoidPtr(t.impl().storage.get()); });
}
PyObject* retain_grad(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) -> PyObject* {
    t.retain_grad();
    Py_RETURN_NONE;
  });
}
PyObject* detach_in_place(PyObject* s, PyObject*) {
  return get(s, [&](const Tensor& t) {
    t.detach_();
    return Py_NewRef(s);
  });
}
PyObject* dlpack(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return to_dlpack(t); });
}
PyObject* identity(PyObject* s, PyObject*) {
  return get(s, [](const Tensor& t) { return PyLong_FromVoidPtr(t.impl_ref().get()); });
}

// size() and stride(), or of one dim.
template <bool strides> PyObject* extent(PyObject* s, PyObject* args, PyObject* kwargs) {
  return get(s, [&](const Tensor& t) -> PyObject* {
    static const char* names[] = {"dim", nullptr};
    PyObject* which = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &which))
      return nullptr;
    if (which == Py_None) {
      if (!strides) return make_size(t.sizes());
      PyObject* size = make_size(t.strides());
      PyObject* plain = size ? PySequence_List(size) : nullptr;
      Py_XDECREF(size);
      PyObject* tuple = plain ? PyList_AsTuple(plain) : nullptr;
      Py_XDECREF(plain);
      return tuple;
    }
    int64_t d;
    if (!to_int(which, d)) {
      PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' must be int, not %s",
                   strides ? "stride" : "size", Py_TYPE(which)->tp_name);
      return nullptr;
    }
    return PyLong_FromLongLong(strides ? t.stride(d) : t.size(d));
  });
}

PyObject* is_contiguous(PyObject* s, PyObject* args, PyObject* kwargs) {
  return get(s, [&](const Tensor& t) -> PyObject* {
    static const char* names[] = {"memory_format", nullptr};
    PyObject* format = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O!", const_cast<char**>(names), format_type,
                                     &format))
      return nullptr;
    return PyBool_FromLong(t.is_contiguous(format ? reinterpret_cast<FormatObject*>(format)->format
                                                  : MemoryFormat::Contiguous));
  });
}

PyObject* requires_grad_in_place(PyObject* s, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"requires_grad", nullptr};
  int on = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", const_cast<char**>(names), &on))
    return nullptr;
  if (set_requires_grad(s, on ? Py_True : Py_False, nullptr) < 0) return nullptr;
  return Py_NewRef(s);
}

// x.to(dtype): the conversion itself; devices and other forms are sorted out in Python.
PyObject* convert(PyObject* s, PyObject* args) {
  return get(s, [&](const Tensor& t) -> PyObject* {
    PyObject *dtype = Py_None, *format = Py_None;
    int copy = 0;
    if (!PyArg_ParseTuple(args, "O|pO", &dtype, &copy, &format)) return nullptr;
    DType wanted = t.dtype();
    if (dtype != Py_None && !to_dtype(dtype, wanted)) {
      PyErr_Format(PyExc_TypeError, "to(): argument 'dtype' must be torch.dtype, not %s",
                   Py_TYPE(dtype)->tp_name);
      return nullptr;
    }
    std::optional<MemoryFormat> layout;
    if (format != Py_None) layout = reinterpret_cast<FormatObject*>(format)->format;
    const Tensor* inputs[1] = {&t};
    Tensor result;
    {
      const MayRelease unlocked(worth_releasing(inputs, OpKind::Pointwise));
      result = t.to(wanted, false, copy != 0, layout);
    }
    return result.is_same(t) ? Py_NewRef(s) : wrap(std::move(result));
  });
}

PyCFunction keywords(PyObject* (*f)(PyObject*, PyObject*, PyObject*)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

}  // namespace

PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, nullptr, "The sizes.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type.", nullptr},
    {"ndim", get_ndim, nullptr, "How many dimensions it has.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether a gradient may be asked for.",
     nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether it is no result of a tracked op.", nullptr},
    {"grad", get_grad, set_grad, "The accumulated gradient, or None.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that computed it, or None.", nullptr},
    {"data", get_data, set_data, "The same values without history.", nullptr},
    {"_base", get_base, nullptr, "The tensor that a view looks at, or None.", nullptr},
    {"_version", get_version, nullptr, "How often the storage was changed in place.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which result of grad_fn it is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether retain_grad() was called.", nullptr},
    {"name", get_name, set_name, "The name that graph pictures show.", nullptr},
    {"__dict__", get_dict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef tensor_methods[] = {
    {"item", item, METH_NOARGS, "The value of a tensor with one element."},
    {"tolist", tolist, METH_NOARGS, "Nested lists of numbers."},
    {"numel", numel, METH_NOARGS, "How many elements it has."},
    {"nelement", numel, METH_NOARGS, "How many elements it has."},
    {"dim", dim, METH_NOARGS, "How many dimensions it has."},
    {"ndimension", dim, METH_NOARGS, "How many dimensions it has."},
    {"size", keywords(extent<false>), METH_VARARGS | METH_KEYWORDS, "The sizes, or one of them."},
    {"stride", keywords(extent<true>), METH_VARARGS | METH_KEYWORDS,
     "The steps between elements, or one of them."},
    {"is_contiguous", keywords(is_contiguous), METH_VARARGS | METH_KEYWORDS,
     "Whether the elements lie in order."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"storage_offset", storage_offset, METH_NOARGS, "The first element's place in the storage."},
    {"_storage_key", storage_key, METH_NOARGS, "The same number for tensors that share memory."},
    {"_identity", identity, METH_NOARGS, "The same number for objects of one tensor."},
    {"requires_grad_", keywords(requires_grad_in_place), METH_VARARGS | METH_KEYWORDS,
     "Sets whether a gradient may be asked for."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of a result too."},
    {"detach_", detach_in_place, METH_NOARGS, "Cuts the tensor from its history."},
    {"_dlpack", dlpack, METH_NOARGS, "A DLPack capsule."},
    {"_convert", convert, METH_VARARGS, "_convert(dtype, copy, memory_format)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace pellucid::python
