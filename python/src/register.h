// What each file adds to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace pellucid::python {

void register_autograd(nanobind::module_& m);
void register_function(nanobind::module_& m);
void register_storage(nanobind::module_& m);
void register_tools(nanobind::module_& m);
void register_programs(nanobind::module_& m);
void register_profiler(nanobind::module_& m);
void register_analyze(nanobind::module_& m);
void register_anatomy(nanobind::module_& m);
void register_estimate(nanobind::module_& m);
void register_graph_profilers(nanobind::module_& m);

}  // namespace pellucid::python
