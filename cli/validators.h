// What options accept: checks whose messages are sentences, and whose limits the help shows. They
// look at the text before CLI11 converts it, so that no message is CLI11's own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace pellucid::cli {

/// What the text of a value must be, by the type of the variable it goes to.
enum class ValueKind { Text, Whole, Natural, Number };
template <class T> constexpr ValueKind kind_of() {
  if constexpr (std::is_same_v<T, bool> || !std::is_arithmetic_v<T>)
    return ValueKind::Text;
  else if constexpr (std::is_floating_point_v<T>)
    return ValueKind::Number;
  else
    return std::is_signed_v<T> ? ValueKind::Whole : ValueKind::Natural;
}
/// Accepts what the kind can read: "12", "-3", "1e-3"; neither infinities nor NaN.
CLI::Validator of_kind(ValueKind kind);

/// A number of at least `least`, or above it.
CLI::Validator at_least(double least, bool exclusive = false);
/// A number from `low` to `high`; above `low` where `exclusive`.
CLI::Validator in_range(double low, double high, bool exclusive = false);
/// A number of bytes, with k, M, G or T: "512M".
CLI::Validator byte_count();
/// One of these words; another one is told the nearest.
CLI::Validator one_of(std::vector<std::string> words);

}  // namespace pellucid::cli
