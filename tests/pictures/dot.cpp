// Pictures of graphs.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "pellucid/graph.h"
#include "pellucid/pellucid.h"
#include "pictures/references.h"

using namespace pellucid;

TEST_CASE("a picture has operations, shapes, names and saved tensors") {
  const Tensor x = ones({2, 3}).requires_grad_(), w = ones({3, 4}).requires_grad_();
  const Tensor y = relu(matmul(x, w)).sum();
  const std::string dot =
      make_dot(y, {{"x", x}, {"w", w}}, {.rankdir = "LR", .show_saved = true}).source();
  for (const char* part : {"rankdir=LR", "relu", "sum", "label=\"x\\n(2, 3) float32\"",
                           "label=\"w\\n(3, 4) float32\"", "(2, 4)", "48 B"}) {
    INFO(part);
    INFO(dot);
    CHECK(dot.find(part) != std::string::npos);
  }
  const Dot plain = make_dot(y);
  CHECK(plain.render("svg").find("<svg") != std::string::npos);
  CHECK(plain.render("png").substr(1, 3) == "PNG");
  CHECK(plain.render("pdf").substr(0, 4) == "%PDF");
  CHECK(plain.render("dot") == plain.source());
}

TEST_CASE("names from a program cannot break the picture") {
  const Tensor x = ones({2}).requires_grad_();
  const std::string svg = make_dot(x.sum(), {{"a\"b\\<script>\n", x}}).render("svg");
  CHECK(svg.find("<script>") == std::string::npos);
}

TEST_CASE("what cannot be drawn is refused") {
  CHECK_THROWS_AS(make_dot(ones({2})), AutogradError);
  const Tensor y = ones({2}).requires_grad_().sum();
  CHECK_THROWS_AS(make_dot(y, {}, {.rankdir = "XY"}), ValueError);
  CHECK_THROWS_AS(make_dot(y).render("gif"), ValueError);
  CHECK_THROWS_AS(make_dot(y).save("noending"), ValueError);
  CHECK_THROWS_AS(make_dot(y).save("no/such/folder/g.svg"), IoError);
}

TEST_CASE("leaves without a history are drawn, each with its result") {
  const Tensor a = ones({2}).requires_grad_(), b = ones({3}).requires_grad_();
  const Dot dot = make_dot(Tensors{a, b}, {{"a", a}, {"b", b}});
  CHECK(dot.source().find("n0 -> r0") != std::string::npos);
  CHECK(dot.source().find("n1 -> r1") != std::string::npos);
  CHECK(graph_nodes({a})[0].node->is_accumulate());
}

TEST_CASE("a graph of 3,000 nodes is drawn with its repeats collapsed") {
  Tensor y = ones({4}).requires_grad_();
  for (int i = 0; i < 1000; ++i) y = sin(y * 2 + 1);
  const Dot dot = make_dot(y.sum());
  CHECK(dot.source().find("× 1000") != std::string::npos);
  CHECK(dot.render("svg").size() < 100000);
  CHECK(graph_nodes({y}).size() == 3001);
}

namespace {

/// An upper bound of what Graphviz has to place: the steps of every edge of the drawn graph.
size_t drawn_edges(const std::string& svg) {
  size_t n = 0;
  for (size_t at = 0; (at = svg.find("class=\"edge\"", at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

TEST_CASE("a dense graph is drawn with references, which is said in the picture") {
  const Tensor x = ones({2}).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 100; ++i) y = y + x;
  const Dot sum = make_dot(y, {{"x", x}});
  CHECK(graph::note_of(sum.source()).find("drawn as dashed boxes") != std::string::npos);
  const std::string svg = sum.render("svg");
  CHECK(svg.find("note: ") != std::string::npos);
  CHECK(svg.find("stroke-dasharray") != std::string::npos);
  CHECK(drawn_edges(svg) >= 201);  // none is lost
  // A value that is no leaf and has a namesake gets a number.
  const Tensor a = x * 2;
  Tensor z = a;
  for (int i = 0; i < 100; ++i) z = (z + a) * 1.5;
  CHECK(make_dot(z, {{"x", x}}).render("svg").find("mul #1") != std::string::npos);
  // Few long edges stay as they are.
  Tensor few = x;
  for (int i = 0; i < 20; ++i) few = few + x;
  CHECK(graph::note_of(make_dot(few, {{"x", x}}).source()).empty());
}

TEST_CASE("labels show names as they are") {
  const Tensor x = ones({2}).requires_grad_();
  const std::string svg = make_dot(x.sum(), {{"a&lt;b\\N\x1b\xff", x}}).render("svg");
  CHECK(svg.find("a&amp;lt;b\\N\\x1b\ufffd") != std::string::npos);
}
