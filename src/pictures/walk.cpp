// The tape behind some tensors as a list of nodes, newest first; without recursion.
#include <algorithm>
#include <unordered_map>

#include "pellucid/graph.h"

namespace pellucid {

std::vector<GraphNode> graph_nodes(const Tensors& roots,
                                   const std::vector<std::pair<std::string, Tensor>>& params) {
  std::unordered_map<const autograd::Node*, size_t> seen;
  std::vector<autograd::NodeRef> found;
  const auto visit_node = [&](const autograd::NodeRef& n) {
    if (n && seen.emplace(n.get(), 0).second) found.push_back(n);
  };
  for (const Tensor& t : roots)
    if (t.defined() && t.requires_grad()) visit_node(autograd::gradient_edge(t).function);
  for (size_t i = 0; i < found.size(); ++i)
    for (const autograd::Edge& e : found[i]->next_edges()) visit_node(e.function);
  // A node is newer than all it leads to; leaves come last, in the order in which they were met.
  std::stable_sort(found.begin(), found.end(),
                   [](const autograd::NodeRef& a, const autograd::NodeRef& b) {
                     if (a->is_accumulate() != b->is_accumulate()) return b->is_accumulate();
                     return !a->is_accumulate() && a->sequence_nr() > b->sequence_nr();
                   });
  for (size_t i = 0; i < found.size(); ++i) seen[found[i].get()] = i;

  std::vector<GraphNode> nodes(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const autograd::Node& n = *found[i];
    GraphNode& g = nodes[i];
    g.id = fmt::format("n{}", i);
    g.name = n.name();
    if (n.op()) g.op = n.op()->info->name;
    g.node = found[i];
    for (const autograd::TensorFacts& f : n.forward_outputs())
      g.outputs.emplace_back(f.sizes, f.dtype);
    g.saved = n.saved_tensors();
    for (const autograd::Edge& e : n.next_edges())
      if (e.is_valid()) g.next.push_back(seen[e.function.get()]);
    if (!n.is_accumulate()) continue;
    const Tensor leaf = n.variable();
    g.label = leaf.name();
    for (const auto& [name, t] : params)
      if (t.defined() && t.is_same(leaf)) g.label = name;
  }
  return nodes;
}

}  // namespace pellucid
