// Results that wait for long until they are read are made right before that, where what they are
// made from takes less memory: the gradient of a weight that is used again at the other end of a
// network (a tied embedding) waits for the other gradients through all of backward.
#include <algorithm>

#include "graph/lifetimes.h"
#include "graph/passes.h"

namespace pellucid::graph {
namespace {

constexpr size_t kLeastBytes = size_t{1} << 20;

/// A node that may run later: right before the node that uses its results first.
struct Candidate {
  size_t node = Lifetimes::kNever, before = Lifetimes::kNever;
  size_t gain = 0;  // bytes less at the peak
};

// The first use of what a node makes, after the node; kNever if it is no candidate.
size_t first_use(const Graph& g, const Lifetimes& lives, const Node& n, size_t at) {
  if (n.in_place || n.op->random_count || n.writes.empty()) return Lifetimes::kNever;
  size_t first = Lifetimes::kNever;
  for (const uint32_t s : n.writes) {
    if (g.storages[s].external || lives.first(s) != at) return Lifetimes::kNever;
    const auto uses = lives.uses[s];
    if (uses.size() > 1) first = std::min(first, uses[1]);
  }
  return first;
}

// What is less at the peak if the node runs after it; 0 if it cannot, or that would not help.
size_t gain_of(const Graph& g, const Lifetimes& lives, size_t node, size_t before, size_t peak) {
  const Node& n = g.nodes[node];
  size_t made = 0, kept = 0;
  for (const uint32_t s : n.writes) made += g.storages[s].bytes;
  if (made < kLeastBytes) return 0;
  std::vector<uint32_t> seen;
  for (const Use& u : n.inputs) {
    if (u.value == kNone) continue;
    const uint32_t s = g.values[u.value].storage;
    if (std::find(seen.begin(), seen.end(), s) != seen.end()) continue;
    seen.push_back(s);
    if (lives.written_between(s, node, before)) return 0;
    if (!g.storages[s].external && lives.last(g, s) < peak) kept += g.storages[s].bytes;
  }
  return made >= kept + kLeastBytes ? made - kept : 0;
}

Candidate best_candidate(const Graph& g, const Lifetimes& lives, size_t peak,
                         const std::vector<uint32_t>& tried) {
  Candidate best;
  for (size_t i = 0; i <= peak && i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const size_t before = first_use(g, lives, n, i);
    if (before == Lifetimes::kNever || before <= peak ||
        std::find(tried.begin(), tried.end(), n.call) != tried.end())
      continue;
    const size_t gain = gain_of(g, lives, i, before, peak);
    if (gain > best.gain) best = {i, before, gain};
  }
  return best;
}

// Moves the node at `from` to the place `to`; those between make room.
void move_node(Graph& g, size_t from, size_t to) {
  const auto at = [&](size_t i) { return g.nodes.begin() + static_cast<std::ptrdiff_t>(i); };
  if (from < to)
    std::rotate(at(from), at(from + 1), at(to + 1));
  else
    std::rotate(at(to), at(from), at(from + 1));
}

}  // namespace

int64_t delay(Graph& g) {
  // Each try looks at the whole graph.
  const size_t most_tries = std::max<size_t>(4, 1'000'000 / (g.nodes.size() + 1));
  int64_t moved = 0;
  std::vector<uint32_t> tried;
  Lifetimes lives(g);
  Peak peak = peak_of(g, lives);
  while (tried.size() < std::min<size_t>(most_tries, 256)) {
    const Candidate c = best_candidate(g, lives, peak.at, tried);
    if (c.node == Lifetimes::kNever) break;
    tried.push_back(g.nodes[c.node].call);
    move_node(g, c.node, c.before - 1);
    Lifetimes now(g);
    const Peak after = peak_of(g, now);
    if (after.bytes < peak.bytes) {
      ++moved;
      peak = after;
      lives = std::move(now);
    } else {
      move_node(g, c.before - 1, c.node);
    }
  }
  return moved;
}

}  // namespace pellucid::graph
