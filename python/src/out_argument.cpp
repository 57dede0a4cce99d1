// out= is a way to write a call, not a way to save memory: the op runs as always and its result is
// copied. PyTorch's checks of dtype, of gradients and of shared memory are kept.
#include "out_argument.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor/storage.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

Py_ssize_t place_of_out(PyObject* names) {
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "out") == 0) return i;
  return -1;
}

/// Of a call: what it read, and whether `out` must have the result's dtype.
struct Read {
  std::vector<Tensor> tensors;
  bool same_dtype;
};

void collect(PyObject* argument, std::vector<Tensor>& into) {
  if (is_tensor(argument)) {
    into.push_back(tensor_of(argument));
  } else if (PyList_Check(argument) || PyTuple_Check(argument)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(argument); ++i)
      collect(PySequence_Fast_GET_ITEM(argument, i), into);
  }
}

/// The first byte and the one behind the last, counted in the storage.
std::pair<int64_t, int64_t> extent(const Tensor& t) {
  int64_t first = t.storage_offset(), last = first;
  for (int64_t d = 0; d < t.dim(); ++d)
    (t.stride(d) < 0 ? first : last) += t.stride(d) * (t.size(d) - 1);
  const int64_t bytes = t.element_size();  // a view of another dtype counts in its own
  return {first * bytes, (last + 1) * bytes};
}

bool share_elements(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_first, a_end] = extent(a);
  const auto [b_first, b_end] = extent(b);
  return a_first < b_end && b_first < a_end;
}

/// Writing over exactly what was read is fine; over a part of it, or changing its size, is not.
void check_memory(const Tensor& to, const Tensor& result, const Read& read) {
  for (int64_t d = 0; d < to.dim(); ++d)
    PELLUCID_CHECK(to.size(d) <= 1 || to.stride(d) != 0, ValueError,
                   "unsupported operation: more than one element of the written-to tensor refers "
                   "to a single memory location. Give out=x.clone().");
  for (const Tensor& t : read.tensors) {
    if (!t.is_alias_of(to)) continue;
    const bool resized = result.sizes() != to.sizes();
    const bool all = t.sizes() == to.sizes() && t.strides() == to.strides() &&
                     t.storage_offset() == to.storage_offset() && t.dtype() == to.dtype();
    PELLUCID_CHECK(!resized && (all || !share_elements(t, to)), ValueError,
                   "unsupported operation: some elements of the input tensor and the written-to "
                   "tensor refer to a single memory location. Give out=x.clone().");
  }
}

void write(PyObject* out, PyObject* result, const Read& read) {
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
  PELLUCID_CHECK(!read.same_dtype || from.dtype() == to.dtype(), TypeError,
                 "Expected out tensor to have dtype {}, but got {} instead.", from.dtype(),
                 to.dtype());
  check_memory(to, from, read);
  // In its own storage, as in PyTorch: views and arrays that look at it see the result.
  detail::resize_tensor(to, from.sizes());
  Tensor(to).copy_(from);
}

void write_all(PyObject* out, PyObject* result, const Read& read) {
  if (is_tensor(result)) return write(out, result, read);
  PELLUCID_CHECK(PyTuple_Check(result) && PyTuple_Check(out) &&
                     PyTuple_GET_SIZE(out) == PyTuple_GET_SIZE(result),
                 TypeError, "out: must be a tuple of as many tensors as the function returns.");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(out); ++i)
    write(PyTuple_GET_ITEM(out, i), PyTuple_GET_ITEM(result, i), read);
}

// Those that pick elements write them as they are.
// op list: what PyTorch's out= wants the very dtype for is no property that an op definition has.
bool needs_same_dtype(PyObject* function_name) {
  constexpr std::string_view kNames[] = {"aminmax",       "gather",      "index_select",
                                         "masked_select", "multinomial", "take"};
  return std::find(std::begin(kNames), std::end(kNames), PyUnicode_AsUTF8(function_name)) !=
         std::end(kNames);
}

}  // namespace

bool has_out(PyObject* names) { return place_of_out(names) >= 0; }

PyObject* call_with_out(PyObject* function, PyObject* name, PyObject* const* args, size_t count,
                        PyObject* names) {
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
    Read read{{}, needs_same_dtype(name)};
    for (PyObject* argument : others) collect(argument, read.tensors);
    write_all(out, result, read);
    return 0;
  });
  Py_DECREF(result);
  return failed ? nullptr : Py_NewRef(out);
}

}  // namespace pellucid::python
