// x[key] and x[key] = value: every kind of index that Python allows becomes a TensorIndex. Lists
// and NumPy arrays are made tensors first, as PyTorch does.
#include "pellucid/indexing.h"

#include "arguments.h"
#include "from_data.h"
#include "op_function.h"
#include "pellucid/ops.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

using indexing::Slice;
using indexing::TensorIndex;

std::optional<int64_t> bound_of(PyObject* o) {
  if (o == Py_None) return std::nullopt;
  int64_t value;
  if (!to_int(o, value)) {
    PyErr_SetString(PyExc_TypeError,
                    "slice indices must be integers or None or have an __index__ method");
    throw PythonErrorSet();
  }
  return value;
}

TensorIndex slice_of(PyObject* o) {
  auto* s = reinterpret_cast<PySliceObject*>(o);
  const std::optional<int64_t> step = bound_of(s->step);
  PELLUCID_CHECK(!step || *step > 0, ValueError, "step must be greater than zero");
  return Slice(bound_of(s->start), bound_of(s->stop), step);
}

TensorIndex entry_of(PyObject* o) {
  if (PyLong_CheckExact(o)) {
    int64_t value;
    to_int(o, value);
    return value;
  }
  if (o == Py_None) return std::nullopt;
  if (o == Py_Ellipsis) return indexing::Ellipsis;
  if (PyBool_Check(o)) return o == Py_True;
  if (PySlice_Check(o)) return slice_of(o);
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    PELLUCID_CHECK(is_integral(t.dtype(), true), IndexError,
                   "tensors used as indices must be long, int, byte or bool tensors");
    return t;
  }
  int64_t value;
  if (!PyList_Check(o) && !PyTuple_Check(o) && to_int(o, value)) return value;
  if (PyList_Check(o) || PyTuple_Check(o) || PyObject_CheckBuffer(o)) {
    Tensor t = tensor_from(o, std::nullopt);
    if (t.numel() == 0) t = t.to(kInt64);  // x[[]]
    PELLUCID_CHECK(is_integral(t.dtype(), true), IndexError,
                   "tensors used as indices must be long, int, byte or bool tensors");
    return t;
  }
  detail::raise<IndexError>(
      "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
      "indices (got {})",
      Py_TYPE(o)->tp_name);
}

std::vector<TensorIndex> entries_of(PyObject* key) {
  std::vector<TensorIndex> entries;
  if (!PyTuple_Check(key)) {
    entries.push_back(entry_of(key));
    return entries;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(key);
  entries.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) entries.push_back(entry_of(PyTuple_GET_ITEM(key, i)));
  return entries;
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (PyLong_CheckExact(key)) {
      int64_t i;
      to_int(key, i);
      PELLUCID_CHECK(t.dim() > 0, IndexError,
                     "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a "
                     "0-dim tensor to a number");
      PELLUCID_CHECK(i >= -t.sizes()[0] && i < t.sizes()[0], IndexError,
                     "index {} is out of bounds for dimension 0 with size {}", i, t.sizes()[0]);
      return wrap(t.select(0, i));
    }
    const std::vector<TensorIndex> entries = entries_of(key);
    const Tensor* inputs[1] = {&t};
    Tensor result;
    {
      const MayRelease unlocked(worth_releasing(inputs, OpKind::Index));
      result = t.index(entries);
    }
    return wrap(std::move(result));
  });
}

int tensor_setitem(PyObject* self, PyObject* key, PyObject* value) {
  return guarded([&] {
    if (!value) {
      PyErr_SetString(PyExc_TypeError, "'Tensor' object doesn't support item deletion");
      throw PythonErrorSet();
    }
    const Tensor& t = tensor_of(self);
    const std::vector<TensorIndex> entries = entries_of(key);
    if (is_number(value)) {
      t.index_put_(entries, to_scalar(value));
      return 0;
    }
    const Tensor from = is_tensor(value) ? tensor_of(value) : tensor_from(value, t.dtype());
    const Tensor* inputs[1] = {&t};
    const MayRelease unlocked(worth_releasing(inputs, OpKind::Index));
    t.index_put_(entries, from);
    return 0;
  });
}

}  // namespace pellucid::python
