#include "pellucid/why_alive.h"

#include <fmt/format.h>

#include <deque>
#include <unordered_map>

#include "pellucid/autograd.h"
#include "tensor/pending.h"

namespace pellucid {
namespace {

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.impl().storage && a.impl().storage == b.impl().storage;
}

bool is_view_of(const Tensor& a, const Tensor& b) {
  return a.impl().offset != b.impl().offset || !(a.sizes() == b.sizes()) ||
         !(a.strides() == b.strides());
}

// Breadth first from one variable's history, so that the first path to a node is a shortest one.
void search(const Tensor& wanted, const std::string& name, const Tensor& root, WhyAlive& found,
            std::unordered_map<const autograd::Node*, autograd::NodeRef>& seen) {
  struct Step {
    autograd::NodeRef node;  // a leaf's lives only as long as somebody holds it
    int32_t from;
  };
  std::vector<Step> steps;
  const auto visit = [&](const autograd::NodeRef& n, int32_t from) {
    if (n && seen.try_emplace(n.get(), n).second) steps.push_back({n, from});
  };
  visit(autograd::gradient_edge(root).function, -1);
  for (size_t i = 0; i < steps.size(); ++i) {
    const autograd::Node& node = *steps[i].node;
    for (const autograd::SavedInfo& saved : node.saved_tensors()) {
      if (!same_memory(saved.tensor, wanted)) continue;
      Holder h{Holder::Kind::Saved, {"saved " + saved.name}, is_view_of(saved.tensor, wanted)};
      for (auto at = static_cast<int32_t>(i); at >= 0; at = steps[static_cast<size_t>(at)].from)
        h.path.insert(h.path.begin(), steps[static_cast<size_t>(at)].node->name());
      h.path.insert(h.path.begin(), name);
      found.holders.push_back(std::move(h));
    }
    for (const autograd::Edge& e : node.next_edges()) visit(e.function, static_cast<int32_t>(i));
  }
}

}  // namespace

WhyAlive why_alive(const Tensor& tensor,
                   const std::vector<std::pair<std::string, Tensor>>& variables) {
  PELLUCID_CHECK(tensor.defined(), ValueError, "why_alive: the tensor is undefined.");
  WhyAlive found;
  if (!tensor.impl().storage) return found;
  found.bytes = static_cast<int64_t>(tensor.impl().storage->bytes);
  found.owners = detail::holders(*tensor.impl().storage);
  std::unordered_map<const autograd::Node*, autograd::NodeRef> seen;
  for (const auto& [name, variable] : variables) {
    if (!variable.defined()) continue;
    if (same_memory(variable, tensor))
      found.holders.push_back({Holder::Kind::Variable, {name}, is_view_of(variable, tensor)});
    if (same_memory(variable.grad(), tensor))
      found.holders.push_back({Holder::Kind::Gradient, {name, "grad"}, false});
    if (variable.requires_grad()) search(tensor, name, variable, found, seen);
  }
  return found;
}

std::string WhyAlive::to_string() const {
  std::string text = fmt::format("{} bytes, shared by {} tensors\n", bytes, owners);
  bool saved = false;
  for (const Holder& h : holders) {
    saved = saved || h.kind == Holder::Kind::Saved;
    std::string path;
    for (const std::string& p : h.path) path += (path.empty() ? "" : " -> ") + p;
    text += fmt::format("  {}{}\n", path, h.is_view ? " (a view)" : "");
  }
  if (holders.empty()) text += "  nothing that was named leads to it\n";
  if (saved)
    text +=
        "  what is saved is freed by backward() without retain_graph, or with the last tensor "
        "whose history it is\n";
  return text;
}

}  // namespace pellucid
