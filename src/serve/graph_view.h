// A graph as the page draws it: nodes in boxes inside boxes, each box laid out by itself, so that
// opening one changes only what is around it. docs/view-format.md has its form as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "pellucid/api.h"

namespace pellucid::serve {

struct PELLUCID_API GraphView {
  struct Node {
    std::string id;
    int32_t box = -1;  ///< the innermost one around it
    std::string label;
    nlohmann::ordered_json more;  ///< further members: "name", "family", "value"…
  };
  struct Edge {
    int32_t from = 0, to = 0;  ///< nodes; data flows from one to the other
    std::string kind = "data";
    nlohmann::ordered_json more;  ///< "label", "gradient"…
  };
  /// A box comes after the box around it.
  struct Box {
    int32_t parent = -1;
    std::string name;
    int64_t repeat = 1;  ///< how many equal ones it stands for
  };
  std::string title, kind;  ///< "autograd", "modules", "program" or "pass"
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<Box> boxes;

  /// The graph with places. An open box is as large as what is inside; what lies in a closed one is
  /// laid out too, from the box's own corner. Edges are given for each box: those between its own
  /// nodes and boxes, with those that pass their borders counted together.
  nlohmann::ordered_json laid_out(const std::set<int32_t>& open = {}) const;
};

}  // namespace pellucid::serve
