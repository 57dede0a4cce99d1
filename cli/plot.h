// Line charts as SVG and PNG: axes with round numbers, a grid, a legend. The scene is drawn once,
// as lines and texts; SVG is written by hand and PNG goes through Graphviz's renderer.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pellucid::cli {

/// One line of a chart.
struct Series {
  std::string name;   ///< in the legend; "" for none
  std::string color;  ///< "#rrggbb"
  double width = 1.5;
  std::vector<std::pair<double, double>> points;  ///< x must not fall
};

struct Chart {
  std::string title, x_label, y_label;
  bool log_y = false;  ///< needs values above 0; others are left out
  bool log_x = false;  ///< the same for x; it is labelled at the values of the first series
  std::vector<std::string> x_names;  ///< of categories at x = 1, 2…: instead of numbers
  std::vector<Series> series;
  double width = 720, height = 420;  ///< points of 1/72 inch
};

std::string chart_svg(const Chart& chart);
std::string chart_png(const Chart& chart);

/// Values from `low` to `high` at which an axis is labelled: multiples of 1, 2 or 5 times a power
/// of ten, about `count` of them.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace pellucid::cli
