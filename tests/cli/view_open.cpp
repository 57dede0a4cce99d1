// What the viewer's server answers about layouts.
#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/view/open.h"
#include "pellucid/error.h"

using namespace pellucid;
using Json = nlohmann::ordered_json;

TEST_CASE("view: a graph with boxes open, and requests that name nothing") {
  serve::GraphView g{.title = "g"};
  g.boxes = {{-1, "block"}, {0, "inner"}};
  g.nodes = {{"n0", 1, "a", {}}, {"n1", -1, "b", {}}};
  g.edges = {{0, 1}};
  cli::view::Opened opened;
  opened.graphs = {{}, {g}};
  const auto ask = [&](const char* body) {
    return Json::parse(cli::view::answer_layout(opened, body));
  };
  const Json closed = ask(R"({"item": 1, "graph": 0, "open": []})");
  const Json open = ask(R"({"item": 1, "graph": 0, "open": ["b0", "b7", 3, "n0"]})");
  CHECK(closed == g.laid_out());
  CHECK(open == g.laid_out({0}));
  CHECK(open != closed);
  for (const char* bad :
       {"", "[]", "{}", R"({"item": 0, "graph": 0, "open": []})",
        R"({"item": 2, "graph": 0, "open": []})", R"({"item": -1, "graph": 0, "open": []})",
        R"({"item": 1, "graph": 1, "open": []})", R"({"item": 1, "graph": 0.5, "open": []})",
        R"({"item": 1, "graph": 0})", R"({"item": 1, "graph": 0, "open": "b0"})"})
    CHECK_THROWS_AS(cli::view::answer_layout(opened, bad), ValueError);
}

TEST_CASE("view: an expression has its values, gradients and graph") {
  const auto opened =
      cli::view::open_expression("a = x**2; b = sin(a); c = exp(b); y = c*x", {"x=2"});
  REQUIRE(opened.data.size() == 1);
  uint32_t length = 0;
  std::memcpy(&length, opened.data[0].data() + 8, 4);
  const Json header = Json::parse(opened.data[0].substr(12, length));
  CHECK(header.at("kind") == "graph");
  CHECK(header.at("inputs").at("x") == "2");
  const Json& gradients = header.at("playground").at("gradients");
  REQUIRE(gradients.size() == 1);
  CHECK(std::abs(gradients[0].at("value").get<double>() + 1.9842) < 1e-4);
  const Json& graph = header.at("graphs").at(0);
  CHECK(graph.at("nodes").size() == 5);  // x, a, b, c, y
  CHECK(graph.at("edges").size() == 5);
  bool found = false;
  for (const Json& n : graph.at("nodes"))
    if (n.at("label") == "b = sin(a)") {
      found = true;
      CHECK(std::abs(n.at("value").at("value").get<double>() + 0.7568) < 1e-4);
      CHECK(n.contains("gradient"));
      CHECK(n.at("family") == "pointwise");
    }
  CHECK(found);
  for (const Json& e : graph.at("edges")) CHECK(!e.at("local").get<std::string>().empty());
}
