// See analysis.h.
#include "cli/analyze/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/text.h"
#include "cli/values.h"

namespace pellucid::cli {

const std::vector<AnalysisKind>& analysis_kinds() {
  static const std::vector<AnalysisKind> kKinds = {
      {"depth", "Time and memory by the depth of the graph", "the greatest depth, ops a level",
       analyze_depth},
      {"width", "Cost by the width of a network, batch 32", "widths", analyze_width},
      {"batch", "Samples a second and per MB by batch size", "batch sizes", analyze_batch},
      {"sequence", "Naive and tiled attention, with and without a KV cache", "lengths",
       analyze_sequence},
      {"dtype", "Memory and matmul time by data type", "the side of the matrices", analyze_dtype},
      {"ops", "How close each kind of op comes to the machine's ceilings",
       "the side of the matrices", analyze_ops},
      {"allocation", "One block of memory against a thousand", "", analyze_allocation},
      {"overhead", "What recording a profile costs", "", analyze_overhead},
      {"checkpoint", "Memory and time by checkpoint frequency, 12 layers", "frequencies",
       analyze_checkpoint},
      {"threads", "Speed by the number of threads", "numbers of threads", analyze_threads},
      {"acceleration", "The naive loop nest against blocked, vectorised, threaded and library code",
       "the side of the matrices", analyze_acceleration}};
  return kKinds;
}

std::string Cell::shown() const {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return group_digits(*whole);
  return fmt::format("{:.{}f}", std::get<double>(value), decimals);
}

std::vector<double> Analysis::column(size_t i) const {
  std::vector<double> out;
  for (const auto& row : rows) {
    if (const auto* whole = std::get_if<int64_t>(&row[i].value))
      out.push_back(static_cast<double>(*whole));
    else if (const auto* number = std::get_if<double>(&row[i].value))
      out.push_back(*number);
  }
  return out;
}

std::vector<int64_t> sizes_or(const AnalysisOptions& o, const std::vector<int64_t>& usual,
                              const std::vector<int64_t>& quick) {
  if (!o.sizes.empty()) return o.sizes;
  return o.quick ? quick : usual;
}

Latency timed(const AnalysisOptions& o, const std::function<void()>& work, Analysis& analysis) {
  const double budget_ms = o.quick ? 50 : 500;
  work();
  const double once = measure_latency_of(work, 0, 1).median_ms;
  const auto runs = static_cast<int64_t>(std::clamp(budget_ms / std::max(once, 1e-3), 3.0, 200.0));
  Latency l = measure_latency_of(work, std::clamp<int64_t>(runs / 10, 1, 10), runs);
  if (l.noisy && analysis.warning.empty()) analysis.warning = l.warning;
  return l;
}

std::string chart_color(size_t n) {
  static constexpr std::array<const char*, 10> kColors = {
      "#1f5fa8", "#d1495b", "#2e8b57", "#e0a100", "#7b4fa3",
      "#17a2b8", "#8c564b", "#e377c2", "#5f6b6d", "#9ec5e8"};
  return kColors[n % kColors.size()];
}

Series line_of(const std::string& name, size_t color, const std::vector<double>& x,
               const std::vector<double>& y) {
  Series s{.name = name, .color = chart_color(color), .width = 2, .points = {}};
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) s.points.emplace_back(x[i], y[i]);
  return s;
}

Chart with_bars(Chart chart, const std::vector<std::string>& names,
                const std::vector<double>& values, double base) {
  chart.x_names = names;
  const double width = std::clamp(300 / static_cast<double>(names.size()), 12.0, 70.0);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    chart.series.push_back(
        {"", chart_color(i), width, {{x, base}, {x, std::max(values[i], base)}}});
  }
  return chart;
}

double growth(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2 || x.front() <= 0 || y.front() <= 0 || x.back() == x.front()) return 0;
  return std::log(y.back() / y.front()) / std::log(x.back() / x.front());
}

std::string analysis_text(const Analysis& a) {
  std::vector<Table::Column> columns;
  for (size_t i = 0; i < a.columns.size(); ++i) {
    const bool text =
        !a.rows.empty() && std::holds_alternative<std::string>(a.rows.front()[i].value);
    columns.push_back({a.columns[i], text ? Align::Left : Align::Right});
  }
  Table table(columns);
  for (const auto& row : a.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const Cell& c : row) cells.push_back(c.shown());
    table.add(cells);
  }
  std::string out = a.title + "\n\n" + table.print() + "\n";
  for (const std::string& n : a.notes) out += n + "\n";
  return out + a.conclusion + "\n";
}

std::string analysis_csv(const Analysis& a) {
  const auto quoted = [](const std::string& s) {
    if (s.find_first_of(",\"\n") == std::string::npos) return s;
    std::string out = "\"";
    for (const char c : s) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
  };
  std::string out;
  for (size_t i = 0; i < a.columns.size(); ++i) out += (i ? "," : "") + quoted(a.columns[i]);
  out += "\n";
  for (const auto& row : a.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i) out += ",";
      out += std::visit(
          [&](const auto& v) {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
              return quoted(v);
            else
              return fmt::format("{}", v);
          },
          row[i].value);
    }
    out += "\n";
  }
  return out;
}

std::string analysis_json(std::string_view name, const Analysis& a) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const auto& row : a.rows) {
    Json r;
    for (size_t i = 0; i < row.size(); ++i)
      std::visit([&](const auto& v) { r[a.columns[i]] = v; }, row[i].value);
    rows.push_back(r);
  }
  return json_text(Json{{"analysis", name},
                        {"title", a.title},
                        {"rows", rows},
                        {"notes", a.notes},
                        {"conclusion", a.conclusion},
                        {"warning", a.warning}});
}

}  // namespace pellucid::cli
