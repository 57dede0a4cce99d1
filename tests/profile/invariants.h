// What holds for every recording and every table made of it, whatever the program did: parts are
// not negative and sum to their whole, one quantity is one number wherever it is printed, and text,
// JSON and CSV say the same.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "pellucid/error.h"
#include "pellucid/profile_report.h"
#include "profile/memory_use.h"

namespace pellucid::test {

using namespace pellucid::profile;

/// At every moment each category's bytes are at least 0, and their greatest sum is the peak.
inline void check_memory_history(const Profile& p) {
  std::array<int64_t, kMemoryCategoryCount> by{};
  int64_t now = unknown_at_start(p), most = now, time = 0;
  bool positive = true, in_order = true;
  for (const MemoryChange& c : memory_changes(p)) {
    int64_t& part = by[static_cast<size_t>(p.allocations[c.allocation].category)];
    part += c.bytes;
    now += c.bytes;
    positive = positive && part >= 0;
    in_order = in_order && c.time >= time;
    time = c.time;
    most = std::max(most, now);
  }
  CHECK(positive);
  CHECK(in_order);
  if (p.run.mode == "trace") CHECK(most == p.run.peak_memory);
  const MemoryPeak peak(p);
  CHECK(peak.total == most);
  CHECK(peak.recorded >= 0);
  CHECK(peak.at_start >= 0);
  CHECK(peak.unrecorded == 0);
  CHECK(peak.recorded + peak.at_start == peak.total);
  int64_t sum = peak.unknown;
  for (const int64_t bytes : peak.by_category) sum += bytes;
  CHECK(sum == peak.total);
}

/// A table's columns and rows by their keys.
class TableView {
 public:
  explicit TableView(const ReportTable& t) : t_(t) {}
  int column(const std::string& key) const {
    for (size_t c = 0; c < t_.columns.size(); ++c)
      if (t_.columns[c].key == key) return static_cast<int>(c);
    return -1;
  }
  const Cell* cell(const std::vector<Cell>& row, const std::string& key) const {
    const int c = column(key);
    return c < 0 ? nullptr : &row[static_cast<size_t>(c)];
  }
  /// The sum of a column.
  double sum(const std::string& key) const {
    double all = 0;
    for (const auto& row : t_.rows) all += cell(row, key)->number;
    return all;
  }
  /// The same of a table whose last row is the total: without it. An op may be named "sum" too.
  double sum_of_parts(const std::string& key) const {
    REQUIRE(t_.rows.back()[0].text == "sum");
    return sum(key) - cell(t_.rows.back(), key)->number;
  }
  /// By the text of the first column.
  std::map<std::string, double> by_name(const std::string& key) const {
    std::map<std::string, double> out;
    for (const auto& row : t_.rows) out[row[0].text] += cell(row, key)->number;
    return out;
  }

 private:
  const ReportTable& t_;
};

inline const ReportTable* find_table(const std::vector<ReportTable>& tables,
                                     const std::string& name) {
  for (const ReportTable& t : tables)
    if (t.name == name) return &t;
  return nullptr;
}

/// The number that a text states, in the unit of its key, and how far rounding may be off; false
/// for texts that are none.
inline bool read_number(std::string text, double& value, double& rounding) {
  std::erase(text, ',');
  if (text.ends_with('*')) text.pop_back();
  size_t end = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) { return false; }
  const size_t dot = text.find('.');
  const auto decimals = dot == std::string::npos || dot > end ? 0 : static_cast<int>(end - dot - 1);
  std::string unit = text.substr(end);
  if (unit.starts_with(' ')) unit.erase(0, 1);
  static const std::map<std::string, double> kUnits = {
      {"", 1},         {"s", 1},        {"ms", 1e-3},    {"us", 1e-6}, {"%", 0.01}, {"B", 1},
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"kB", 1e3},  {"MB", 1e6}, {"GB", 1e9},
      {"TB", 1e12},    {"k", 1e3},      {"M", 1e6},      {"G", 1e9},   {"T", 1e12}};
  const auto known = kUnits.find(unit);
  if (known == kUnits.end()) return false;
  value *= known->second;
  rounding = 0.5000001 * std::pow(10.0, -decimals) * known->second;
  return true;
}

