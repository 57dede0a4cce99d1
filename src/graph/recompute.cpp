// A budget of memory: results that wait for long until they are read again are computed again,
// where what they are made from is still there. The arithmetic is the same, so the bits are.
#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "graph/lifetimes.h"
#include "graph/passes.h"

namespace pellucid::graph {

size_t least_repeated = kLeastRepeated;

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
    if (lives.written_between(s, made, later)) return false;
  }
  return true;
}

double moved_bytes(const Graph& g, const Node& n) {
  double bytes = 0;
  for_each_read(g, n, [&](uint32_t s) { bytes += static_cast<double>(g.storages[s].bytes); });
  for (const uint32_t s : n.writes) bytes += static_cast<double>(g.storages[s].bytes);
  return bytes;
}

// All that can be made again behind the peak, the best first.
std::vector<Candidate> candidates(const Graph& g, const Lifetimes& lives, size_t peak) {
  std::vector<Candidate> found;
  for (size_t i = 0; i <= peak && i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    // Ops over one shape move few bytes; products and reductions are never made twice.
    if (!n.op->describes || n.op->kind == OpKind::Contraction || n.op->random_count || n.in_place ||
        n.writes.size() != 1)
      continue;
    const uint32_t s = n.writes[0];
    const Storage& storage = g.storages[s];
    if (storage.external || storage.live_out || storage.writes != 1 ||
        storage.bytes < least_repeated)
      continue;
    const auto uses = lives.uses[s];
    const auto next = std::upper_bound(uses.begin(), uses.end(), peak);
    if (next == uses.end() || *std::prev(next) >= peak) continue;  // it is used there
    if (!can_repeat(g, lives, n, i, peak, *next)) continue;
    found.push_back({i, *next, s, static_cast<double>(storage.bytes) / (moved_bytes(g, n) + 1)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& a, const Candidate& b) { return a.gain > b.gain; });
  return found;
}

// The first of the candidates until enough bytes are free, at most so many, none of which reads
// what another one makes: that would no longer be there.
std::vector<Candidate> choose(const Graph& g, const std::vector<Candidate>& from, size_t bytes,
                              size_t most) {
  std::vector<Candidate> chosen;
  std::vector<bool> made(g.storages.size(), false), read(g.storages.size(), false);
  size_t freed = 0;
  for (const Candidate& c : from) {
    if (chosen.size() == most || freed >= bytes) break;
    bool apart = !read[c.storage];
    for_each_read(g, g.nodes[c.node], [&](uint32_t s) { apart = apart && !made[s]; });
    if (!apart) continue;
    made[c.storage] = true;
    for_each_read(g, g.nodes[c.node], [&](uint32_t s) { read[s] = true; });
    freed += g.storages[c.storage].bytes;
    chosen.push_back(c);
  }
  return chosen;
}

// Puts a copy of each node before the use; all uses from there on read the copy's result.
void repeat(Graph& g, std::vector<Candidate> chosen) {
  std::sort(chosen.begin(), chosen.end(),
            [](const Candidate& a, const Candidate& b) { return a.before < b.before; });
  std::unordered_map<uint32_t, uint32_t> first;  // results that are made again, and the first ones
  for (const auto& [again, of] : g.repeats) first[again] = of;
  std::unordered_map<uint32_t, uint32_t> now;  // where a result is found from here on
  std::vector<Node> nodes;
  nodes.reserve(g.nodes.size() + chosen.size());
  size_t next = 0;
  // Copies are made of nodes before them, which may have moved to `nodes` already.
  std::vector<Node> copies;
  copies.reserve(chosen.size());
  for (const Candidate& c : chosen) copies.push_back(g.nodes[c.node]);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (; next < chosen.size() && chosen[next].before == i; ++next) {
      const uint32_t old = chosen[next].storage;
      Node& copy = copies[next];
      copy.unique = true;
      const auto storage = static_cast<uint32_t>(g.storages.size());
      g.storages.push_back(Storage(g.storages[old]));
      const auto at = first.find(old);
      g.repeats.emplace_back(storage, at == first.end() ? old : at->second);
      const auto value = static_cast<uint32_t>(g.values.size());
      g.values.push_back(Value(g.values[copy.outputs[0]]));
      g.values[value].storage = storage;
      copy.outputs[0] = value;
      copy.writes[0] = storage;
      now[old] = storage;
      nodes.push_back(std::move(copy));
    }
    for (Use& u : g.nodes[i].inputs) {
      if (u.value == kNone || now.empty()) continue;
      const auto at = now.find(g.values[u.value].storage);
      if (at == now.end()) continue;
      g.values.push_back(Value(g.values[u.value]));
      g.values.back().storage = at->second;
      u.value = static_cast<uint32_t>(g.values.size() - 1);
    }
    nodes.push_back(std::move(g.nodes[i]));
  }
  g.nodes = std::move(nodes);
}

}  // namespace

int64_t recompute(Graph& g, size_t budget) {
  // What a repeated call reads may live longer for it. So a step may win nothing at first; the best
  // graph on the way is the result. A step goes over the whole graph: the larger that is, the more
  // is made again in one step, and the fewer steps there are.
  constexpr size_t kMostVisits = size_t{16} << 20, kMostTries = 4096, kLeastTries = 16;
  constexpr int kMostInVain = 64;
  const size_t count = std::max<size_t>(g.nodes.size(), 1);
  const size_t most_tries = std::clamp(kMostVisits / count, kLeastTries, kMostTries);
  const size_t at_once = std::max<size_t>(count / most_tries, 1);
  Graph best = g;
  size_t least = SIZE_MAX;
  int in_vain = 0;
  for (size_t tries = 0; tries < most_tries && in_vain < kMostInVain; ++tries) {
    const Lifetimes lives(g);
    const Peak peak = peak_of(g, lives);
    if (peak.bytes < least) {
      if (tries > 0) best = g;
      least = peak.bytes;
      in_vain = 0;
    } else {
      ++in_vain;
    }
    if (peak.bytes <= budget) break;
    const std::vector<Candidate> chosen =
        choose(g, candidates(g, lives, peak.at), peak.bytes - budget, at_once);
    if (chosen.empty()) break;
    repeat(g, chosen);
  }
  g = std::move(best);
  return static_cast<int64_t>(g.repeats.size());
}

}  // namespace pellucid::graph
