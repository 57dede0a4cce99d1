// Whole training steps under capture: nothing in them reads a value, so that they stay pending to
// the end, and errors about values come at the call.
#include <doctest/doctest.h>

#include "core/capture.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "same_bits.h"

namespace pellucid {
namespace {

template <class F> int64_t forced_by(const F& f) {
  const int64_t before = detail::forced_runs.load();
  f();
  return detail::forced_runs.load() - before;
}

struct Language : nn::Module {
  Language() {
    table = register_module("table", nn::Embedding(20, 8));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
    head = register_module("head", nn::Linear(8, 20));
  }
  Tensor forward(const Tensor& tokens) {
    const Tensor x = norm->forward(table->forward(tokens)).unsqueeze(1);
    const Tensor y = scaled_dot_product_attention(x, x, x, {}, 0.0, true).squeeze(1);
    return head->forward(dropout(gelu(y), 0.1, is_training()));
  }
  nn::Embedding table{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};

struct Vision : nn::Module {
  Vision() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(1, 4, 3)));
    norm = register_module("norm", nn::BatchNorm2d(4));
    head = register_module("head", nn::Linear(4 * 3 * 3, 5));
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = max_pool2d(relu(norm->forward(conv->forward(x))), 2);
    return head->forward(y.flatten(1));
  }
  nn::Conv2d conv{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};
};

// A step of training, clipped; returns the loss.
template <class Model>
Tensor train(Model& model, optim::Optimizer& o, const Tensor& x, const Tensor& y) {
  o.zero_grad();
  const Tensor scores = model.forward(x);
  const Tensor loss = nn::functional::cross_entropy(scores.flatten(0, -2), y.flatten());
  loss.backward();
  const std::vector<Tensor> parameters = model.parameters();
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Tensor& p : parameters) gradients.push_back(p.grad());
  nn::utils::clip_grads_with_norm_(parameters, 0.5, nn::utils::get_total_norm(gradients));
  o.step();
  return loss.detach();
}

template <class Model> Tensors trained(const Tensor& x, const Tensor& y, bool lazily) {
  manual_seed(3);
  Model model;
  optim::AdamW o(model.parameters(), optim::AdamWOptions(1e-2));
  Tensors out;
  for (int step = 0; step < 3; ++step) {
    const LazyGuard lazy(lazily);
    Tensor loss;
    const int64_t forced = forced_by([&] { loss = train(model, o, x, y); });
    CHECK(forced == 0);
    CHECK(is_pending(loss) == lazily);
    for (const Tensor& p : model.parameters()) CHECK(is_pending(p) == lazily);
    out.push_back(loss);
  }
  for (const Tensor& p : model.parameters()) out.push_back(p.detach().clone());
  for (const Tensor& b : model.buffers()) out.push_back(b.clone());
  return out;
}

template <class Model> void check_trained(const Tensor& x, const Tensor& y) {
  const LazyGuard outermost(false);
  const Tensors eager = trained<Model>(x, y, false), lazy = trained<Model>(x, y, true);
  REQUIRE(eager.size() == lazy.size());
  for (size_t i = 0; i < eager.size(); ++i) CHECK_MESSAGE(same_bits(eager[i], lazy[i]), i);
}

TEST_CASE("lazy: a step with an embedding, attention and cross-entropy is captured whole") {
  check_trained<Language>(randint(20, {2, 6}), randint(20, {2, 6}));
}

TEST_CASE("lazy: a step with convolution, batch norm and max pooling is captured whole") {
  check_trained<Vision>(randn({6, 1, 8, 8}), randint(5, {6}));
}

template <class Optimizer, class Options> void check_optimizer(const Options& options) {
  const LazyGuard outermost(false);
  const auto run = [&](bool lazily) {
    manual_seed(1);
    Tensor p = randn({3, 4}).requires_grad_();
    Optimizer o({p}, options);
    for (int step = 0; step < 3; ++step) {
      const LazyGuard lazy(lazily);
      const int64_t forced = forced_by([&] {
        o.zero_grad();
        p.square().sum().backward();
        o.step();
      });
      CHECK(forced == 0);
      CHECK(is_pending(p) == lazily);
    }
    return p.detach().clone();
  };
  CHECK(same_bits(run(false), run(true)));
}

