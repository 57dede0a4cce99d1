// A layered layout of a directed graph: every edge goes down, crossings are few, and edges are
// short. The work grows as the graph does, whatever its shape, so that a page can ask for it: 10^4
// nodes take some tens of milliseconds, where Graphviz may take minutes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pellucid/api.h"

namespace pellucid::pictures {

struct Point {
  double x = 0, y = 0;
};

/// A graph as its layout sees it: sizes, and pairs of nodes.
struct LayoutInput {
  struct Size {
    double width = 0, height = 0;
  };
  std::vector<Size> nodes;
  std::vector<std::pair<int32_t, int32_t>> edges;  ///< an edge of a cycle may go up
  double node_gap = 16, layer_gap = 40;
};

/// Where everything is, from (0, 0) at the left top to (width, height).
struct Layout {
  std::vector<Point> corners;              ///< left top of each node
  std::vector<std::vector<Point>> routes;  ///< of each edge, from its first node's border on
  double width = 0, height = 0;
};

PELLUCID_API Layout layered_layout(const LayoutInput& graph);

}  // namespace pellucid::pictures
