// See references.h.
#include "pictures/references.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "pictures/graphviz.h"

namespace pellucid::graph {
namespace {

// Graphviz' own names are macros that take char*.
std::string attribute(void* object, const char* name) {
  const char* value = graphviz().agget(object, const_cast<char*>(name));
  return value ? value : "";
}
void set(void* object, const char* name, const std::string& value) {
  graphviz().agsafeset(object, const_cast<char*>(name), const_cast<char*>(value.c_str()),
                       const_cast<char*>(""));
}

struct Edge {
  size_t from, to;
  Agedge_t* edge;
};

struct Ranked {
  std::vector<Agnode_t*> nodes;
  std::vector<Edge> edges;
  std::vector<int> rank;
  std::vector<int> depth;  ///< the longest way to a node

  int span(const Edge& e) const { return rank[e.to] - rank[e.from]; }
};

/// About as Graphviz will rank it: each right before the first that uses it, and the last by the
/// longest way to it.
Ranked ranks_of(Agraph_t* graph) {
  Ranked r;
  std::map<Agnode_t*, size_t> number;
  for (Agnode_t* n = graphviz().agfstnode(graph); n; n = graphviz().agnxtnode(graph, n)) {
    number.emplace(n, r.nodes.size());
    r.nodes.push_back(n);
  }
  std::vector<int> waits(r.nodes.size());
  std::vector<std::vector<size_t>> leaving(r.nodes.size());
  for (Agnode_t* n : r.nodes)
    for (Agedge_t* e = graphviz().agfstout(graph, n); e; e = graphviz().agnxtout(graph, e)) {
      leaving[number[n]].push_back(r.edges.size());
      r.edges.push_back({number[n], number[aghead(e)], e});
      ++waits[r.edges.back().to];
    }
  r.depth.assign(r.nodes.size(), 0);
  std::vector<size_t> ready;
  for (size_t i = 0; i < waits.size(); ++i)
    if (waits[i] == 0) ready.push_back(i);
  for (size_t k = 0; k < ready.size(); ++k)  // grows meanwhile; a cycle is left out
    for (const size_t e : leaving[ready[k]]) {
      const size_t to = r.edges[e].to;
      r.depth[to] = std::max(r.depth[to], r.depth[ready[k]] + 1);
      if (--waits[to] == 0) ready.push_back(to);
    }
  r.rank = r.depth;
  for (size_t k = ready.size(); k-- > 0;) {
    const std::vector<size_t>& edges = leaving[ready[k]];
    if (edges.empty()) continue;
    int first = r.rank[r.edges[edges[0]].to];
    for (const size_t e : edges) first = std::min(first, r.rank[r.edges[e].to]);
    r.rank[ready[k]] = first - 1;
  }
  return r;
}

int64_t hidden_nodes(const Ranked& r) {
  int64_t sum = 0;
  for (const Edge& e : r.edges) sum += std::max(0, r.span(e) - 1);
  return sum;
}

/// Draws edges as references: beside the node that they go to, a box names where they come from.
class References {
 public:
  References(Agraph_t* graph, const Ranked& ranked) : graph_(graph), ranked_(ranked) {
    for (Agnode_t* n : ranked.nodes) ++labels_[attribute(n, "label")];
  }

  void add(const Edge& e) {
    from_[e.to].push_back(e.from);
    graphviz().agdeledge(graph_, e.edge);
  }

  void draw() {
    for (const auto& [to, sources] : from_) {
      const std::string name = fmt::format("reference{}", to);
      Agnode_t* box = graphviz().agnode(graph_, const_cast<char*>(name.c_str()), 1);
      set(box, "label", text_of(sources));
      for (const char* kept : {"fillcolor", "color", "shape"})
        if (const std::string value = attribute(ranked_.nodes[sources[0]], kept); !value.empty())
          set(box, kept, value);
      set(box, "style", "filled,rounded,dashed");
      set(graphviz().agedge(graph_, box, ranked_.nodes[to], nullptr, 1), "weight", "1");
    }
  }

 private:
  /// One line for each source; many are cut.
  std::string text_of(const std::vector<size_t>& sources) {
    constexpr size_t kLines = 6;
    std::string text;
    for (size_t i = 0; i < std::min(sources.size(), kLines); ++i)
      text += (i > 0 ? "\\n" : "") + name_of(ranked_.nodes[sources[i]]);
    if (sources.size() > kLines) text += fmt::format("\\n… {} more", sources.size() - kLines);
    return text;
  }

  /// What references call a node; a label that others have too gets a number.
  const std::string& name_of(Agnode_t* node) {
    const auto [it, is_new] = names_.try_emplace(node);
    if (!is_new) return it->second;
    std::string label = attribute(node, "label");
    const bool unique = label == "\\N" || labels_[label] < 2;
    if (label == "\\N") label = graphviz().agnameof(node);
    std::string first = label.substr(0, label.find("\\n"));
    if (!unique) {
      const std::string number = fmt::format(" #{}", ++count_);
      set(node, "label", first + number + label.substr(first.size()));
      first += number;
    }
    return it->second = first;
  }

  Agraph_t* graph_;
  const Ranked& ranked_;
  std::map<std::string, int> labels_;
  std::map<Agnode_t*, std::string> names_;
  std::map<size_t, std::vector<size_t>> from_;  // by the node that they go to
  int count_ = 0;
};

/// Draws long edges as references; how many.
size_t cut_long_edges(Agraph_t* graph, const Ranked& ranked) {
  constexpr int kLongEdge = 3;  // ranks
  References references(graph, ranked);
  std::vector<const Edge*> deepest(ranked.nodes.size());
  size_t cut = 0;
  for (const Edge& e : ranked.edges) {
    if (ranked.span(e) > kLongEdge) {
      references.add(e);
      ++cut;
      continue;
    }
    const Edge*& best = deepest[e.to];
    if (!best || ranked.depth[e.from] > ranked.depth[best->from]) best = &e;
    set(e.edge, "weight", "10");
  }
  // The longest way of the data is drawn straight.
  for (const Edge* e : deepest)
    if (e) set(e->edge, "weight", "100");
  references.draw();
  return cut;
}

}  // namespace

std::string simplify(Agraph_t* graph) {
  constexpr int64_t kMostHidden = 1000;  // Graphviz takes about a second for them
  constexpr size_t kMostNodes = 1500, kMostEdges = 3000;
  const Ranked ranked = ranks_of(graph);
  const size_t nodes = ranked.nodes.size(), edges = ranked.edges.size();
  std::string note;
  size_t long_edges = 0;
  if (hidden_nodes(ranked) > kMostHidden) {
    long_edges = cut_long_edges(graph, ranked);
    note = fmt::format(
        "{} edges across many ranks are drawn as dashed boxes that name where they "
        "come from",
        long_edges);
  }
  if (nodes + long_edges > kMostNodes || edges > kMostEdges) {
    for (const auto& [name, value] : {std::pair("nslimit", "0.2"),
                                      {"nslimit1", "0.2"},
                                      {"mclimit", "0.1"},
                                      {"splines", "line"}})
      set(graph, name, value);
    note +=
        fmt::format("{}a graph of {} nodes and {} edges is laid out roughly, with straight lines",
                    note.empty() ? "" : "; ", nodes, edges);
  }
  if (note.empty()) return note;
  set(graph, "label", "note: " + note);
  set(graph, "labelloc", "b");
  set(graph, "fontsize", "10");
  return note;
}

std::string note_of(const std::string& source) {
  const OwnedGraph graph = read_graph(source.c_str());
  return graph ? simplify(graph.get()) : "";
}

}  // namespace pellucid::graph
