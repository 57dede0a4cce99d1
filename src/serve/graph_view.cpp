// See graph_view.h.
#include "serve/graph_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "pellucid/error.h"
#include "pictures/layered.h"

namespace pellucid::serve {
namespace {

using Json = nlohmann::ordered_json;
using pictures::Point;

// In pixels at the page's normal zoom: a character of its text, and what stands around it.
constexpr double kCharacter = 7.5, kPadding = 24, kHeight = 44, kWidest = 320;
constexpr double kBoxHeight = 56, kBoxHead = 28, kBoxMargin = 16;

double width_of(const std::string& label) {
  size_t longest = 0;
  for (size_t begin = 0; begin <= label.size();) {
    const size_t end = std::min(label.find('\n', begin), label.size());
    longest = std::max(longest, static_cast<size_t>(text::display_width(
                                    std::string_view(label).substr(begin, end - begin))));
    begin = end + 1;
  }
  return std::min(kWidest, kPadding + kCharacter * static_cast<double>(longest));
}

// A node or a box as one of the things that lie in a box.
struct Thing {
  bool is_box = false;
  int32_t index = 0;
  auto operator<=>(const Thing&) const = default;  // NOLINT(modernize-use-nullptr): it names none
};

class Placing {
 public:
  Placing(const GraphView& g, const std::set<int32_t>& open)
      : g_(g), open_(open), inside_(g.boxes.size() + 1), edges_(g.boxes.size() + 1) {
    for (size_t n = 0; n < g.nodes.size(); ++n)
      inside_[level(g.nodes[n].box)].push_back({false, static_cast<int32_t>(n)});
    for (size_t b = 0; b < g.boxes.size(); ++b) {
      PELLUCID_ASSERT(g.boxes[b].parent < static_cast<int32_t>(b));
      inside_[level(g.boxes[b].parent)].push_back({true, static_cast<int32_t>(b)});
    }
    find_depths();
    lift_edges();
    node_corner_.resize(g.nodes.size());
    box_corner_.resize(g.boxes.size());
    inner_.resize(g.boxes.size() + 1);
    routes_.resize(g.boxes.size() + 1);
    for (size_t b = g.boxes.size(); b-- > 0;) place(static_cast<int32_t>(b));
    place(-1);
  }

  Json json() const {
    Json out = {
        {"title", g_.title}, {"kind", g_.kind}, {"width", inner_[0].x}, {"height", inner_[0].y}};
    out["nodes"] = out["edges"] = out["boxes"] = Json::array();
    for (size_t n = 0; n < g_.nodes.size(); ++n) out["nodes"].push_back(node_json(n));
    for (size_t l = 0; l < edges_.size(); ++l) put_edges(l, out["edges"]);
    for (size_t b = 0; b < g_.boxes.size(); ++b) out["boxes"].push_back(box_json(b));
    return out;
  }

 private:
  // One edge between two things of a box, and the edges that it stands for.
  struct Lifted {
    Thing from, to;
    int32_t first = 0, count = 0;
  };

  static size_t level(int32_t box) { return static_cast<size_t>(box) + 1; }
  bool is_open(int32_t box) const { return open_.contains(box); }
  std::string id_of(Thing t) const {
    return t.is_box ? fmt::format("b{}", t.index) : g_.nodes[static_cast<size_t>(t.index)].id;
  }

  void find_depths() {
    depth_.resize(g_.boxes.size());
    for (size_t b = 0; b < g_.boxes.size(); ++b) {
      const int32_t parent = g_.boxes[b].parent;
      depth_[b] = parent < 0 ? 1 : depth_[static_cast<size_t>(parent)] + 1;
    }
  }
  int depth(int32_t box) const { return box < 0 ? 0 : depth_[static_cast<size_t>(box)]; }

  // Each edge to the innermost box that holds both its ends, between what there holds them.
  void lift_edges() {
    std::vector<std::map<std::pair<Thing, Thing>, size_t>> known(edges_.size());
    for (size_t e = 0; e < g_.edges.size(); ++e) {
      Thing a{false, g_.edges[e].from}, b{false, g_.edges[e].to};
      int32_t in_a = g_.nodes[static_cast<size_t>(a.index)].box,
              in_b = g_.nodes[static_cast<size_t>(b.index)].box;
      while (in_a != in_b) {
        const bool first = depth(in_a) >= depth(in_b);
        int32_t& deeper = first ? in_a : in_b;
        (first ? a : b) = {true, deeper};
        deeper = g_.boxes[static_cast<size_t>(deeper)].parent;
      }
      std::vector<Lifted>& list = edges_[level(in_a)];
      const auto [it, is_new] = known[level(in_a)].try_emplace({a, b}, list.size());
      if (is_new) list.push_back({a, b, static_cast<int32_t>(e), 0});
      ++list[it->second].count;
    }
  }

