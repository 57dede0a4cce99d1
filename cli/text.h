// Text for terminals: colour, tables, widths, units, and "did you mean". Knows no command and no
// tensor.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pellucid::cli {

// ---- colour

enum class ColorMode { Auto, Always, Never };
enum class Color { Bold, Dim, Red, Green, Yellow, Blue, Magenta, Cyan };

/// "auto", "always" or "never"; nothing for another word.
std::optional<ColorMode> color_mode_from_name(std::string_view name);
/// What --color asks for. Auto colours terminals only, and none when NO_COLOR is set or TERM is
/// dumb.
void set_color_mode(ColorMode mode);
bool use_color(std::FILE* stream);
/// The text in a colour if `on`, otherwise as it is.
std::string paint(std::string_view text, Color color, bool on);

// ---- widths and tables

/// Columns that the text takes: characters of UTF-8, colour codes not counted.
int display_width(std::string_view text);
/// Columns of the terminal: $COLUMNS, else what the terminal says, else 80.
int terminal_width(std::FILE* stream = stdout);
/// Words of the text in lines of at most `width` columns, each after the first line indented;
/// newlines are kept.
std::string wrap(std::string_view text, int width, int indent);

enum class Align { Left, Right };

/// A table whose columns are as wide as their widest cell, two blanks apart.
class Table {
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

// ---- suggestions

/// Insertions, deletions, changes and exchanges of neighbours that turn one word into the other.
int edit_distance(std::string_view a, std::string_view b);
/// At most three of the candidates that the word was probably meant to be, best first.
std::vector<std::string> closest(std::string_view word, const std::vector<std::string>& candidates);
/// "; did you mean 'sin' or 'sinh'?", or "" when nothing is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// ---- numbers

/// timeit's units: "nsec", "usec", "msec", "sec", or "" for the largest that gives at least 1.
bool is_time_unit(std::string_view unit);
/// "6.38 msec", as timeit prints times: `digits` significant digits.
std::string format_time(double seconds, std::string_view unit = "", int digits = 3);
/// "9.45 MB": decimal units, 10^6 to the MB.
std::string format_bytes(double bytes);
/// "3.81 MiB": binary units, 2^20 to the MiB.
std::string format_bytes_binary(double bytes);
/// "1,000,000"
std::string group_digits(int64_t value);
/// Four decimals, "-0.7568"; "1.2500e-07" where they would show none of it or far too many digits.
std::string format_value4(double value);

}  // namespace pellucid::cli
