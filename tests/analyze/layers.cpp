// Tables by module: whatever the model, each call and each moment has one row, so a parent is the
// sum of what stands below it and the table the sum of all calls.
#include <doctest/doctest.h>

#include <functional>

#include "cli/analyze/spec.h"
#include "pellucid/analyze.h"
#include "pellucid/nn.h"
#include "pellucid/ops.h"
#include "pellucid/optim.h"

using namespace pellucid;

namespace {

// Functional ops between modules, one module called twice, one below two names, a parameter of its
// own, and a nested module that is called from outside its parent.
struct OddImpl : nn::Cloneable<OddImpl> {
  OddImpl() { reset(); }
  void reset() override {
    scale = register_parameter("scale", ones({8}));
    twice = register_module("twice", nn::Linear(8, 8));
    shared = register_module("shared", nn::Linear(8, 8));
    alias = register_module("alias", shared);
    inner = register_module(
        "inner", nn::Sequential(nn::Linear(8, 8), nn::ReLU(), nn::Sequential(nn::Linear(8, 8))));
    unused = register_module("unused", nn::Linear(8, 8));
  }
  Tensor forward(const Tensor& x) {
    const Tensor a = relu(twice(x)) * scale;
    const Tensor b = twice(a) + shared(a) + alias(a);
    return inner(b).matmul(b.t()).softmax(-1);
  }
  Tensor scale;
  nn::Linear twice{nullptr}, shared{nullptr}, alias{nullptr}, unused{nullptr};
  nn::Sequential inner{nullptr};
};
struct Sums {
  double contraction = 0, other = 0, bytes = 0, least = 0, ms = 0;
  int64_t calls = 0, parameters = 0;
  void add(const LayerCost& l) {
    contraction += l.cost.flops.contraction + l.backward.flops.contraction;
    other += l.cost.flops.other + l.backward.flops.other;
    bytes += l.cost.bytes + l.backward.bytes;
    least += l.least.seconds;
    ms += l.forward_ms;
    calls += l.cost.calls + l.backward.calls;
    parameters += l.parameters;
  }
};

void check_same(const Sums& a, const Sums& b) {
  CHECK(a.contraction == doctest::Approx(b.contraction));
  CHECK(a.other == doctest::Approx(b.other));
  CHECK(a.bytes == doctest::Approx(b.bytes));
  CHECK(a.least == doctest::Approx(b.least));
  CHECK(a.ms == doctest::Approx(b.ms));
  CHECK(a.calls == b.calls);
  CHECK(a.parameters == b.parameters);
}

// Every module with rows below it is their sum.
void check_tree(const std::vector<LayerCost>& rows) {
  for (const LayerCost& parent : rows) {
    if (parent.part != LayerPart::Module) continue;
    Sums below, own;
    bool any = false;
    for (const LayerCost& row : rows) {
      const bool inside =
          row.part == LayerPart::OwnOps
              ? row.path == parent.path
              : row.part == LayerPart::Module && row.depth == parent.depth + 1 &&
                    (parent.path.empty() || row.path.starts_with(parent.path + "."));
      if (!inside) continue;
      any = any || row.part == LayerPart::Module;
      below.add(row);
    }
    if (!any) continue;
    own.add(parent);
    INFO("parent '" << parent.path << "'");
    check_same(own, below);
  }
}

}  // namespace

TEST_CASE("layers: the rows of any model sum to its step") {
  const MachineRates machine{100e9, 50e9};
  std::vector<std::string> models = cli::model_names();
  REQUIRE(models.size() > 3);
  models.push_back("Sequential(Linear(8,4), ReLU(), Linear(4,2))");
  models.push_back("Sequential(Sequential(Linear(8,8)), Linear(8,2), Dropout(0.5))");
  for (const std::string& name : models) {
    INFO(name);
    cli::MadeModel model;
    std::vector<EstimatedCall> calls;
    std::vector<LayerCost> rows;
    {
      EstimateGuard guard;
      model = cli::make_model(name, 4);
      guard.phase("forward");
      std::vector<int64_t> sizes = {2};
      const std::vector<int64_t> sample =
          model.sample.empty() ? std::vector<int64_t>{8} : model.sample;
      sizes.insert(sizes.end(), sample.begin(), sample.end());
      Tensor loss = model.loss(model.module.forward(cli::make_input(model, sizes)));
      guard.phase("backward");
      loss.backward();
      optim::Adam adam(model.module.ptr()->parameters(), optim::AdamOptions(1e-3));
      guard.phase("step");
      adam.step();
      calls = guard.calls();
      rows = layer_costs(*model.module.ptr(), calls, 1, 2, machine, 3);
    }
    std::erase_if(calls, [](const EstimatedCall& c) { return c.phase == 0; });
    check_tree(rows);
    Sums table, all;
    table.add(sum_layers(rows));
    const CostSum cost = sum_costs(calls);
    CHECK(table.calls == cost.calls);
    CHECK(table.contraction == doctest::Approx(cost.flops.contraction));
    CHECK(table.other == doctest::Approx(cost.flops.other));
    CHECK(table.bytes == doctest::Approx(cost.bytes));
    CHECK(table.least == doctest::Approx(least_time(calls, machine).seconds));
    CHECK(rows.back().part == LayerPart::Optimizer);
    CHECK(rows[rows.size() - 2].part == LayerPart::Outside);
  }
}

TEST_CASE("layers: functional ops, shared modules and modules called twice have their rows") {
  nn::ModuleHolder<OddImpl> odd(std::make_shared<OddImpl>());
  const std::vector<LayerCost> rows = layer_costs(odd, randn({4, 8}), 5);
  check_tree(rows);
  const auto row = [&](const std::string& path, LayerPart part) -> const LayerCost& {
    for (const LayerCost& l : rows)
      if (l.path == path && l.part == part) return l;
    FAIL("no row " << path);
    return rows[0];
  };
  const double one = 2.0 * 4 * 8 * 8;
  CHECK(row("twice", LayerPart::Module).cost.flops.contraction == 2 * one);
  CHECK(row("shared", LayerPart::Module).cost.flops.contraction == 2 * one);
  CHECK(row("unused", LayerPart::Module).cost.calls == 0);
  CHECK(row("", LayerPart::OwnOps).cost.flops.contraction == 2.0 * 4 * 8 * 4);  // the product
  CHECK(row("", LayerPart::OwnOps).parameters == 8);
  CHECK(row("inner", LayerPart::Module).cost.flops.contraction == 2 * one);
  CHECK(row("", LayerPart::Module).forward_ms > 0);
  double own = 0;
  for (const LayerCost& l : rows)
    if (l.part == LayerPart::OwnOps) own += l.forward_ms;
  CHECK(own > 0);
}
