// The exceptions of the library as Python classes. Each is a RuntimeError, as most of PyTorch's
// errors are, and the builtin of the same meaning too, so programs that expect either catch it.
#include <nanobind/nanobind.h>

#include "pellucid/error.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

PyObject *error, *shape_error, *type_error, *index_error, *value_error, *linalg_error,
    *memory_error, *not_implemented_error, *io_error, *autograd_error;

PyObject* make_error(PyObject* module, const char* name, const char* doc, PyObject* builtin) {
  PyObject* bases = error ? (builtin ? PyTuple_Pack(2, error, builtin) : PyTuple_Pack(1, error))
                          : Py_NewRef(builtin);
  const std::string full = std::string("pellucid.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases, nullptr);
  Py_XDECREF(bases);
  if (!type || PyModule_AddObjectRef(module, name, type) < 0) throw PythonErrorSet();
  return type;
}

}  // namespace

void create_errors(PyObject* m) {
  error = make_error(m, "Error", "The base of every exception of the library.", PyExc_RuntimeError);
  shape_error = make_error(m, "ShapeError", "Sizes or layouts that do not fit together.", nullptr);
  type_error =
      make_error(m, "TypeError", "A dtype or type that the op does not take.", PyExc_TypeError);
  index_error =
      make_error(m, "IndexError", "An index or a dimension out of range.", PyExc_IndexError);
  value_error =
      make_error(m, "ValueError", "An argument whose value is not allowed.", PyExc_ValueError);
  linalg_error =
      make_error(m, "LinAlgError", "A matrix that has no such factor or inverse.", nullptr);
  memory_error = make_error(m, "OutOfMemoryError", "Memory that is not there.", PyExc_MemoryError);
  not_implemented_error = make_error(m, "NotImplementedError", "Something that is not there.",
                                     PyExc_NotImplementedError);
  io_error = make_error(m, "IoError", "A file that cannot be read or written.", PyExc_OSError);
  autograd_error = make_error(m, "AutogradError", "A misuse of the autograd graph.", nullptr);
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (const PythonErrorSet&) {
  } catch (nanobind::python_error& e) { e.restore(); } catch (const ShapeError& e) {
    PyErr_SetString(shape_error, e.what());
  } catch (const TypeError& e) {
    PyErr_SetString(type_error, e.what());
  } catch (const IndexError& e) {
    PyErr_SetString(index_error, e.what());
  } catch (const ValueError& e) {
    PyErr_SetString(value_error, e.what());
  } catch (const LinAlgError& e) {
    PyErr_SetString(linalg_error, e.what());
  } catch (const OutOfMemoryError& e) {
    PyErr_SetString(memory_error, e.what());
  } catch (const NotImplementedError& e) {
    PyErr_SetString(not_implemented_error, e.what());
  } catch (const IoError& e) {
    PyErr_SetString(io_error, e.what());
  } catch (const AutogradError& e) {
    PyErr_SetString(autograd_error, e.what());
  } catch (const Error& e) { PyErr_SetString(error, e.what()); } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) { PyErr_SetString(PyExc_RuntimeError, e.what()); } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown exception");
  }
}

}  // namespace pellucid::python
