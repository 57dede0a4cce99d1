// Facts about the machine and the build, as names and values for people and programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pellucid::cli {

struct Fact {
  std::string key;   // for JSON: "l1d_bytes"
  std::string name;  // for people: "L1 data cache"
  std::string value;
  std::optional<double> number = std::nullopt;  // JSON writes it instead of the text
};
struct FactGroup {
  std::string key, title;
  std::vector<Fact> facts;
};

/// CPU, kernels and threads, memory, libraries, counters.
std::vector<FactGroup> machine_facts(std::string_view version);

/// "available", or why the kernel does not give hardware counters to this process.
std::string hardware_counters();

}  // namespace pellucid::cli
