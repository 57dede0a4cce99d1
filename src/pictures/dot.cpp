// make_dot: the tape as DOT text, with torchviz's colours: leaves blue, operations grey, roots
// green, saved tensors orange.
#include <algorithm>
#include <map>

#include "pellucid/graph.h"
#include "pictures/dot_text.h"

namespace pellucid {
namespace {

using graph::escape;

// (2, 3), (3,) or () as torchviz writes sizes.
std::string size_text(IntArrayRef sizes) {
  std::string s = "(";
  for (size_t i = 0; i < sizes.size(); ++i) s += fmt::format("{}{}", i ? ", " : "", sizes[i]);
  return s + (sizes.size() == 1 ? ",)" : ")");
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", bytes / 1024);
  return fmt::format("{:.1f} MiB", bytes / (1024 * 1024));
}

// Numbers nodes by what hangs below them to a few levels, so that equal blocks get equal numbers.
std::vector<size_t> shape_classes(const std::vector<GraphNode>& nodes) {
  std::vector<size_t> id(nodes.size(), 0);
  std::map<std::string, size_t> names;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::string key = nodes[i].name;
    for (const auto& [sizes, dtype] : nodes[i].outputs) key += to_string(sizes.ref());
    id[i] = names.emplace(key, names.size()).first->second;
  }
  return id;
}

// A run of nodes drawn as one box.
struct Block {
  size_t begin, length, repeats;
};

// Finds the longest stretch of operations that repeats right after itself; greedy from the newest
// node.
std::vector<Block> find_repeats(const std::vector<GraphNode>& nodes) {
  const std::vector<size_t> id = shape_classes(nodes);
  size_t operations = 0;
  while (operations < nodes.size() && !nodes[operations].node->is_accumulate()) ++operations;
  std::vector<Block> blocks;
  for (size_t at = 0; at < operations;) {
    Block best{at, 1, 1};
    for (size_t length = 1; length <= 64 && at + 2 * length <= operations; ++length) {
      size_t repeats = 1;
      while (at + (repeats + 1) * length <= operations &&
             std::equal(id.begin() + static_cast<std::ptrdiff_t>(at),
                        id.begin() + static_cast<std::ptrdiff_t>(at + length),
                        id.begin() + static_cast<std::ptrdiff_t>(at + repeats * length)))
        ++repeats;
      if (repeats > 1 && repeats * length > best.repeats * best.length)
        best = {at, length, repeats};
    }
    blocks.push_back(best);
    at += best.length * best.repeats;
  }
  for (size_t i = operations; i < nodes.size(); ++i) blocks.push_back({i, 1, 1});
  return blocks;
}

class Writer {
 public:
  Writer(const std::vector<GraphNode>& nodes, const DotOptions& options)
      : nodes_(nodes), options_(options) {}

