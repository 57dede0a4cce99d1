// GraphExecutionProfiler and AutogradSystemsProfiler on real graphs.
#include "pellucid/graph_profilers.h"

#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("graph profiler: one record an execution") {
  GraphExecutionProfiler profiler;
  for (const int64_t n : {100, 200, 400}) {
    const Tensor x = randn({n, n}).requires_grad_();
    const Tensor y = profiler.profile_execution(
        [](Tensor h) {
          for (int i = 0; i < 3; ++i) h = relu(h.matmul(h));
          return h;
        },
        x);
    CHECK(y.sizes() == IntArrayRef({n, n}));
  }
  REQUIRE(profiler.records().size() == 3);
  CHECK(profiler.records()[0].graph_nodes == 7);  // three products, three relus, the leaf
  // Each product keeps its input, each relu its result; a temporary is freed in between.
  CHECK(profiler.records()[2].after.peak - profiler.records()[2].before.allocated >=
        3 * 400 * 400 * 4);
  const std::string report = profiler.report();
  CHECK(report.find("allocated MB") != std::string::npos);
  CHECK(std::count(report.begin(), report.end(), '\n') == 5);
  CHECK(GraphExecutionProfiler::measure_memory().reserved >= 0);
}

TEST_CASE("autograd profiler: depth") {
  const DepthAnalysis a = AutogradSystemsProfiler().profile_computational_graph_depth(4, 5, 32, 3);
  REQUIRE(a.results.size() == 4);
  CHECK(a.results[3].operations == 20);
  CHECK(a.results[3].nodes == 22);  // and the sum and the leaf
  CHECK(a.results[3].memory_mb > a.results[0].memory_mb);
  CHECK(a.memory_scaling == doctest::Approx(1).epsilon(0.15));
  CHECK(a.strategies.size() == 1);
  CHECK_THROWS_AS(AutogradSystemsProfiler().profile_computational_graph_depth(0), ValueError);
}

TEST_CASE("autograd profiler: checkpoints") {
  const CheckpointAnalysis a =
      AutogradSystemsProfiler().analyze_memory_checkpointing_trade_offs({1, 3, 6}, 6, 32, 64, 3);
  REQUIRE(a.results.size() == 4);
  CHECK(a.results[0].frequency == 0);
  for (const CheckpointResult& r : a.results) CHECK(r.same_gradients);
  CHECK(a.results[2].peak_mb < a.results[0].peak_mb);
  CHECK(a.results[2].memory_saved > 0);
  CHECK_THROWS_AS(
      AutogradSystemsProfiler().analyze_memory_checkpointing_trade_offs({0}, 2, 8, 8, 1),
      ValueError);
}

TEST_CASE("autograd profiler: a checkpoint runs its function once more, however long it is") {
  std::vector<Tensor> weights;
  for (int i = 0; i < 6; ++i) weights.push_back(randn({8, 8}).requires_grad_());
  int runs = 0;
  const Tensor y = autograd::checkpoint(
      [&](const Tensor& x) {
        ++runs;
        Tensor h = x;
        for (const Tensor& w : weights) h = gelu(linear(h, w));
        return h;
      },
      randn({4, 8}).requires_grad_());
  y.sum().backward();
  CHECK(runs == 2);
}