  pictures::LayoutInput::Size size_of(Thing t) const {
    if (!t.is_box) return {width_of(g_.nodes[static_cast<size_t>(t.index)].label), kHeight};
    const GraphView::Box& box = g_.boxes[static_cast<size_t>(t.index)];
    const double closed = width_of(box.name) + (box.repeat > 1 ? 5 * kCharacter : 0);
    if (!is_open(t.index)) return {closed, kBoxHeight};
    const Point& inner = inner_[level(t.index)];
    return {std::max(closed, inner.x + 2 * kBoxMargin), inner.y + kBoxHead + kBoxMargin};
  }

  void place(int32_t box) {
    const std::vector<Thing>& things = inside_[level(box)];
    std::map<Thing, int32_t> number;
    pictures::LayoutInput input;
    for (const Thing& t : things) {
      number.emplace(t, static_cast<int32_t>(input.nodes.size()));
      input.nodes.push_back(size_of(t));
    }
    for (const Lifted& e : edges_[level(box)])
      input.edges.emplace_back(number.at(e.from), number.at(e.to));
    pictures::Layout layout = layered_layout(input);
    for (size_t i = 0; i < things.size(); ++i)
      (things[i].is_box ? box_corner_ : node_corner_)[static_cast<size_t>(things[i].index)] =
          layout.corners[i];
    inner_[level(box)] = {layout.width, layout.height};
    routes_[level(box)] = std::move(layout.routes);
  }

  Json node_json(size_t n) const {
    const GraphView::Node& node = g_.nodes[n];
    const auto size = size_of({false, static_cast<int32_t>(n)});
    Json j = {{"id", node.id},
              {"label", node.label},
              {"box", node.box < 0 ? Json(nullptr) : Json(fmt::format("b{}", node.box))},
              {"x", node_corner_[n].x},
              {"y", node_corner_[n].y},
              {"w", size.width},
              {"h", size.height}};
    if (node.more.is_object()) j.update(node.more);
    return j;
  }

  void put_edges(size_t l, Json& out) const {
    for (size_t i = 0; i < edges_[l].size(); ++i) {
      const Lifted& e = edges_[l][i];
      const GraphView::Edge& edge = g_.edges[static_cast<size_t>(e.first)];
      Json points = Json::array();
      for (const Point& p : routes_[l][i]) points.push_back({p.x, p.y});
      Json j = {{"from", id_of(e.from)},
                {"to", id_of(e.to)},
                {"box", l == 0 ? Json(nullptr) : Json(fmt::format("b{}", l - 1))},
                {"kind", edge.kind},
                {"count", e.count},
                {"points", std::move(points)}};
      if (e.count == 1 && edge.more.is_object()) j.update(edge.more);
      out.push_back(std::move(j));
    }
  }

  Json box_json(size_t b) const {
    const GraphView::Box& box = g_.boxes[b];
    const auto index = static_cast<int32_t>(b);
    const auto size = size_of({true, index});
    return {{"id", fmt::format("b{}", b)},
            {"parent", box.parent < 0 ? Json(nullptr) : Json(fmt::format("b{}", box.parent))},
            {"name", box.name},
            {"repeat", box.repeat},
            {"x", box_corner_[b].x},
            {"y", box_corner_[b].y},
            {"w", size.width},
            {"h", size.height},
            {"open", is_open(index)},
            {"inner_x", kBoxMargin},
            {"inner_y", kBoxHead},
            {"inner_width", inner_[b + 1].x},
            {"inner_height", inner_[b + 1].y}};
  }

  const GraphView& g_;
  const std::set<int32_t>& open_;
  std::vector<std::vector<Thing>> inside_;  // by level: 0 is the whole, then the boxes
  std::vector<std::vector<Lifted>> edges_;
  std::vector<int> depth_;
  std::vector<Point> node_corner_, box_corner_;
  std::vector<Point> inner_;  // width and height of what is inside
  std::vector<std::vector<std::vector<Point>>> routes_;
};

}  // namespace

Json GraphView::laid_out(const std::set<int32_t>& open) const {
  return Placing(*this, open).json();
}

}  // namespace pellucid::serve
