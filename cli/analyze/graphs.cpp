// analyze depth and analyze checkpoint: the profilers of pellucid/graph_profilers.h as tables.
#include <fmt/format.h>

#include "cli/analyze/analysis.h"
#include "cli/app.h"
#include "pellucid/graph_profilers.h"

namespace pellucid::cli {

Analysis analyze_depth(const AnalysisOptions& o) {
  const std::vector<int64_t> sizes = sizes_or(o, {10, 5}, {10, 5});
  if (sizes.size() != 2)
    throw UsageError("--sizes: depth takes two, the greatest depth and the operations of a level");
  const int64_t width = o.quick ? 64 : 256;
  const DepthAnalysis d = AutogradSystemsProfiler().profile_computational_graph_depth(
      sizes[0], sizes[1], width, o.quick ? 5 : 31);
  Analysis a{
      .title = fmt::format("Cost by depth of the graph: levels of {} pointwise operations on "
                           "float32[{}, {}]",
                           sizes[1], width, width),
      .columns = {"depth", "operations", "nodes", "forward ms", "backward ms", "backward/forward",
                  "memory MB"}};
  for (const DepthResult& r : d.results)
    a.rows.push_back({r.depth,
                      r.operations,
                      r.nodes,
                      r.forward_ms,
                      r.backward_ms,
                      {r.backward_ms / r.forward_ms, 2},
                      r.memory_mb});
  a.warning = d.warning;
  const auto depth = a.column(0);
  a.chart = {.title = a.title,
             .x_label = "depth",
             .y_label = "ms, MB",
             .log_y = true,  // both grow in proportion: parallel lines
             .log_x = true,
             .series = {line_of("forward ms", 0, depth, a.column(3)),
                        line_of("backward ms", 1, depth, a.column(4)),
                        line_of("memory MB", 2, depth, a.column(6))}};
  a.notes = {
      fmt::format("Growth with depth (linear is 1): forward {:.2f}, backward {:.2f}, memory "
                  "{:.2f}.",
                  d.forward_scaling, d.backward_scaling, d.memory_scaling)};
  a.conclusion =
      fmt::format("Primary bottleneck: {}; {}.", d.primary_bottleneck, d.strategies.front());
  return a;
}

Analysis analyze_checkpoint(const AnalysisOptions& o) {
  const std::vector<int64_t> frequencies = sizes_or(o, {1, 2, 4, 8}, {1, 2, 4, 8});
  const int64_t width = o.quick ? 64 : 256, batch = o.quick ? 64 : 512;
  const CheckpointAnalysis c = AutogradSystemsProfiler().analyze_memory_checkpointing_trade_offs(
      frequencies, 12, width, batch, o.quick ? 3 : 15);
  Analysis a{
      .title = fmt::format("A checkpoint every n of 12 layers of width {}, batch {}: one step",
                           width, batch),
      .columns = {"every", "step ms", "peak MB", "memory saved %", "time added %", "gradients"}};
  bool same = true;
  for (const CheckpointResult& r : c.results) {
    a.rows.push_back({r.frequency == 0 ? std::string("none") : fmt::format("{}", r.frequency),
                      r.step_ms,
                      r.peak_mb,
                      {100 * r.memory_saved, 1},
                      {100 * r.time_added, 1},
                      r.same_gradients ? "same bits" : "differ"});
    same = same && r.same_gradients;
  }
  a.warning = c.warning;
  std::vector<double> x, time, memory;
  for (const CheckpointResult& r : c.results)
    if (r.frequency > 0) {
      x.push_back(static_cast<double>(r.frequency));
      time.push_back(100 * (1 + r.time_added));
      memory.push_back(100 * (1 - r.memory_saved));
    }
  a.chart = {.title = a.title,  // shares, because milliseconds and megabytes have no common scale
             .x_label = "layers between checkpoints",
             .y_label = "% of a step without checkpoints",
             .series = {line_of("time", 0, x, time), line_of("peak memory", 1, x, memory),
                        line_of("without", 9, x, std::vector<double>(x.size(), 100))}};
  if (c.best_frequency == 0) {
    a.conclusion = "No frequency pays here: time x memory is least without checkpoints.";
  } else {
    const auto best = std::find_if(c.results.begin(), c.results.end(),
                                   [&](const auto& r) { return r.frequency == c.best_frequency; });
    a.conclusion = fmt::format(
        "The best frequency is {}: {:+.0f} % memory and {:+.0f} % time (the least time x memory); "
        "gradients are {}.",
        c.best_frequency, -100 * best->memory_saved, 100 * best->time_added,
        same ? "the same bit for bit" : "NOT the same");
  }
  return a;
}

}  // namespace pellucid::cli
