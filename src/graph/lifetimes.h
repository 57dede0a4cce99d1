// When the storages of a program are used, and when most memory is needed: what passes that save
// memory ask.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace pellucid::graph {

/// Lists of positions, one for each storage, in one array.
class Positions {
 public:
  /// `each` calls its argument with (storage, position), positions in order; it is called twice.
  template <class Each> Positions(size_t storages, const Each& each) : begins_(storages + 1, 0) {
    std::vector<size_t> last(storages, SIZE_MAX);  // each position once
    const auto is_new = [&](uint32_t s, size_t at) { return std::exchange(last[s], at) != at; };
    each([&](uint32_t s, size_t at) { begins_[s + 1] += is_new(s, at) ? 1 : 0; });
    for (size_t s = 0; s < storages; ++s) begins_[s + 1] += begins_[s];
    all_.resize(begins_.back());
    std::vector<size_t> next(begins_.begin(), begins_.end() - 1);
    last.assign(storages, SIZE_MAX);
    each([&](uint32_t s, size_t at) {
      if (is_new(s, at)) all_[next[s]++] = at;
    });
  }
  std::span<const size_t> operator[](uint32_t s) const {
    return {all_.data() + begins_[s], begins_[s + 1] - begins_[s]};
  }

 private:
  std::vector<size_t> begins_, all_;
};

/// When storages are used, by the positions of nodes.
struct Lifetimes {
  static constexpr size_t kNever = SIZE_MAX;

  explicit Lifetimes(const Graph& g);
  size_t first(uint32_t s) const { return uses[s].empty() ? kNever : uses[s].front(); }
  /// The last use; behind the last node if it is seen afterwards.
  size_t last(const Graph& g, uint32_t s) const {
    return g.storages[s].live_out ? g.nodes.size() : uses[s].empty() ? 0 : uses[s].back();
  }
  /// Whether a node between two positions, both excluded, writes the storage.
  bool written_between(uint32_t s, size_t after, size_t before) const;

  Positions uses, writes;
};

/// The storage of an input over which the node may write its first result, if nobody needs that
/// input afterwards: both are whole results inside, over the same bytes in the same order. kNone if
/// there is none.
template <class IsLastUse>
uint32_t lender_of(const Graph& g, const Node& n, const IsLastUse& is_last_use) {
  if (n.in_place || n.outputs.empty() || n.outputs[0] == kNone) return kNone;
  const Value& out = g.values[n.outputs[0]];
  const auto is_whole = [&](const Value& v) {
    const Storage& s = g.storages[v.storage];
    auto bytes = static_cast<size_t>(element_size(v.dtype));
    for (const int64_t size : v.sizes) bytes *= static_cast<size_t>(size);
    return !s.external && !s.live_out && v.offset == 0 && bytes > 0 && bytes == s.bytes;
  };
  if (!is_whole(out)) return kNone;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (n.op->kind != OpKind::Pointwise && (i >= 32 || !(n.op->writes_over >> i & 1))) continue;
    if (n.inputs[i].value == kNone) continue;
    const Value& in = g.values[n.inputs[i].value];
    if (in.storage == out.storage || in.dtype != out.dtype || !(in.sizes == out.sizes) ||
        !(in.strides == out.strides) || !is_whole(in) || !is_last_use(in.storage))
      continue;
    size_t uses = 0;
    for_each_read(g, n, [&](uint32_t s) { uses += s == in.storage; });
    if (uses == 1) return in.storage;
  }
  return kNone;
}

/// The most bytes that results need at one time, and the node at which that is.
struct Peak {
  size_t bytes = 0, at = 0;
};

Peak peak_of(const Graph& g, const Lifetimes& lives);

}  // namespace pellucid::graph
