// A callable over the overloads of an op's name. Function and method are two types of one
// layout: only the method binds its receiver, without an object for the bound method
// (METHOD_DESCRIPTOR).
#include "op_function.h"

#include <structmember.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "arguments.h"
#include "out_argument.h"
#include "tensor_object.h"
#include "view_dtype.h"

namespace pellucid::python {
namespace {

struct Overload {
  const Signature* signature;
  PyTypeObject* result = nullptr;  ///< the named tuple, made on first use
};

struct OpFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  std::vector<Overload>* overloads;
  PyObject* name;
  bool in_place;
  bool method;
};

PyTypeObject* function_type = nullptr;
PyTypeObject* method_type = nullptr;

OpFunction* as_op(PyObject* o) { return reinterpret_cast<OpFunction*>(o); }

// Names of the visible results, "values" and "indices"; empty where they have none.
std::vector<std::string> result_names(const OpInfo& info) {
  std::vector<std::string> names;
  for (const std::string& n : info.output_names)
    if (!n.empty() && n[0] != '_') names.push_back(n);
  return names;
}

/// Results one below the other, as PyTorch prints them.
PyObject* result_repr(PyObject* self) {
  std::string text = std::string(Py_TYPE(self)->tp_name) + "(\n";
  const Py_ssize_t count = PyTuple_GET_SIZE(self);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* value = PyObject_Repr(PyTuple_GET_ITEM(self, i));
    if (!value) return nullptr;
    const char* utf8 = PyUnicode_AsUTF8(value);
    text += std::string(Py_TYPE(self)->tp_members[i].name) + "=" + (utf8 ? utf8 : "");
    text += i + 1 < count ? ",\n" : ")";
    Py_DECREF(value);
  }
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyTypeObject* named_tuple(const OpInfo& info) {
  const std::vector<std::string> names = result_names(info);
  if (names.size() != info.visible_outputs) return nullptr;
  // The type keeps pointers to these for its life, which is the program's.
  auto& fields = *new std::vector<PyStructSequence_Field>;
  for (const std::string& n : names) fields.push_back({(new std::string(n))->c_str(), nullptr});
  fields.push_back({nullptr, nullptr});
  const auto& full = *new std::string("torch.return_types." + info.name);
  PyStructSequence_Desc desc{full.c_str(), nullptr, fields.data(), static_cast<int>(names.size())};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  if (type) type->tp_repr = result_repr;
  return type;
}

PyObject* wrap_list(Tensors results) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(results.size()));
  if (!tuple) return nullptr;
  for (size_t i = 0; i < results.size(); ++i)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), wrap(std::move(results[i])));
  return tuple;
}

PyObject* wrap_several(Overload& overload, Tensors results) {
  const OpInfo& info = *overload.signature->info;
  if (!overload.result) overload.result = named_tuple(info);
  if (PyErr_Occurred()) return nullptr;
  if (!overload.result) return wrap_list(std::move(results));
  PyObject* o = PyStructSequence_New(overload.result);
  for (size_t i = 0; o && i < results.size(); ++i)
    PyStructSequence_SET_ITEM(o, static_cast<Py_ssize_t>(i), wrap(std::move(results[i])));
  return o;
}

// Lets ops draw from a Generator object until the end of the scope.
class GeneratorScope {
 public:
  explicit GeneratorScope(PyObject* generator) : generator_(generator) {
    if (generator_) call("__enter__");
  }
  ~GeneratorScope() {
    if (generator_) call("leave");
  }
  GeneratorScope(const GeneratorScope&) = delete;

 private:
  void call(const char* method) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);  // an op's own error passes through
    PyObject* result = PyObject_CallMethod(generator_, method, nullptr);
    if (!result) PyErr_WriteUnraisable(generator_);
    Py_XDECREF(result);
    PyErr_Restore(type, value, trace);
  }
  PyObject* generator_;
};

PyObject* run(OpFunction& f, Overload& overload, PyObject* receiver, Bound& b) {
  const GeneratorScope drawn_from(b.generator);
  const Signature& s = *overload.signature;
  const Inputs inputs(b.inputs.begin(), b.inputs.size());
  const Attrs attrs(b.attrs.begin(), b.attrs.size());
  const bool release = worth_releasing(inputs, s.op->kind);
  if (f.in_place) {
    {
      const MayRelease unlocked(release);
      call_in_place(*s.op, inputs, attrs);
    }
    return Py_NewRef(receiver);
  }
  if (s.info->visible_outputs == 1 && !s.info->output_list) {
    Tensor result;
    {
      const MayRelease unlocked(release);
      result = call1(*s.op, inputs, attrs);
    }
    if (b.requires_grad) {
      result.requires_grad_();
      return wrap_known(result);
    }
    if (receiver && result.is_same(tensor_of(receiver))) return Py_NewRef(receiver);
    return wrap(std::move(result));
  }
  Tensors results;
  {
    const MayRelease unlocked(release);
    results = call(*s.op, inputs, attrs);
  }
  if (s.info->output_list) return wrap_list(std::move(results));
  if (results.empty()) Py_RETURN_NONE;
  return wrap_several(overload, std::move(results));
}

