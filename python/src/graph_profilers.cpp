// GraphExecutionProfiler and AutogradSystemsProfiler (pellucid/graph_profilers.h) for Python:
// results are dictionaries and lists of the same names.
#include "pellucid/graph_profilers.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "caster.h"
#include "register.h"

namespace pellucid::python {
namespace {

nb::dict to_dict(const MemoryStats& s) {
  nb::dict d;
  d["allocated"] = s.allocated;
  d["cached"] = s.cached;
  d["reserved"] = s.reserved;
  d["peak"] = s.peak;
  return d;
}

nb::list records_of(const GraphExecutionProfiler& profiler) {
  nb::list out;
  for (const GraphExecutionProfiler::Record& r : profiler.records()) {
    nb::dict d;
    d["seconds"] = r.seconds;
    d["before"] = to_dict(r.before);
    d["after"] = to_dict(r.after);
    d["graph_nodes"] = r.graph_nodes;
    out.append(d);
  }
  return out;
}

// Calls f(*args, **kwargs); whatever it returns is returned, and a tensor's graph is counted.
nb::object profile_execution(GraphExecutionProfiler& profiler, const nb::object& f,
                             const nb::args& args, const nb::kwargs& kwargs) {
  nb::object result;
  profiler.profile_execution([&] {
    result = f(*args, **kwargs);
    return is_tensor(result.ptr()) ? tensor_of(result.ptr()) : Tensor();
  });
  return result;
}

nb::dict depth_analysis(int64_t max_depth, int64_t operations_per_level, int64_t width,
                        int64_t repeats) {
  const DepthAnalysis a = AutogradSystemsProfiler().profile_computational_graph_depth(
      max_depth, operations_per_level, width, repeats);
  nb::list rows;
  for (const DepthResult& r : a.results) {
    nb::dict d;
    d["depth"] = r.depth;
    d["operations"] = r.operations;
    d["nodes"] = r.nodes;
    d["forward_ms"] = r.forward_ms;
    d["backward_ms"] = r.backward_ms;
    d["memory_mb"] = r.memory_mb;
    rows.append(d);
  }
  nb::dict scaling;
  scaling["forward_scaling"] = a.forward_scaling;
  scaling["backward_scaling"] = a.backward_scaling;
  scaling["memory_scaling"] = a.memory_scaling;
  scaling["backward_forward_ratio"] = a.backward_forward_ratio;
  nb::dict out;
  out["detailed_results"] = rows;
  out["scaling_metrics"] = scaling;
  out["primary_bottleneck"] = a.primary_bottleneck;
  out["strategies"] = a.strategies;
  if (!a.warning.empty()) out["warning"] = a.warning;
  return out;
}

nb::dict checkpoint_analysis(const std::vector<int64_t>& frequencies, int64_t layers, int64_t width,
                             int64_t batch, int64_t repeats) {
  const CheckpointAnalysis a = AutogradSystemsProfiler().analyze_memory_checkpointing_trade_offs(
      frequencies, layers, width, batch, repeats);
  nb::list rows;
  for (const CheckpointResult& r : a.results) {
    nb::dict d;
    d["frequency"] = r.frequency;
    d["step_ms"] = r.step_ms;
    d["peak_mb"] = r.peak_mb;
    d["memory_saved"] = r.memory_saved;
    d["time_added"] = r.time_added;
    d["same_gradients"] = r.same_gradients;
    rows.append(d);
  }
  nb::dict out;
  out["detailed_results"] = rows;
  out["best_frequency"] = a.best_frequency;
  if (!a.warning.empty()) out["warning"] = a.warning;
  return out;
}

}  // namespace

void register_graph_profilers(nb::module_& m) {
  nb::class_<GraphExecutionProfiler>(m, "_GraphExecutionProfiler")
      .def(nb::init<>())
      .def("profile_execution", &profile_execution)
      .def("records", &records_of)
      .def("clear", &GraphExecutionProfiler::clear)
      .def("report", &GraphExecutionProfiler::report);
  m.def("_profile_computational_graph_depth", &depth_analysis);
  m.def("_analyze_memory_checkpointing_trade_offs", &checkpoint_analysis);
}

}  // namespace pellucid::python
