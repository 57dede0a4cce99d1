// Passes and plans over graphs of 10^5 nodes and more: with anything quadratic they would take
// minutes.
#include <doctest/doctest.h>

#include "graph/passes.h"
#include "graph/plan.h"
#include "least_bytes.h"
#include "pellucid/op.h"

namespace pellucid::graph {
namespace {

const OpDef* op_called(std::string_view name) {
  for (const OpDef* op : all_ops())
    if (op->info->name == name) return op;
  return nullptr;
}

/// Builds a graph node by node.
struct Builder {
  Graph g;

  uint32_t storage(size_t bytes, bool external = false, bool live_out = false) {
    g.storages.push_back({.bytes = bytes, .external = external, .live_out = live_out});
    return static_cast<uint32_t>(g.storages.size() - 1);
  }
  uint32_t value(uint32_t s, int64_t offset = 0) {
    const auto numel = static_cast<int64_t>(g.storages[s].bytes / 4) - offset;
    g.values.push_back({.storage = s, .offset = offset, .sizes = {numel}, .strides = {1}});
    return static_cast<uint32_t>(g.values.size() - 1);
  }
  /// A node that writes a storage and reads others as they are now.
  void node(const OpDef* op, uint32_t to, const std::vector<uint32_t>& from, bool in_place = false,
            int64_t offset = 0) {
    Node n{.op = op, .call = static_cast<uint32_t>(g.nodes.size()), .in_place = in_place};
    if (in_place) n.inputs.push_back({value(to), g.storages[to].writes});
    for (const uint32_t s : from) n.inputs.push_back({value(s, offset), g.storages[s].writes});
    n.outputs.push_back(value(to));
    n.writes.push_back(to);
    ++g.storages[to].writes;
    g.nodes.push_back(std::move(n));
  }
};

constexpr uint32_t kMany = 200'000;

int64_t changed_by(std::string_view name, Graph& g) {
  for (const Pass& p : passes())
    if (p.name == name) {
      const int64_t changed = p.run(g);
      verify(g, name);
      return changed;
    }
  FAIL("no such pass");
  return 0;
}

TEST_CASE("graph scale: calls that read one tensor in many ways are told apart") {
  const OpDef *const exp = op_called("exp"), *const add = op_called("add");
  Builder b;
  const uint32_t x = b.storage(size_t{4} * (kMany + 1), true), sum = b.storage(64, false, true);
  b.node(op_called("cat"), sum, {x});
  for (uint32_t i = 0; i < kMany; ++i) {
    const uint32_t y = b.storage(64);
    b.node(exp, y, {x}, false, i / 2);  // each call twice
    b.node(add, sum, {y}, true);
  }
  CHECK(changed_by("cse", b.g) == kMany / 2);
  CHECK(changed_by("dead", b.g) == 0);
}

TEST_CASE("graph scale: updates behind a long row of calls that run as one") {
  const OpDef *const exp = op_called("exp"), *const sub = op_called("sub");
  Builder b;
  const uint32_t x = b.storage(size_t{1} << 20, true);
  std::vector<uint32_t> gradients;
  for (uint32_t i = 0; i < kMany; ++i)
    b.node(exp, gradients.emplace_back(b.storage(size_t{1} << 20)), {x});
  for (const uint32_t gradient : gradients)
    b.node(sub, b.storage(size_t{1} << 20, true), {gradient}, true);
  CHECK(changed_by("neighbours", b.g) >= 0);
  CHECK(changed_by("updates", b.g) >= 0);
}

TEST_CASE("graph scale: many results are computed again") {
  const OpDef *const exp = op_called("exp"), *const mm = op_called("mm");
  constexpr int64_t kLayers = 10'000;
  constexpr size_t kBytes = size_t{1} << 20;
  Builder b;
  std::vector<uint32_t> sums, activations;
  uint32_t y = b.storage(kBytes, true);
  const uint32_t w = b.storage(kBytes, true);
  for (int64_t i = 0; i < kLayers; ++i) {  // forward: a product and an activation for each layer
    b.node(mm, sums.emplace_back(b.storage(kBytes)), {y, w});
    b.node(exp, activations.emplace_back(b.storage(kBytes)), {sums.back()});
    y = activations.back();
  }
  uint32_t gradient = b.storage(kBytes);
  b.node(mm, gradient, {y, w});
  for (int64_t i = kLayers; i-- > 0;) {  // backward: both are read again
    const auto at = static_cast<size_t>(i);
    const uint32_t next = b.storage(kBytes, false, i == 0);
    b.node(mm, next, {gradient, sums[at], activations[at]});
    gradient = next;
  }
  verify(b.g, "capture");
  const size_t nodes = b.g.nodes.size();
  CHECK(recompute(b.g, kLayers * kBytes * 5 / 4) > kLayers / 2);  // 2 for each layer, of which
  verify(b.g, "recompute");                                       // one can be made again
  CHECK(b.g.nodes.size() > nodes + kLayers / 2);
  CHECK(b.g.repeats.size() == b.g.nodes.size() - nodes);
}

TEST_CASE("graph scale: plans of many blocks with all kinds of sizes") {
  std::vector<Block> blocks;
  size_t sum = 0;
  for (uint32_t i = 0; i < kMany; ++i) {
    const size_t bytes = 64 * (1 + size_t{i} * 2654435761u % 4096);
    const uint32_t last = i % 2 == 0 ? kMany + i % 100 : i;  // every second one stays to the end
    blocks.push_back({bytes, i, last});
    sum += i % 2 == 0 ? bytes : 0;
  }
  for (uint32_t i = 0; i < kMany; ++i) {  // and then they go, and others come in their places
    const size_t bytes = 64 * (1 + size_t{i} * 40503u % 2048);
    blocks.push_back({bytes, kMany + 100 + i, kMany + 100 + i + i % 7});
  }
  const Plan plan = plan_memory(blocks);
  CHECK(plan.bytes >= sum);
  CHECK(plan.bytes >= least_bytes(blocks));
  CHECK(plan.bytes <= 2 * least_bytes(blocks));
}

}  // namespace
}  // namespace pellucid::graph