PyObject* fail(OpFunction& f, PyObject* receiver, PyObject* const* args, size_t count,
               PyObject* names) {
  Mismatch why{{}, true};
  if (f.overloads->size() == 1) {
    Bound b;
    bind(*(*f.overloads)[0].signature, receiver, args, count, names, b, why);
    PyErr_SetString(PyExc_TypeError, why.text.c_str());
    return nullptr;
  }
  std::string text = PyUnicode_AsUTF8(f.name);
  text += "() received an invalid combination of arguments - got (";
  const size_t keywords = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  for (size_t i = 0; i < count + keywords; ++i) {
    if (i) text += ", ";
    if (i >= count)
      text += std::string(
                  PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i - count)))) +
              "=";
    text += Py_TYPE(args[i])->tp_name;
  }
  text += "), but expected one of:";
  for (const Overload& o : *f.overloads) {
    Bound b;
    bind(*o.signature, receiver, args, count, names, b, why);
    text += "\n * " + o.signature->text(receiver != nullptr) + "\n      (" + why.text + ")";
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return nullptr;
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  OpFunction& f = *as_op(self);
  size_t count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  PyObject* receiver = nullptr;
  if (f.method) {
    if (count == 0 || !is_tensor(args[0])) {
      PyErr_Format(PyExc_TypeError, "descriptor '%U' for 'pellucid.Tensor' objects needs a Tensor",
                   f.name);
      return nullptr;
    }
    receiver = args[0];
    ++args;
    --count;
  }
  return guarded([&]() -> PyObject* {
    Mismatch why;
    for (Overload& overload : *f.overloads) {
      Bound b;
      if (bind(*overload.signature, receiver, args, count, names, b, why)) {
        // A function's in-place form returns its first argument.
        PyObject* target = receiver ? receiver : f.in_place && count > 0 ? args[0] : nullptr;
        return run(f, overload, target, b);
      }
    }
    if (receiver && count == 1 && !names && is_dtype(args[0]) &&
        PyUnicode_CompareWithASCIIString(f.name, "view") == 0)
      return wrap(view_bytes_as(tensor_of(receiver), dtype_of_object(args[0])));
    if (!receiver && has_out(names)) return call_with_out(self, f.name, args, count, names);
    return fail(f, receiver, args, count, names);
  });
}

PyObject* method_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* op_repr(PyObject* self) {
  return PyUnicode_FromFormat("<built-in %s %U>", as_op(self)->method ? "method" : "function",
                              as_op(self)->name);
}

PyObject* op_name(PyObject* self, void*) { return Py_NewRef(as_op(self)->name); }
PyObject* op_module(PyObject*, void*) { return PyUnicode_FromString("pellucid"); }

PyObject* op_qualname(PyObject* self, void*) {
  return as_op(self)->method ? PyUnicode_FromFormat("Tensor.%U", as_op(self)->name)
                             : Py_NewRef(as_op(self)->name);
}

