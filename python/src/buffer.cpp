// The buffer protocol both ways: memoryview(x) and numpy.asarray(x) look at the tensor's memory,
// and a tensor can look at the memory of an array. Each keeps the other's memory alive; nothing is
// copied.
#include <memory>

#include "from_data.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "tensor/storage.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

// struct's letters by DType; bfloat16 has none.
constexpr const char* kFormats[kDTypeCount] = {"B", "b", "h", "i", "q",
                                               "e", "f", "d", "?", nullptr};

// What a buffer of a tensor keeps: the sizes it speaks of, and the memory itself, whatever the
// tensor becomes meanwhile.
struct Exported {
  std::vector<Py_ssize_t> sizes, strides;
  detail::ExportedStorage storage;
};

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (!format) return kUInt8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  switch (*format) {
    case '?':
      return kBool;
    case 'B':
      return kUInt8;
    case 'b':
      return kInt8;
    case 'h':
      return kInt16;
    case 'e':
      return kFloat16;
    case 'f':
      return kFloat32;
    case 'd':
      return kFloat64;
    case 'i':
    case 'l':
    case 'q':
      return itemsize == 8 ? kInt64 : kInt32;
    default:
      return std::nullopt;
  }
}

// Releases a buffer of another object, from whatever thread drops the tensor last.
struct BufferOwner {
  Py_buffer view{};
  bool held = false;
  ~BufferOwner() {
    if (!held || !Py_IsInitialized()) return;
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyBuffer_Release(&view);
    PyGILState_Release(gil);
  }
};

void take_buffer(PyObject* object, BufferOwner& owner) {
  if (PyObject_GetBuffer(object, &owner.view, PyBUF_FULL) < 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(object, &owner.view, PyBUF_FULL_RO) < 0) throw PythonErrorSet();
    owner.held = true;
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "The given NumPy array is not writable, and PyTorch does not support "
                     "non-writable tensors: writing to the tensor changes the array.",
                     1) < 0)
      throw PythonErrorSet();
  }
  owner.held = true;
}

}  // namespace

std::optional<DType> dtype_of_buffer(PyObject* object) {
  Py_buffer view;
  if (!PyObject_CheckBuffer(object) || PyObject_GetBuffer(object, &view, PyBUF_FORMAT) < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::optional<DType> found = dtype_of_format(view.format, view.itemsize);
  PyBuffer_Release(&view);
  return found;
}

Tensor tensor_over_buffer(PyObject* object) {
  const auto owner = std::make_shared<BufferOwner>();
  take_buffer(object, *owner);
  const Py_buffer& v = owner->view;
  const std::optional<DType> dtype = dtype_of_format(v.format, v.itemsize);
  PELLUCID_CHECK(
      dtype, TypeError,
      "can't convert a buffer with elements of format '{}'. The only supported types are: "
      "float64, float32, float16, int64, int32, int16, int8, uint8, and bool.",
      v.format);
  Dims sizes, strides;
  for (int i = 0; i < v.ndim; ++i) {
    sizes.push_back(v.shape[i]);
    const Py_ssize_t step = v.strides ? v.strides[i] : 0;
    PELLUCID_CHECK(step >= 0 || v.shape[i] <= 1, ValueError,
                   "At least one stride in the given numpy array is negative, and tensors with "
                   "negative strides are not currently supported. (You can probably work around "
                   "this by making a copy of your array with array.copy().)");
    PELLUCID_CHECK(step % v.itemsize == 0, ValueError,
                   "given numpy array strides not a multiple of the element byte size. Copy the "
                   "numpy array to reallocate the memory.");
    strides.push_back(step / v.itemsize);
  }
  if (!v.strides) strides = detail::contiguous_strides(sizes);
  return from_blob(
      v.buf, sizes, strides, [owner](void*) {}, TensorOptions(*dtype));
}

int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    PELLUCID_CHECK(!(t.requires_grad() && autograd::GradMode::is_enabled()), AutogradError,
                   "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                   "instead.");
    const char* format = kFormats[static_cast<int>(t.dtype())];
    PELLUCID_CHECK(format, TypeError, "Got unsupported ScalarType BFloat16");
    t.expose();
    if (!(flags & PyBUF_STRIDES) && !t.is_contiguous()) {
      PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
      throw PythonErrorSet();
    }
    void* const data = t.data_ptr();
    std::unique_ptr<Exported> shape(
        new Exported{{}, {}, detail::ExportedStorage(t.impl().storage)});
    for (const int64_t n : t.sizes()) shape->sizes.push_back(n);
    for (const int64_t n : t.strides()) shape->strides.push_back(n * t.element_size());
    view->buf = data;
    view->len = static_cast<Py_ssize_t>(t.nbytes());
    view->readonly = 0;
    view->itemsize = t.element_size();
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->ndim = static_cast<int>(t.dim());
    view->shape = flags & PyBUF_ND ? shape->sizes.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? shape->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = shape.release();
    view->obj = Py_NewRef(self);
    return 0;
  });
}

void tensor_releasebuffer(PyObject*, Py_buffer* view) {
  delete static_cast<Exported*>(view->internal);
}

}  // namespace pellucid::python
