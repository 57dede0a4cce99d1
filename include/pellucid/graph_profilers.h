// Profilers of graphs: what each run of a function costs, how cost grows with a graph's depth, and
// what checkpointing trades. All on real graphs.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/memory.h"

namespace pellucid {

/// Times functions and reads the allocator around them, one record an execution.
class PELLUCID_API GraphExecutionProfiler {
 public:
  struct Record {
    double seconds = 0;
    MemoryStats before, after;  ///< `after.peak` is the most during the execution
    int64_t graph_nodes = 0;    ///< of the result's graph
  };
  /// Calls f(args…) once, records it and returns its result.
  template <class F, class... Args> Tensor profile_execution(F&& f, Args&&... args) {
    return run([&] { return std::forward<F>(f)(std::forward<Args>(args)...); });
  }
  /// The allocator's counters now.
  static MemoryStats measure_memory() { return memory_stats(); }
  const std::vector<Record>& records() const { return records_; }
  void clear() { records_.clear(); }
  /// A table with a line for each iteration, and their mean.
  std::string report() const;

 private:
  Tensor run(const std::function<Tensor()>& f);
  std::vector<Record> records_;
};

/// One depth of profile_computational_graph_depth.
struct DepthResult {
  int64_t depth = 0, operations = 0, nodes = 0;
  double forward_ms = 0, backward_ms = 0;
  double memory_mb = 0;  ///< that the graph keeps alive
};
struct DepthAnalysis {
  std::vector<DepthResult> results;
  /// Exponents of the power of depth by which each grows (least squares of logarithms): 1 is
  /// linear.
  double forward_scaling = 0, backward_scaling = 0, memory_scaling = 0;
  double backward_forward_ratio = 0;  ///< at the greatest depth
  std::string primary_bottleneck;     ///< "backward_pass", "memory" or "balanced"
  /// What to do about it, each with the figure that supports it.
  std::vector<std::string> strategies;
  std::string warning;  ///< why the times should not be relied on; empty if there is no reason
};

/// One frequency of analyze_memory_checkpointing_trade_offs: every how many layers a checkpoint.
struct CheckpointResult {
  int64_t frequency = 0;  ///< 0: none
  double step_ms = 0, peak_mb = 0;
  double memory_saved = 0, time_added = 0;  ///< shares of the figures without checkpoints
  bool same_gradients = true;               ///< bit for bit
};
struct CheckpointAnalysis {
  std::vector<CheckpointResult> results;  ///< the first is without checkpoints
  int64_t best_frequency = 0;             ///< of the least time x memory; 0 if that is none
  std::string warning;  ///< why the times should not be relied on; empty if there is no reason
};

/// Analyses of automatic differentiation as a system.
class PELLUCID_API AutogradSystemsProfiler {
 public:
  /// Chains of 1…max_depth levels of pointwise operations on a matrix of width x width.
  DepthAnalysis profile_computational_graph_depth(int64_t max_depth = 10,
                                                  int64_t operations_per_level = 5,
                                                  int64_t width = 128, int64_t repeats = 7) const;
  /// A stack of `layers` feed-forward layers of `width` on a batch, with a checkpoint around every
  /// 1, 2, … of them.
  CheckpointAnalysis analyze_memory_checkpointing_trade_offs(
      const std::vector<int64_t>& frequencies = {1, 2, 4, 8}, int64_t layers = 12,
      int64_t width = 256, int64_t batch = 512, int64_t repeats = 7) const;
};

}  // namespace pellucid
