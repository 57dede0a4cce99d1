#include "graph/graph.h"

#include <algorithm>

#include "base/text.h"
#include "pellucid/error.h"

namespace pellucid::graph {
namespace {

bool writes(const Node& n, uint32_t storage) {
  return std::find(n.writes.begin(), n.writes.end(), storage) != n.writes.end();
}

// How far a view reaches into its storage, in bytes.
int64_t reach(const Value& v) {
  int64_t last = v.offset;
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] == 0) return 0;
    last += std::max<int64_t>(0, (v.sizes[d] - 1) * v.strides[d]);
  }
  return (last + 1) * element_size(v.dtype);
}

struct Verifier {
  const Graph& g;
  std::string_view after;
  std::vector<uint32_t> version = std::vector<uint32_t>(g.storages.size(), 0);

  template <class... Args>
  void require(bool holds, size_t node, fmt::format_string<Args...> what, Args&&... args) const {
    PELLUCID_CHECK(holds, Error, "graph after '{}': node {} ({}): {}", after, node,
                   node < g.nodes.size() ? g.nodes[node].op->info->name : "end",
                   fmt::format(what, std::forward<Args>(args)...));
  }

  void value(size_t i, uint32_t v) const {
    require(v < g.values.size(), i, "value {} of {}", v, g.values.size());
    const Value& value = g.values[v];
    require(value.storage < g.storages.size(), i, "storage {}", value.storage);
    require(value.sizes.size() == value.strides.size(), i, "sizes and strides differ in number");
    require(reach(value) <= static_cast<int64_t>(g.storages[value.storage].bytes), i,
            "a view reaches {} bytes into a storage of {}", reach(value),
            g.storages[value.storage].bytes);
  }

  void node(size_t i) {
    const Node& n = g.nodes[i];
    for (const Use& u : n.inputs) {
      if (u.value == kNone) continue;
      value(i, u.value);
      const uint32_t s = g.values[u.value].storage;
      require(u.version == version[s], i, "reads version {} of storage {}, which has {} here",
              u.version, s, version[s]);
      require(g.storages[s].external || version[s] > 0, i, "reads storage {} before it is made", s);
    }
    for (const uint32_t v : n.outputs) {
      if (v == kNone) continue;
      value(i, v);
      require(writes(n, g.values[v].storage), i, "does not say that it writes an output");
    }
    require(!n.in_place || (!n.inputs.empty() && !n.outputs.empty() && n.inputs[0].value != kNone &&
                            n.outputs[0] != kNone &&
                            g.values[n.inputs[0].value].storage == g.values[n.outputs[0]].storage),
            i, "is in place, but its result is not its first input");
    for (const uint32_t s : n.writes) {
      require(s < g.storages.size(), i, "writes storage {}", s);
      ++version[s];
    }
  }

  void all() {
    for (size_t i = 0; i < g.nodes.size(); ++i) node(i);
    for (size_t s = 0; s < g.storages.size(); ++s) {
      require(version[s] == g.storages[s].writes, g.nodes.size(),
              "storage {} has {} writes, not {}", s, version[s], g.storages[s].writes);
      require(!g.storages[s].live_out || g.storages[s].external || version[s] > 0, g.nodes.size(),
              "storage {} is needed and never written", s);
    }
  }
};

}  // namespace

bool changes_in_place(const Graph& g, const Node& n) {
  if (n.in_place) return true;
  for (const uint32_t s : n.writes) {
    bool made = false;
    for (const uint32_t v : n.outputs) made = made || (v != kNone && g.values[v].storage == s);
    if (!made) return true;
  }
  return false;
}

void verify(const Graph& g, std::string_view after) { Verifier{g, after}.all(); }

std::string name_of(const Graph& g, uint32_t value, uint32_t version) {
  const uint32_t s = g.values[value].storage;
  const bool changed = g.storages[s].writes > (g.storages[s].external ? 0u : 1u);
  return fmt::format("{}{}{}", g.storages[s].external ? "in" : "%", s,
                     changed ? fmt::format(".{}", version) : "");
}

}  // namespace pellucid::graph
