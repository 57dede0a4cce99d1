// Rewritings that round otherwise than the program says: off unless they are asked for.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "graph/passes.h"

namespace pellucid::graph {
namespace {

bool is_named(const Node& n, std::string_view name) { return n.op->info->name == name; }

bool is_product(const Node& n) {
  return is_named(n, "mm") || is_named(n, "bmm") || is_named(n, "linear");
}

bool is_one(const Node& n) {
  return n.attrs.size() == 1 && n.attrs[0].kind() == Attr::Kind::Scalar &&
         n.attrs[0].number() == 1.0;
}

/// x@y + x@z as x@(y + z), and y@x + z@x as (y + z)@x, with constants that were added to either
/// product on the way: one product less for a sum of the smaller operands.
class Distribute {
 public:
  explicit Distribute(Graph& g) : g_(g), reads_(g.storages.size(), 0), maker_(g.storages.size()) {
    for (uint32_t i = 0; i < g.nodes.size(); ++i) {
      for_each_read(g, g.nodes[i], [&](uint32_t s) { ++reads_[s]; });
      for (const uint32_t s : g.nodes[i].writes) maker_[s] = i;
    }
    std::unordered_set<uint32_t> into;
    for (const Merge& m : g.merges) into.insert(m.into);
    for (const Node& n : g.nodes) into_.push_back(into.contains(n.call));
  }

  /// Rewrites the first sum that can be; false if there is none.
  bool run() {
    std::vector<uint32_t> version(g_.storages.size(), 0);
    for (uint32_t i = 0; i < g_.nodes.size(); ++i) {
      if (rewrite(i, version)) return true;
      for (const uint32_t s : g_.nodes[i].writes) ++version[s];
    }
    return false;
  }

 private:
  /// A product and the sums with constants behind it, the product first.
  using Chain = std::vector<uint32_t>;

  const Value& value(const Use& u) const { return g_.values[u.value]; }
  const Value& result(const Node& n) const { return g_.values[n.outputs[0]]; }

  bool makes_one(const Node& n) const {
    return !n.in_place && !n.unique && n.outputs.size() == 1 && n.outputs[0] != kNone &&
           n.writes.size() == 1 && !changes_in_place(g_, n) &&
           g_.storages[n.writes[0]].writes == 1 && !g_.storages[n.writes[0]].external;
  }

  // The node whose result is read here and nowhere else, if it looks like this.
  std::optional<uint32_t> only_maker(const Use& u, const Value& like) const {
    if (u.value == kNone) return {};
    const Value& v = value(u);
    const Storage& s = g_.storages[v.storage];
    if (s.external || s.live_out || s.writes != 1 || reads_[v.storage] != 1) return {};
    const uint32_t i = maker_[v.storage];
    const Node& n = g_.nodes[i];
    if (!makes_one(n) || into_[i]) return {};
    const Value& made = result(n);
    if (!(made.sizes == like.sizes) || !(v.sizes == like.sizes) || !(made.strides == v.strides) ||
        made.offset != v.offset || made.dtype != like.dtype || v.dtype != like.dtype)
      return {};
    return i;
  }

  // Follows sums with constants down to a product; empty if there is none.
  Chain chain(const Use& from, const Value& like) const {
    Chain found;
    std::optional<uint32_t> at = only_maker(from, like);
    while (at && !is_product(g_.nodes[*at])) {
      const Node& n = g_.nodes[*at];
      const bool adds = is_named(n, "add") && is_one(n);
      if (!(adds || is_named(n, "sub")) || n.inputs.size() != 2) return {};
      found.push_back(*at);
      at = only_maker(n.inputs[0], like);
    }
    if (!at) return {};
    found.push_back(*at);
    std::reverse(found.begin(), found.end());
    return found;
  }

  bool same_tensor(const Use& a, const Use& b) const {
    if (a.value == kNone || b.value == kNone) return a.value == b.value;
    const Value &v = value(a), &w = value(b);
    return v.storage == w.storage && a.version == b.version && v.dtype == w.dtype &&
           v.offset == w.offset && v.sizes == w.sizes && v.strides == w.strides;
  }

  // The operand in which the products differ, if they share the other one and can be added.
  std::optional<size_t> differing(const Node& a, const Node& b) const {
    if (a.op != b.op || a.default_dtype != b.default_dtype) return {};
    if (is_named(a, "linear") && b.inputs.size() > 2 && b.inputs[2].value != kNone) return {};
    for (const size_t shared : {size_t{0}, size_t{1}}) {
      if (!same_tensor(a.inputs[shared], b.inputs[shared])) continue;
      const Value &v = value(a.inputs[1 - shared]), &w = value(b.inputs[1 - shared]);
      if (v.dtype == w.dtype && v.sizes == w.sizes) return 1 - shared;
    }
    return {};
  }

  // Whether a product is worth a sum of its operands.
  bool pays(const Node& product, const Value& operand) const {
    constexpr double kLeastFlops = 32;  // for each element that is added
    double elements = 1, results = 1;
    for (const int64_t n : operand.sizes) elements *= static_cast<double>(n);
    for (const int64_t n : result(product).sizes) results *= static_cast<double>(n);
    const Value& left = value(product.inputs[0]);
    if (left.sizes.empty()) return false;
    const auto depth = static_cast<double>(left.sizes[left.sizes.size() - 1]);
    return elements > 0 && 2 * depth * results >= kLeastFlops * elements;
  }

