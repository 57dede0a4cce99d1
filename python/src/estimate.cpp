// EstimateGuard (pellucid/estimate.h) for Python: a guard that is opened and closed, and its phases
// as dictionaries with the keys of `pellucid estimate --json`.
#include "pellucid/estimate.h"

#include <nanobind/stl/string.h>

#include <cmath>
#include <memory>

#include "caster.h"
#include "pellucid/analyze.h"
#include "register.h"

namespace pellucid::python {
namespace {

// What was counted stays readable when the guard is closed.
class Estimate {
 public:
  void open() {
    PELLUCID_CHECK(!guard_, ValueError, "estimate: it is open already; make another one.");
    guard_ = std::make_unique<EstimateGuard>();
  }
  void close() {
    if (guard_) kept_ = phases();
    guard_.reset();
  }
  void phase(std::string name) {
    PELLUCID_CHECK(guard_, ValueError, "estimate: a phase begins inside `with` alone.");
    guard_->phase(std::move(name));
  }
  nb::list phases() const {
    if (!guard_) return kept_;
    const std::vector<EstimatedPhase> phases = guard_->phases();
    std::vector<CostSum> costs(phases.size());
    for (const EstimatedCall& c : guard_->calls()) costs[c.phase].add(c);
    nb::list out;
    for (size_t i = 0; i < phases.size(); ++i) out.append(to_dict(phases[i], costs[i]));
    return out;
  }

 private:
  // Sums are doubles; what is counted in whole numbers is an int.
  static nb::object count(double n) {
    if (n == std::floor(n) && std::abs(n) < 0x1p63) return nb::int_(static_cast<int64_t>(n));
    return nb::float_(n);
  }
  static nb::dict to_dict(const EstimatedPhase& p, const CostSum& cost) {
    nb::dict categories;
    for (int c = 0; c < kMemoryCategoryCount; ++c)
      categories[nb::str(std::string(name_of(static_cast<MemoryCategory>(c))).c_str())] =
          p.end.by_category[static_cast<size_t>(c)];
    nb::dict d;
    d["name"] = p.name;
    d["peak_bytes"] = p.peak.total;
    d["end_bytes"] = p.end.total;
    d["end_bytes_by_category"] = categories;
    d["calls"] = cost.calls;
    d["contraction_flops"] = count(cost.flops.contraction);
    d["other_flops"] = count(cost.flops.other);
    d["total_flops"] = count(cost.flops.total);
    d["bytes_moved"] = count(cost.bytes);
    return d;
  }
  std::unique_ptr<EstimateGuard> guard_;
  nb::list kept_;
};

}  // namespace

void register_estimate(nb::module_& m) {
  nb::class_<Estimate>(m, "_Estimate")
      .def(nb::init<>())
      .def("open", &Estimate::open)
      .def("close", &Estimate::close)
      .def("phase", &Estimate::phase)
      .def("phases", &Estimate::phases);
}

}  // namespace pellucid::python
