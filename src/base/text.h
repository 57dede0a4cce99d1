// Text for people: widths, tables and units. Knows no terminal, no command and no tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"

namespace pellucid::text {

/// Columns that the text takes: characters of UTF-8, colour codes not counted.
PELLUCID_API int display_width(std::string_view text);
/// Words of the text in lines of at most `width` columns, each after the first line indented;
/// newlines are kept.
PELLUCID_API std::string wrap(std::string_view text, int width, int indent);

enum class Align { Left, Right };

/// A table whose columns are as wide as their widest cell, two blanks apart.
class PELLUCID_API Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::Left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// A row; missing cells are empty, and more cells than columns are a mistake of ours.
  void add(std::vector<std::string> cells);
  size_t size() const { return rows_.size(); }
  /// Title row (left out when all titles are empty) and rows, each line ended; no blanks at line
  /// ends.
  std::string print(int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// timeit's units: "nsec", "usec", "msec", "sec", or "" for the largest that gives at least 1.
PELLUCID_API bool is_time_unit(std::string_view unit);
/// "6.38 msec", as timeit prints times: `digits` significant digits. For what stands in for timeit.
PELLUCID_API std::string format_timeit(double seconds, std::string_view unit = "", int digits = 3);
/// "6.38 ms": in the largest of ns, us, ms and s that gives at least 1.
PELLUCID_API std::string format_seconds(double seconds, int digits = 3);
/// "9.45 MB": decimal units, 10^6 to the MB.
PELLUCID_API std::string format_bytes(double bytes);
/// "3.81 MiB": binary units, 2^20 to the MiB.
PELLUCID_API std::string format_bytes_binary(double bytes);
/// "1,000,000"
PELLUCID_API std::string group_digits(int64_t value);

}  // namespace pellucid::text
