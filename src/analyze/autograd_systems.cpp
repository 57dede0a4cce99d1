// AutogradSystemsProfiler: cost by depth of the graph, and what checkpointing trades.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "pellucid/analyze.h"
#include "pellucid/graph.h"
#include "pellucid/graph_profilers.h"
#include "pellucid/lazy.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
}

// The exponent p of y ~ x^p that fits best.
double scaling_of(const std::vector<double>& x, const std::vector<double>& y) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = std::log(x[i]), b = std::log(std::max(y[i], 1e-12));
    sx += a;
    sy += b;
    sxx += a * a;
    sxy += a * b;
  }
  const double spread = n * sxx - sx * sx;
  return spread > 0 ? (n * sxy - sx * sy) / spread : 0;
}

// One level of a chain: pointwise operations of five kinds in turn.
Tensor level(Tensor x, const Tensor& weight, int64_t operations) {
  for (int64_t i = 0; i < operations; ++i) switch (i % 5) {
      case 0:
        x = x * weight;
        break;
      case 1:
        x = x.sin();
        break;
      case 2:
        x = x + weight;
        break;
      case 3:
        x = x.tanh();
        break;
      default:
        x = x.sigmoid();
    }
  return x;
}

// The times of one depth, run by run.
struct DepthTimes {
  std::vector<double> forward, backward;
};

void run_depth(const Tensor& weight, const Tensor& input, int64_t operations, DepthResult& r,
               DepthTimes& times) {
  const int64_t before = memory_stats().allocated;
  auto begun = Clock::now();
  Tensor x = input;
  for (int64_t d = 0; d < r.depth; ++d) x = level(x, weight, operations);
  const Tensor loss = x.sum();
  times.forward.push_back(ms_since(begun));
  x.reset();
  r.memory_mb = static_cast<double>(memory_stats().allocated - before) / 1e6;
  r.nodes = static_cast<int64_t>(graph_nodes({loss}).size());
  begun = Clock::now();
  autograd::grad({loss}, {weight});
  times.backward.push_back(ms_since(begun));
}

// Why the times cannot be relied on: they scatter, or a deeper graph takes less time.
std::string noise_of(const std::vector<DepthResult>& results,
                     const std::vector<DepthTimes>& times) {
  for (size_t i = 0; i < results.size(); ++i) {
    const double ratio = std::max(
        results[i].forward_ms / *std::min_element(times[i].forward.begin(), times[i].forward.end()),
        results[i].backward_ms /
            *std::min_element(times[i].backward.begin(), times[i].backward.end()));
    if (ratio > 2)
      return fmt::format(
          "the machine is too noisy: at depth {} the median is {:.1f} times the fastest run; close "
          "other programs and measure again",
          results[i].depth, ratio);
    if (i > 0 && (results[i].forward_ms < 0.8 * results[i - 1].forward_ms ||
                  results[i].backward_ms < 0.8 * results[i - 1].backward_ms))
      return fmt::format(
          "the machine is too noisy: depth {} takes less time than depth {}; close other programs "
          "and measure again",
          results[i].depth, results[i - 1].depth);
  }
  return {};
}

void conclude(DepthAnalysis& a) {
  std::vector<double> depth, forward, backward, memory;
  for (const DepthResult& r : a.results) {
    depth.push_back(static_cast<double>(r.depth));
    forward.push_back(r.forward_ms);
    backward.push_back(r.backward_ms);
    memory.push_back(r.memory_mb);
  }
  a.forward_scaling = scaling_of(depth, forward);
  a.backward_scaling = scaling_of(depth, backward);
  a.memory_scaling = scaling_of(depth, memory);
  a.backward_forward_ratio = backward.back() / std::max(forward.back(), 1e-9);
  const double times = std::max(a.forward_scaling, a.backward_scaling);
  if (a.memory_scaling > times + 0.1) {
    a.primary_bottleneck = "memory";
    a.strategies.push_back(fmt::format(
        "checkpoint: memory grows as depth^{:.2f}, time only as depth^{:.2f}; dropping and "
        "recomputing activations trades the one for the other",
        a.memory_scaling, times));
  } else if (a.backward_forward_ratio > 1.5) {
    a.primary_bottleneck = "backward_pass";
    a.strategies.push_back(fmt::format(
        "shorten the graph: backward takes {:.2f} times the forward pass at depth {}; fused ops "
        "and NoGradGuard around what needs no gradient leave fewer nodes",
        a.backward_forward_ratio, a.results.back().depth));
  } else {
    a.primary_bottleneck = "balanced";
    a.strategies.push_back(fmt::format(
        "nothing stands out: backward takes {:.2f} times the forward pass, memory grows as "
        "depth^{:.2f}",
        a.backward_forward_ratio, a.memory_scaling));
  }
}

}  // namespace

