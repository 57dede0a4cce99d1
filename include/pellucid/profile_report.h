// Reading a profile: the tables that `pellucid report` prints, the files that `pellucid export`
// writes, and the comparison of `pellucid diff`. Nothing here changes a Profile.
//
//   const profile::Profile p = profile::Profile::load("run.profile");
//   fmt::print("{}", profile::to_text(profile::report(p, "torch", {.sort = "cpu_time_total"})));
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"
#include "pellucid/profile.h"

namespace pellucid::profile {

/// One cell: what people read and, where it is a number, that number in the unit of its column's
/// key
/// ("…_seconds", "…_bytes").
struct Cell {
  std::string text;
  double number = 0;
  bool is_number = false;
};

/// The layouts of the text: columns as wide as needed, cProfile's, torch.profiler's.
enum class TableStyle : uint8_t { Plain, CProfile, Torch };

/// A table as people (title) and programs (key) read it.
struct ReportTable {
  struct Column {
    std::string title, key;
    bool right = true;  ///< aligned to the right
  };
  std::string name;     ///< "roofline"
  std::string heading;  ///< lines before the table
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string footing;  ///< lines after it
  TableStyle style = TableStyle::Plain;
};

/// How a table is grouped, sorted and cut. What a table has no use for is ignored.
struct ReportOptions {
  std::string sort;    ///< a key of the table: "tottime", "cpu_time_total"; "" for its own
  std::string by;      ///< "op", "shape", "line", "module" or "stack"
  std::string unit;    ///< of cProfile's times: "sec" (as cProfile), "msec" or "usec"
  int64_t limit = -1;  ///< rows; -1 for the table's own limit, 0 for all
  std::string callers, callees;  ///< of cProfile: whose callers or callees to list
  bool full_paths = false;
};

/// The names that report() takes, with a sentence for each.
struct ReportName {
  std::string_view name, summary;
};
PELLUCID_API const std::vector<ReportName>& report_names();

/// The tables of one name; "overview" gives several. Throws ValueError for a name, key or group
/// that does not exist, and IoError for a profile that is damaged.
PELLUCID_API std::vector<ReportTable> report(const Profile& p, const std::string& name,
                                             const ReportOptions& options = {});
/// Names from the profile are shown with their control characters escaped.
PELLUCID_API std::string to_text(const std::vector<ReportTable>& tables);
/// {"tables": [{"name": …, "columns": […], "rows": [{key: value}…]}…]}
PELLUCID_API std::string to_json(const std::vector<ReportTable>& tables);
/// Tables one after another, each with a line of keys and parted by an empty line.
PELLUCID_API std::string to_csv(const std::vector<ReportTable>& tables);

/// The formats that export_profile() takes, with a sentence for each.
PELLUCID_API const std::vector<ReportName>& export_formats();
/// Writes the profile for another program to read.
PELLUCID_API void export_profile(const Profile& p, std::string_view format, std::ostream& out);

/// How recordings of the same program are compared.
struct DiffOptions {
  std::string by = "op";     ///< "op", "line", "module" or "memory"
  double threshold = 0.05;   ///< how much slower or larger is a regression
  double confidence = 0.99;  ///< of each row's interval
};
/// One row of a comparison: seconds per step or in all, or bytes.
struct DiffRow {
  enum class Verdict : uint8_t { Same, Noise, Better, Worse, Added, Removed };
  std::string name;
  double first = 0, second = 0;
  double change = 0;         ///< second / first - 1; infinite where the first is 0
  double low = 0, high = 0;  ///< the interval of `change`
  bool has_interval = false;
  int64_t first_calls = 0, second_calls = 0;
  Verdict verdict = Verdict::Same;
  bool regression = false;  ///< worse, beyond the threshold, and adds at least 1 % to the whole
  /// What the total has beyond the other rows: code between the ops, and what medians do not add up
  /// to. With it the rows sum to the total on each side.
  bool rest = false;
};
struct Diff {
  std::string what;           ///< "median seconds per optimiser step"
  std::string scatter;        ///< which scatter the intervals know: "within one run of each"
  bool between_runs = false;  ///< whether that is the scatter of several runs
  bool bytes = false;         ///< whether the rows are bytes at the peak instead of seconds
  std::vector<DiffRow> rows;  ///< the total first, then by the size of the difference
  bool regression = false;
  /// Why the two sides may differ for other reasons than the program: another command, number of
  /// threads, machine or version, a recording that was cut off. One sentence each.
  std::vector<std::string> warnings;
};
/// The scatter inside two runs says nothing about the next run: a row that is surely different
/// between these two may differ as much between two runs of the same program. Throws ValueError for
/// recordings of different modes, or of a mode that has no times: there is nothing to compare.
PELLUCID_API Diff diff(const Profile& first, const Profile& second,
                       const DiffOptions& options = {});
/// Several runs a side: the intervals come from the scatter between the runs. One side may be a
/// single run; the other's scatter is then taken for it.
PELLUCID_API Diff diff(std::span<const Profile> first, std::span<const Profile> second,
                       const DiffOptions& options = {});
PELLUCID_API std::string_view name_of(DiffRow::Verdict verdict);
/// {"what": …, "warnings": […], "rows": [{"name": …, "first_seconds": …, "verdict": …}, …]}
PELLUCID_API std::string to_json(const Diff& d);

}  // namespace pellucid::profile