/// Every number of a table is what its text, JSON and CSV say, and lies where its kind may lie.
inline void check_cells(const std::vector<ReportTable>& tables) {
  const auto json = nlohmann::json::parse(to_json(tables));
  for (size_t i = 0; i < tables.size(); ++i) {
    const ReportTable& t = tables[i];
    for (size_t r = 0; r < t.rows.size(); ++r) {
      for (size_t c = 0; c < t.columns.size(); ++c) {
        const Cell& x = t.rows[r][c];
        const std::string& key = t.columns[c].key;
        const auto& j = json["tables"][i]["rows"][r][key];
        if (!x.is_number) {
          if (x.text == "--") CHECK(j.is_null());
          continue;
        }
        INFO(t.name << " " << t.rows[r][0].text << " " << key << " " << x.text << " " << x.number);
        CHECK(std::isfinite(x.number));
        CHECK(j.get<double>() == doctest::Approx(x.number).epsilon(1e-12));
        double stated = 0, rounding = 0;
        if (key != "cost" && key.find("percall") == std::string::npos && t.name != "cprofile" &&
            t.name != "advice" && key != "flops" && read_number(x.text, stated, rounding))
          CHECK(std::fabs(stated - x.number) <= rounding + 1e-9 * std::fabs(x.number));
        const bool may_be_negative =
            key == "increment_bytes" || key == "cpu_memory_bytes" || key == "self_cpu_memory_bytes";
        if (!may_be_negative) CHECK(x.number >= 0);
        if (key.ends_with("share") && key != "ceiling_share") CHECK(x.number <= 1 + 1e-9);
      }
    }
  }
  std::istringstream csv(to_csv(tables));
  size_t lines = 0, expected = 0;
  for (std::string line; std::getline(csv, line);) lines += line.empty() ? 0 : 1;
  for (const ReportTable& t : tables)
    if (!t.columns.empty()) expected += 1 + t.rows.size();
  CHECK(lines == expected);
}

/// The tables of one name; none where the recording's mode has no such table.
inline std::vector<ReportTable> tables_of(const Profile& p, const std::string& name,
                                          const ReportOptions& o) {
  try {
    return report(p, name, o);
  } catch (const ValueError&) {
    CHECK((p.run.mode != "trace" || name == "samples"));
    return {};
  }
}

