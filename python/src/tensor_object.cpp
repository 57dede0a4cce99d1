// The Tensor, Size, dtype and memory_format types, and which object stands for which tensor.
#include "tensor_object.h"

#include <structmember.h>

#include <unordered_map>

#include "arguments.h"
#include "collect.h"
#include "from_data.h"
#include "pellucid/ops.h"

namespace pellucid::python {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* size_type = nullptr;
PyTypeObject* dtype_type = nullptr;
PyTypeObject* format_type = nullptr;

namespace {

PyObject* dtype_objects[kDTypeCount];
PyObject* format_objects[3];

// Objects of leaves and gradients, so that a tensor reached through the graph is the same object.
// Borrowed: an object leaves the map when it dies.
std::unordered_map<const detail::TensorImpl*, PyObject*>& known() {
  static auto& map = *new std::unordered_map<const detail::TensorImpl*, PyObject*>;
  return map;
}

void tensor_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  PyObject_GC_UnTrack(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  if (o->registered) known().erase(o->tensor.impl_ref().get());
  Py_CLEAR(o->dict);
  o->tensor.~Tensor();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Tensor(): empty; Tensor(2, 3) and Tensor(size): uninitialised; Tensor(data): of the default
// dtype; Tensor(tensor): the same tensor, which is how subclasses such as Parameter are made.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    if (kwargs && PyDict_GET_SIZE(kwargs) > 0 && type == tensor_type) {
      PyErr_SetString(PyExc_TypeError, "Tensor() takes no keyword arguments; use tensor()");
      return nullptr;
    }
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n == 0) return wrap_as(type, empty({0}));
    PyObject* first = PyTuple_GET_ITEM(args, 0);
    if (n == 1 && is_tensor(first)) return wrap_as(type, tensor_of(first));
    Dims sizes;
    int64_t size = 0;
    PyObject* list = n == 1 && Py_TYPE(first) == size_type ? first : args;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
      if (!to_int(PyTuple_GET_ITEM(list, i), size)) {
        if (n == 1) return wrap_as(type, tensor_from(first, get_default_dtype()));
        PyErr_Format(PyExc_TypeError, "Tensor(): sizes must be ints, not %s",
                     Py_TYPE(PyTuple_GET_ITEM(list, i))->tp_name);
        return nullptr;
      }
      sizes.push_back(size);
    }
    return wrap_as(type, empty(sizes.ref()));
  });
}

Py_ssize_t tensor_length(PyObject* self) {
  return guarded([&]() -> Py_ssize_t {
    const Tensor& t = tensor_of(self);
    if (t.dim() == 0) {
      PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
      return -1;
    }
    return t.sizes()[0];
  });
}

PyObject* tensor_repr(PyObject* self) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    if (!t.defined()) return PyUnicode_FromString("tensor([])");
    const std::string text = t.toString();
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

// The first attribute makes the tensor one that may be part of a cycle.
int tensor_setattr(PyObject* self, PyObject* name, PyObject* value) {
  const int result = PyObject_GenericSetAttr(self, name, value);
  if (reinterpret_cast<TensorObject*>(self)->dict) track(self);
  return result;
}

Py_hash_t tensor_hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4);
}

PyMemberDef tensor_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyObject* dtype_repr(PyObject* self) {
  const std::string text = "torch." + std::string(name_of(dtype_of_object(self)));
  return PyUnicode_FromString(text.c_str());
}

PyObject* dtype_is_floating(PyObject* self, void*) {
  return PyBool_FromLong(is_floating(dtype_of_object(self)));
}
PyObject* dtype_is_complex(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* dtype_is_signed(PyObject* self, void*) {
  const DType t = dtype_of_object(self);
  return PyBool_FromLong(t != kBool && t != kUInt8);
}
PyObject* dtype_itemsize(PyObject* self, void*) {
  return PyLong_FromLongLong(element_size(dtype_of_object(self)));
}

PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_is_floating, nullptr, "Whether it is a floating type.", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "False: there are no complex types.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "Whether it holds negative numbers.", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes of one element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* format_repr(PyObject* self) {
  static constexpr const char* names[] = {"torch.contiguous_format", "torch.preserve_format",
                                          "torch.channels_last"};
  return PyUnicode_FromString(
      names[static_cast<int>(reinterpret_cast<FormatObject*>(self)->format)]);
}

PyObject* size_repr(PyObject* self) {
  PyObject* list = PySequence_List(self);
  if (!list) return nullptr;
  PyObject* text = PyUnicode_FromFormat("torch.Size(%R)", list);
  Py_DECREF(list);
  return text;
}

PyObject* size_numel(PyObject* self, PyObject*) {
  long long n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i)
    n *= PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
  return PyErr_Occurred() ? nullptr : PyLong_FromLongLong(n);
}

PyObject* size_subscript(PyObject* self, PyObject* key) {
  PyObject* part = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
  if (!part || !PyTuple_CheckExact(part)) return part;
  PyObject* args = PyTuple_Pack(1, part);
  Py_DECREF(part);
  if (!args) return nullptr;
  PyObject* size = PyTuple_Type.tp_new(size_type, args, nullptr);
  Py_DECREF(args);
  return size;
}

PyObject* size_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("(O(N))", size_type, PySequence_List(self));
}

PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "The product of the sizes."},
                              {"__reduce__", size_reduce, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

PyTypeObject* make_type(PyObject* module, const char* attribute, PyType_Spec spec,
                        PyObject* bases = nullptr) {
  PyObject* type = PyType_FromSpecWithBases(&spec, bases);
  if (!type || PyModule_AddObjectRef(module, attribute, type) < 0) throw PythonErrorSet();
  return reinterpret_cast<PyTypeObject*>(type);
}

template <class T, class V>
void make_constants(PyTypeObject* type, PyObject** objects, size_t count, V T::*member) {
  for (size_t i = 0; i < count; ++i) {
    T* o = PyObject_New(T, type);
    if (!o) throw PythonErrorSet();
    o->*member = static_cast<V>(i);
    objects[i] = reinterpret_cast<PyObject*>(o);
  }
}

void* slot(auto* f) { return reinterpret_cast<void*>(f); }

}  // namespace

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  PyObject* o = type->tp_alloc(type, 0);  // zeroed
  if (o) new (&reinterpret_cast<TensorObject*>(o)->tensor) Tensor(std::move(t));
  return o;
}

PyObject* wrap(Tensor t) {
  auto* o = PyObject_GC_New(TensorObject, tensor_type);  // tracked when it may hold objects
  if (!o) return nullptr;
  new (&o->tensor) Tensor(std::move(t));
  o->dict = nullptr;
  o->weakrefs = nullptr;
  o->registered = false;
  return reinterpret_cast<PyObject*>(o);
}

void remember(PyObject* o) {
  auto* t = reinterpret_cast<TensorObject*>(o);
  if (!t->registered && t->tensor.defined())
    t->registered = known().try_emplace(t->tensor.impl_ref().get(), o).second;
}

PyObject* wrap_known(const Tensor& t) {
  if (!t.defined()) Py_RETURN_NONE;
  const auto found = known().find(t.impl_ref().get());
  if (found != known().end()) return Py_NewRef(found->second);
  PyObject* o = wrap(t);
  if (o) remember(o);
  return o;
}

PyObject* dtype_object(DType t) { return Py_NewRef(dtype_objects[static_cast<int>(t)]); }
PyObject* format_object(MemoryFormat f) { return Py_NewRef(format_objects[static_cast<int>(f)]); }

PyObject* make_size(IntArrayRef sizes) {
  PyObject* o = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()));
  if (!o) return nullptr;
  for (size_t i = 0; i < sizes.size(); ++i)
    PyTuple_SET_ITEM(o, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  return o;
}

PyObject* make_number(const Scalar& value) {
  if (value.isBoolean()) return PyBool_FromLong(value.toBool());
  if (value.isFloatingPoint()) return PyFloat_FromDouble(value.toDouble());
  return PyLong_FromLongLong(value.toLong());
}

void create_types(PyObject* module) {
  static PyType_Slot slots[64] = {
      {Py_tp_doc, const_cast<char*>("A multi-dimensional array that knows how it was computed.")},
      {Py_tp_new, slot(tensor_new)},
      {Py_tp_dealloc, slot(tensor_dealloc)},
      {Py_tp_repr, slot(tensor_repr)},
      {Py_tp_hash, slot(tensor_hash)},
      {Py_tp_setattro, slot(tensor_setattr)},
      {Py_tp_traverse, slot(tensor_traverse)},
      {Py_tp_clear, slot(tensor_clear)},
      {Py_tp_richcompare, slot(tensor_richcompare)},
      {Py_tp_members, tensor_members},
      {Py_tp_getset, tensor_getset},
      {Py_tp_methods, tensor_methods},
      {Py_mp_length, slot(tensor_length)},
      {Py_mp_subscript, slot(tensor_getitem)},
      {Py_mp_ass_subscript, slot(tensor_setitem)},
      {Py_bf_getbuffer, slot(tensor_getbuffer)},
      {Py_bf_releasebuffer, slot(tensor_releasebuffer)}};
  size_t count = 17;
  add_number_slots(slots, count);
  slots[count] = {0, nullptr};
  tensor_type = make_type(module, "Tensor",
                          {"pellucid.Tensor", sizeof(TensorObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots});

  PyType_Slot dtype_slots[] = {{Py_tp_doc, const_cast<char*>("The type of a tensor's elements.")},
                               {Py_tp_repr, slot(dtype_repr)},
                               {Py_tp_getset, dtype_getset},
                               {0, nullptr}};
  dtype_type = make_type(module, "dtype",
                         {"pellucid.dtype", sizeof(DTypeObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots});
  make_constants(dtype_type, dtype_objects, kDTypeCount, &DTypeObject::dtype);
  for (int i = 0; i < kDTypeCount; ++i)
    if (PyModule_AddObjectRef(module, std::string(name_of(static_cast<DType>(i))).c_str(),
                              dtype_objects[i]) < 0)
      throw PythonErrorSet();

  PyType_Slot format_slots[] = {
      {Py_tp_doc, const_cast<char*>("The order of a tensor's elements in memory.")},
      {Py_tp_repr, slot(format_repr)},
      {0, nullptr}};
  format_type = make_type(module, "memory_format",
                          {"pellucid.memory_format", sizeof(FormatObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, format_slots});
  make_constants(format_type, format_objects, 3, &FormatObject::format);
  static constexpr const char* names[] = {"contiguous_format", "preserve_format", "channels_last"};
  for (int i = 0; i < 3; ++i) PyModule_AddObjectRef(module, names[i], format_objects[i]);

  PyType_Slot size_slots[] = {
      {Py_tp_doc, const_cast<char*>("The sizes of a tensor: a tuple of ints.")},
      {Py_tp_repr, slot(size_repr)},
      {Py_tp_methods, size_methods},
      {Py_mp_subscript, slot(size_subscript)},
      {0, nullptr}};
  PyObject* bases = PyTuple_Pack(1, &PyTuple_Type);
  size_type = make_type(
      module, "Size", {"pellucid.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, size_slots},
      bases);
  Py_XDECREF(bases);
}

}  // namespace pellucid::python
