// EstimateGuard: sizes as real calls give them, no memory, and the same counts as the allocator.
#include "pellucid/estimate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "derived/support.h"
#include "pellucid/analyze.h"
#include "pellucid/models.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "tensor/phantom.h"

using namespace pellucid;

namespace {

FlopSplit sum(const EstimateGuard& guard, std::string_view phase) {
  FlopSplit out;
  const auto phases = guard.phases();
  for (const EstimatedCall& c : guard.calls()) {
    if (phases[c.phase].name != phase) continue;
    out.contraction += c.flops.contraction;
    out.other += c.flops.other;
    out.total += c.flops.total;
  }
  return out;
}

// The same tensor without values.
Tensor phantom(const Tensor& t) {
  if (t.impl().wrapped_number) return t;
  detail::Ref<detail::TensorImpl> impl = detail::alias_impl(t.impl());
  impl->storage = detail::phantom_storage(t.impl().storage->bytes);
  return Tensor(std::move(impl));
}

}  // namespace

TEST_CASE("estimate: every op gives the sizes and dtypes that it gives when it runs") {
  size_t estimated = 0, refused = 0;
  for (const OpDef* op : all_ops())
    for (const Sample& s : samples_of(*op).valid) {
      INFO(pellucid::test::text(s));
      const Tensors real = pellucid::test::run(s);
      const EstimateGuard guard;
      Tensors made;
      try {
        made = pellucid::test::run(pellucid::test::map_tensors(s, phantom));
      } catch (const NotImplementedError&) {
        ++refused;
        continue;
      }
      ++estimated;
      REQUIRE(made.size() == real.size());
      for (size_t i = 0; i < made.size(); ++i) {
        CHECK(made[i].sizes() == real[i].sizes());
        CHECK(made[i].dtype() == real[i].dtype());
        CHECK(made[i].requires_grad() == real[i].requires_grad());
      }
    }
  CHECK(estimated > 1000);
  CHECK(refused < estimated / 10);
}