TEST_CASE("lazy: the step of every optimiser stays pending") {
  check_optimizer<optim::SGD>(optim::SGDOptions(0.1));
  check_optimizer<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9));
  check_optimizer<optim::Adam>(optim::AdamOptions(0.1).amsgrad(true));
  check_optimizer<optim::AdamW>(optim::AdamWOptions(0.1));
  check_optimizer<optim::RMSprop>(optim::RMSpropOptions(0.1).momentum(0.9));
  check_optimizer<optim::Adagrad>(optim::AdagradOptions(0.1));
  check_optimizer<optim::Adadelta>(optim::AdadeltaOptions(0.1));
  check_optimizer<optim::Adamax>(optim::AdamaxOptions(0.1));
  check_optimizer<optim::NAdam>(optim::NAdamOptions(0.1));
  check_optimizer<optim::RAdam>(optim::RAdamOptions(0.1));
  check_optimizer<optim::Rprop>(optim::RpropOptions(0.1));
  check_optimizer<optim::ASGD>(optim::ASGDOptions(0.1));
}

TEST_CASE("lazy: a captured step keeps the learning rate that it was captured with") {
  const LazyGuard outermost(false);
  Tensor p = ones({2}).requires_grad_();
  optim::SGD o({p}, optim::SGDOptions(0.5));
  auto& options = static_cast<optim::SGDOptions&>(o.param_groups()[0].options());
  {
    const LazyGuard lazy;
    p.sum().backward();
    o.step();
    options.lr(100);
    CHECK(is_pending(p));
  }
  CHECK(p[0].item<float>() == 0.5f);
  CHECK(options.lr() == 100);
  options.lr() = 0.25;
  o.step();
  CHECK(p[0].item<float>() == 0.25f);
}

TEST_CASE("lazy: the count of steps is read when it is asked for") {
  const LazyGuard outermost(false);
  Tensor p = ones({2}).requires_grad_();
  optim::Adam o({p}, optim::AdamOptions(0.5));
  const auto state = [&]() -> optim::AdamParamState& {
    return static_cast<optim::AdamParamState&>(*o.state().at(&p.impl()));
  };
  const LazyGuard lazy;
  p.sum().backward();
  o.step();
  o.step();
  CHECK(is_pending(p));
  CHECK(state().step() == 2);
  state().step(7);
  o.step();
  CHECK(state().step() == 8);
}

TEST_CASE("lazy: values that an op refuses throw at the call, and the rest is captured") {
  const LazyGuard outermost(false);
  const Tensor table = randn({5, 3}), bad = tensor({0, 5}), good = tensor({0, 4}),
               classes = tensor({0, 1, 2, 3, 2});
  const LazyGuard lazy;
  const Tensor pending = table * 2;
  CHECK(forced_by([&] {
          CHECK_THROWS_AS(embedding(pending, bad), IndexError);
          CHECK_THROWS_AS(pending.gather(0, bad.unsqueeze(1)), IndexError);
          CHECK_THROWS_AS(pending.index({bad}), IndexError);
          CHECK_THROWS_AS(pending.index_select(0, bad), IndexError);
          CHECK_THROWS_AS(nll_loss(pending, classes), IndexError);
          CHECK_THROWS_AS(cross_entropy_loss(pending, classes), IndexError);
          CHECK(is_pending(embedding(pending, good)));
          CHECK(is_pending(pending.gather(0, good.unsqueeze(1))));
          CHECK(is_pending(pending.index({good})));
        }) == 0);
  // An index that is pending itself is computed, and nothing else.
  const Tensor index = good + 0, other = table * 3;
  const Tensor rows = embedding(pending, index);
  CHECK_FALSE(is_pending(index));
  CHECK(is_pending(pending));
  CHECK(is_pending(other));
  CHECK(is_pending(rows));
  CHECK_THROWS_AS(embedding(pending, good + 1), IndexError);
}

