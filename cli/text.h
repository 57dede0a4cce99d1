// Text for terminals: colour, widths, and "did you mean"; tables and units are those of
// base/text.h. Knows no command and no tensor.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

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

// ---- widths, tables and units

using text::Align;
using text::display_width;
using text::format_bytes;
using text::format_bytes_binary;
using text::format_seconds;
using text::format_timeit;
using text::group_digits;
using text::is_time_unit;
using text::Table;
using text::wrap;

/// Columns of the terminal: $COLUMNS, else what the terminal says, else 80.
int terminal_width(std::FILE* stream = stdout);

// ---- suggestions

/// Insertions, deletions, changes and exchanges of neighbours that turn one word into the other.
int edit_distance(std::string_view a, std::string_view b);
/// At most three of the candidates that the word was probably meant to be, best first.
std::vector<std::string> closest(std::string_view word, const std::vector<std::string>& candidates);
/// "; did you mean 'sin' or 'sinh'?", or "" when nothing is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// ---- numbers

/// Four decimals, "-0.7568"; "1.2500e-07" where they would show none of it or far too many digits.
std::string format_value4(double value);

}  // namespace pellucid::cli
