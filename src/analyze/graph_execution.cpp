// GraphExecutionProfiler: time, memory and graph of each execution.
#include <chrono>

#include "pellucid/graph.h"
#include "pellucid/graph_profilers.h"
#include "pellucid/lazy.h"

namespace pellucid {

Tensor GraphExecutionProfiler::run(const std::function<Tensor()>& f) {
  Record r;
  const LazyGuard eager(false);  // what is measured runs while it is measured
  reset_peak_memory_stats();
  r.before = memory_stats();
  const auto begun = std::chrono::steady_clock::now();
  Tensor result = f();
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  r.after = memory_stats();
  if (result.defined() && result.grad_fn())
    r.graph_nodes = static_cast<int64_t>(graph_nodes({result}).size());
  records_.push_back(r);
  return result;
}

std::string GraphExecutionProfiler::report() const {
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::string out =
      fmt::format("{:>9}  {:>10}  {:>12}  {:>9}  {:>10}  {:>11}  {:>6}\n", "iteration", "time ms",
                  "allocated MB", "cached MB", "reserved MB", "peak add MB", "nodes");
  double seconds = 0;
  for (size_t i = 0; i < records_.size(); ++i) {
    const Record& r = records_[i];
    seconds += r.seconds;
    out += fmt::format("{:>9}  {:>10.3f}  {:>12.3f}  {:>9.3f}  {:>11.3f}  {:>11.3f}  {:>6}\n", i,
                       r.seconds * 1e3, mb(r.after.allocated), mb(r.after.cached),
                       mb(r.after.reserved), mb(r.after.peak - r.before.allocated), r.graph_nodes);
  }
  if (!records_.empty())
    out += fmt::format("{:>9}  {:>10.3f}\n", "mean",
                       seconds * 1e3 / static_cast<double>(records_.size()));
  return out;
}

}  // namespace pellucid
