// Model analysis of anything that Python can call: the function and its parameters are handed to
// the library's own analysis (pellucid/analyze.h); results come back as JSON. And the comparison of
// recordings.
#include "pellucid/analyze.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "caster.h"
#include "hooks.h"
#include "pellucid/profile_report.h"
#include "pellucid/why_alive.h"
#include "register.h"

namespace pellucid::python {
namespace {

std::function<Tensor(const Tensor&)> function_of(const nb::object& f) {
  return [f](const Tensor& x) {
    return returned_tensor(f(nb::steal(wrap_known(x))), "the analyzed function");
  };
}

AnalyzedModel model_of(const nb::object& f, const std::vector<Tensor>& parameters) {
  return {function_of(f), parameters};
}

LossFunction loss_of(const nb::object& loss) {
  return loss.is_none() ? LossFunction() : LossFunction(function_of(loss));
}

nb::dict compare_runs(const std::vector<profile::Profile>& first,
                      const std::vector<profile::Profile>& second, const std::string& by,
                      double threshold) {
  const profile::Diff d = profile::diff(first, second, {.by = by, .threshold = threshold});
  nb::list rows;
  for (const profile::DiffRow& r : d.rows) {
    nb::dict row;
    row["name"] = r.name;
    row["first"] = r.first;
    row["second"] = r.second;
    row["change"] = r.change;
    if (r.has_interval)
      row["interval"] = nb::make_tuple(r.low, r.high);
    else
      row["interval"] = nb::none();
    row["first_calls"] = r.first_calls;
    row["second_calls"] = r.second_calls;
    row["verdict"] = std::string(name_of(r.verdict));
    row["regression"] = r.regression;
    rows.append(row);
  }
  nb::dict out;
  out["what"] = d.what;
  out["scatter"] = d.scatter;
  out["between_runs"] = d.between_runs;
  out["regression"] = d.regression;
  out["rows"] = rows;
  return out;
}

}  // namespace

void register_analyze(nb::module_& m) {
  using Parameters = std::vector<Tensor>;
  m.def("_count_flops", [](const nb::object& f, const Parameters& p, const Tensor& x) {
    return count_flops(model_of(f, p), x);
  });
  m.def("_measure_memory", [](const nb::object& f, const Parameters& p, const Tensor& x) {
    return measure_memory(model_of(f, p), x).json();
  });
  m.def("_measure_latency", [](const nb::object& f, const Parameters& p, const Tensor& x,
                               int64_t warmup, int64_t iterations) {
    return measure_latency(model_of(f, p), x, warmup, iterations).figures().json();
  });
  m.def("_profile_layer", [](const nb::object& f, const Parameters& p, const Tensor& x) {
    return profile_layer(model_of(f, p), x).json();
  });
  m.def("_profile_forward_pass", [](const nb::object& f, const Parameters& p, const Tensor& x) {
    return profile_forward_pass(model_of(f, p), x).json();
  });
  m.def(
      "_profile_backward_pass",
      [](const nb::object& f, const Parameters& p, const Tensor& x, const nb::object& loss) {
        return profile_backward_pass(model_of(f, p), x, loss_of(loss)).json();
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_diff", &compare_runs);
  m.def("_why_alive",
        [](const Tensor& t, const std::vector<std::pair<std::string, Tensor>>& variables) {
          // Without the GIL: a node may be running on another thread, whose backward needs it.
          const nb::gil_scoped_release unlocked;
          return why_alive(t, variables).to_string();
        });
}

}  // namespace pellucid::python
