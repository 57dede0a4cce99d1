// CompileMode::ReduceOverhead: functions that are sealed by themselves where that is safe, and
// captured where it is not.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/nn.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/optim.h"

namespace pellucid {
namespace {

template <class F> auto reduced(F f) { return compile(f, CompileMode::ReduceOverhead); }

// What a step leaves after some calls, and the losses on the way.
template <class Optimizer, class Options> Tensors train(bool compiled, const Options& options) {
  manual_seed(7);
  nn::Sequential net(nn::Linear(6, 16), nn::GELU(), nn::Dropout(0.3), nn::Linear(16, 2));
  Optimizer optimizer(net->parameters(), options);
  const auto step = [&](const Tensor& x) {
    Tensor loss = net->forward(x).square().mean();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  };
  auto fast = reduced(step);
  Tensors seen;
  for (int i = 0; i < 14; ++i) {
    const Tensor x = randn({5, 6});
    const Tensor loss = compiled ? fast(x) : step(x);
    if (compiled) CHECK(!loss.requires_grad());  // its backward ran: nobody can ask again
    seen.push_back(loss.detach().clone());
    if (i == 4) optimizer.param_groups()[0].options().set_lr(0.05);
    if (i == 6) net->eval();
    if (i == 9) net->train();
  }
  if (compiled) {
    REQUIRE(fast.report().forms.size() == 1);
    CHECK(fast.report().forms[0].refused.empty());
    CHECK(fast.report().forms[0].replayed >= 6);
  }
  for (const Tensor& p : net->parameters()) seen.push_back(p.detach().clone());
  return seen;
}

template <class Optimizer, class Options> void check_training(const Options& options) {
  const Tensors plain = train<Optimizer>(false, options), fast = train<Optimizer>(true, options);
  REQUIRE(plain.size() == fast.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    CHECK(plain[i].equal(fast[i]));
  }
}

TEST_CASE("reduce-overhead: whole training steps are sealed, with the bits of plain ones") {
  check_training<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9));
  check_training<optim::AdamW>(optim::AdamWOptions(0.01));
  check_training<optim::RMSprop>(optim::RMSpropOptions(0.01));
  check_training<optim::Adagrad>(optim::AdagradOptions(0.01));
}