  std::string write(const Tensors& roots) {
    out_ = graph::dot_head(options_.rankdir);
    if (options_.collapse_repeats &&
        nodes_.size() > static_cast<size_t>(std::max(options_.max_nodes, 1)))
      write_blocks();
    else
      write_all();
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!roots[i].defined() || !roots[i].requires_grad()) continue;
      const std::string name = roots[i].name().empty() ? "result" : roots[i].name();
      line("  r{} [label=\"{}\\n{}\", fillcolor=\"#b7e1b0\", color=\"#4f8a45\"]", i, escape(name),
           size_text(roots[i].sizes()));
      const autograd::NodeRef node = autograd::gradient_edge(roots[i]).function;
      for (const GraphNode& g : nodes_)
        if (g.node == node) line("  {} -> r{}", drawn(g), i);
    }
    line("}}");
    return std::move(out_);
  }

 private:
  template <class... Args> void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  std::string facts(const GraphNode& g) const {
    std::string s;
    if (options_.show_shapes)
      for (const auto& [sizes, dtype] : g.outputs)
        s += fmt::format("\\n{} {}", size_text(sizes), name_of(dtype));
    for (const auto& [node, text] : options_.values)
      if (node == g.node.get()) s += "\\n" + escape(text);
    return s;
  }

  void write_node(const GraphNode& g) {
    if (g.node->is_accumulate())
      line("  {} [label=\"{}{}\", fillcolor=\"#b3d4f0\", color=\"#3b6f9e\"]", g.id,
           escape(g.label.empty() ? "leaf" : g.label), facts(g));
    else
      line("  {} [label=\"{}{}\"]", g.id, escape(g.op.empty() ? g.name : g.op), facts(g));
    if (!options_.show_saved) return;
    for (size_t k = 0; k < g.saved.size(); ++k) {
      const Tensor& t = g.saved[k].tensor;
      const std::string what = t.defined()
                                   ? fmt::format("{}\\n{}", size_text(t.sizes()),
                                                 bytes_text(static_cast<double>(t.nbytes())))
                                   : "packed";
      line(
          "  {}s{} [label=\"{}\\n{}\", fillcolor=\"#f7d9b0\", color=\"#b07a2a\", style=\"filled\"]",
          g.id, k, escape(g.saved[k].name), what);
      line("  {}s{} -> {} [style=dotted, arrowhead=none]", g.id, k, g.id);
    }
  }

  void write_all() {
    for (const GraphNode& g : nodes_) write_node(g);
    for (const GraphNode& g : nodes_)
      for (size_t next : g.next) line("  {} -> {}", nodes_[next].id, g.id);
  }

  // The first copy of a repeated stretch is drawn inside a frame that says how often it occurs.
  void write_blocks() {
    const std::vector<Block> blocks = find_repeats(nodes_);
    drawn_.resize(nodes_.size());
    size_t leaves = 0;
    for (const Block& b : blocks)
      for (size_t i = 0; i < b.length * b.repeats; ++i)
        drawn_[b.begin + i] = b.begin + i % b.length;
    for (size_t k = 0; k < blocks.size(); ++k) {
      const Block& b = blocks[k];
      if (b.repeats > 1)
        line(
            "  subgraph cluster_{} {{ label=\"× {}\"; labeljust=l; style=\"rounded,dashed\"; "
            "color=\"#8a8a8a\"; fontsize=11;",
            k, b.repeats);
      for (size_t i = b.begin; i < b.begin + b.length; ++i) {
        if (nodes_[i].node->is_accumulate())
          ++leaves;
        else
          write_node(nodes_[i]);
      }
      if (b.repeats > 1) line("  }}");
    }
    // Leaves of repeated blocks are drawn as one box with their number; those of single operations
    // by themselves.
    std::map<std::pair<size_t, size_t>, int> edges;
    std::map<size_t, std::vector<size_t>> leaf_groups;  // drawn consumer -> leaves
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t next : nodes_[i].next) {
        if (nodes_[next].node->is_accumulate())
          leaf_groups[drawn_[i]].push_back(next);
        else if (drawn_[next] != drawn_[i])
          ++edges[{drawn_[next], drawn_[i]}];
      }
    for (const auto& [edge, count] : edges) {
      if (count > 1)
        line("  {} -> {} [label=\"{}\"]", nodes_[edge.first].id, nodes_[edge.second].id, count);
      else
        line("  {} -> {}", nodes_[edge.first].id, nodes_[edge.second].id);
    }
    for (auto& [consumer, list] : leaf_groups) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      if (list.size() == 1) {
        if (!leaf_drawn_[list[0]]++) write_node(nodes_[list[0]]);
        line("  {} -> {}", nodes_[list[0]].id, nodes_[consumer].id);
      } else {
        line("  {}l [label=\"{} leaves\", fillcolor=\"#b3d4f0\", color=\"#3b6f9e\"]",
             nodes_[consumer].id, list.size());
        line("  {}l -> {}", nodes_[consumer].id, nodes_[consumer].id);
      }
    }
  }

  const std::string& drawn(const GraphNode& g) const {
    const auto i = static_cast<size_t>(&g - nodes_.data());
    return drawn_.empty() ? g.id : nodes_[drawn_[i]].id;
  }

  const std::vector<GraphNode>& nodes_;
  const DotOptions& options_;
  std::vector<size_t> drawn_;
  std::map<size_t, int> leaf_drawn_;
  std::string out_;
};

}  // namespace

Dot make_dot(const Tensors& roots, const std::vector<std::pair<std::string, Tensor>>& params,
             const DotOptions& options) {
  PELLUCID_CHECK(options.rankdir == "TB" || options.rankdir == "LR", ValueError,
                 "make_dot: rankdir must be \"TB\" or \"LR\", found \"{}\".", options.rankdir);
  bool any = false;
  for (const Tensor& t : roots) any |= t.defined() && t.requires_grad();
  PELLUCID_CHECK(any, AutogradError,
                 "make_dot: the tensor has no history to draw. Call requires_grad_() on a leaf it "
                 "depends on, before computing it.");
  const std::vector<GraphNode> nodes = graph_nodes(roots, params);
  return Dot(Writer(nodes, options).write(roots));
}

Dot make_dot(const Tensor& root, const std::vector<std::pair<std::string, Tensor>>& params,
             const DotOptions& options) {
  return make_dot(Tensors{root}, params, options);
}

}  // namespace pellucid
