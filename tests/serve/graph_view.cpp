// Graphs in boxes: edges belong to the box that holds both ends, and opening a box changes only
// what is around it.
#include "serve/graph_view.h"

#include <doctest/doctest.h>

#include <algorithm>

using pellucid::serve::GraphView;
using Json = nlohmann::ordered_json;

namespace {

// x -> [block: a -> [inner: b -> c] ] -> y, and x -> c past the borders.
GraphView sample() {
  GraphView g{.title = "t", .kind = "modules"};
  g.boxes = {{-1, "block", 12}, {0, "inner"}};
  for (const auto& [id, box] : {std::pair("x", -1), {"a", 0}, {"b", 1}, {"c", 1}, {"y", -1}})
    g.nodes.push_back({id, box, id, {{"family", "other"}}});
  g.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 3}};
  g.edges[0].more = {{"label", "[2]"}};
  return g;
}

Json edge(const Json& g, const std::string& from, const std::string& to) {
  for (const Json& e : g.at("edges"))
    if (e.at("from") == from && e.at("to") == to) return e;
  return nullptr;
}

}  // namespace

TEST_CASE("graph view: edges belong to the box that holds both ends") {
  const Json g = sample().laid_out();
  CHECK(g.at("edges").size() == 4);
  const Json in = edge(g, "x", "b0");  // x -> a and x -> c
  CHECK(in.at("count") == 2);
  CHECK(in.at("box").is_null());
  CHECK(!in.contains("label"));  // two edges have no one shape
  CHECK(edge(g, "b0", "y").at("count") == 1);
  CHECK(edge(g, "a", "b1").at("box") == "b0");
  CHECK(edge(g, "b", "c").at("box") == "b1");
  CHECK(g.at("boxes").at(0).at("repeat") == 12);
  CHECK(g.at("boxes").at(1).at("parent") == "b0");
  CHECK(g.at("nodes").at(0).at("family") == "other");
}

TEST_CASE("graph view: an open box is as large as its inside") {
  const Json closed = sample().laid_out(), open = sample().laid_out({0}),
             all = sample().laid_out({0, 1});
  const auto box = [](const Json& g, size_t i) { return g.at("boxes").at(i); };
  CHECK(box(closed, 0).at("open") == false);
  CHECK(box(open, 0).at("open") == true);
  CHECK(box(open, 0).at("h") > box(closed, 0).at("h"));
  CHECK(box(all, 0).at("h") > box(open, 0).at("h"));
  CHECK(all.at("height") > closed.at("height"));
  // What is inside has its place either way, and the same while nothing in it was opened.
  CHECK(box(closed, 0).at("inner_height") == box(open, 0).at("inner_height"));
  CHECK(closed.at("nodes").at(1) == open.at("nodes").at(1));
  for (const Json* g : {&closed, &open, &all})
    for (const Json& b : g->at("boxes"))
      if (b.at("open").get<bool>()) {
        CHECK(b.at("w").get<double>() >=
              b.at("inner_width").get<double>() + 2 * b.at("inner_x").get<double>());
        CHECK(b.at("h").get<double>() >=
              b.at("inner_height").get<double>() + b.at("inner_y").get<double>());
      }
}

TEST_CASE("graph view: nothing, and one node") {
  CHECK(GraphView{}.laid_out().at("nodes").empty());
  GraphView one;
  one.nodes.push_back({"n0", -1, std::string(10'000, 'x'), {}});
  CHECK(one.laid_out().at("width").get<double>() <= 320);  // the page cuts the text
}
