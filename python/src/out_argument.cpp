// out= is a way to write a call, not a way to save memory: the op runs as always and its result is
// copied. PyTorch's checks of dtype and of gradients are kept.
#include "out_argument.h"

#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

Py_ssize_t place_of_out(PyObject* names) {
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "out") == 0) return i;
  return -1;
}

void write(PyObject* out, PyObject* result) {
  PELLUCID_CHECK(is_tensor(out), TypeError, "out: must be a Tensor, not {}.",
                 Py_TYPE(out)->tp_name);
  const Tensor& from = tensor_of(result);
  const Tensor& to = tensor_of(out);
  PELLUCID_CHECK(!from.requires_grad() && !to.requires_grad(), AutogradError,
                 "out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad; assign the result instead.");
  PELLUCID_CHECK(can_cast(from.dtype(), to.dtype()), TypeError,
                 "out: result type {} can't be cast to the desired output type {}.", from.dtype(),
                 to.dtype());
  if (from.sizes() == to.sizes())
    Tensor(to).copy_(from);
  else
    Tensor(to).set_data(from.to(to.dtype()));
}

void write_all(PyObject* out, PyObject* result) {
  if (is_tensor(result)) return write(out, result);
  PELLUCID_CHECK(PyTuple_Check(result) && PyTuple_Check(out) &&
                     PyTuple_GET_SIZE(out) == PyTuple_GET_SIZE(result),
                 TypeError, "out: must be a tuple of as many tensors as the function returns.");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(out); ++i)
    write(PyTuple_GET_ITEM(out, i), PyTuple_GET_ITEM(result, i));
}

}  // namespace

bool has_out(PyObject* names) { return place_of_out(names) >= 0; }

PyObject* call_with_out(PyObject* function, PyObject* const* args, size_t count, PyObject* names) {
  const Py_ssize_t place = place_of_out(names), keywords = PyTuple_GET_SIZE(names);
  std::vector<PyObject*> others(args, args + count + keywords);
  PyObject* out = others[count + static_cast<size_t>(place)];
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(count) + place);
  PyObject* left = PyTuple_New(keywords - 1);
  if (!left) return nullptr;
  for (Py_ssize_t i = 0, to = 0; i < keywords; ++i)
    if (i != place) PyTuple_SET_ITEM(left, to++, Py_NewRef(PyTuple_GET_ITEM(names, i)));
  PyObject* result = PyObject_Vectorcall(function, others.data(), count, left);
  Py_DECREF(left);
  if (!result || out == Py_None) return result;
  const int failed = guarded([&]() -> int {
    write_all(out, result);
    return 0;
  });
  Py_DECREF(result);
  return failed ? nullptr : Py_NewRef(out);
}

}  // namespace pellucid::python
