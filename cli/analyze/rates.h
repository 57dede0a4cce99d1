// A machine's rates as text: "100GFLOP/s,50GB/s".
#pragma once

#include <string>

#include "pellucid/analyze.h"

namespace pellucid::cli {

/// Reads --machine; both rates in any order with k, M, G, T or P. Throws UsageError.
MachineRates read_machine(const std::string& text);
/// "1.53 GFLOP", "236.03 MFLOP": a number with a decimal prefix before the unit.
std::string format_count(double value, std::string_view unit);

}  // namespace pellucid::cli
