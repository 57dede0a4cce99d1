// Charts: data to a scene of lines and texts, and the scene to SVG and PNG.
#include "cli/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/escape.h"
#include "pellucid/graph.h"

namespace pellucid::cli {
namespace {

using Point = std::pair<double, double>;

constexpr const char* kInk = "#222222";
constexpr const char* kSoft = "#555555";
constexpr const char* kGrid = "#e4e4e4";
constexpr double kLeft = 64, kRight = 24, kTop = 56, kBottom = 52, kText = 12;

enum class Anchor { Start, Middle, End };

struct Line {
  std::vector<Point> points;
  std::string color;
  double width;
};
struct Text {
  Point at;  ///< of the baseline
  Anchor anchor;
  double size;
  std::string color, text;
};

/// What a picture consists of; y grows downwards.
struct Scene {
  double width, height;
  std::vector<Line> lines;
  std::vector<Text> texts;
};

// ---- axes

struct Axis {
  double low = 0, high = 1;  ///< of the data, or of its logarithm
  bool log = false;
  double from = 0, to = 1;  ///< on the picture
  double place(double value) const {
    const double v = log ? std::log10(value) : value;
    return from + (to - from) * (v - low) / (high - low);
  }
};

Axis axis_of(const Chart& chart, bool y, double from, double to) {
  Axis axis{.low = std::numeric_limits<double>::infinity(),
            .high = -std::numeric_limits<double>::infinity(),
            .log = y ? chart.log_y : chart.log_x,
            .from = from,
            .to = to};
  for (const Series& s : chart.series)
    for (const Point& p : s.points) {
      const double v = y ? p.second : p.first;
      if (!std::isfinite(v) || (axis.log && v <= 0)) continue;
      axis.low = std::min(axis.low, axis.log ? std::log10(v) : v);
      axis.high = std::max(axis.high, axis.log ? std::log10(v) : v);
    }
  if (axis.low > axis.high) axis.low = 0, axis.high = 1;
  if (axis.low == axis.high) axis.low -= 0.5, axis.high += 0.5;
  if (!y) {
    if (!chart.x_names.empty()) {  // room beside the outer bars
      axis.low = 0.4;
      axis.high = static_cast<double>(chart.x_names.size()) + 0.6;
    } else if (axis.log) {
      return axis;
    } else if (axis.low > 0 && axis.low < 0.1 * axis.high) {
      axis.low = 0;
    }
    return axis;
  }
  const double margin = 0.05 * (axis.high - axis.low);
  const bool from_zero = !axis.log && axis.low >= 0 && axis.low < 0.5 * axis.high;
  axis.low = from_zero ? 0 : axis.low - margin;
  axis.high += margin;
  return axis;
}

std::string number_text(double v) {
  if (v != 0 && (std::abs(v) >= 1e6 || std::abs(v) < 1e-4)) return fmt::format("{:.0e}", v);
  return fmt::format("{:.6g}", v);
}

/// Where a logarithmic axis is labelled: powers of ten, and 2 and 5 times them where there are few.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const int every = std::max(1, static_cast<int>((high - low) / 8));
  for (int e = static_cast<int>(std::floor(low)); e <= static_cast<int>(std::ceil(high)); ++e)
    for (const double m : {1.0, 2.0, 5.0}) {
      if (m != 1 && high - low > 2.5) continue;
      const double v = m * std::pow(10, e);
      if (e % every == 0 && std::log10(v) >= low && std::log10(v) <= high) ticks.push_back(v);
    }
  return ticks;
}

/// At most one vertical stroke a half pixel: the least and the greatest value there.
std::vector<Point> thinned(std::vector<Point> points) {
  if (points.size() < 4000) return points;
  std::vector<Point> out;
  for (size_t i = 0; i < points.size();) {
    size_t end = i, low = i, high = i;
    for (; end < points.size() && points[end].first < points[i].first + 0.5; ++end) {
      if (points[end].second < points[low].second) low = end;
      if (points[end].second > points[high].second) high = end;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
    i = std::max(end, i + 1);
  }
  return out;
}

/// Where the axis of x is labelled. Between whole numbers there are no others.
std::vector<double> across_ticks(const Chart& chart, const Axis& x) {
  std::vector<double> ticks;
  if (!chart.x_names.empty()) {
    for (size_t i = 1; i <= chart.x_names.size(); ++i) ticks.push_back(static_cast<double>(i));
    return ticks;
  }
  if (x.log && !chart.series.empty()) {
    for (const Point& p : chart.series[0].points)
      if (p.first > 0) ticks.push_back(p.first);
    return ticks;
  }
  ticks = round_ticks(x.low, x.high, 8);
  bool whole = true;
  for (const Series& s : chart.series)
    for (const Point& p : s.points) whole = whole && p.first == std::floor(p.first);
  if (whole) std::erase_if(ticks, [](double v) { return std::abs(v - std::round(v)) > 1e-9; });
  return ticks;
}

/// A name below its place: on two lines where one would run into its neighbours.
void draw_name(Scene& scene, const std::string& name, double at, double top, double room) {
  constexpr double kSmall = 11;
  const auto fits = static_cast<size_t>(room / (0.55 * kSmall));
  size_t cut = std::string::npos;
  if (name.size() > fits)
    for (size_t i = name.find(' '); i != std::string::npos; i = name.find(' ', i + 1))
      if (cut == std::string::npos ||
          std::max(i, name.size() - i) < std::max(cut, name.size() - cut))
        cut = i;
  scene.texts.push_back(
      {{at, top + 8 + kSmall}, Anchor::Middle, kSmall, kSoft, name.substr(0, cut)});
  if (cut != std::string::npos)
    scene.texts.push_back(
        {{at, top + 10 + 2 * kSmall}, Anchor::Middle, kSmall, kSoft, name.substr(cut + 1)});
}

void draw_axes(Scene& scene, const Chart& chart, const Axis& x, const Axis& y) {
  const std::vector<double> across = across_ticks(chart, x);
  const std::vector<double> up = y.log ? log_ticks(y.low, y.high) : round_ticks(y.low, y.high, 6);
  for (const double v : up) {
    const double at = y.place(v);
    scene.lines.push_back({{{x.from, at}, {x.to, at}}, kGrid, 1});
    scene.texts.push_back(
        {{x.from - 8, at + 0.35 * kText}, Anchor::End, kText, kSoft, number_text(v)});
  }
  for (const double v : across) {
    const double at = x.place(v);
    scene.lines.push_back({{{at, y.from}, {at, y.from + 5}}, kSoft, 1});
    if (chart.x_names.empty())
      scene.texts.push_back(
          {{at, y.from + 8 + kText}, Anchor::Middle, kText, kSoft, number_text(v)});
    else
      draw_name(scene, chart.x_names[static_cast<size_t>(v) - 1], at, y.from,
                (x.to - x.from) / static_cast<double>(chart.x_names.size()));
  }
  scene.lines.push_back({{{x.from, y.to}, {x.from, y.from}, {x.to, y.from}}, kSoft, 1});
  scene.texts.push_back(
      {{(x.from + x.to) / 2, chart.height - 10}, Anchor::Middle, kText, kInk, chart.x_label});
  scene.texts.push_back({{8, y.to - 14}, Anchor::Start, kText, kInk, chart.y_label});
}

Scene scene_of(const Chart& chart) {
  Scene scene{chart.width, chart.height, {}, {}};
  const Axis x = axis_of(chart, false, kLeft, chart.width - kRight);
  const Axis y = axis_of(chart, true, chart.height - kBottom, kTop);
  draw_axes(scene, chart, x, y);
  scene.texts.push_back({{kLeft, 24}, Anchor::Start, 15, kInk, chart.title});
  double legend = x.to;
  for (size_t i = chart.series.size(); i-- > 0;) {
    const Series& s = chart.series[i];
    if (s.name.empty()) continue;
    legend -= 0.62 * kText * static_cast<double>(s.name.size());
    scene.texts.push_back({{legend, kTop - 14}, Anchor::Start, kText, kInk, s.name});
    scene.lines.push_back(
        {{{legend - 28, kTop - 18}, {legend - 6, kTop - 18}}, s.color, std::max(2.0, s.width)});
    legend -= 44;
  }
  for (const Series& s : chart.series) {
    Line line{{}, s.color, s.width};
    for (const Point& p : s.points)
      if (std::isfinite(p.second) && (!y.log || p.second > 0) && (!x.log || p.first > 0))
        line.points.emplace_back(x.place(p.first), y.place(p.second));
    if (line.points.size() == 1)
      line.points.push_back({line.points[0].first + 3, line.points[0].second});
    line.points = thinned(std::move(line.points));
    if (!line.points.empty()) scene.lines.push_back(std::move(line));
  }
  return scene;
}

// ---- the two formats

std::string svg_of(const Scene& scene) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
      "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
      scene.width, scene.height);
  for (const Line& l : scene.lines) {
    out += fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\" stroke-linejoin=\"round\" "
        "points=\"",
        l.color, l.width);
    for (const Point& p : l.points) out += fmt::format("{:.1f},{:.1f} ", p.first, p.second);
    out.back() = '"';
    out += "/>\n";
  }
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  for (const Text& t : scene.texts)
    out += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{:g}\" "
        "fill=\"{}\">{}</text>\n",
        t.at.first, t.at.second, kAnchors[static_cast<int>(t.anchor)], t.size, t.color,
        text::xml(t.text));
  return out + "</svg>\n";
}

