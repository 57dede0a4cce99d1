// Loops around one call, for `pellucid anatomy --python`: the call as the interpreter makes it but
// without the interpreter, and the same call in the dispatcher with its arguments bound beforehand.
// Their difference is what binding costs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <vector>

#include "arguments.h"
#include "pellucid/error.h"
#include "register.h"
#include "tensor_object.h"

namespace nb = nanobind;

namespace pellucid::python {
namespace {

struct Operator {
  const char* name;  ///< of the class in Python's ast
  PyObject* (*run)(PyObject*, PyObject*);
};

template <int kind> PyObject* compare(PyObject* a, PyObject* b) {
  return PyObject_RichCompare(a, b, kind);
}

constexpr Operator kOperators[] = {
    {"Add", PyNumber_Add},
    {"Sub", PyNumber_Subtract},
    {"Mult", PyNumber_Multiply},
    {"Div", PyNumber_TrueDivide},
    {"FloorDiv", PyNumber_FloorDivide},
    {"Mod", PyNumber_Remainder},
    {"Pow", [](PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }},
    {"MatMult", PyNumber_MatrixMultiply},
    {"BitAnd", PyNumber_And},
    {"BitOr", PyNumber_Or},
    {"BitXor", PyNumber_Xor},
    {"Lt", compare<Py_LT>},
    {"LtE", compare<Py_LE>},
    {"Eq", compare<Py_EQ>},
    {"NotEq", compare<Py_NE>},
    {"Gt", compare<Py_GT>},
    {"GtE", compare<Py_GE>},
    {"USub", [](PyObject* a, PyObject*) { return PyNumber_Negative(a); }},
    {"Invert", [](PyObject* a, PyObject*) { return PyNumber_Invert(a); }},
};

// Seconds of `number` runs; each returns a new reference, or null with a Python error set.
template <class F> double seconds_of(int64_t number, const F& run) {
  const auto begun = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < number; ++i) {
    PyObject* result = run();
    if (!result) throw nb::python_error();
    Py_DECREF(result);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::vector<PyObject*> borrowed(const nb::tuple& args) {
  std::vector<PyObject*> out;
  for (const nb::handle a : args) out.push_back(a.ptr());
  return out;
}

double time_operator(const std::string& name, const nb::tuple& args, int64_t number) {
  std::vector<PyObject*> list = borrowed(args);
  list.resize(2, nullptr);
  for (const Operator& o : kOperators)
    if (name == o.name) return seconds_of(number, [&] { return o.run(list[0], list[1]); });
  throw ValueError("anatomy: there is no operator " + name + " here.");
}

double time_function(const nb::object& function, const nb::tuple& args, int64_t number) {
  const std::vector<PyObject*> list = borrowed(args);
  return seconds_of(number, [&] {
    return PyObject_Vectorcall(function.ptr(), list.data(), list.size(), nullptr);
  });
}

double time_method(const nb::object& name, const nb::tuple& args, int64_t number) {
  const std::vector<PyObject*> list = borrowed(args);
  return seconds_of(number, [&] {
    return PyObject_VectorcallMethod(name.ptr(), list.data(), list.size(), nullptr);
  });
}

double time_dispatch(const std::string& op, const nb::tuple& args, int64_t number) {
  const std::vector<PyObject*> list = borrowed(args);
  for (const OpDef* def : find_ops(op)) {
    const Signature signature(*def);
    Bound b;
    Mismatch why;
    if (!bind(signature, nullptr, list.data(), list.size(), nullptr, b, why)) continue;
    const Inputs inputs(b.inputs.begin(), b.inputs.size());
    const Attrs attrs(b.attrs.begin(), b.attrs.size());
    const auto begun = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < number; ++i) call1(*def, inputs, attrs);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
  throw ValueError("anatomy: the arguments fit no form of " + op + ".");
}

}  // namespace

void register_anatomy(nb::module_& m) {
  m.def("_time_operator", &time_operator);
  m.def("_time_function", &time_function);
  m.def("_time_method", &time_method);
  m.def("_time_dispatch", &time_dispatch);
}

}  // namespace pellucid::python
