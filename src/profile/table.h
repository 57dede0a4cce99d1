// How the reports fill and cut their tables.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/profile_report.h"

namespace pellucid::profile {

/// A name from the profile.
inline Cell cell(std::string text) { return {.text = std::move(text)}; }
inline Cell cell(std::string text, double number) {
  return {.text = std::move(text), .number = number, .is_number = true};
}
/// A number that has no value here.
inline Cell no_cell() { return {.text = "--"}; }
/// "1,000"
Cell count_cell(int64_t n);
/// "1.234ms"; the number is in seconds.
Cell time_cell(double nanoseconds);
/// "12.34%"; the number is the share itself. "--" for a whole of 0.
Cell share_cell(double part, double whole);
/// "3.81 MiB"; the number is in bytes.
Cell memory_cell(int64_t bytes);

/// torch.profiler's way to write times: "1.234s", "1.234ms", "1.234us".
std::string format_duration(double nanoseconds);
/// "1.23 GFLOP/s" from 1.23e9 and "FLOP/s".
std::string with_prefix(double value, std::string_view unit);
/// "12 %"
std::string percent(double part, double whole);

/// The index of `word` in the list, by its whole or by a prefix that no other has (as pstats takes
/// sort keys); throws ValueError that names them all.
size_t choose(std::string_view word, const std::vector<std::string_view>& list,
              std::string_view what);

/// Indices of the rows, those with the greatest `value` first; equal ones keep their order.
template <class Value> std::vector<size_t> ranked(size_t rows, Value value) {
  std::vector<size_t> order(rows);
  for (size_t i = 0; i < rows; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return value(a) > value(b); });
  return order;
}

/// Keeps the rows that the options (or the table's own limit) ask for; says how many there were.
void cut_rows(std::vector<size_t>& order, const ReportOptions& options, int64_t own_limit,
              std::string& note);

}  // namespace pellucid::profile
