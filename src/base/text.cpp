// See text.h.
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "pellucid/error.h"

namespace pellucid::text {
namespace {

constexpr char kEscape = '\x1b';

struct Unit {
  std::string_view name;
  double scale;
};

constexpr auto kTimeUnits =
    std::to_array<Unit>({{"sec", 1.0}, {"msec", 1e-3}, {"usec", 1e-6}, {"nsec", 1e-9}});
constexpr auto kDecimalUnits =
    std::to_array<Unit>({{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}});
constexpr auto kBinaryUnits =
    std::to_array<Unit>({{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}});

template <class Units> std::string in_largest_unit(double bytes, const Units& units) {
  for (const Unit& u : units)
    if (std::fabs(bytes) >= u.scale) return fmt::format("{:.2f} {}", bytes / u.scale, u.name);
  return fmt::format("{:.0f} B", bytes);
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kEscape) {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++width;
  }
  return width;
}

std::string wrap(std::string_view text, int width, int indent) {
  std::string out;
  int column = indent;
  const auto break_line = [&] {
    out += '\n';
    out.append(static_cast<size_t>(indent), ' ');
    column = indent;
  };
  bool first_word = true;
  while (!text.empty()) {
    if (text.front() == '\n') {
      break_line();
      first_word = true;
      text.remove_prefix(1);
      continue;
    }
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    const int wide = display_width(word);
    if (!first_word && column + 1 + wide > width) {
      break_line();
      first_word = true;
    }
    if (!first_word) out += ' ';
    column += wide + (first_word ? 0 : 1);
    out += word;
    first_word = false;
    text.remove_prefix(word.size());
  }
  return out;
}

void Table::add(std::vector<std::string> cells) {
  PELLUCID_ASSERT(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::print(int indent) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](auto cell_of) {
    std::string text(static_cast<size_t>(indent), ' ');
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(static_cast<size_t>(widths[c] - display_width(cell)), ' ');
      if (c > 0) text += "  ";
      text += columns_[c].align == Align::Right ? padding + cell : cell + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  if (std::any_of(columns_.begin(), columns_.end(),
                  [](const Column& c) { return !c.title.empty(); }))
    line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) line([&](size_t c) -> const std::string& { return row[c]; });
  return out;
}

bool is_time_unit(std::string_view unit) {
  return std::any_of(kTimeUnits.begin(), kTimeUnits.end(),
                     [&](const Unit& u) { return u.name == unit; });
}

std::string format_timeit(double seconds, std::string_view unit, int digits) {
  for (const Unit& u : kTimeUnits) {
    const bool chosen = unit.empty() ? seconds >= u.scale || u.name == "nsec" : u.name == unit;
    if (chosen) return fmt::format("{:.{}g} {}", seconds / u.scale, digits, u.name);
  }
  detail::raise<ValueError>("time unit: '{}' is none of nsec, usec, msec, sec", unit);
}

std::string format_seconds(double seconds, int digits) {
  std::string text = format_timeit(seconds, "", digits);
  text.resize(text.size() - 2);  // "usec" becomes "us", "sec" becomes "s"
  return text;
}

std::string format_bytes(double bytes) { return in_largest_unit(bytes, kDecimalUnits); }
std::string format_bytes_binary(double bytes) { return in_largest_unit(bytes, kBinaryUnits); }

std::string group_digits(int64_t value) {
  const std::string text = fmt::format("{}", value);
  const size_t sign = value < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > sign && (text.size() - i) % 3 == 0) out += ',';
    out += text[i];
  }
  return out;
}

}  // namespace pellucid::text