/// The sums that hold in each table, and figures that several tables have.
inline void check_tables(const Profile& p) {
  const ReportOptions all{.limit = 0};
  const auto near = [](double a, double b) {
    return std::fabs(a - b) <= 1e-6 * std::fabs(b) + 1e-12;
  };
  for (const ReportName& name : report_names()) {
    INFO(name.name);
    check_cells(tables_of(p, std::string(name.name), all));
  }
  for (const char* by : {"op", "shape", "line", "module", "stack"})
    for (const char* name : {"torch", "roofline"}) {
      INFO(name << " by " << by);
      check_cells(tables_of(p, name, {.by = by, .limit = 0}));
    }
  if (p.run.mode != "trace") return;
  const auto overview = report(p, "overview", all);
  const ReportTable& head = overview[0];
  const MemoryPeak peak(p);
  for (const ReportTable& t : report(p, "peak", all))
    if (!t.columns.empty()) {
      INFO(t.name);
      CHECK(TableView(t).sum_of_parts("bytes") == static_cast<double>(peak.total));
      if (peak.total > 0) CHECK(near(TableView(t).sum_of_parts("share"), 1));
    }
  double highest = 0;
  for (const ReportTable& t : report(p, "timeline", {.limit = 60}))
    for (const auto& row : t.rows) {
      double parts = 0;
      for (size_t c = 2; c < row.size(); ++c) parts += row[c].number;
      CHECK(parts == row[1].number);
      highest = std::max(highest, row[1].number);
    }
  CHECK(highest == static_cast<double>(peak.total));
  double at_peak = 0;
  for (const ReportTable& t : report(p, "memory", all)) {
    if (t.columns.empty()) continue;
    at_peak += TableView(t).sum("at_peak_bytes");
    for (const auto& row : t.rows) {
      const TableView v(t);
      CHECK(v.cell(row, "allocated_bytes")->number - v.cell(row, "freed_bytes")->number ==
            v.cell(row, "net_bytes")->number);
      CHECK(v.cell(row, "at_peak_bytes")->number <= v.cell(row, "allocated_bytes")->number);
    }
  }
  CHECK(at_peak <= static_cast<double>(peak.recorded));
  if (p.events.empty()) return;

  // Where the time goes sums to the whole, and shares to 1.
  const TableView parts(head);
  CHECK(near(parts.sum_of_parts("seconds"), parts.by_name("seconds")["sum"]));
  CHECK(near(parts.sum_of_parts("share"), 1));
  double ops = 0;
  for (const auto& [part, seconds] : parts.by_name("seconds"))
    if (part.starts_with("ops, ")) ops += seconds;
  const ReportTable roofline = report(p, "roofline", all)[0];
  const TableView roof(roofline);
  CHECK(near(roof.sum("seconds"), ops));
  if (!roofline.rows.empty()) CHECK(near(roof.sum("time_share"), 1));
  // A part of the run is the same, whatever the ops are grouped by, and as in the overview.
  for (const auto& [key, part] :
       std::map<std::string, std::string>{{"fault_share", "ops, in page faults"},
                                          {"preempted_share", "ops, preempted"},
                                          {"waiting_share", "ops, waiting"},
                                          {"first_share", "ops, first calls of a kind"},
                                          {"dispatch_share", "ops, dispatch"},
                                          {"unexplained_share", "ops, below both ceilings"}})
    for (const char* by : {"op", "shape", "line", "module"}) {
      const ReportTable t = report(p, "roofline", {.by = by, .limit = 0})[0];
      const TableView v(t);
      double seconds = 0;
      bool known = true;
      for (const auto& row : t.rows) {
        seconds += v.cell(row, key)->number * v.cell(row, "seconds")->number;
        known = known && (v.cell(row, key)->is_number || v.cell(row, "seconds")->number == 0);
      }
      INFO(key << " by " << by);
      if (known) CHECK(near(seconds, parts.by_name("seconds")[part]));
    }
  // One op's figures in the overview, the roofline and torch.profiler's table.
  const ReportTable* top = find_table(overview, "top-ops");
  REQUIRE(top != nullptr);
  for (const char* key : {"seconds", "calls", "gflops_per_second", "gigabytes_per_second"})
    CHECK(TableView(*top).by_name(key) == roof.by_name(key));
  if (!top->rows.empty()) CHECK(near(TableView(*top).sum("share"), 1));
  const ReportTable torch = report(p, "torch", all)[0];
  CHECK(near(TableView(torch).sum("self_cpu_share"), 1));
  for (const auto& row : torch.rows)
    CHECK(TableView(torch).cell(row, "self_cpu_seconds")->number <=
          TableView(torch).cell(row, "cpu_total_seconds")->number + 1e-12);
  double calls = 0, flops = 0;
  const ReportTable counts = report(p, "counts", all)[0];
  for (const auto& row : counts.rows) calls += TableView(counts).cell(row, "calls")->number;
  for (const auto& row : counts.rows) flops += TableView(counts).cell(row, "flops")->number;
  CHECK(calls == static_cast<double>(p.events.size()));
  CHECK(calls == TableView(torch).sum("calls"));
  CHECK(calls == TableView(report(p, "cprofile", all)[0]).sum("ncalls"));
  CHECK(near(flops, roof.sum("flops")));
  const ReportTable modules = report(p, "modules", all)[0];
  CHECK(near(TableView(modules).by_name("time_share")["sum"], 1));
  CHECK(TableView(modules).by_name("peak_bytes")["sum"] == static_cast<double>(peak.total));
}

/// All of it.
inline void check_invariants(const Profile& p) {
  check_memory_history(p);
  check_tables(p);
}

}  // namespace pellucid::test
