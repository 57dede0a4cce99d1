// See validators.h.
#include "cli/validators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "cli/text.h"

namespace pellucid::cli {
namespace {

template <class T> std::optional<T> read(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::string fails(std::string_view expected, std::string_view found) {
  return fmt::format("expected {}, found '{}'", expected, found);
}

// A check of a number's value. The description is what the help shows.
template <class Good>
CLI::Validator limits(std::string expected, std::string description, Good good) {
  return CLI::Validator(
      [expected, good](const std::string& text) {
        const auto value = read<double>(text);
        return value && std::isfinite(*value) && good(*value) ? std::string()
                                                              : fails(expected, text);
      },
      std::move(description));
}

// "10,000", "0.9"
std::string limit_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15
             ? group_digits(static_cast<int64_t>(value))
             : fmt::format("{:g}", value);
}

}  // namespace

CLI::Validator of_kind(ValueKind kind) {
  return CLI::Validator(
      [kind](const std::string& text) -> std::string {
        switch (kind) {
          case ValueKind::Whole:
            return read<int64_t>(text) ? "" : fails("a whole number", text);
          case ValueKind::Natural:
            return read<uint64_t>(text) ? "" : fails("a whole number from 0", text);
          case ValueKind::Number:
            if (const auto value = read<double>(text); value && std::isfinite(*value)) return "";
            return fails("a number", text);
          case ValueKind::Text:
            break;
        }
        return "";
      },
      "");
}

CLI::Validator at_least(double least, bool exclusive) {
  const std::string words =
      fmt::format("{} {}", exclusive ? "above" : "of at least", limit_text(least));
  return limits(fmt::format("a number {}", words),
                exclusive ? words : "at least " + limit_text(least),
                [=](double v) { return exclusive ? v > least : v >= least; });
}

CLI::Validator in_range(double low, double high, bool exclusive) {
  const std::string words =
      exclusive ? fmt::format("above {} and at most {}", limit_text(low), limit_text(high))
                : fmt::format("from {} to {}", limit_text(low), limit_text(high));
  return limits(fmt::format("a number {}", words), words,
                [=](double v) { return (exclusive ? v > low : v >= low) && v <= high; });
}

CLI::Validator byte_count() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        std::string digits = text;
        if (!digits.empty() && std::string_view("kKMGT").find(digits.back()) != std::string::npos)
          digits.pop_back();
        const auto value = read<int64_t>(digits);
        return value && *value > 0 ? "" : fails("a number of bytes such as 512M", text);
      },
      "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](const std::string& text) -> std::string {
        if (std::find(words.begin(), words.end(), text) != words.end()) return "";
        const std::string last = words.back();
        return fmt::format("expected {}{}{}, found '{}'{}",
                           fmt::join(words.begin(), words.end() - 1, ", "),
                           words.size() > 1 ? " or " : "", last, text, did_you_mean(text, words));
      },
      "");
}

}  // namespace pellucid::cli
