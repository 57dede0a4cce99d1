// DLPack's structures (its ABI, version 0) and the capsules around them.
#include "dlpack.h"

#include <memory>

#include "pellucid/creation.h"
#include "tensor/storage.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

struct DLDevice {
  int32_t type;
  int32_t id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

enum Code : uint8_t { kInt = 0, kUInt = 1, kFloatCode = 2, kBfloat = 4, kBoolCode = 6 };
constexpr int32_t kCpuDevice = 1;

DLDataType type_of(DType t) {
  const auto bits = static_cast<uint8_t>(element_size(t) * 8);
  if (t == kBool) return {kBoolCode, 8, 1};
  if (t == kBFloat16) return {kBfloat, 16, 1};
  return {static_cast<uint8_t>(is_floating(t) ? kFloatCode : t == kUInt8 ? kUInt : kInt), bits, 1};
}

DType dtype_from(DLDataType t) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DLDataType mine = type_of(static_cast<DType>(i));
    if (mine.code == t.code && mine.bits == t.bits && t.lanes == 1) return static_cast<DType>(i);
  }
  detail::raise<TypeError>("from_dlpack: unsupported type with code {}, {} bits and {} lanes.",
                           t.code, t.bits, t.lanes);
}

// What a capsule keeps alive: the memory itself, whatever the tensor becomes meanwhile.
struct Exported {
  explicit Exported(const Tensor& t)
      : storage(t.impl().storage), sizes(t.sizes()), strides(t.strides()) {}
  DLManagedTensor managed{};
  detail::ExportedStorage storage;
  Dims sizes, strides;
};

void free_exported(DLManagedTensor* m) { delete static_cast<Exported*>(m->context); }

void capsule_destructor(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // a consumer took it over
  auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (m && m->deleter) m->deleter(m);
}

}  // namespace

PyObject* to_dlpack(const Tensor& t) {
  PELLUCID_CHECK(!t.requires_grad(), AutogradError,
                 "Can't export tensors that require gradient, use tensor.detach()");
  t.expose();
  void* const data = t.data_ptr();
  auto exported = std::make_unique<Exported>(t);
  exported->managed = {{data,
                        {kCpuDevice, 0},
                        static_cast<int32_t>(t.dim()),
                        type_of(t.dtype()),
                        exported->sizes.data(),
                        exported->strides.data(),
                        0},
                       exported.get(),
                       free_exported};
  PyObject* capsule = PyCapsule_New(&exported->managed, "dltensor", capsule_destructor);
  if (capsule) exported.release();
  return capsule;
}

Tensor from_dlpack(PyObject* capsule) {
  auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (!m) throw PythonErrorSet();
  const DLTensor& d = m->tensor;
  PELLUCID_CHECK(d.device.type == kCpuDevice, ValueError,
                 "from_dlpack: the tensor is on device type {}, but only the CPU's memory can be "
                 "shared.",
                 d.device.type);
  const DType dtype = dtype_from(d.dtype);
  const Dims sizes(IntArrayRef(d.shape, static_cast<size_t>(d.ndim)));
  const Dims strides = d.strides ? Dims(IntArrayRef(d.strides, static_cast<size_t>(d.ndim)))
                                 : detail::contiguous_strides(sizes);
  char* data = static_cast<char*>(d.data) + d.byte_offset;
  if (PyCapsule_SetName(capsule, "used_dltensor") < 0) throw PythonErrorSet();
  return from_blob(
      data, sizes, strides,
      [m](void*) {
        if (!m->deleter || !Py_IsInitialized()) return;
        const PyGILState_STATE gil = PyGILState_Ensure();
        m->deleter(m);
        PyGILState_Release(gil);
      },
      TensorOptions(dtype));
}

}  // namespace pellucid::python
