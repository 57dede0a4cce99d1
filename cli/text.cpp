// See text.h. Colour codes are the eight of every terminal.
#include "cli/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "pellucid/error.h"

namespace pellucid::cli {
namespace {

ColorMode g_color_mode = ColorMode::Auto;

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

std::optional<ColorMode> color_mode_from_name(std::string_view name) {
  if (name == "auto") return ColorMode::Auto;
  if (name == "always") return ColorMode::Always;
  if (name == "never") return ColorMode::Never;
  return std::nullopt;
}

void set_color_mode(ColorMode mode) { g_color_mode = mode; }

bool use_color(std::FILE* stream) {
  if (g_color_mode != ColorMode::Auto) return g_color_mode == ColorMode::Always;
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::strcmp(term, "dumb") == 0) return false;
  const int descriptor = fileno(stream);  // -1 for a stream in memory
  return descriptor >= 0 && isatty(descriptor) == 1;
}

std::string paint(std::string_view text, Color color, bool on) {
  constexpr std::array<int, 8> kCodes = {1, 2, 31, 32, 33, 34, 35, 36};
  if (!on) return std::string(text);
  return fmt::format("{0}[{1}m{2}{0}[0m", kEscape, kCodes[static_cast<size_t>(color)], text);
}

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

int terminal_width(std::FILE* stream) {
  if (const char* columns = std::getenv("COLUMNS")) {
    int width = 0;
    const auto [end, status] = std::from_chars(columns, columns + std::strlen(columns), width);
    if (status == std::errc() && *end == '\0' && width > 0) return width;
  }
  winsize size{};
  const int descriptor = fileno(stream);
  if (descriptor >= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
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

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table are enough: an exchange of neighbours looks two rows back.
  std::vector<int> two_back(b.size() + 1), back(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) back[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({change, back[j] + 1, now[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) now[j] = std::min(now[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, back);
    std::swap(back, now);
  }
  return back[b.size()];
}

std::vector<std::string> closest(std::string_view word,
                                 const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > 64) return {};
  const auto lower = [](std::string_view s) {
    std::string out(s);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return out;
  };
  // A third of the letters may be wrong; what the word abbreviates is close too.
  const int allowed = std::max(1, static_cast<int>(word.size() + 1) / 3);
  const std::string wanted = lower(word);
  std::vector<std::pair<int, std::string>> found;
  for (const std::string& candidate : candidates) {
    const std::string other = lower(candidate);
    const int distance = edit_distance(wanted, other);
    const bool abbreviates = wanted.size() >= 3 && other.starts_with(wanted);
    if (distance <= allowed && distance < static_cast<int>(word.size()))
      found.emplace_back(distance, candidate);
    else if (abbreviates)
      found.emplace_back(allowed + 1, candidate);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> out;
  for (size_t i = 0; i < found.size() && i < 3; ++i)
    if (found[i].first <= found[0].first + 1) out.push_back(found[i].second);
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> found = closest(word, candidates);
  if (found.empty()) return "";
  std::string out = "; did you mean ";
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0) out += i + 1 == found.size() ? " or " : ", ";
    out += fmt::format("'{}'", found[i]);
  }
  return out + "?";
}

bool is_time_unit(std::string_view unit) {
  return std::any_of(kTimeUnits.begin(), kTimeUnits.end(),
                     [&](const Unit& u) { return u.name == unit; });
}

std::string format_time(double seconds, std::string_view unit, int digits) {
  for (const Unit& u : kTimeUnits) {
    const bool chosen = unit.empty() ? seconds >= u.scale || u.name == "nsec" : u.name == unit;
    if (chosen) return fmt::format("{:.{}g} {}", seconds / u.scale, digits, u.name);
  }
  detail::raise<ValueError>("time unit: '{}' is none of nsec, usec, msec, sec", unit);
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

std::string format_value4(double value) {
  const double size = std::fabs(value);
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const bool four_decimals = size == 0 || (size >= 5e-5 && size < 1e9);
  return four_decimals ? fmt::format("{:.4f}", value) : fmt::format("{:.4e}", value);
}

}  // namespace pellucid::cli
