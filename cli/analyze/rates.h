// A machine's rates as text, "100GFLOP/s,50GB/s", and amounts as reports of models print them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "pellucid/analyze.h"

namespace pellucid::cli {

/// Reads --machine; both rates in any order with k, M, G, T or P. Throws UsageError.
MachineRates read_machine(const std::string& text);
/// "flops_per_second", "bytes_per_second" of main memory, "access" and the nearer levels.
nlohmann::ordered_json machine_json(const MachineRates& machine);
/// "module", "own ops", "outside modules" or "optimizer", for programs.
std::string_view part_name(LayerPart part);
/// "1.53 GFLOP", "236.03 MFLOP": a number with a decimal prefix before the unit.
std::string format_count(double value, std::string_view unit);
/// "9.45 MB", "226.7 MB", "2,000 MB": megabytes with at most four digits and two decimals, so that
/// parts and their sum have one unit; bytes and gigabytes where those would be 0 or too many.
std::string format_megabytes(double bytes);

}  // namespace pellucid::cli