  bool reads_the_same_at(const Chain& nodes, const std::vector<uint32_t>& version) const {
    for (const uint32_t i : nodes)
      for (const Use& u : g_.nodes[i].inputs) {
        if (u.value == kNone) continue;
        const uint32_t s = value(u).storage;
        if (u.version != version[s]) return false;
      }
    return true;
  }

  // A value like another one, dense, in a storage of its own.
  uint32_t new_value(const Value& like) {
    Value v = like;
    v.storage = static_cast<uint32_t>(g_.storages.size());
    v.offset = 0;
    v.number = v.hidden_layout = false;
    int64_t elements = 1;
    for (size_t d = v.sizes.size(); d-- > 0;) {
      v.strides[d] = elements;
      elements *= v.sizes[d];
    }
    g_.storages.push_back({.bytes = static_cast<size_t>(elements * element_size(v.dtype)),
                           .category = MemoryCategory::Activation,
                           .writes = 1});
    g_.values.push_back(std::move(v));
    return static_cast<uint32_t>(g_.values.size() - 1);
  }

  bool rewrite(uint32_t at, const std::vector<uint32_t>& version) {
    if (!is_named(g_.nodes[at], "add") || !is_one(g_.nodes[at]) || !makes_one(g_.nodes[at]) ||
        into_[at])
      return false;
    const Node sum = g_.nodes[at];
    const Value out = result(sum);
    if (!is_floating(out.dtype)) return false;
    Chain a = chain(sum.inputs[0], out), b = chain(sum.inputs[1], out);
    if (a.empty() || b.empty() || a[0] == b[0]) return false;
    if (!differing(g_.nodes[a[0]], g_.nodes[b[0]])) std::swap(a, b);  // a bias in the first one
    const Node &product = g_.nodes[a[0]], &other = g_.nodes[b[0]];
    const std::optional<size_t> operand = differing(product, other);
    if (!operand || !pays(product, value(product.inputs[*operand])) ||
        !(result(product).strides == out.strides) || !reads_the_same_at(a, version) ||
        !reads_the_same_at(b, version))
      return false;
    replace(at, a, b, *operand);
    return true;
  }

  void replace(uint32_t at, const Chain& a, const Chain& b, size_t operand) {
    Node sum = g_.nodes[at], product = g_.nodes[a[0]];
    const uint32_t result_value = sum.outputs[0];
    const Use other = g_.nodes[b[0]].inputs[operand];
    Graph::Tie tie{sum.call};
    for (const Chain* c : {&a, &b})
      for (const uint32_t i : *c) tie.push_back(g_.nodes[i].call);
    sum.inputs = {product.inputs[operand], other};
    sum.outputs = {new_value(Value(value(product.inputs[operand])))};
    sum.writes = {g_.values[sum.outputs[0]].storage};
    product.inputs[operand] = {sum.outputs[0], 1};
    std::vector<Node> made{sum, product};
    for (size_t k = 1; k < a.size(); ++k) made.push_back(g_.nodes[a[k]]);
    for (size_t k = 1; k < b.size(); ++k) {
      made.push_back(g_.nodes[b[k]]);
      made.back().inputs[0] = {made[made.size() - 2].outputs[0], 1};
    }
    // What the products and sums on the way were written to is made by the same nodes as before,
    // but for the last, which makes the result.
    for (const uint32_t s : made.back().writes) --g_.storages[s].writes;
    made.back().outputs = {result_value};
    made.back().writes = {g_.values[result_value].storage};
    --g_.storages[g_.nodes[b[0]].writes[0]].writes;
    std::vector<bool> gone(g_.nodes.size(), false);
    gone[at] = true;
    for (const Chain* c : {&a, &b})
      for (const uint32_t i : *c) gone[i] = true;
    std::vector<Node> nodes;
    for (uint32_t i = 0; i < g_.nodes.size(); ++i) {
      if (i == at)
        for (Node& n : made) nodes.push_back(std::move(n));
      if (!gone[i]) nodes.push_back(std::move(g_.nodes[i]));
    }
    g_.nodes = std::move(nodes);
    join(std::move(tie));
  }

  // Ties that share a call become one.
  void join(Graph::Tie tie) {
    std::vector<Graph::Tie> apart;
    for (Graph::Tie& t : g_.ties) {
      const bool shares = std::any_of(t.begin(), t.end(), [&](uint32_t c) {
        return std::find(tie.begin(), tie.end(), c) != tie.end();
      });
      if (shares)
        tie.insert(tie.end(), t.begin(), t.end());
      else
        apart.push_back(std::move(t));
    }
    std::sort(tie.begin(), tie.end());
    tie.erase(std::unique(tie.begin(), tie.end()), tie.end());
    apart.push_back(std::move(tie));
    g_.ties = std::move(apart);
  }

  Graph& g_;
  std::vector<uint32_t> reads_, maker_;  // by storage
  std::vector<bool> into_;               // nodes that others were merged into
};

}  // namespace

int64_t reassociate(Graph& g) {
  constexpr size_t kMostVisits = size_t{16} << 20;
  const size_t most = std::max<size_t>(kMostVisits / std::max<size_t>(g.nodes.size(), 1), 16);
  int64_t rewritten = 0;
  while (static_cast<size_t>(rewritten) < most && Distribute(g).run()) ++rewritten;
  return rewritten;
}

}  // namespace pellucid::graph