TEST_CASE("reduce-overhead: results that need a gradient keep it, and the report says why") {
  nn::Linear net(4, 2);
  int calls = 0;
  auto f = reduced([&](const Tensor& x) {
    ++calls;
    return net->forward(x).tanh();
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = rand({3, 4}), y = f(x);
    CHECK(y.requires_grad());
    CHECK(y.equal(net->forward(x).tanh()));
    net->zero_grad();
    y.sum().backward();
    const Tensor gradient = net->weight.grad().clone();
    net->zero_grad();
    net->forward(x).tanh().sum().backward();
    CHECK(gradient.equal(net->weight.grad()));
  }
  CHECK(calls == 4);
  CHECK(f.report().text().find("not sealed, but captured: its results need a gradient") !=
        std::string::npos);
  {
    const NoGradGuard off;
    for (int i = 0; i < 5; ++i) {
      const Tensor x = rand({3, 4});
      CHECK(f(x).equal(net->forward(x).tanh()));
    }
    CHECK(calls == 6);
  }
  CHECK(f(rand({3, 4})).requires_grad());  // and again with one
  CHECK(f.explain(rand({3, 4})).text().find("sealed: 3 of 5 calls were replayed") !=
        std::string::npos);
}

TEST_CASE("reduce-overhead: a function that asks for a value runs as a captured one") {
  const NoGradGuard off;
  int calls = 0;
  auto f = reduced([&](const Tensor& x) {
    ++calls;
    return x.sum().item<float>() > 0 ? x + 1 : x - 1;
  });
  for (const double v : {1.0, -1.0, 1.0, -2.0})
    CHECK(f(full({3}, v))[0].item<float>() == (v > 0 ? v + 1 : v - 1));
  CHECK(calls == 4);
  CHECK(f.report().forms.at(0).refused.find("it asks for a value") == 0);
  auto argument = reduced([](const Tensor& x) { return x[0].item<float>() > 0 ? x * 2 : x; });
  CHECK(argument(ones({2}))[0].item<float>() == 2);
  CHECK(argument(-ones({2}))[0].item<float>() == -1);
}

TEST_CASE(
    "reduce-overhead: what cannot be sealed does what a plain call does, and nothing throws") {
  const NoGradGuard off;
  // A branch that changes, seen by a trace.
  int n = 0;
  auto turns = reduced([&](const Tensor& x) { return ++n % 2 ? x.sin() : x.cos(); });
  for (int i = 1; i <= 6; ++i)
    CHECK(turns(ones({2})).equal(i % 2 ? ones({2}).sin() : ones({2}).cos()));
  CHECK(turns.report().forms.at(0).refused.find("does not do the same in each call") !=
        std::string::npos);
  // A number that changes.
  double by = 1;
  auto numbers = reduced([&](const Tensor& x) { return x * by; });
  for (by = 1; by < 6; ++by) CHECK(numbers(ones({2}))[0].item<float>() == by);
  // One among the arguments: each has a program.
  auto given = reduced([](const Tensor& x, double b) { return x * b; });
  for (int i = 0; i < 40; ++i) CHECK(given(ones({2}), i % 20)[0].item<float>() == i % 20);
  CHECK(given.report().forms.size() == 16);
  // The seed, and a tensor that is kept.
  auto seeds = reduced([](const Tensor& x) {
    manual_seed(3);
    return x + rand({2});
  });
  manual_seed(3);
  const Tensor drawn = ones({2}) + rand({2});
  for (int i = 0; i < 4; ++i) CHECK(seeds(ones({2})).equal(drawn));
  Tensors kept;
  auto keeps = reduced([&](const Tensor& x) {
    kept.push_back(x * 2);
    return x + 1;
  });
  for (int i = 0; i < 5; ++i) keeps(full({2}, i));
  REQUIRE(kept.size() == 5);
  for (int i = 0; i < 5; ++i) CHECK(kept[static_cast<size_t>(i)][0].item<float>() == 2 * i);
  CHECK(keeps.report().forms.at(0).refused.find("something keeps a tensor") == 0);
  // A result that counts.
  int count = 0;
  auto counts = reduced([&](const Tensor& x) { return std::make_pair(x + 1, ++count); });
  for (int i = 1; i <= 5; ++i) CHECK(counts(ones({2})).second == i);
  // Memory that is shared in one call and not in another.
  auto adds = reduced([](const Tensor& a, const Tensor& b) {
    a.add_(1);
    return b * 2;
  });
  for (int i = 0; i < 3; ++i) {
    const Tensor a = ones({4}), b = ones({4});
    CHECK(adds(a, b)[0].item<float>() == 2);
    CHECK(adds(a, a)[0].item<float>() == 6);
    const Tensor whole = ones({5});
    const Tensor left = whole.narrow(0, 0, 4), right = whole.narrow(0, 1, 4);
    CHECK(adds(left, right)[0].item<float>() == 4);
  }
}

TEST_CASE(
    "reduce-overhead: an exception leaves what a plain call leaves, and later calls are right") {
  const NoGradGuard off;
  const Tensor count = zeros({1});
  bool fails = false;
  auto f = reduced([&](const Tensor& x) {
    count.add_(1);
    if (fails) throw std::runtime_error("stop");
    return x + count;
  });
  f(ones({1}));
  fails = true;
  CHECK_THROWS_AS(f(ones({1})), std::runtime_error);
  CHECK(count.item<float>() == 2);
  fails = false;
  for (int i = 3; i < 9; ++i) CHECK(f(ones({1})).item<float>() == 1 + i);
  CHECK(f.report().forms.at(0).replayed >= 3);
}

TEST_CASE("reduce-overhead: in other compiled functions, in itself, and on several threads") {
  const NoGradGuard off;
  auto inner = reduced([](const Tensor& x) { return x * 2; });
  auto outer =
      compile([&](const Tensor& x) { return inner(x) + inner(x + 1); }, CompileMode::Always);
  auto sealed = reduced([&](const Tensor& x) { return inner(x) + 1; });
  for (int i = 0; i < 5; ++i) {
    CHECK(outer(ones({2}))[0].item<float>() == 6);
    CHECK(sealed(ones({2}))[0].item<float>() == 3);
  }
  CHECK(inner.report().forms.empty());  // it belonged to the others
  CHECK(sealed.report().forms.at(0).replayed == 3);
  std::atomic<int> wrong{0};
  auto shared = reduced([](const Tensor& x) { return (x * 3).exp(); });
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const NoGradGuard none;
      for (int i = 0; i < 20; ++i) {
        const Tensor x = full({t + 1}, i * 0.01);
        wrong += !shared(x).equal((x * 3).exp());
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("seal: an index out of range raises though nobody uses its result") {
  const Tensor table = rand({5, 3});
  const NoGradGuard off;
  for (const bool reduces : {false, true}) {
    auto f = compile(
        [&](const Tensor& x, const Tensor& i) {
          embedding(table, i);
          return x + 1;
        },
        reduces ? CompileMode::ReduceOverhead : CompileMode::Always);
    if (!reduces) f.seal();
    for (int k = 0; k < 4; ++k) f(ones({2}), full({2}, k, kInt64));
    CHECK_THROWS_AS(f(ones({2}), full({2}, 7, kInt64)), IndexError);
    CHECK(f(ones({2}), full({2}, 4, kInt64))[0].item<float>() == 2);
  }
}

}  // namespace
}  // namespace pellucid
