// Compiled functions and programs in Python: what pellucid/_compile.py and pellucid/jit.py are made
// of.
#include <nanobind/stl/shared_ptr.h>

#include "caster.h"
#include "collect.h"
#include "core/generated_support.h"
#include "core/program.h"
#include "hooks.h"
#include "pellucid/compile.h"
#include "pellucid/program.h"
#include "register.h"

namespace pellucid::python {
namespace {

struct CompiledScope {
  std::unique_ptr<detail::CompiledCall> call;
};

// The function gets the stand-ins as a list and returns a list of tensors.
Program trace_function(const nb::callable& f, const std::vector<std::string>& names,
                       const Tensors& inputs) {
  NamedTensors named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(names.at(i), inputs[i]);
  return trace([&](const Tensors& in) { return nb::cast<Tensors>(f(nb::cast(in))); }, named);
}

// A 0-dim tensor with the number that f gives, and what f gives later wherever a program runs
// again.
Tensor live_number(nb::callable f) {
  const auto current = [f = shared(nb::object(std::move(f)))] {
    const nb::gil_scoped_acquire gil;
    return wrapped_number(nb::cast<double>((*f)()));
  };
  Tensor t = current();
  t.impl().wrapped_number = false;
  detail::note_live_number(t, current);
  return t;
}

// What f gives must stay what it is, or a program that is sealed now is made anew.
void assume(nb::callable f) {
  detail::note_assumption([f = shared(nb::object(std::move(f)))] {
    const nb::gil_scoped_acquire gil;
    const Py_hash_t hash = PyObject_Hash((*f)().ptr());
    if (hash == -1) nb::raise_python_error();
    return static_cast<uint64_t>(hash);
  });
}

}  // namespace

void register_programs(nb::module_& m) {
  using detail::CompileTrials, detail::CompiledCall;
  nb::class_<CompileOptions>(m, "_CompileOptions")
      .def("__init__", [](CompileOptions* o, int64_t memory_budget, bool reassociate) {
        new (o) CompileOptions{.memory_budget = memory_budget, .reassociate = reassociate};
      });
  nb::class_<CompileTrials>(m, "_CompileTrials")
      .def("__init__",
           [](CompileTrials* t, bool always, bool whole, const CompileOptions& options) {
             CompileOptions o = options;
             o.mode = whole    ? CompileMode::Whole
                      : always ? CompileMode::Always
                               : CompileMode::Measured;
             new (t) CompileTrials(o);
           })
      .def("report", [](const CompileTrials& t) { return t.report().text(); })
      .def_ro_static("most_new_in_a_row", &detail::kMostNewInARow);
  nb::class_<CompiledScope>(m, "_CompiledCall")
      .def(
          "__init__",
          [](CompiledScope* s, CompileTrials& trials, int64_t elements) {
            new (s) CompiledScope{std::make_unique<CompiledCall>(trials, elements)};
          },
          nb::keep_alive<1, 2>())
      // Whether the user should be told that each call captures something new.
      .def("finish", [](CompiledScope& s) { return s.call->finish(); })
      .def("close", [](CompiledScope& s) { s.call.reset(); });
  using Part = Explanation::Part;
  nb::class_<Part>(m, "ExplanationPart")
      .def_prop_ro("ops", [](const Part& p) { return p.ops; })
      .def_prop_ro("sizes", [](const Part& p) { return p.sizes; })
      .def_prop_ro("lines", [](const Part& p) { return p.lines; })
      .def_ro("results_without_memory", &Part::unmade)
      .def_ro("bytes_not_made", &Part::unmade_bytes)
      .def_prop_ro("ends_because", [](const Part& p) { return p.end; });
  using Pass = Explanation::Pass;
  nb::class_<Pass>(m, "ExplanationPass")
      .def_prop_ro("name", [](const Pass& p) { return p.name; })
      .def_ro("seconds", &Pass::seconds)
      .def_ro("nodes_before", &Pass::nodes_before)
      .def_ro("nodes_after", &Pass::nodes_after)
      .def_ro("changed", &Pass::changed);
  using Beside = Explanation::Beside;
  nb::class_<Beside>(m, "ExplanationBeside")
      .def_prop_ro("ops", [](const Beside& b) { return b.ops; })
      .def_ro("threads", &Beside::threads)
      .def_ro("serial_seconds", &Beside::serial_seconds)
      .def_ro("beside_seconds", &Beside::beside_seconds)
      .def_ro("measured_serial", &Beside::measured_serial)
      .def_ro("measured_beside", &Beside::measured_beside)
      .def_prop_ro("refused", [](const Beside& b) { return b.refused; });
  nb::class_<Explanation>(m, "Explanation")
      .def_prop_ro("parts", [](const Explanation& e) { return e.parts; })
      .def_ro("calls", &Explanation::calls)
      .def_prop_ro("fused", &Explanation::fused)
      .def_ro("forgotten", &Explanation::forgotten)
      .def_ro("arena_bytes", &Explanation::arena_bytes)
      .def_ro("peak_bytes", &Explanation::peak_bytes)
      .def_ro("reused", &Explanation::reused)
      .def_ro("made_seconds", &Explanation::made_seconds)
      .def_ro("gradient_bytes_left", &Explanation::gradient_bytes_left)
      .def_prop_ro("passes", [](const Explanation& e) { return e.passes; })
      .def_prop_ro("beside", [](const Explanation& e) { return e.beside; })
      .def_prop_rw(
          "way", [](const Explanation& e) { return e.way; },
          [](Explanation& e, std::string way) { e.way = std::move(way); })
      .def("__str__", &Explanation::text);
  m.def("_explain", [](const nb::callable& f, const CompileOptions& options) {
    const detail::ProgramOptions scope(options);
    nb::object result;  // it must live until it is computed
    return explain([&] { result = f(); });
  });

  using detail::Sealed;
  nb::class_<Sealed>(m, "_Sealed")
      .def("__init__",
           [](Sealed* s, const CompileOptions& options) { new (s) Sealed(true, options); })
      // Calls take turns: who waits must not keep others from running Python.
      .def("traces", &Sealed::traces, nb::call_guard<nb::gil_scoped_release>())
      .def("begin", &Sealed::begin, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "end", [](Sealed& s, const Tensors& results) { s.end(results); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("abandon", &Sealed::abandon, nb::call_guard<nb::gil_scoped_release>())
      .def("replay", &Sealed::replay, nb::call_guard<nb::gil_scoped_release>())
      .def("end_unsealed", &Sealed::end_unsealed, nb::call_guard<nb::gil_scoped_release>())
      // The results, or None where the call must be captured.
      .def(
          "try_replay",
          [](Sealed& s, const Tensors& arguments) -> std::optional<Tensors> {
            Tensors results;
            if (!s.try_replay(arguments, results)) return {};
            return results;
          },
          nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("is_refused", &Sealed::is_refused);
  using detail::SealedForms;
  nb::class_<SealedForms>(m, "_SealedForms")
      .def(nb::init<const CompileOptions&>())
      .def("find", &SealedForms::find)
      .def("refuse", &SealedForms::refuse)
      .def_prop_ro("refused", &SealedForms::refused)
      .def("text", &SealedForms::text);
  m.def("_history_is_spent", detail::history_is_spent);
  nb::class_<Program>(m, "_Program")
      .def("run", [](const Program& p, const Tensors& inputs) { return p.run(inputs); })
      .def_prop_ro("inputs", [](const Program& p) { return p.inputs(); })
      .def_prop_ro("calls", &Program::calls)
      .def_prop_ro("peak_bytes", &Program::peak_bytes)
      .def_prop_ro("passes",
                   [](const Program& p) {
                     std::vector<std::pair<std::string, std::string>> out;
                     for (const ProgramStage& s : p.stages()) out.emplace_back(s.name, s.text());
                     return out;
                   })
      .def("explain", &Program::explain)
      .def("__str__", &Program::text);
  m.def("_trace", trace_function);
  m.def("_is_sealing", detail::is_sealing);
  m.def("_live_number", live_number);
  m.def("_assume", assume);
}

}  // namespace pellucid::python
