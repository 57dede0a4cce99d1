// See rates.h.
#include "cli/analyze/rates.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "cli/app.h"
#include "cli/text.h"

namespace pellucid::cli {
namespace {

constexpr std::string_view kPrefixes = "kMGTPE";

// "100G" -> 1e11; nothing where it is no such number.
std::optional<double> read_scaled(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value > 0)) return {};
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.empty()) return value;
  const size_t prefix = kPrefixes.find(rest[0]);
  if (prefix == std::string_view::npos || rest.size() != 1) return {};
  for (size_t i = 0; i <= prefix; ++i) value *= 1e3;
  return value;
}

}  // namespace

MachineRates read_machine(const std::string& text) {
  MachineRates out;
  const auto fail = [&]() {
    throw UsageError(
        fmt::format("--machine: expected rates such as 100GFLOP/s,50GB/s, found '{}'", text));
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    double* to = nullptr;
    for (const std::string_view unit : {"FLOP/s", "FLOPS", "FLOPs"})
      if (part.ends_with(unit)) {
        to = &out.flops_per_second;
        part.remove_suffix(unit.size());
        break;
      }
    if (!to && part.ends_with("B/s")) {
      to = &out.bytes_per_second;
      part.remove_suffix(3);
    }
    const auto value = to ? read_scaled(part) : std::nullopt;
    if (!value) fail();
    *to = *value;
  }
  if (out.flops_per_second <= 0 || out.bytes_per_second <= 0) fail();
  return out;
}

nlohmann::ordered_json machine_json(const MachineRates& machine) {
  nlohmann::ordered_json out = {{"flops_per_second", machine.flops_per_second},
                                {"bytes_per_second", machine.bytes_per_second},
                                {"measured", machine.measured()},
                                {"busy", machine.busy}};
  if (machine.measured()) out["access"] = name_of(machine.levels.back().access);
  for (const MemoryRate& level : machine.levels)
    out["levels"].push_back({{"name", level.level},
                             {"bytes", static_cast<int64_t>(level.bytes)},
                             {"bytes_per_second", level.bytes_per_second},
                             {"access", name_of(level.access)}});
  return out;
}

std::string_view part_name(LayerPart part) {
  constexpr std::string_view kNames[] = {"module", "own ops", "outside modules", "optimizer"};
  return kNames[static_cast<int>(part)];
}

std::string format_count(double value, std::string_view unit) {
  int prefix = -1;
  while (value >= 1000 && prefix + 1 < static_cast<int>(kPrefixes.size())) {
    value /= 1000;
    ++prefix;
  }
  if (prefix < 0) return fmt::format("{:.0f} {}", value, unit);
  return fmt::format("{:.2f} {}{}", value, kPrefixes[static_cast<size_t>(prefix)], unit);
}

std::string format_megabytes(double bytes) {
  const double mb = bytes / 1e6;
  if (mb < 0.01 || mb >= 1e5) return format_bytes(bytes);
  if (mb >= 1000) return group_digits(std::llround(mb)) + " MB";
  const int decimals = mb < 100 ? 2 : 1;
  const bool whole = std::abs(mb - std::round(mb)) < 0.5 * std::pow(10, -decimals);
  return fmt::format("{:.{}f} MB", mb, whole ? 0 : decimals);
}

}  // namespace pellucid::cli
