// The functions of pellucid/analyze.h: the worked figures, the keys, and that nothing is changed.
#include <doctest/doctest.h>

#include <atomic>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "pellucid/analyze.h"
#include "pellucid/models.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
const MachineRates kMachine{100e9, 50e9};  // so that no test measures the ceilings
}

TEST_CASE("analyze: worked figures") {
  nn::Linear small(128, 64);
  CHECK(count_parameters(small) == 8'256);
  CHECK(count_flops(small, randn({1, 128})) == 16'384);
  CHECK(count_flops(small, randn({32, 128})) == 16'384);
  CHECK(count_flops(small, randn({128})) == 16'384);
  CHECK(count_flops(nn::Linear(1000, 500), randn({4, 1000})) == 1'000'000);
  CHECK(count_flops(nn::Linear(512, 512), randn({64, 512})) == 524'288);

  nn::Conv2d conv(nn::Conv2dOptions(3, 64, 7).stride(2).padding(3));
  CHECK(count_flops(conv, randn({1, 3, 224, 224})) == 236'027'904);

  nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
  CHECK(count_flops(net, randn({64, 784})) == 2 * 784 * 128 + 128 + 2 * 128 * 10);
}

TEST_CASE("analyze: the full cost of a batch, and the least time") {
  EstimateGuard guard;
  nn::Linear layer(768, 3072);
  CHECK(count_parameters(layer) == 2'362'368);
  guard.phase("forward");
  layer(randn({32, 768}));
  std::vector<EstimatedCall> calls;
  for (const EstimatedCall& c : guard.calls())
    if (c.flops.contraction > 0) calls.push_back(c);
  const CostSum cost = sum_costs(calls);
  CHECK(cost.flops.contraction == 150'994'944);
  CHECK(cost.flops.other == 98'304);
  CHECK(cost.flops.total == 151'093'248);

  const EstimateGuard inner;
  nn::Linear square(nn::LinearOptions(512, 512).bias(false));
  square(empty({64, 512}));
  const CostSum product = sum_costs(inner.calls());
  CHECK(product.flops.contraction == 33'554'432);
  const std::span<const EstimatedCall> last(&inner.calls().back(), 1);
  CHECK(least_time(last, {50e9, 1e15}).seconds * 1e3 == doctest::Approx(0.67).epsilon(0.01));
  CHECK(least_time(last, {50e9, 1e15}).bottleneck() == "compute");
  CHECK(least_time(last, {1e15, 1e9}).bottleneck() == "memory");
  CHECK_THROWS_AS(least_time(last, {0, 1}), ValueError);
}

TEST_CASE("analyze: twelve feed-forward blocks, and 125 million parameters with Adam") {
  EstimateGuard guard;
  nn::Sequential blocks;
  for (int i = 0; i < 12; ++i) {
    blocks->push_back(nn::Linear(768, 3072));
    blocks->push_back(nn::Linear(3072, 768));
  }
  CHECK(count_parameters(blocks) == 56'669'184);
  const auto megabytes = [&](MemoryCategory c) {
    return static_cast<double>(guard.memory().of(c)) / 1e6;
  };
  CHECK(megabytes(MemoryCategory::Parameter) == doctest::Approx(226.7).epsilon(0.001));

  EstimateGuard adam_guard;
  nn::Linear wide(nn::LinearOptions(12'500, 10'000).bias(false));
  optim::Adam adam(wide->parameters(), optim::AdamOptions(1e-3));
  wide(randn({1, 12'500})).sum().backward();
  adam.step();
  const MemorySnapshot m = adam_guard.memory();
  CHECK(m.of(MemoryCategory::Parameter) == 500'000'000);
  CHECK(m.of(MemoryCategory::Gradient) / 1'000'000 == 500);
  CHECK(m.of(MemoryCategory::Optimizer) / 1'000'000 == 1'000);
}

TEST_CASE("analyze: an activation counts one FLOP an element, whatever it is made of") {
  nn::Sequential activations(nn::Tanh(), nn::SELU(), nn::ReLU6(), nn::PReLU(), nn::LogSigmoid(),
                             nn::GELU(), nn::Softmin(1));
  CHECK(count_flops(activations, randn({3, 8})) == 7 * 8);
  CHECK(count_flops(AnalyzedModel([](const Tensor& x) { return x.exp() + 1; }), randn({3, 8})) ==
        0);
}

TEST_CASE("analyze: shared weights count once") {
  const EstimateGuard guard;
  models::GPT gpt;
  CHECK(count_parameters(gpt) == 124'439'808);
  nn::Linear shared(10, 10);
  CHECK(count_parameters(nn::Sequential(shared, nn::ReLU(), shared)) == 110);
}

TEST_CASE("analyze: measured memory") {
  nn::Linear layer(768, 3072);
  const Figures m = measure_memory(layer, randn({32, 768}));
  CHECK(m["parameter_memory_mb"] == doctest::Approx(9.449472));
  CHECK(m["gradient_memory_mb"] == doctest::Approx(9.449472));
  CHECK(m["activation_memory_mb"] == doctest::Approx((32 * 768 + 32 * 3072) * 4 / 1e6));
  CHECK(m["peak_memory_mb"] >= m["parameter_memory_mb"] + m["gradient_memory_mb"]);
  CHECK(m["memory_efficiency"] > 0);
  CHECK(m["memory_efficiency"] <= 1);
  CHECK(!layer->weight.grad().defined());
}

TEST_CASE("analyze: profiles have the keys of their documentation") {
  nn::Sequential net(nn::Linear(64, 32), nn::ReLU(), nn::Linear(32, 10));
  const Tensor x = randn({16, 64});
  const Profiler profiler;
  const Figures layer = profiler.profile_layer(net, x);
  const Figures forward = profile_forward_pass(net, x, kMachine);
  for (const char* key :
       {"parameters", "flops", "macs", "latency_ms", "parameter_memory_mb", "activation_memory_mb",
        "gradient_memory_mb", "peak_memory_mb", "memory_efficiency", "gflops_per_second"}) {
    CHECK_MESSAGE(layer.contains(key), key);
    CHECK_MESSAGE(forward.contains(key), key);
  }
  for (const char* key : {"memory_bandwidth_mbs", "computational_efficiency", "is_memory_bound",
                          "is_compute_bound", "bottleneck"})
    CHECK_MESSAGE(forward.contains(key), key);
  CHECK(forward["is_memory_bound"] + forward["is_compute_bound"] == 1);
  CHECK(forward.text("bottleneck") == (forward["is_memory_bound"] == 1 ? "memory" : "compute"));
  CHECK(forward["flops"] == 2 * 64 * 32 + 32 + 2 * 32 * 10);
  CHECK(forward["macs"] == 64 * 32 + 32 * 10);
  CHECK(forward["computational_efficiency"] <= 1);
  CHECK_THROWS_AS(forward["no such key"], ValueError);

  const Figures backward = profile_backward_pass(
      net, x, [](const Tensor& y) { return y.square().mean(); }, kMachine);
  for (const char* key : {"forward_flops", "backward_flops", "total_flops", "forward_latency_ms",
                          "backward_latency_ms", "total_latency_ms", "forward_memory_mb",
                          "total_memory_mb", "total_gflops_per_second", "bottleneck"})
    CHECK_MESSAGE(backward.contains(key), key);
  CHECK(backward["optimizer_memory_estimates.sgd"] == 0);
  CHECK(backward["optimizer_memory_estimates.adam"] ==
        doctest::Approx(2 * layer["parameter_memory_mb"]));
  CHECK(backward["backward_latency_ms"] > 0);
  const auto json = nlohmann::json::parse(backward.json());
  CHECK(json["optimizer_memory_estimates"].contains("adamw"));
}

TEST_CASE("analyze: a function is a model without parameters") {
  const auto f = [](const Tensor& x) { return relu(x); };
  CHECK(count_parameters(f) == 0);
  CHECK(count_flops(f, randn({4, 10})) == 10);
  CHECK(measure_memory(f, randn({4, 10}))["parameter_memory_mb"] == 0);
}

TEST_CASE("analyze: counting changes neither the model nor the random numbers") {
  models::ResNet net = models::resnet18(10);
  const Tensor x = randn({2, 3, 32, 32});
  const Tensor mean = net->bn1->running_mean.clone();
  manual_seed(5);
  const Tensor expected = rand({3});
  manual_seed(5);
  CHECK(count_flops(net, x) > 1e6);
  CHECK(rand({3}).equal(expected));
  CHECK(net->bn1->running_mean.equal(mean));
  CHECK(net->bn1->num_batches_tracked.item<int64_t>() == 0);
  CHECK(net->forward(x).sizes() == IntArrayRef({2, 10}));
}

TEST_CASE("analyze: a model's table adds up") {
  models::MnistCnn cnn;
  const std::vector<LayerCost> rows = layer_costs(cnn, randn({2, 1, 28, 28}), 1);
  REQUIRE(rows.size() == 8);  // with what forward does between the modules
  CHECK(rows[1].part == LayerPart::OwnOps);
  CHECK(rows[0].path.empty());
  CHECK(rows[0].parameters == 1'199'882);
  double contraction = 0;
  int64_t parameters = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    contraction += rows[i].cost.flops.contraction;
    parameters += rows[i].parameters;
    CHECK(rows[i].depth == 1);
  }
  CHECK(contraction == rows[0].cost.flops.contraction);
  CHECK(contraction ==
        1'535'033'344.0 / 32);  // torch.utils.flop_counter's figure for a batch of 64
  CHECK(parameters == rows[0].parameters);
  CHECK(rows[2].output_sizes == std::vector<int64_t>{2, 32, 26, 26});
  CHECK(rows[0].forward_ms >= rows[1].forward_ms);
  // torch.utils.flop_counter's figure for a step of 64, less that of its forward pass.
  double backward = 0;
  for (size_t i = 1; i < rows.size(); ++i) backward += rows[i].backward.flops.contraction;
  CHECK(backward == rows[0].backward.flops.contraction);
  CHECK(backward > 1.5 * contraction);
  for (const auto& m : cnn->modules()) CHECK_FALSE(m->has_hooks());  // called as before
}

TEST_CASE("analyze: a share above a given machine stays what it is, and is explained") {
  const nn::Linear layer(256, 256);
  const Figures f = profile_forward_pass(layer, randn({64, 256}), MachineRates{1e6, 1e6});
  CHECK(f["computational_efficiency"] > 1);
  CHECK(f["share_of_ceiling"] > 1);
  CHECK(f.text("ceiling_warning").find("this machine is faster than the rates") !=
        std::string::npos);
  const Figures b = profile_backward_pass(layer, randn({64, 256}), {}, MachineRates{1e6, 1e6});
  CHECK(b["share_of_ceiling"] > 1);
  CHECK(b.contains("ceiling_warning"));
  const Figures slow = profile_forward_pass(layer, randn({64, 256}), MachineRates{1e18, 1e18});
  CHECK(slow["share_of_ceiling"] < 1);
  CHECK_FALSE(slow.contains("ceiling_warning"));
}

TEST_CASE("analyze: latency") {
  CHECK(quantile({3, 1, 2}, 0.5) == 2);
  CHECK(quantile({1, 2}, 0.25) == 1.25);
  int runs = 0;
  const Latency l = measure_latency_of([&] { ++runs; }, 3, 20);
  CHECK(l.iterations == 20);
  CHECK(l.warmup_runs >= 3);
  CHECK(runs == l.warmup_runs + 20);
  CHECK(l.min_ms <= l.median_ms);
  CHECK(l.median_ms <= l.p95_ms);
  CHECK(l.p95_ms <= l.p99_ms);
  CHECK_THROWS_AS(measure_latency_of([] {}, 1, 0), ValueError);
}

TEST_CASE("analyze: a machine whose cores are taken is told, also where all runs are slow alike") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 3 * std::max(1u, std::thread::hardware_concurrency()); ++i)
    others.emplace_back([&] {
      while (!stop) {}
    });
  const auto spin = [] {
    const std::clock_t begun = std::clock();  // of all threads, so a run lasts some milliseconds
    while (std::clock() - begun < CLOCKS_PER_SEC / 20) {}
  };
  const Latency l = measure_latency_of(spin, 0, 20);
  stop = true;
  for (std::thread& t : others) t.join();
  CHECK(l.preempted >= 3);
  CHECK(l.noisy);
  CHECK(l.warning.find("too noisy") != std::string::npos);
}