/// The scene as a graph in Graphviz's language, where y grows upwards: lines are its background
/// (xdot, in which every text comes with its length), texts are nodes at fixed places, and an
/// invisible node is as large as the picture.
std::string dot_of(const Scene& scene) {
  const auto word = [](const std::string& s) { return fmt::format("{} -{} ", s.size(), s); };
  const double w = scene.width, h = scene.height;
  std::string lines =
      fmt::format("c {0}C {0}P 4 0 0 {1:g} 0 {1:g} {2:g} 0 {2:g} ", word("#ffffff"), w, h);
  for (const Line& l : scene.lines) {
    lines += "c " + word(l.color) + "S " + word(fmt::format("setlinewidth({:g})", l.width));
    lines += fmt::format("L {} ", l.points.size());
    for (const Point& p : l.points) lines += fmt::format("{:.1f} {:.1f} ", p.first, h - p.second);
  }
  std::string nodes =
      fmt::format("page [label=\"\", style=invis, pos=\"{:g},{:g}\", width={:g}, height={:g}];\n",
                  w / 2, h / 2, w / 72, h / 72);
  for (const Text& t : scene.texts) {
    const double wide = 0.7 * t.size * static_cast<double>(t.text.size());
    const double shift = t.anchor == Anchor::Start ? wide / 2
                         : t.anchor == Anchor::End ? -wide / 2
                                                   : 0;
    std::string label;
    for (const char c : t.text)
      label += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
    constexpr const char* kJustified[] = {"\\l", "", "\\r"};
    nodes += fmt::format(
        "t{} [label=\"{}{}\", fontsize={:g}, fontcolor=\"{}\", pos=\"{:.1f},{:.1f}\", "
        "width={:g}, height={:g}];\n",
        &t - scene.texts.data(), label, kJustified[static_cast<int>(t.anchor)], t.size, t.color,
        t.at.first + shift, h - t.at.second + 0.35 * t.size, wide / 72, t.size / 72);
  }
  return fmt::format(
      "graph {{\ngraph [layout=nop, pad=0, dpi=144, _background=\"{}\"];\n"
      "node [shape=box, color=\"#00000000\", fontname=\"Helvetica\", margin=0, "
      "fixedsize=true];\n{}}}\n",
      lines, nodes);
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count);
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double f = rough / power;
  const double step = power * (f <= 1 ? 1 : f <= 2 ? 2 : f <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double i = std::ceil(low / step); i * step <= high * (1 + 1e-12); ++i)
    ticks.push_back(i * step + 0.0);
  return ticks;
}

std::string chart_svg(const Chart& chart) { return svg_of(scene_of(chart)); }
std::string chart_png(const Chart& chart) { return Dot(dot_of(scene_of(chart))).render("png"); }

}  // namespace pellucid::cli
