// The graph of a captured program: what the verifier finds, what passes do, and plans of memory.
#include "graph/graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "core/traced.h"
#include "graph/passes.h"
#include "graph/plan.h"
#include "least_bytes.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/program.h"

namespace pellucid::graph {
namespace {

// The graph of what f captures, whose results are kept.
Graph captured(const std::function<Tensors()>& f) {
  const LazyGuard lazy;
  eval();
  const Tensors kept = f();
  detail::Capture& own = detail::Capture::own();
  const std::vector<detail::CapturedCall*> calls = own.to_flush();
  const detail::StorageNumbers numbers(own, calls);
  Graph g = detail::graph_of(calls, numbers);
  for (Node& n : g.nodes) n.attrs = {};  // they belong to the calls
  return g;
}

std::vector<std::string> names(const Graph& g) {
  std::vector<std::string> out;
  for (const Node& n : g.nodes) out.push_back(n.op->info->name);
  return out;
}
using Names = std::vector<std::string>;

TEST_CASE("graph: its text names values, versions and ops") {
  const Tensor x = ones({2, 3});
  const NoGradGuard off;
  const Graph g = captured([&] {
    const Tensor y = x * 2;
    y.add_(x);
    return Tensors{y.relu()};
  });
  verify(g, "capture");
  CHECK(detail::stage_of("", g).text() ==
        "%2.1 float32[2, 3] = mul(in0, in1)\n"
        "%2.2 float32[2, 3] = add_(%2.1, in0)\n"
        "%3 float32[2, 3] = relu(%2.2)\n");
}

TEST_CASE("graph: the verifier blames the pass after which a graph contradicts itself") {
  const Tensor x = ones({2, 3});
  const NoGradGuard off;
  const Graph good = captured([&] {
    const Tensor y = x.exp();
    y.mul_(x);
    return Tensors{y + x};
  });
  verify(good, "capture");
  const auto message = [](const Graph& g) {
    try {
      verify(g, "a pass");
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string();
  };
  CHECK(message(good).empty());
  Graph g = good;
  std::swap(g.nodes[0], g.nodes[1]);
  CHECK(message(g).find("graph after 'a pass': node 0 (mul): reads version 1 of storage") == 0);
  g = good;
  std::swap(g.nodes[1], g.nodes[2]);
  CHECK(message(g).find("node 1 (add): reads version 2") != std::string::npos);
  g = good;
  g.nodes.pop_back();
  CHECK(message(g).find("has 0 writes, not 1") != std::string::npos);
  g = good;
  g.nodes[2].inputs[0].value = 1000;
  CHECK(message(g).find("value 1000") != std::string::npos);
  g = good;
  g.values[g.nodes[0].inputs[0].value].sizes = {20, 30};
  CHECK(message(g).find("reaches") != std::string::npos);
  g = good;
  g.nodes[2].writes.clear();
  CHECK(message(g).find("does not say that it writes") != std::string::npos);
  g = good;
  g.nodes[1].outputs[0] = g.nodes[2].outputs[0];
  CHECK_FALSE(message(g).empty());
}

int64_t run_pass(std::string_view name, Graph& g) {
  for (const Pass& p : passes())
    if (p.name == name) {
      const int64_t changed = p.run(g);
      verify(g, name);
      return changed;
    }
  FAIL("no such pass");
  return 0;
}

TEST_CASE("cse: equal calls are made once, and what differs in anything is not merged") {
  const Tensor x = rand({4, 4}), y = rand({4, 4});
  const NoGradGuard off;
  const auto merged = [](const std::function<Tensors()>& f) {
    Graph g = captured(f);
    return run_pass("cse", g);
  };
  CHECK(merged([&] { return Tensors{x.exp() + x.exp()}; }) == 1);
  CHECK(merged([&] { return Tensors{(x.exp() + y).tanh() * (x.exp() + y).tanh()}; }) == 3);
  CHECK(merged([&] { return Tensors{x.exp() + y.exp()}; }) == 0);
  CHECK(merged([&] { return Tensors{x.exp() + x.t().exp()}; }) == 0);
  CHECK(merged([&] { return Tensors{rand_like(x) + rand_like(x)}; }) == 0);
  CHECK(merged([&] { return Tensors{x.exp(), x.exp()}; }) == 0);  // both are seen: two memories
  CHECK(merged([&] {  // the argument changed between them
          const Tensor z = x.exp(), a = z.sin();
          z.add_(1);
          return Tensors{a + z.sin()};
        }) == 0);
  CHECK(merged([&] {  // a result is changed afterwards
          const Tensor a = x.exp(), b = x.exp();
          b.add_(1);
          return Tensors{a + b};
        }) == 0);
}

TEST_CASE("dead: what nobody reads is removed with all that only it needed") {
  const Tensor x = rand({4, 4});
  const NoGradGuard off;
  Graph g = captured([&] {
    const Tensor a = x.exp();
    return Tensors{a.sin(), a.cos().tanh()};
  });
  CHECK(run_pass("dead", g) == 0);
  for (Storage& s : g.storages) s.live_out = s.external;
  g.storages[g.values[g.nodes[1].outputs[0]].storage].live_out = true;
  CHECK(run_pass("dead", g) == 2);
  CHECK(names(g) == Names{"exp", "sin"});
}

TEST_CASE(
    "neighbours: a call moves behind the calls that it reads, never over what it depends on") {
  const Tensor x = rand({8, 8}), y = rand({8, 8});
  const NoGradGuard off;
  Graph g = captured([&] {
    const Tensor a = x.exp(), p = matmul(x, y), b = a * 2;
    return Tensors{b, p};
  });
  CHECK(names(g) == Names{"exp", "mm", "mul"});
  CHECK(run_pass("neighbours", g) == 1);
  CHECK(names(g) == Names{"exp", "mul", "mm"});
  g = captured([&] {
    const Tensor a = x.exp(), p = matmul(a, y), b = a * p;
    return Tensors{b};
  });
  CHECK(run_pass("neighbours", g) == 0);
  g = captured([&] {  // the change must come after the product that reads the old values
    const Tensor a = x.exp(), p = matmul(a, y);
    a.mul_(2);
    return Tensors{a, p};
  });
  CHECK(run_pass("neighbours", g) == 0);
}

TEST_CASE(
    "updates: a parameter changes as soon as its gradient is there and nobody reads the old one") {
  const Tensor w = rand({1024, 512}), v = rand({1024, 512}), x = rand({64, 1024});
  const NoGradGuard off;
  Graph g = captured([&] {
    const Tensor gw = matmul(x.t(), rand({64, 512})), gv = matmul(x.t(), rand({64, 512}));
    const Tensor y = matmul(x, w);
    w.sub_(gw);
    v.sub_(gv);
    return Tensors{y};
  });
  const Names before = names(g);
  INFO(detail::stage_of("", g).text());
  CHECK(run_pass("updates", g) == 1);  // v's; w is read by the product before it
  CHECK(names(g) == Names{"rand", "mm", "rand", "mm", "sub", "mm", "sub"});
  CHECK(before == Names{"rand", "mm", "rand", "mm", "mm", "sub", "sub"});
}

TEST_CASE("delay: a large result that waits is made right before it is read") {
  const Tensor g = rand({64, 2048}), x = rand({64, 2048}), y = rand({512, 512});
  const NoGradGuard off;
  const auto make = [&](bool changed) {
    return captured([&] {
      const Tensor a = g + 0, b = x + 0;
      Tensor large = matmul(a.t(), b);  // 16 MiB from 1 MiB
      if (changed) a.add_(1);
      const Tensor p = rand({1024, 1024}).exp().sum();
      return Tensors{large.sum() + p + a.sum()};
    });
  };
  const auto place = [](const Graph& graph, const std::string& name) {
    const Names all = names(graph);
    return std::find(all.begin(), all.end(), name) - all.begin();
  };
  Graph graph = make(false);
  CHECK(place(graph, "mm") < place(graph, "rand"));
  CHECK(run_pass("delay", graph) == 1);
  CHECK(place(graph, "mm") > place(graph, "exp"));
  Graph changed = make(true);  // what it reads is changed in between
  CHECK(run_pass("delay", changed) == 0);
  Graph empty;
  for (const Pass& p : passes())
    if (p.run) CHECK(p.run(empty) == 0);
}

TEST_CASE("recompute: what waits is made again, and the most that is needed at one time shrinks") {
  const Tensor x = rand({256, 256}), y = rand({256, 256});
  const NoGradGuard off;
  const auto make = [&] {
    return captured([&] {
      const Tensor a = x.exp(), b = x.tanh();  // both wait until the end
      Tensor p = matmul(y, y);
      for (int i = 0; i < 3; ++i) p = matmul(p, y);
      return Tensors{p + a + b};
    });
  };
  Graph g = make();
  const size_t nodes = g.nodes.size();
  CHECK(recompute(g, size_t{1} << 40) == 0);  // there is room
  CHECK(recompute(g, 3 * 256 * 256 * 4) > 0);
  verify(g, "recompute");
  CHECK(g.nodes.size() > nodes);
  CHECK(g.repeats.size() == g.nodes.size() - nodes);
  Graph least = make();  // it ends where nothing more can be won
  recompute(least, 1);
  verify(least, "recompute");
}

TEST_CASE("keys: programs that differ in anything that matters have different keys") {
  const NoGradGuard off;
  const Tensor x = rand({8, 8}), y = rand({8, 8}), wide = rand({8, 16});
  const auto key = [](const std::function<Tensors()>& f) {
    const LazyGuard lazy;
    eval();
    const Tensors kept = f();
    detail::Capture& own = detail::Capture::own();
    return detail::StorageNumbers(own, own.to_flush()).key();
  };
  const std::vector<std::function<Tensors()>> different = {
      [&] { return Tensors{x + y}; },
      [&] { return Tensors{x + x}; },
      [&] { return Tensors{y - x}; },
      [&] { return Tensors{x + y.t()}; },
      [&] { return Tensors{x.slice(0, 0, 4) + y.slice(0, 0, 4)}; },
      [&] { return Tensors{x.slice(0, 4, 8) + y.slice(0, 0, 4)}; },
      [&] { return Tensors{x.to(kFloat64) + y}; },
      [&] { return Tensors{x.add_(y)}; },
      [&] { return Tensors{(x + y).sum(0)}; },
      [&] { return Tensors{(x + y).sum(1)}; },
      [&] { return Tensors{(x + y).sum(1, true)}; },
      [&] {
        const Tensor a = x + y;
        return Tensors{a, a.sum(1)};
      },
      [&] { return Tensors{x + 1.0}; },
      [&] { return Tensors{x + Scalar(int64_t{1})}; },
      [&] { return Tensors{softmax(x, 0)}; },
      [&] { return Tensors{softmax(x, 1)}; },
      [&] { return Tensors{wide + wide}; },
      [&] { return Tensors{(x * y) + y}; },
      [&] { return Tensors{(x * y) + x}; },
      [&] {
        return Tensors{x * y, x + y};
      },
      [&] {
        return Tensors{x + y, x * y};
      },
  };
  std::vector<detail::ProgramKey> keys;
  keys.reserve(std::size(different));
  for (const auto& f : different) keys.push_back(key(f));
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      INFO("programs " << i << " and " << k);
      CHECK_FALSE(keys[i] == keys[k]);
    }
  // Values, numbers, seeds and addresses are no part of it.
  for (size_t i = 0; i < different.size(); ++i)
    if (i != 7) CHECK(key(different[i]) == keys[i]);
  CHECK(key([&] {
          return Tensors{rand({8, 8}) * 2};
        }) == key([&] {
          return Tensors{rand({8, 8}) * 3};
        }));
  CHECK(key([&] { return Tensors{leaky_relu(x, 0.1)}; }) ==
        key([&] { return Tensors{leaky_relu(y, 0.2)}; }));
  CHECK(key([&] { return Tensors{dropout(x, 0.5, true)}; }) ==
        key([&] { return Tensors{dropout(x, 0.5, true)}; }));
}

TEST_CASE("passes are chosen by name") {
  CHECK(PassSet("").has("fuse"));
  CHECK_FALSE(PassSet("-fuse").has("fuse"));
  CHECK(PassSet("-fuse").has("cse"));
  CHECK(PassSet("cse, dead").has("dead"));
  CHECK_FALSE(PassSet("cse,dead").has("plan"));
  CHECK_THROWS_AS(PassSet("-no_such_pass"), ValueError);
}

TEST_CASE("plans: blocks that are needed at one time never share memory") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const size_t n = round < 58 ? 1 + random() % 200 : 5000;  // more than 4,096: the quick way
    std::vector<Block> blocks(n);
    size_t sum = 0;
    for (Block& b : blocks) {
      b.bytes = random() % 5 == 0 ? random() % 300'000 : random() % 3000;
      b.first = random() % 100;
      b.last = b.first + random() % 20;
      sum += b.bytes + 4096;
    }
    const Plan plan = plan_memory(blocks);
    CHECK(plan.bytes >= least_bytes(blocks));
    CHECK(plan.bytes <= sum);
    if (n <= 200) CHECK(plan.bytes <= 2 * least_bytes(blocks));
    bool apart = true;
    const size_t step = n > 1000 ? 37 : 1;
    for (size_t i = 0; i < n; i += step)
      for (size_t k = 0; k < n; ++k) {
        if (i == k || blocks[i].first > blocks[k].last || blocks[k].first > blocks[i].last)
          continue;
        apart = apart && (plan.offsets[i] + blocks[i].bytes <= plan.offsets[k] ||
                          plan.offsets[k] + blocks[k].bytes <= plan.offsets[i]);
      }
    CHECK(apart);
    for (size_t i = 0; i < n; ++i) CHECK(plan.offsets[i] + blocks[i].bytes <= plan.bytes);
  }
  CHECK(plan_memory({}).bytes == 0);
}

}  // namespace
}  // namespace pellucid::graph
