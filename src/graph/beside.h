// Independent steps of a program side by side on the cores: steps too small for more than one
// thread each, which read nothing of each other. Nothing here runs; the frame of a program does
// (core/frame_beside.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pellucid::graph {

/// What runs as one: a call, or a group of calls.
struct Step {
  std::vector<uint32_t> reads, writes;  ///< storages
  double seconds = 0;                   ///< on one thread, as the model has it
  std::string alone;                    ///< why it must not run beside others; "" if it may
};

/// Neighbouring steps that run on several threads. Each thread runs its own in the order of the
/// program, and waits before a step for those of other threads that it depends on: as the first
/// step in the program that is not done depends on nothing that is not done, there is always one
/// that can run.
struct Section {
  size_t first = 0;                          ///< step
  std::vector<uint8_t> thread;               ///< of each step
  std::vector<std::vector<uint32_t>> waits;  ///< of each step: those of other threads, from `first`
  size_t threads = 1;
  double serial_seconds = 0, beside_seconds = 0;
  std::string refused;  ///< why it does not pay; "" if it does
  size_t size() const { return thread.size(); }
};

/// What the model takes for a region of several threads to begin and end, and for a thread to see
/// what another one made.
inline constexpr double kForkSeconds = 3e-6, kSeeSeconds = 0.4e-6;

/// The sections of a program on so many threads, those that do not pay with the reason. Where
/// `always` is set they all do: for tests.
std::vector<Section> side_by_side(std::span<const Step> steps, size_t threads, bool always);

/// Throws Error where two steps of a section that depend on each other may run in another order
/// than that of the program.
void verify(const Section& section, std::span<const Step> steps);

}  // namespace pellucid::graph