DepthAnalysis AutogradSystemsProfiler::profile_computational_graph_depth(int64_t max_depth,
                                                                         int64_t operations,
                                                                         int64_t width,
                                                                         int64_t repeats) const {
  PELLUCID_CHECK(max_depth > 0 && operations > 0 && width > 0 && repeats > 0, ValueError,
                 "profile_computational_graph_depth: depth, operations, width and repeats must be "
                 "positive, found {}, {}, {} and {}.",
                 max_depth, operations, width, repeats);
  const autograd::AutoGradMode on(true);
  const LazyGuard eager(false);  // what is measured runs while it is measured
  const Tensor weight = rand({width, width}).requires_grad_(), input = rand({width, width});
  DepthAnalysis a;
  for (int64_t depth = 1; depth <= max_depth; ++depth)
    a.results.push_back({.depth = depth, .operations = depth * operations});
  std::vector<DepthTimes> times(a.results.size());
  // All depths in turn, so that a drift of the machine hits all alike; the first turn warms up.
  for (int64_t turn = 0; turn <= repeats; ++turn) {
    if (turn == 1) times.assign(a.results.size(), {});
    for (size_t i = 0; i < a.results.size(); ++i)
      run_depth(weight, input, operations, a.results[i], times[i]);
  }
  for (size_t i = 0; i < a.results.size(); ++i) {
    a.results[i].forward_ms = quantile(times[i].forward, 0.5);
    a.results[i].backward_ms = quantile(times[i].backward, 0.5);
  }
  a.warning = noise_of(a.results, times);
  conclude(a);
  return a;
}

namespace {

struct Stack {
  std::vector<Tensor> weights;
  Tensor input;

  Tensor run(const Tensor& x, size_t first, size_t last) const {
    Tensor h = x;
    for (size_t i = first; i < last; ++i) h = gelu(linear(h, weights[i]));
    return h;
  }
  // The gradients of a step with a checkpoint around every `frequency` layers.
  std::vector<Tensor> step(int64_t frequency) const {
    Tensor h = input;
    const size_t n = weights.size(), f = frequency > 0 ? static_cast<size_t>(frequency) : n;
    for (size_t i = 0; i < n; i += f) {
      const size_t end = std::min(i + f, n);
      if (frequency == 0)
        h = run(h, i, end);
      else
        h = autograd::checkpoint([this, i, end](const Tensor& x) { return run(x, i, end); }, h);
    }
    const Tensor loss = h.square().mean();
    h.reset();
    return autograd::grad({loss}, weights);
  }
};

CheckpointResult measure_frequency(const Stack& stack, int64_t frequency, int64_t repeats,
                                   std::string& warning) {
  CheckpointResult r{.frequency = frequency};
  stack.step(frequency);  // warm-up
  reset_peak_memory_stats();
  const int64_t before = memory_stats().allocated;
  const Latency l = measure_latency_of([&] { stack.step(frequency); }, 0, repeats);
  r.peak_mb = static_cast<double>(memory_stats().peak - before) / 1e6;
  r.step_ms = l.median_ms;
  if (l.noisy && warning.empty()) warning = l.warning;
  return r;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(), a[i].nbytes()) != 0) return false;
  return true;
}

}  // namespace

CheckpointAnalysis AutogradSystemsProfiler::analyze_memory_checkpointing_trade_offs(
    const std::vector<int64_t>& frequencies, int64_t layers, int64_t width, int64_t batch,
    int64_t repeats) const {
  PELLUCID_CHECK(
      layers > 0 && width > 0 && batch > 0 && repeats > 0, ValueError,
      "analyze_memory_checkpointing_trade_offs: layers, width, batch and repeats must be "
      "positive, found {}, {}, {} and {}.",
      layers, width, batch, repeats);
  const autograd::AutoGradMode on(true);
  const LazyGuard eager(false);  // what is measured runs while it is measured
  Stack stack;
  for (int64_t i = 0; i < layers; ++i)
    stack.weights.push_back(
        (randn({width, width}) / std::sqrt(static_cast<double>(width))).detach().requires_grad_());
  stack.input = randn({batch, width}).requires_grad_();
  CheckpointAnalysis a;
  a.results.push_back(measure_frequency(stack, 0, repeats, a.warning));
  const CheckpointResult plain = a.results[0];
  const std::vector<Tensor> expected = stack.step(0);
  double best = plain.step_ms * plain.peak_mb;
  for (const int64_t f : frequencies) {
    PELLUCID_CHECK(f > 0, ValueError,
                   "analyze_memory_checkpointing_trade_offs: a frequency must be positive, found "
                   "{}.",
                   f);
    CheckpointResult r = measure_frequency(stack, f, repeats, a.warning);
    r.memory_saved = 1 - r.peak_mb / plain.peak_mb;
    r.time_added = r.step_ms / plain.step_ms - 1;
    r.same_gradients = same_bits(stack.step(f), expected);
    if (r.step_ms * r.peak_mb < best) {
      best = r.step_ms * r.peak_mb;
      a.best_frequency = f;
    }
    a.results.push_back(r);
  }
  return a;
}

}  // namespace pellucid
