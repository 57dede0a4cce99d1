// The layered layout: nothing overlaps, edges go down and end where their nodes are, and large
// graphs of awkward shapes stay of a size that follows from their nodes.
#include "pictures/layered.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace pellucid::pictures {
namespace {

LayoutInput graph(size_t nodes, std::vector<std::pair<int32_t, int32_t>> edges = {}) {
  LayoutInput g;
  g.nodes.assign(nodes, {80, 30});
  g.edges = std::move(edges);
  return g;
}

LayoutInput random_graph(uint32_t seed, int nodes, int fan) {
  std::mt19937 random(seed);
  LayoutInput g;
  for (int i = 0; i < nodes; ++i) {
    g.nodes.push_back({20.0 + random() % 200, 10.0 + random() % 60});
    for (int k = 0; i > 0 && k < fan; ++k) g.edges.push_back({static_cast<int>(random() % i), i});
  }
  std::shuffle(g.edges.begin(), g.edges.end(), random);
  return g;
}

void check(const LayoutInput& g) {
  const Layout l = layered_layout(g);
  constexpr double kNear = 1e-6;
  REQUIRE(l.corners.size() == g.nodes.size());
  REQUIRE(l.routes.size() == g.edges.size());
  std::vector<size_t> order(g.nodes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    CHECK(l.corners[i].x >= -kNear);
    CHECK(l.corners[i].y >= -kNear);
    CHECK(l.corners[i].x + g.nodes[i].width <= l.width + kNear);
    CHECK(l.corners[i].y + g.nodes[i].height <= l.height + kNear);
  }
  // In a layer neighbours keep their gap; layers do not meet.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(l.corners[a].y, l.corners[a].x) < std::pair(l.corners[b].y, l.corners[b].x);
  });
  double bottom = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t a = order[i - 1], b = order[i];
    bottom = std::max(bottom, l.corners[a].y + g.nodes[a].height);
    if (l.corners[a].y == l.corners[b].y)
      CHECK(l.corners[a].x + g.nodes[a].width + g.node_gap <= l.corners[b].x + kNear);
    else
      CHECK(bottom + g.layer_gap <= l.corners[b].y + kNear);
  }
  for (size_t e = 0; e < g.edges.size(); ++e) {
    const auto [from, to] = g.edges[e];
    if (from == to) continue;
    const auto a = static_cast<size_t>(from), b = static_cast<size_t>(to);
    REQUIRE(l.routes[e].size() >= 2);
    const bool down = l.corners[a].y < l.corners[b].y;
    const size_t upper = down ? a : b;
    const Point& first = down ? l.routes[e].front() : l.routes[e].back();
    CHECK(std::abs(first.x - (l.corners[upper].x + g.nodes[upper].width / 2)) < kNear);
    CHECK(std::abs(first.y - (l.corners[upper].y + g.nodes[upper].height)) < kNear);
    for (size_t i = 1; i < l.routes[e].size(); ++i)
      CHECK((l.routes[e][i].y >= l.routes[e][i - 1].y) == down);
  }
}

}  // namespace

TEST_CASE("layered layout: small graphs") {
  check(graph(0));
  check(graph(1));
  check(graph(5));
  check(graph(2, {{0, 1}, {0, 1}}));
  check(graph(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {0, 3}}));
  const Layout chain = layered_layout(graph(3, {{0, 1}, {1, 2}}));
  CHECK(chain.width == 80);
  CHECK(chain.height == 3 * 30 + 2 * 40);
  // A diamond is drawn as one: its sides beside each other, its ends in the middle.
  const Layout diamond = layered_layout(graph(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  CHECK(diamond.corners[1].y == diamond.corners[2].y);
  CHECK(std::abs(diamond.corners[0].x - diamond.corners[3].x) < 1e-6);
  CHECK(std::abs(diamond.corners[0].x - (diamond.corners[1].x + diamond.corners[2].x) / 2) < 1e-6);
}

TEST_CASE("layered layout: a source stands just above what uses it") {
  const Layout l = layered_layout(graph(5, {{0, 1}, {1, 2}, {2, 3}, {4, 3}}));
  CHECK(l.corners[4].y == l.corners[2].y);
}

TEST_CASE("layered layout: cycles end, and only an edge of them goes up") {
  const LayoutInput g = graph(4, {{0, 1}, {1, 2}, {2, 0}, {2, 3}, {3, 3}});
  check(g);
  const Layout l = layered_layout(g);
  CHECK(l.routes[4].empty());  // from a node to itself
  int up = 0;
  for (size_t e = 0; e < 4; ++e) up += l.routes[e].front().y > l.routes[e].back().y ? 1 : 0;
  CHECK(up == 1);
}

TEST_CASE("layered layout: random graphs") {
  for (uint32_t seed = 0; seed < 30; ++seed)
    check(random_graph(seed, 2 + static_cast<int>(seed) * 7, 1 + static_cast<int>(seed % 3)));
}

TEST_CASE("layered layout: shapes that take others minutes") {
  LayoutInput star = graph(101);
  for (int i = 0; i < 100; ++i) star.edges.push_back({i, 100});
  check(star);
  const Layout s = layered_layout(star);
  CHECK(s.width < 100 * 96);  // no line of a hundred
  LayoutInput recurrent = graph(1 + 50 * 10);
  for (int i = 1; i <= 500; ++i) {
    recurrent.edges.push_back({0, i});  // one weight for every step
    if (i > 1) recurrent.edges.push_back({i - 1, i});
  }
  check(recurrent);
  check(random_graph(1, 3000, 2));
  LayoutInput chain = graph(10'000);
  for (int i = 1; i < 10'000; ++i) chain.edges.push_back({i - 1, i});
  CHECK(layered_layout(chain).width == 80);
}

TEST_CASE("layered layout: the same graph gives the same picture") {
  const LayoutInput g = random_graph(9, 500, 2);
  const Layout a = layered_layout(g), b = layered_layout(g);
  for (size_t i = 0; i < a.corners.size(); ++i) {
    CHECK(a.corners[i].x == b.corners[i].x);
    CHECK(a.corners[i].y == b.corners[i].y);
  }
}

}  // namespace pellucid::pictures
