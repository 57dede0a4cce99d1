// What inspect.signature sees of an op: its arguments as Python values, for pellucid._signature to
// make a Signature of.
#include "arguments.h"
#include "op_function.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

PyObject* number_or_none(const Value& v) {
  return v.is_number() ? make_number(v.scalar()) : Py_NewRef(Py_None);
}

// A default as the object that a call could give.
PyObject* default_object(const Arg& a) {
  const Value& v = a.default_value;
  if (v.is_none()) Py_RETURN_NONE;
  switch (a.type) {
    case ArgType::Bool:
      return PyBool_FromLong(v.toBool());
    case ArgType::Int:
      return PyLong_FromLongLong(v.toInt());
    case ArgType::Float:
      return PyFloat_FromDouble(v.toDouble());
    case ArgType::Text:
      return PyUnicode_FromStringAndSize(v.toStringRef().data(),
                                         static_cast<Py_ssize_t>(v.toStringRef().size()));
    case ArgType::DType:
      return dtype_object(*v.as<DType>());
    case ArgType::Format:
      return format_object(*v.as<MemoryFormat>());
    case ArgType::Ints: {
      if (!v.isList()) return PyLong_FromLongLong(v.toInt());
      const std::vector<int64_t> list = v.toIntVector();
      PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(list.size()));
      for (size_t i = 0; tuple && i < list.size(); ++i)
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(list[i]));
      return tuple;
    }
    default:
      return number_or_none(v);
  }
}

// (name, type, whether by keyword alone, whether there is a default, the default)
PyObject* describe_argument(const ArgSpec& spec, bool receiver) {
  const Arg& a = *spec.arg;
  PyObject* value = a.has_default ? default_object(a) : Py_NewRef(Py_None);
  if (!value) throw PythonErrorSet();
  PyObject* name = receiver ? PyUnicode_FromString("self") : Py_NewRef(spec.name);
  return Py_BuildValue("(NsOON)", name, type_text(a), a.keyword_only ? Py_True : Py_False,
                       a.has_default ? Py_True : Py_False, value);
}

}  // namespace

PyObject* make_signature(const Signature& s, bool method) {
  PyObject* list = PyList_New(0);
  if (!list) throw PythonErrorSet();
  for (size_t i = 0; i < s.args.size(); ++i) {
    PyObject* item = describe_argument(s.args[i], method && static_cast<int>(i) == s.self);
    if (!item || PyList_Append(list, item) < 0) throw PythonErrorSet();
    Py_DECREF(item);
  }
  PyObject* module = PyImport_ImportModule("pellucid._signature");
  PyObject* made =
      module ? PyObject_CallMethod(module, "make", "OOs", list, s.creates ? Py_True : Py_False,
                                   s.info->output_list            ? "tuple"
                                   : s.info->visible_outputs == 1 ? "Tensor"
                                                                  : "tuple")
             : nullptr;
  Py_XDECREF(module);
  Py_DECREF(list);
  return made;
}

}  // namespace pellucid::python