TEST_CASE("estimate: a linear layer's forward and backward, in two columns") {
  const EstimateGuard off_by_default_outside_this_scope;
  EstimateGuard guard;
  nn::Linear layer(768, 3072);
  guard.phase("forward");
  const Tensor y = layer(randn({32, 768}));
  guard.phase("backward");
  y.sum().backward();
  const FlopSplit forward = sum(guard, "forward");
  CHECK(forward.contraction == 150'994'944);
  CHECK(forward.other >= 98'304);
  CHECK(sum(guard, "backward").contraction == 150'994'944);  // the input wants no gradient
  CHECK(guard.calls().size() > 3);
  CHECK(off_by_default_outside_this_scope.calls().empty());
}

TEST_CASE("estimate: nothing is allocated, drawn or changed") {
  manual_seed(3);
  const Tensor expected = rand({4});
  manual_seed(3);
  const Tensor real = zeros({3});
  const int64_t before = memory_stats().allocated;
  {
    EstimateGuard guard;
    CHECK(EstimateGuard::is_enabled());
    nn::Linear layer(100'000, 1'000'000);
    const Tensor y = nn::functional::dropout(layer(randn({100'000, 100'000})));
    CHECK(y.sizes() == IntArrayRef({100'000, 1'000'000}));
    real.add_(randn({3}));
    CHECK(guard.memory().total >= int64_t{400'000'000'000});
    CHECK(guard.memory().of(MemoryCategory::Parameter) ==
          4 * (int64_t{100'000'000'000} + 1'000'000));
    CHECK(memory_stats().allocated - before < 4096);
  }
  CHECK(!EstimateGuard::is_enabled());
  CHECK(real.equal(zeros({3})));
  CHECK(rand({4}).equal(expected));
}

TEST_CASE("estimate: what needs values says so") {
  const EstimateGuard guard;
  const Tensor x = randn({3, 4});
  CHECK_THROWS_WITH_AS(x.sum().item(),
                       "item: values are needed, but this tensor (float32[]) was made under "
                       "EstimateGuard and has only sizes. Make it again outside the guard.",
                       NotImplementedError);
  CHECK_THROWS_AS(nonzero(x), NotImplementedError);
  CHECK_THROWS_AS(x.data_ptr<float>(), NotImplementedError);
  CHECK_THROWS_AS(x.const_data_ptr<float>(), NotImplementedError);
  CHECK(x.toString() == "tensor(..., size=(3, 4))");
  CHECK_THROWS_AS(matmul(x, x), ShapeError);
  CHECK(tensor({1.0, 2.0}).sizes() == IntArrayRef({2}));
  CHECK((tensor(2.0) * 3).item<double>() == 6);  // numbers are computed
}

TEST_CASE("estimate: memory by phase is the allocator's") {
  const auto train = [](auto phase) {
    models::MnistCnn model;
    optim::Adam adam(model->parameters(), optim::AdamOptions(1e-3));
    phase("forward");
    Tensor loss =
        nn::functional::nll_loss(model->forward(randn({8, 1, 28, 28})), zeros({8}, kInt64));
    phase("backward");
    loss.backward();
    phase("step");
    adam.step();
  };
  const int64_t before = memory_stats().allocated;
  std::vector<int64_t> real;
  train([&](const char*) { real.push_back(memory_stats().allocated - before); });
  EstimateGuard guard;
  train([&](const char* name) { guard.phase(name); });
  const auto phases = guard.phases();
  REQUIRE(phases.size() == 4);
  CHECK(phases[0].end.total == real[0]);
  CHECK(phases[1].end.total == real[1]);
  CHECK(phases[2].end.total == real[2]);
  CHECK(guard.memory().total == 0);
}

namespace {

// Bytes at the end of a phase and the most during it.
struct PhaseBytes {
  std::string name;
  int64_t end = 0, peak = 0;
};

// A training step that names its phases: model, forward, backward, step.
using Step = std::function<void(const std::function<void(const char*)>& phase)>;

std::vector<PhaseBytes> measured(const Step& step) {
  const int64_t before = memory_stats().allocated;
  std::vector<PhaseBytes> out{{.name = "model"}};
  const auto close = [&] {
    out.back().end = memory_stats().allocated - before;
    out.back().peak = memory_stats().peak - before;
    reset_peak_memory_stats();
  };
  reset_peak_memory_stats();
  step([&](const char* name) {
    close();
    out.push_back({.name = name});
  });
  return out;
}

std::vector<PhaseBytes> estimated(const Step& step) {
  EstimateGuard guard;
  step([&](const char* name) { guard.phase(name); });
  std::vector<PhaseBytes> out;
  for (const EstimatedPhase& p : guard.phases()) out.push_back({p.name, p.end.total, p.peak.total});
  return out;
}

template <class Optimizer, class Options, class Make, class Loss>
Step step_of(Make make, Loss loss) {
  return [=](const std::function<void(const char*)>& phase) {
    auto model = make();
    Optimizer optimizer(model->parameters(), Options(1e-3));
    phase("forward");
    Tensor value = loss(model);
    phase("backward");
    value.backward();
    phase("step");
    optimizer.step();
    phase("end");
  };
}

}  // namespace

TEST_CASE("estimate: memory at forward, backward and step is a run's, kernels' scratch included") {
  const std::vector<std::pair<std::string, Step>> programs = {
      {"two-layer net",
       step_of<optim::SGD, optim::SGDOptions>(
           [] { return nn::Sequential(nn::Linear(1000, 100), nn::ReLU(), nn::Linear(100, 10)); },
           [](nn::Sequential& m) {
             return nn::functional::mse_loss(m->forward(randn({64, 1000})), zeros({64, 10}));
           })},
      {"CNN", step_of<optim::SGD, optim::SGDOptions>([] { return models::MnistCnn(); },
                                                     [](models::MnistCnn& m) {
                                                       return nn::functional::nll_loss(
                                                           m->forward(randn({64, 1, 28, 28})),
                                                           zeros({64}, kInt64));
                                                     })},
      {"GPT",
       step_of<optim::AdamW, optim::AdamWOptions>(
           [] {
             return models::GPT(
                 models::GPTOptions().n_layer(2).n_head(4).n_embd(64).block_size(64).vocab_size(
                     256));
           },
           [](models::GPT& m) {
             return m->forward(zeros({4, 64}, kInt64)).logsumexp(-1).mean();
           })},
      {"ResNet-18", step_of<optim::SGD, optim::SGDOptions>([] { return models::resnet18(); },
                                                           [](models::ResNet& m) {
                                                             return nn::functional::cross_entropy(
                                                                 m->forward(randn({2, 3, 48, 48})),
                                                                 zeros({2}, kInt64));
                                                           })}};
  // On one thread: how far the scratch of several overlaps is up to the scheduler.
  struct OneThread {
    int before = get_num_threads();
    OneThread() { set_num_threads(1); }
    ~OneThread() { set_num_threads(before); }
  } const one;
  for (const auto& [name, step] : programs) {
    const std::vector<PhaseBytes> real = measured(step), counted = estimated(step);
    REQUIRE(real.size() == counted.size());
    for (size_t i = 0; i + 1 < real.size(); ++i) {
      INFO(name << ", " << real[i].name << ": end " << real[i].end << " counted " << counted[i].end
                << ", peak " << real[i].peak << " counted " << counted[i].peak);
      CHECK(counted[i].end == real[i].end);
      const auto peak = static_cast<double>(real[i].peak);
      CHECK(std::abs(static_cast<double>(counted[i].peak) - peak) <= 0.03 * peak);
    }
  }
}

TEST_CASE("estimate: backward work belongs to the module whose forward caused it") {
  nn::Sequential net(nn::Linear(20, 30), nn::ReLU(), nn::Linear(30, 10));
  EstimateGuard guard;
  guard.phase("forward");
  const Tensor loss = net(randn({8, 20})).square().sum();
  guard.phase("backward");
  loss.backward();
  const std::vector<LayerCost> rows = layer_costs(*net, guard.calls(), 1, 2, {100e9, 50e9});
  REQUIRE(rows.size() == 5);
  CHECK(rows[1].cost.flops.contraction == 2 * 8 * 20 * 30);
  CHECK(rows[1].backward.flops.contraction == 2 * 8 * 20 * 30);      // the weight's alone
  CHECK(rows[3].backward.flops.contraction == 2 * 2 * 8 * 30 * 10);  // and the input's
  CHECK(rows[2].backward.flops.contraction == 0);
  CHECK(rows[2].backward.flops.other > 0);
  CHECK(rows[0].backward.flops.contraction ==
        rows[1].backward.flops.contraction + rows[3].backward.flops.contraction);
  CHECK(rows[0].cost.flops.other ==
        rows[1].cost.flops.other + rows[2].cost.flops.other + rows[3].cost.flops.other);
  CHECK(rows[4].part == LayerPart::Outside);  // the loss
  CHECK(rows[4].cost.flops.other > 0);
  CHECK(rows[0].least.seconds > rows[1].least.seconds);
}

TEST_CASE("estimate: a GPT of 175 billion parameters is trained for a step without its memory") {
  const int64_t before = memory_stats().allocated;
  EstimateGuard guard;
  models::GPT model(models::GPTOptions().n_layer(96).n_head(96).n_embd(12288).block_size(2048));
  int64_t parameters = 0;
  for (const Tensor& p : model->parameters()) parameters += p.numel();
  CHECK(parameters == 174'604'259'328);
  optim::Adam adam(model->parameters(), optim::AdamOptions(1e-4));
  guard.phase("forward");
  Tensor loss = model->forward(zeros({1, 16}, kInt64)).logsumexp(-1).mean();
  guard.phase("backward");
  loss.backward();
  guard.phase("step");
  adam.step();
  CHECK(guard.memory().of(MemoryCategory::Parameter) == parameters * 4);
  CHECK(guard.memory().of(MemoryCategory::Optimizer) >= parameters * 8);
  CHECK(guard.memory().of(MemoryCategory::Gradient) >= parameters * 4);
  CHECK(memory_stats().allocated - before < 1'000'000);
}

TEST_CASE("estimate: recurrent layers, encoders and checkpoints are the ordinary code") {
  const EstimateGuard guard;
  nn::LSTM lstm(nn::LSTMOptions(1000, 2000).num_layers(2));
  const auto [out, state] = lstm->forward(randn({7, 3, 1000}));
  CHECK(out.sizes() == IntArrayRef({7, 3, 2000}));
  out.sum().backward();
  models::EncoderClassifier encoder(30'000, 5);
  const Tensor logits = encoder->forward(zeros({2, 16}, kInt64));
  nn::functional::cross_entropy(logits, zeros({2}, kInt64)).backward();
  nn::Linear layer(500, 500);
  const Tensor x = randn({4, 500});
  const Tensor y = autograd::checkpoint([&](const Tensor& t) { return relu(layer(t)); }, x);
  y.sum().backward();
  for (const Tensor& p : layer->parameters()) CHECK(p.grad().sizes() == p.sizes());
  for (const Tensor& p : lstm->parameters()) CHECK(p.grad().defined());
}
