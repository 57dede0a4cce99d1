// The extension module pellucid._C: types first, then everything that the ops and the library
// give.
#include <nanobind/nanobind.h>

#include "op_function.h"
#include "pellucid/error.h"
#include "register.h"
#include "tensor_object.h"

namespace nb = nanobind;

NB_MODULE(_C, m) {
  using namespace pellucid::python;
  m.attr("__version__") = PELLUCID_VERSION;
  nb::set_leak_warnings(false);  // ops, dtypes and types live as long as the process
  nb::register_exception_translator([](const std::exception_ptr& e, void*) {
    try {
      std::rethrow_exception(e);
    } catch (const PythonErrorSet&) {
    } catch (const pellucid::Error&) { set_python_error(); }
  });
  try {
    create_errors(m.ptr());
    create_types(m.ptr());
    nb::dict functions;
    bind_ops(m.ptr(), functions.ptr());
    m.attr("functions") = functions;
  } catch (const PythonErrorSet&) { throw nb::python_error(); }
  register_autograd(m);
  register_programs(m);
  register_function(m);
  register_tools(m);
  register_storage(m);
  register_profiler(m);
  register_analyze(m);
  register_anatomy(m);
  register_estimate(m);
  register_graph_profilers(m);
}
