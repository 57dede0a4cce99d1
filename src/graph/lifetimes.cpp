#include "graph/lifetimes.h"

#include <algorithm>

namespace pellucid::graph {

Lifetimes::Lifetimes(const Graph& g)
    : uses(g.storages.size(),
           [&](const auto& use) {
             for (size_t i = 0; i < g.nodes.size(); ++i) {
               for_each_read(g, g.nodes[i], [&](uint32_t s) { use(s, i); });
               for (const uint32_t s : g.nodes[i].writes) use(s, i);
             }
           }),
      writes(g.storages.size(), [&](const auto& use) {
        for (size_t i = 0; i < g.nodes.size(); ++i)
          for (const uint32_t s : g.nodes[i].writes) use(s, i);
      }) {}

bool Lifetimes::written_between(uint32_t s, size_t after, size_t before) const {
  const auto all = writes[s];
  const auto next = std::upper_bound(all.begin(), all.end(), after);
  return next != all.end() && *next < before;
}

Peak peak_of(const Graph& g, const Lifetimes& lives) {
  std::vector<int64_t> change(g.nodes.size() + 2, 0);
  for (uint32_t s = 0; s < g.storages.size(); ++s) {
    if (g.storages[s].external || lives.first(s) == Lifetimes::kNever) continue;
    change[lives.first(s)] += static_cast<int64_t>(g.storages[s].bytes);
    change[lives.last(g, s) + 1] -= static_cast<int64_t>(g.storages[s].bytes);
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const uint32_t lender = lender_of(g, g.nodes[i], [&](uint32_t s) {
      return lives.last(g, s) == i && lives.first(g.values[g.nodes[i].outputs[0]].storage) == i;
    });
    if (lender == kNone) continue;
    change[i] -= static_cast<int64_t>(g.storages[lender].bytes);
    change[i + 1] += static_cast<int64_t>(g.storages[lender].bytes);
  }
  Peak peak;
  int64_t now = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    now += change[i];
    if (now > static_cast<int64_t>(peak.bytes)) peak = {static_cast<size_t>(now), i};
  }
  return peak;
}

}  // namespace pellucid::graph
