// Schemas compiled into Signatures, and the conversions of single Python objects that binding
// needs.
#include "arguments.h"

#include <cstring>

#include "tensor_object.h"

namespace pellucid::python {
namespace {

struct Alias {
  std::string_view name, others[4];
};
// NumPy's spellings, as PyTorch takes them.
constexpr Alias kAliases[] = {{"dim", {"axis"}},
                              {"keepdim", {"keepdims"}},
                              {"input", {"self", "x", "a", "A"}},
                              {"other", {"x2"}}};

PyObject* interned(std::string_view text) {
  PyObject* o = PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  PyUnicode_InternInPlace(&o);
  return o;
}

Attr default_of(const Arg& a, Dims& list) {
  const Value& v = a.default_value;
  if (v.is_none()) return {};
  switch (a.type) {
    case ArgType::Bool:
      return Attr(v.toBool());
    case ArgType::Int:
      return Attr(v.toInt());
    case ArgType::Float:
      return Attr(v.toDouble());
    case ArgType::Scalar:
      return Attr(v.scalar());
    case ArgType::Text:
      return Attr(std::string_view(v.toStringRef()));
    case ArgType::DType:
      return Attr(*v.as<DType>());
    case ArgType::Format:
      return Attr(*v.as<MemoryFormat>());
    case ArgType::Ints:
      if (v.isList())
        for (const int64_t i : v.toIntVector()) list.push_back(i);
      else
        list.resize(static_cast<size_t>(std::max(a.fixed_length, 1)), v.toInt());
      return Attr(list.ref());
    default:
      return {};
  }
}

bool is_numpy_scalar(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  return std::strncmp(name, "numpy.", 6) == 0 && std::strcmp(name, "numpy.ndarray") != 0 &&
         Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float;
}

}  // namespace

const char* type_text(const Arg& a) {
  switch (a.type) {
    case ArgType::Tensor:
      return a.scalar_too ? "Tensor or Number" : "Tensor";
    case ArgType::TensorList:
      return "tuple of Tensors";
    case ArgType::Bool:
      return "bool";
    case ArgType::Int:
      return "int";
    case ArgType::Float:
      return "float";
    case ArgType::Scalar:
      return "Number";
    case ArgType::Ints:
      return "tuple of ints";
    case ArgType::Text:
      return "str";
    case ArgType::DType:
      return "torch.dtype";
    case ArgType::Format:
      return "torch.memory_format";
    case ArgType::Device:
      return "torch.device";
  }
  return "";
}

std::string utf8(PyObject* o) {
  const char* s = PyUnicode_AsUTF8(o);
  return s ? s : "?";
}

bool is_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || is_numpy_scalar(o); }

Scalar to_scalar(PyObject* o) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o) || (PyIndex_Check(o) && !PyFloat_Check(o))) {
    PyObject* index = PyNumber_Index(o);
    if (!index) throw PythonErrorSet();
    const long long v = PyLong_AsLongLong(index);
    Py_DECREF(index);
    if (v == -1 && PyErr_Occurred()) throw PythonErrorSet();
    return static_cast<int64_t>(v);
  }
  if (std::strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10) == 0) return PyObject_IsTrue(o) == 1;
  const double v = PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) throw PythonErrorSet();
  return v;
}

bool to_dtype(PyObject* o, DType& out) {
  if (is_dtype(o))
    out = dtype_of_object(o);
  else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type))
    out = kFloat64;
  else if (o == reinterpret_cast<PyObject*>(&PyLong_Type))
    out = kInt64;
  else if (o == reinterpret_cast<PyObject*>(&PyBool_Type))
    out = kBool;
  else
    return false;
  return true;
}

bool to_int(PyObject* o, int64_t& out) {
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) {
      PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long");
      throw PythonErrorSet();
    }
    return true;
  }
  if (PyBool_Check(o) || PyFloat_Check(o)) return false;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    if (!t.defined() || t.numel() != 1 || !is_integral(t.dtype(), false)) return false;
    out = t.item<int64_t>();
    return true;
  }
  if (!PyIndex_Check(o)) return false;
  PyObject* index = PyNumber_Index(o);
  if (!index) {
    PyErr_Clear();
    return false;
  }
  out = PyLong_AsLongLong(index);
  Py_DECREF(index);
  return true;
}

Signature::Signature(const OpDef& def) : op(&def), info(def.info) {
  bool positional_ended = false;
  args.reserve(info->args.size());
  for (const Arg& a : info->args) {
    if (a.type == ArgType::Device) {
      creates = true;
      continue;
    }
    ArgSpec& spec = args.emplace_back();
    spec.arg = &a;
    const std::string_view shown = a.name == "self" ? std::string_view("input") : a.name;
    spec.name = interned(shown);
    for (const Alias& alias : kAliases)
      if (alias.name == shown)
        for (int i = 0; i < 4 && !alias.others[i].empty(); ++i)
          spec.aliases[i] = interned(alias.others[i]);
    if (a.name == "self" && a.type == ArgType::Tensor) self = static_cast<int>(args.size()) - 1;
    positional_ended = positional_ended || a.keyword_only;
    if (!positional_ended) ++positional;
    if (a.type == ArgType::Ints) ++list_count;
  }
  for (ArgSpec& spec :
       args)  // after the vector stopped growing: the attribute points into the list
    if (spec.arg->has_default) spec.default_attr = default_of(*spec.arg, spec.default_list);
  // zeros(2, 3) and x.view(2, 3): where the only other argument by position is a list of ints.
  const size_t first = self == 0 ? 1 : 0;
  if (positional == first + 1 && args[first].arg->type == ArgType::Ints)
    gathered = static_cast<int>(first);
}

std::string Signature::text(bool method) const {
  std::string s = "(";
  bool star = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg& a = *args[i].arg;
    if (method && static_cast<int>(i) == self) continue;
    if (s.size() > 1) s += ", ";
    if (a.keyword_only && !star) {
      s += "*, ";
      star = true;
    }
    s += std::string(type_text(a)) + " " + utf8(args[i].name);
    if (a.has_default) s += " = " + a.default_value.repr();
  }
  return s + ")";
}

}  // namespace pellucid::python
