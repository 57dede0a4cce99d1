// Random choices for the fuzzing tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  const std::string& of(const std::vector<std::string>& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937_64 engine_;
};