PyObject* op_doc(PyObject* self, void*) {
  return guarded([&] {
    const OpFunction& f = *as_op(self);
    std::string text;
    for (const Overload& o : *f.overloads)
      text += std::string(PyUnicode_AsUTF8(f.name)) + o.signature->text(f.method) + "\n";
    text += "\n" + std::string((*f.overloads)[0].signature->op->doc);
    if (f.in_place) text += " In place.";
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

// The schemas of the overloads, for stubs and tools.
PyObject* op_schemas(PyObject* self, void*) {
  PyObject* list = PyList_New(0);
  for (const Overload& o : *as_op(self)->overloads) {
    const std::string_view text = o.signature->op->schema;
    PyObject* item = PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    PyList_Append(list, item);
    Py_XDECREF(item);
  }
  return list;
}

// Whether it draws random numbers, and so takes generator=.
PyObject* op_random(PyObject* self, void*) {
  const OpDef& op = *(*as_op(self)->overloads)[0].signature->op;
  return PyBool_FromLong(op.kind == OpKind::Random || op.random_count != nullptr);
}

// Whether networks use it between their layers.
PyObject* op_activation(PyObject* self, void*) {
  return PyBool_FromLong((*as_op(self)->overloads)[0].signature->op->activation);
}

// Of the first overload; the docstring has all.
PyObject* op_signature(PyObject* self, void*) {
  return guarded([&] {
    const OpFunction& f = *as_op(self);
    return make_signature(*(*f.overloads)[0].signature, f.method);
  });
}

PyObject* op_reduce(PyObject* self, PyObject*) {
  if (!as_op(self)->method) return Py_NewRef(as_op(self)->name);
  PyObject* builtins = PyImport_ImportModule("builtins");
  PyObject* get = builtins ? PyObject_GetAttrString(builtins, "getattr") : nullptr;
  Py_XDECREF(builtins);
  return get ? Py_BuildValue("(N(OO))", get, tensor_type, as_op(self)->name) : nullptr;
}

PyGetSetDef op_getset[] = {{"__name__", op_name, nullptr, nullptr, nullptr},
                           {"__qualname__", op_qualname, nullptr, nullptr, nullptr},
                           {"__module__", op_module, nullptr, nullptr, nullptr},
                           {"__doc__", op_doc, nullptr, nullptr, nullptr},
                           {"__signature__", op_signature, nullptr, nullptr, nullptr},
                           {"schemas", op_schemas, nullptr, nullptr, nullptr},
                           {"activation", op_activation, nullptr, nullptr, nullptr},
                           {"random", op_random, nullptr, nullptr, nullptr},
                           {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr},
                            {nullptr, nullptr, 0, nullptr}};
PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpFunction, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyTypeObject* make_callable_type(const char* name, bool method) {
  std::vector<PyType_Slot> slots = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                    {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                                    {Py_tp_getset, op_getset},
                                    {Py_tp_methods, op_methods},
                                    {Py_tp_members, op_members}};
  if (method) slots.push_back({Py_tp_descr_get, reinterpret_cast<void*>(method_get)});
  slots.push_back({0, nullptr});
  PyType_Spec spec{name, sizeof(OpFunction), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                         Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                         (method ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0)),
                   slots.data()};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw PythonErrorSet();
  return reinterpret_cast<PyTypeObject*>(type);
}

PyObject* make_op(PyTypeObject* type, const std::string& name, std::vector<Overload> overloads,
                  bool in_place, bool method) {
  OpFunction* f = PyObject_New(OpFunction, type);
  if (!f) throw PythonErrorSet();
  f->vectorcall = op_vectorcall;
  f->overloads = new std::vector<Overload>(std::move(overloads));
  f->name = PyUnicode_InternFromString(name.c_str());
  f->in_place = in_place;
  f->method = method;
  return reinterpret_cast<PyObject*>(f);
}

// Narrow types come before wide ones: an int that fits `int` must not be taken for a list.
int rank(const Signature& s) {
  int r = 0;
  for (const ArgSpec& a : s.args) r = r * 2 + (a.arg->type == ArgType::Ints);
  return r;
}

struct Forms {
  std::vector<Overload> plain, in_place;
};

std::map<std::string, Forms> collect_forms() {
  std::map<std::string, Forms> forms;
  for (const OpDef* op : all_ops()) {
    forms[op->info->name];
    for (const std::string& alias : op->info->aliases) forms[alias];
  }
  for (auto& [name, form] : forms) {
    std::vector<const Signature*> signatures;
    for (const OpDef* op : find_ops(name)) signatures.push_back(new Signature(*op));
    std::stable_sort(signatures.begin(), signatures.end(),
                     [](const Signature* a, const Signature* b) { return rank(*a) < rank(*b); });
    for (const Signature* s : signatures) {
      if (!s->info->in_place_only) form.plain.push_back({s});
      if (s->info->has_in_place) form.in_place.push_back({s});
    }
  }
  return forms;
}

void add(PyObject* functions, const std::string& name, const std::vector<Overload>& overloads,
         bool in_place) {
  if (overloads.empty()) return;
  PyObject* f = make_op(function_type, name, overloads, in_place, false);
  if (PyDict_SetItemString(functions, name.c_str(), f) < 0) throw PythonErrorSet();
  Py_DECREF(f);
  std::vector<Overload> methods;
  for (const Overload& o : overloads)
    if (o.signature->self >= 0) methods.push_back(o);
  if (methods.empty()) return;
  PyObject* m = make_op(method_type, name, std::move(methods), in_place, true);
  if (PyDict_SetItemString(tensor_type->tp_dict, name.c_str(), m) < 0) throw PythonErrorSet();
  Py_DECREF(m);
}

}  // namespace

bool worth_releasing(Inputs inputs, OpKind kind) {
  if (kind == OpKind::View) return false;
  if (kind == OpKind::Creation || kind == OpKind::Random) return true;
  constexpr int64_t kLarge = 4096;  // elements; below, an op is quicker than two lock operations
  for (const Tensor* t : inputs)
    if (t->defined() && t->numel() >= kLarge) return true;
  return false;
}

void bind_ops(PyObject* module, PyObject* functions) {
  function_type = make_callable_type("pellucid.op_function", false);
  method_type = make_callable_type("pellucid.op_method", true);
  PyModule_AddObjectRef(module, "op_function", reinterpret_cast<PyObject*>(function_type));
  for (const auto& [name, form] : collect_forms()) {
    add(functions, name, form.plain, false);
    add(functions, name + "_", form.in_place, true);
  }
  PyType_Modified(tensor_type);
}

PyObject* call_one(const OpDef& op, Inputs inputs, Attrs attrs) {
  Tensor result;
  {
    const MayRelease unlocked(worth_releasing(inputs, op.kind));
    result = call1(op, inputs, attrs);
  }
  return wrap(std::move(result));
}

}  // namespace pellucid::python
