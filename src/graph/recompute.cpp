// A budget of memory: results that wait for long until they are read again are computed again,
// where what they are made from is still there. The arithmetic is the same, so the bits are.
#include <algorithm>

#include "graph/lifetimes.h"
#include "graph/passes.h"

namespace pellucid::graph {
namespace {

constexpr size_t kNever = Lifetimes::kNever;

/// A result that can be made again: the node that makes it, and the use before which it is made.
struct Candidate {
  size_t node = kNever, before = kNever;
  uint32_t storage = kNone;
  double gain = 0;  // bytes that become free at the peak, for each byte that is moved again
};

// Whether all that a node reads is there at the peak anyway, and unchanged at a later position.
bool can_repeat(const Graph& g, const Lifetimes& lives, const Node& n, size_t made, size_t peak,
                size_t later) {
  for (const Use& u : n.inputs) {
    if (u.value == kNone) continue;
    const uint32_t s = g.values[u.value].storage;
    if (!g.storages[s].external && lives.last(g, s) < peak) return false;
    if (lives.written_between(g, s, made, later)) return false;
  }
  return true;
}

double moved_bytes(const Graph& g, const Node& n) {
  double bytes = 0;
  for_each_read(g, n, [&](uint32_t s) { bytes += static_cast<double>(g.storages[s].bytes); });
  for (const uint32_t s : n.writes) bytes += static_cast<double>(g.storages[s].bytes);
  return bytes;
}

Candidate best_candidate(const Graph& g, const Lifetimes& lives, size_t peak) {
  constexpr size_t kLeastBytes = size_t{64} << 10;
  Candidate best;
  for (size_t i = 0; i <= peak && i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    // Ops over one shape move few bytes; products and reductions are never made twice.
    if (!n.op->describes || n.op->kind == OpKind::Contraction || n.op->random_count || n.in_place ||
        n.writes.size() != 1)
      continue;
    const uint32_t s = n.writes[0];
    const Storage& storage = g.storages[s];
    if (storage.external || storage.live_out || storage.writes != 1 || storage.bytes < kLeastBytes)
      continue;
    const auto& uses = lives.uses[s];
    const auto next = std::upper_bound(uses.begin(), uses.end(), peak);
    if (next == uses.end() || *std::prev(next) >= peak) continue;  // it is used there
    if (!can_repeat(g, lives, n, i, peak, *next)) continue;
    const double gain = static_cast<double>(storage.bytes) / (moved_bytes(g, n) + 1);
    if (gain > best.gain) best = {i, *next, s, gain};
  }
  return best;
}

// Puts a copy of the node before the use; all uses from there on read the copy's result.
void repeat(Graph& g, const Candidate& c) {
  Node copy = g.nodes[c.node];
  copy.unique = true;
  const auto storage = static_cast<uint32_t>(g.storages.size());
  g.storages.push_back(g.storages[c.storage]);
  uint32_t first = c.storage;
  for (const auto& [again, of] : g.repeats)
    if (again == c.storage) first = of;
  g.repeats.emplace_back(storage, first);
  const auto value = static_cast<uint32_t>(g.values.size());
  g.values.push_back(g.values[copy.outputs[0]]);
  g.values[value].storage = storage;
  copy.outputs[0] = value;
  copy.writes[0] = storage;
  for (size_t i = c.before; i < g.nodes.size(); ++i)
    for (Use& u : g.nodes[i].inputs) {
      if (u.value == kNone || g.values[u.value].storage != c.storage) continue;
      g.values.push_back(g.values[u.value]);
      g.values.back().storage = storage;
      u.value = static_cast<uint32_t>(g.values.size() - 1);
    }
  g.nodes.insert(g.nodes.begin() + static_cast<std::ptrdiff_t>(c.before), std::move(copy));
}

}  // namespace

int64_t recompute(Graph& g, size_t budget) {
  // What a repeated call reads may live longer for it. So a step may win nothing at first; the best
  // graph on the way is the result.
  constexpr int kMostTries = 4096, kMostInVain = 64;
  Graph best = g;
  size_t least = peak_of(g, Lifetimes(g)).bytes;
  for (int tries = 0, in_vain = 0; tries < kMostTries && in_vain < kMostInVain; ++tries) {
    const Lifetimes lives(g);
    const Peak peak = peak_of(g, lives);
    if (peak.bytes < least) {
      best = g;
      least = peak.bytes;
      in_vain = 0;
    } else {
      ++in_vain;
    }
    if (peak.bytes <= budget) break;
    const Candidate c = best_candidate(g, lives, peak.at);
    if (c.node == kNever) break;
    repeat(g, c);
  }
  g = std::move(best);
  return static_cast<int64_t>(g.repeats.size());
}

}  // namespace pellucid::graph
