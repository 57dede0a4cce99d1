// Compiled functions: the bits of the plain function, both ways, and the choice between them.
#include "pellucid/compile.h"

#include <doctest/doctest.h>

#include <thread>

#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/nn.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/optim.h"

namespace pellucid {
namespace {

TEST_CASE("compile: a function gives the bits of the plain one in every call") {
  const auto f = [](const Tensor& x, double scale) {
    return layer_norm(gelu(x * scale + 10) + x, {64});
  };
  const Tensor x = randn({128, 64}), expected = f(x, 3);
  const bool ambient = LazyGuard::is_enabled();  // with PELLUCID_LAZY=1 eager calls are kept, too
  for (const CompileMode mode : {CompileMode::Measured, CompileMode::Always}) {
    auto compiled = compile(f, mode);
    CHECK(compiled.report().text() == "not called yet\n");
    for (int i = 0; i < 14; ++i) {
      const Tensor y = compiled(x, 3);
      CHECK((ambient || !is_pending(y)));
      CHECK(y.equal(expected));
      CHECK(compiled(x, 4).equal(f(x, 4)));  // numbers may change
    }
    const CompileReport report = compiled.report();
    REQUIRE(report.sizes.size() == 1);
    CHECK(report.sizes[0].least_elements == 8192);
    CHECK(report.sizes[0].calls == 28);
    CHECK(report.sizes[0].decided == (mode == CompileMode::Measured));
    CHECK((report.sizes[0].captured_seconds > 0) == (mode == CompileMode::Measured));
  }
}

TEST_CASE("compile: other sizes have a choice of their own") {
  auto twice = compile([](const Tensor& x) { return x + x; });
  for (const int64_t n : {1, 2, 3, 5000})
    for (int i = 0; i < 12; ++i)
      CHECK(twice(ones({n})).sum().item<double>() == 2.0 * static_cast<double>(n));
  CHECK(twice(Tensor(ones({0}))).numel() == 0);
  CHECK(twice.report().sizes.size() == 4);  // 0; 1; 2 and 3; 5000
}

TEST_CASE("compile: results and arguments of any kind") {
  auto sums = compile([](const Tensors& list, const char* name) {
    Tensor sum = list[0];
    for (size_t i = 1; i < list.size(); ++i) sum = sum + list[i];
    return std::make_pair(std::string(name), sum);
  });
  const auto [name, sum] = sums(Tensors{ones({3}), ones({3})}, "both");
  CHECK(name == "both");
  CHECK(sum.equal(full({3}, 2)));
  int calls = 0;
  auto nothing = compile([&] { ++calls; });
  nothing();
  auto copy = nothing;
  copy();
  CHECK(calls == 2);
  CHECK(nothing.report().sizes[0].calls == 2);  // copies share what was found out
}

TEST_CASE("compile: a whole training step changes its parameters as an eager one does") {
  const auto train = [](bool compiled) {
    manual_seed(3);
    nn::Sequential net(nn::Linear(20, 64), nn::ReLU(), nn::Linear(64, 5));
    optim::SGD optimizer(net->parameters(), optim::SGDOptions(0.05).momentum(0.9));
    const Tensor x = randn({32, 20}), y = randn({32, 5});
    const auto step = [&](const Tensor& in) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(net->forward(in), y);
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto fast = compile(step, CompileMode::Always);
    std::vector<double> losses;
    for (int i = 0; i < 15; ++i) losses.push_back((compiled ? fast(x) : step(x)).item<double>());
    for (const Tensor& p : net->parameters()) losses.push_back(p.sum().item<double>());
    return losses;
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("compile: an exception leaves tensors as an eager call would") {
  const Tensor x = zeros({5000});
  const bool ambient = LazyGuard::is_enabled();
  auto fails = compile(
      [&](const Tensor& t) {
        x.add_(t);
        PELLUCID_CHECK(false, ValueError, "it fails.");
      },
      CompileMode::Always);
  CHECK_THROWS_AS(fails(ones({5000})), ValueError);
  CHECK(LazyGuard::is_enabled() == ambient);
  CHECK(x.sum().item<double>() == 5000);
}

TEST_CASE("compile: called by several threads at once") {
  auto f = compile([](const Tensor& x) { return (x * 2 + 1).relu().sum(); });
  std::vector<std::thread> threads;
  std::vector<double> found(4);
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] {
      const Tensor x = ones({5000});
      for (int i = 0; i < 20; ++i) found[t] = f(x).item<double>();
    });
  for (std::thread& t : threads) t.join();
  CHECK(found == std::vector<double>(4, 15000));
}

TEST_CASE("explain: groups, what ran alone, and what was forgotten") {
  const Tensor x = randn({128, 128});
  auto f = compile([](const Tensor& t) {
    const Tensor unused = t.exp();
    return cumsum(matmul(t * 2 + 1, t).relu() + 1, 0);
  });
  const NoGradGuard off;
  const Explanation e = f.explain(x);
  REQUIRE(e.parts.size() == 3);
  CHECK(e.parts[0].ops == std::vector<std::string>{"mul", "add"});
  CHECK(e.parts[0].unmade == 1);
  CHECK(e.parts[0].unmade_bytes == 128 * 128 * 4);
  CHECK(e.parts[0].end == "mm can only begin a group");
  CHECK(e.parts[1].ops == std::vector<std::string>{"mm", "relu", "add"});
  CHECK(e.parts[1].unmade == 2);
  CHECK(e.parts[1].end == "cumsum has no loop that can be fused (opaque)");
  CHECK(e.parts[2].ops == std::vector<std::string>{"cumsum"});
  CHECK(e.calls == 6);
  CHECK(e.fused() == 5);
  CHECK(e.forgotten == 1);
}

}  // namespace
}  // namespace pellucid