TEST_CASE("lazy: changes in place by ops that cannot write where they read are captured") {
  const LazyGuard outermost(false);
  const auto run = [](bool lazily) {
    manual_seed(2);
    Tensor x = randn({4, 3});
    const LazyGuard lazy(lazily);
    const uint32_t version = x._version();
    CHECK(forced_by([&] {
            x.mul_(2);
            x.cumsum_(0);
            x.add_(1);
            x.tril_();
          }) == 0);
    CHECK(x._version() == version + 4);
    CHECK(is_pending(x) == lazily);
    return x;
  };
  CHECK(same_bits(run(false), run(true)));
}

TEST_CASE("clipping with the norm as a tensor is clip_grad_norm_") {
  const auto parameters = [] {
    Tensor a = ones({3}).requires_grad_(), b = ones({2, 2}).requires_grad_();
    (a.sum() * 3 + b.sum() * 4).backward();
    return std::vector<Tensor>{a, b};
  };
  for (const double most : {1.0, 100.0}) {
    const std::vector<Tensor> p = parameters(), q = parameters();
    const double norm = nn::utils::clip_grad_norm_(p, most);
    CHECK(norm == doctest::Approx(std::sqrt(27.0 + 64.0)));
    const Tensor total = nn::utils::get_total_norm({q[0].grad(), q[1].grad()});
    CHECK(total.item<double>() == norm);
    nn::utils::clip_grads_with_norm_(q, most, total);
    for (size_t i = 0; i < 2; ++i) CHECK(same_bits(p[i].grad(), q[i].grad()));
    CHECK(nn::utils::grad_norm(p) == doctest::Approx(std::min(most, norm)));
  }
}

// The loss of several batches, whose gradients are summed before the parameters change.
int64_t peak_of_batches(bool lazy, bool reads_each, bool reads_sum) {
  Tensor w = ones({1024, 1024}).requires_grad_();
  Tensors batches;
  for (int i = 0; i < 4; ++i) batches.push_back(full({1024, 1024}, 0.1 * i));
  const LazyGuard guard(lazy);
  reset_peak_memory_stats();
  const int64_t before = memory_stats().allocated;
  for (int step = 0; step < 2; ++step) {
    Tensor sum = zeros({});
    for (const Tensor& x : batches) {
      const Tensor loss = (x * w).sin().exp().tanh().mean();
      loss.backward();
      if (reads_each) CHECK(loss.item<float>() > 0);
      sum = sum + loss.detach();
    }
    if (reads_sum) CHECK(sum.item<float>() > 0);
    const NoGradGuard off;
    w.sub_(w.grad(), 0.1);
    w.mutable_grad() = Tensor();
  }
  CHECK(w.isfinite().all().item<bool>());
  return memory_stats().peak - before;
}

TEST_CASE("lazy: batches whose gradients are pending when a loss is read need no more memory") {
  const LazyGuard outermost(false);
  for (const bool each : {false, true})
    for (const bool sum : {false, true}) {
      INFO("reads each loss: " << each << ", reads the sum: " << sum);
      const int64_t eager = peak_of_batches(false, each, sum);
      CHECK(peak_of_batches(true, each, sum) <= eager + (int64_t{4} << 20) + 4096);
    }
}

TEST_CASE("lazy: a result that can have no memory is refused at its call") {
  const LazyGuard lazy;
  const Tensor x = ones({1'000'000});
  CHECK_THROWS_AS(x.reshape({-1, 1}).expand({-1, 1'000'000'000}).contiguous(), OutOfMemoryError);
  CHECK_THROWS_AS(ones({int64_t{1} << 45}), OutOfMemoryError);
  CHECK(x.sum().item<float>() == 1'000'000);
}

}  // namespace
}  // namespace pellucid
