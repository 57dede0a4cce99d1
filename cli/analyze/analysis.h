// What `pellucid analyze KIND` has in common: a table whose cells are numbers or texts, a chart and
// one sentence that follows from the numbers; printed, and written as CSV, SVG and PNG.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/plot.h"
#include "pellucid/analyze.h"

namespace pellucid::cli {

struct AnalysisOptions {
  bool quick = false;          ///< smaller sizes and fewer runs
  std::vector<int64_t> sizes;  ///< in the place of the kind's own; what they mean, the kind says
  MachineRates machine;        ///< zero: measured where a kind needs it
};

/// A cell keeps its number for CSV and JSON, and how many digits a table shows.
struct Cell {
  std::variant<std::string, int64_t, double> value;
  int decimals = 3;
  Cell(std::string v) : value(std::move(v)) {}
  Cell(const char* v) : value(std::string(v)) {}
  Cell(int64_t v) : value(v) {}
  Cell(double v, int shown = 3) : value(v), decimals(shown) {}
  std::string shown() const;
};

struct Analysis {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  Chart chart;
  std::vector<std::string> notes;  ///< how it was measured
  std::string conclusion;
  std::string warning;
  /// The numbers of a column.
  std::vector<double> column(size_t i) const;
};

struct AnalysisKind {
  std::string_view name, summary;
  std::string_view sizes;  ///< what --sizes are; "" where the kind takes none
  Analysis (*run)(const AnalysisOptions& options);
};

/// Every kind, in the order of the help.
const std::vector<AnalysisKind>& analysis_kinds();

// The kinds, by the file they are in.
Analysis analyze_depth(const AnalysisOptions& o);         // graphs.cpp
Analysis analyze_checkpoint(const AnalysisOptions& o);    // graphs.cpp
Analysis analyze_width(const AnalysisOptions& o);         // scaling.cpp
Analysis analyze_batch(const AnalysisOptions& o);         // scaling.cpp
Analysis analyze_threads(const AnalysisOptions& o);       // scaling.cpp
Analysis analyze_sequence(const AnalysisOptions& o);      // sequence.cpp
Analysis analyze_dtype(const AnalysisOptions& o);         // kinds.cpp
Analysis analyze_ops(const AnalysisOptions& o);           // kinds.cpp
Analysis analyze_allocation(const AnalysisOptions& o);    // kinds.cpp
Analysis analyze_overhead(const AnalysisOptions& o);      // overhead.cpp
Analysis analyze_acceleration(const AnalysisOptions& o);  // acceleration.cpp

// ---- for the kinds

/// `given` or, if it is empty, the default ones.
std::vector<int64_t> sizes_or(const AnalysisOptions& o, const std::vector<int64_t>& usual,
                              const std::vector<int64_t>& quick);
/// Times `work` as often as half a second allows (quick: a twentieth), and notes in `analysis` what
/// makes the times doubtful.
Latency timed(const AnalysisOptions& o, const std::function<void()>& work, Analysis& analysis);
/// The nth colour of a chart.
std::string chart_color(size_t n);
/// A line of a chart through y over x.
Series line_of(const std::string& name, size_t color, const std::vector<double>& x,
               const std::vector<double>& y);
/// The chart with a bar for each name, which stands below it; bars begin at `base`.
Chart with_bars(Chart chart, const std::vector<std::string>& names,
                const std::vector<double>& values, double base = 0);
/// The exponent p of y ~ x^p between the first and the last value.
double growth(const std::vector<double>& x, const std::vector<double>& y);

/// The table, notes and conclusion as text; CSV; JSON.
std::string analysis_text(const Analysis& a);
std::string analysis_csv(const Analysis& a);
std::string analysis_json(std::string_view name, const Analysis& a);

}  // namespace pellucid::cli
