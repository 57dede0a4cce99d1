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

#include "cli/terminal.h"
#include "pellucid/error.h"

namespace pellucid::cli {
namespace {

ColorMode g_color_mode = ColorMode::Auto;

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
  const int descriptor = fileno(target_of(stream));  // -1 for a stream in memory
  return descriptor >= 0 && isatty(descriptor) == 1;
}

std::string paint(std::string_view text, Color color, bool on) {
  constexpr std::array<int, 8> kCodes = {1, 2, 31, 32, 33, 34, 35, 36};
  if (!on) return std::string(text);
  // Without the code of this process, SafeStream would show the sequence as text.
  return fmt::format("{0}[{1};{3}m{2}{0}[0;{3}m", kEscape, kCodes[static_cast<size_t>(color)], text,
                     color_code());
}

int terminal_width(std::FILE* stream) {
  if (const char* columns = std::getenv("COLUMNS")) {
    int width = 0;
    const auto [end, status] = std::from_chars(columns, columns + std::strlen(columns), width);
    if (status == std::errc() && *end == '\0' && width > 0) return width;
  }
  winsize size{};
  const int descriptor = fileno(target_of(stream));
  if (descriptor >= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
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

std::string format_value4(double value) {
  const double size = std::fabs(value);
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const bool four_decimals = size == 0 || (size >= 5e-5 && size < 1e9);
  return four_decimals ? fmt::format("{:.4f}", value) : fmt::format("{:.4e}", value);
}

}  // namespace pellucid::cli
