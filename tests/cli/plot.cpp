// Charts of categories and on logarithmic axes: what stands on them.
#include "cli/plot.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cli/analyze/analysis.h"

using namespace pellucid::cli;

namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("charts: categories have names and no numbers below them, and no legend") {
  const std::string svg = chart_svg(
      with_bars({.title = "t", .y_label = "ms"}, {"off", "a <long> name", "trace"}, {10, 20, 30}));
  CHECK(svg.find(">off</text>") != std::string::npos);
  CHECK(svg.find(">a &lt;long&gt; name</text>") != std::string::npos);
  CHECK(count(svg, ">trace</text>") == 1);
  CHECK(svg.find(">1.5</text>") == std::string::npos);
  CHECK(svg.find(">30</text>") != std::string::npos);  // of the other axis
  // Where there is little room a name takes two lines.
  std::vector<std::string> names(9, "transpose copy (movement)");
  const std::string crowded = chart_svg(with_bars({}, names, std::vector<double>(9, 1)));
  CHECK(count(crowded, ">transpose</text>") + count(crowded, ">transpose copy</text>") == 9);
  CHECK(chart_png(with_bars({}, names, std::vector<double>(9, 1))).starts_with("\x89PNG"));
}

TEST_CASE(
    "charts: a logarithmic x is labelled at its own values, and leaves what has no logarithm") {
  const Chart c{.log_x = true, .series = {line_of("a", 0, {0, 1, 8, 32, 128}, {1, 2, 3, 4, 5})}};
  const std::string svg = chart_svg(c);
  for (const char* label : {">1</text>", ">8</text>", ">32</text>", ">128</text>"})
    CHECK_MESSAGE(svg.find(label) != std::string::npos, label);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(chart_svg({.log_x = true}).starts_with("<svg "));
}

TEST_CASE("charts: between whole numbers there are no others") {
  const std::string svg = chart_svg({.series = {line_of("a", 0, {1, 2}, {10, 30})}});
  CHECK(svg.find(">1</text>") != std::string::npos);
  CHECK(svg.find(">1.2</text>") == std::string::npos);
}
