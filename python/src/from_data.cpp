// torch.tensor(data): two walks over nested sequences, one for sizes and dtype, one to fill.
#include "from_data.h"

#include "arguments.h"
#include "ops/new_values.h"
#include "ops/number_range.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

bool is_sequence(PyObject* o) {
  return PyList_Check(o) || PyTuple_Check(o) ||
         (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o));
}

// A sequence whose items can be read directly; owns it.
class Items {
 public:
  explicit Items(PyObject* o) : fast_(PySequence_Fast(o, "a sequence was expected")) {
    if (!fast_) throw PythonErrorSet();
  }
  ~Items() { Py_DECREF(fast_); }
  Items(const Items&) = delete;
  Py_ssize_t size() const { return PySequence_Fast_GET_SIZE(fast_); }
  PyObject* operator[](Py_ssize_t i) const { return PySequence_Fast_GET_ITEM(fast_, i); }

 private:
  PyObject* fast_;
};

// What the values of nested sequences have in common.
struct Facts {
  Dims sizes;
  std::optional<DType> dtype;  ///< of the leaves seen so far
  bool tensors = false;        ///< some leaf is a tensor or array of more than one element

  void see(DType t) { dtype = dtype ? promote_types(*dtype, t) : t; }
};

void see_leaf(PyObject* o, Facts& facts) {
  // A NumPy number has a dtype of its own, also np.float64, which is a Python float too.
  const auto own = !PyFloat_CheckExact(o) && !PyLong_CheckExact(o) && !is_tensor(o) && is_number(o)
                       ? dtype_of_buffer(o)
                       : std::nullopt;
  if (own)
    facts.see(*own);
  else if (is_tensor(o))
    facts.see(tensor_of(o).dtype());
  else if (PyBool_Check(o))
    facts.see(kBool);
  else if (PyFloat_Check(o))
    facts.see(get_default_dtype());
  else if (PyLong_Check(o))
    facts.see(kInt64);
  else if (is_number(o)) {
    const Scalar s = to_scalar(o);
    facts.see(s.isFloatingPoint() ? get_default_dtype() : s.type());
  } else {
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
    throw PythonErrorSet();
  }
}

void measure(PyObject* o, size_t depth, bool first, Facts& facts) {
  const bool array = is_tensor(o) && tensor_of(o).dim() > 0;
  if (!array && !is_sequence(o)) {
    PELLUCID_CHECK(depth == facts.sizes.size(), ValueError,
                   "expected sequence of length {} at dim {} (got {})",
                   depth < facts.sizes.size() ? facts.sizes[depth] : 0, depth, "a number");
    see_leaf(o, facts);
    return;
  }
  PELLUCID_CHECK(depth < 64, ValueError, "too many dimensions '{}'", Py_TYPE(o)->tp_name);
  if (array) facts.see(tensor_of(o).dtype());
  const Items* items = nullptr;
  std::optional<Items> owned;
  int64_t n = 0;
  if (array) {
    n = tensor_of(o).size(0);
  } else {
    items = &owned.emplace(o);
    n = items->size();
  }
  if (first && depth == facts.sizes.size()) facts.sizes.push_back(n);
  PELLUCID_CHECK(depth < facts.sizes.size(), ValueError,
                 "expected a number at dim {} (got a sequence of length {})", depth, n);
  PELLUCID_CHECK(facts.sizes[depth] == n, ValueError,
                 "expected sequence of length {} at dim {} (got {})", facts.sizes[depth], depth, n);
  if (array) {
    const IntArrayRef rest = tensor_of(o).sizes();
    for (size_t i = 1; i < rest.size(); ++i) {
      if (facts.sizes.size() <= depth + i) facts.sizes.push_back(rest[i]);
      PELLUCID_CHECK(facts.sizes[depth + i] == rest[i], ValueError,
                     "expected sequence of length {} at dim {} (got {})", facts.sizes[depth + i],
                     depth + i, rest[i]);
    }
    facts.tensors = true;
    return;
  }
  for (Py_ssize_t i = 0; i < n; ++i) measure((*items)[i], depth + 1, first && i == 0, facts);
}

Scalar leaf_value(PyObject* o) { return is_tensor(o) ? tensor_of(o).item() : to_scalar(o); }

// `dtype` is what the values will be converted to; T is wide enough for all of its kind.
template <class T> T* fill(PyObject* o, DType dtype, T* to) {
  if (is_tensor(o) && tensor_of(o).dim() > 0) {
    const Tensor t = tensor_of(o).to(DTypeOf<T>::value).contiguous();
    const T* from = t.const_data_ptr<T>();
    return std::copy(from, from + t.numel(), to);
  }
  if (!is_sequence(o)) {
    const Scalar value = leaf_value(o);
    check_fits("tensor", value, dtype);
    *to = value.to<T>();
    return to + 1;
  }
  const Items items(o);
  for (Py_ssize_t i = 0; i < items.size(); ++i) to = fill(items[i], dtype, to);
  return to;
}

Tensor from_sequences(PyObject* data, std::optional<DType> asked) {
  Facts facts;
  measure(data, 0, true, facts);
  const DType dtype = asked.value_or(facts.dtype.value_or(get_default_dtype()));
  // Values are written as the widest type of their kind, then converted: no conversion is written
  // here.
  const DType raw = dtype == kFloat32 || dtype == kInt64 || dtype == kBool ? dtype
                    : is_floating(facts.dtype.value_or(kFloat64))          ? kFloat64
                                                                           : kInt64;
  const Tensor t = detail::new_values(facts.sizes.ref(), raw);
  if (t.numel() > 0) {
    if (raw == kFloat32)
      fill(data, dtype, t.raw<float>());
    else if (raw == kFloat64)
      fill(data, dtype, t.raw<double>());
    else if (raw == kInt64)
      fill(data, dtype, t.raw<int64_t>());
    else
      fill(data, dtype, t.raw<bool>());
  }
  return t.to(dtype);
}

PyObject* list_of(const Tensor& t, size_t depth, const char* data) {
  const detail::TensorImpl& impl = t.impl();
  if (depth == impl.sizes.size()) {
    return visit(impl.dtype, [&](auto v) -> PyObject* {
      return make_number(Scalar(*reinterpret_cast<const decltype(v)*>(data)));
    });
  }
  const int64_t n = impl.sizes[depth], step = impl.strides[depth] * t.element_size();
  PyObject* list = PyList_New(n);
  for (int64_t i = 0; list && i < n; ++i)
    PyList_SET_ITEM(list, i, list_of(t, depth + 1, data + i * step));
  return list;
}

}  // namespace

Tensor tensor_from(PyObject* data, std::optional<DType> dtype) {
  const autograd::NoGradGuard off;
  if (is_tensor(data))
    return tensor_of(data).detach().to(dtype.value_or(tensor_of(data).dtype()), false, true);
  if (PyObject_CheckBuffer(data) && !PyBytes_Check(data) && !is_number(data)) {
    const Tensor over = tensor_over_buffer(data);
    return over.to(dtype.value_or(over.dtype()), false, true, MemoryFormat::Contiguous);
  }
  return from_sequences(data, dtype);
}

PyObject* to_list(const Tensor& t) {
  t.expose();
  return list_of(t, 0, static_cast<const char*>(t.raw_data()));
}

}  // namespace pellucid::python
