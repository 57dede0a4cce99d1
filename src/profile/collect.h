// What is gathered while the raw files of a recording are read.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pellucid/profiler.h"
#include "profile/symbols.h"

namespace pellucid::profile {

/// How a process's ticks become nanoseconds: two moments at which both clocks were read.
struct ProcessClock {
  uint64_t ticks = 0;
  int64_t nanoseconds = 0;
  double ns_per_tick = 1;
  int64_t span = 0;  // between the two; a longer one is better
  /// The system's clock at that moment.
  int64_t at(uint64_t later) const {
    const auto since = static_cast<double>(static_cast<int64_t>(later - ticks));
    return nanoseconds + static_cast<int64_t>(since * ns_per_tick);
  }
  void settle(uint64_t later_ticks, int64_t later_ns) {
    if (later_ns - nanoseconds <= span || later_ticks <= ticks) return;
    span = later_ns - nanoseconds;
    ns_per_tick = static_cast<double>(span) / static_cast<double>(later_ticks - ticks);
  }
};

/// What a number of a call means: positions in the profile's tables, -1 for none.
struct CalledFrom {
  int32_t signature = -1, module = -1, site = -1, stack = -1;
};

struct Collected {
  struct BackwardNode {
    int32_t event, process;
    uint64_t node;
  };
  struct Block {
    uint64_t address;
    int64_t bytes;
    int64_t at;
    uint32_t number;  // among those of all threads; 0: before all that have one, in their order
    int32_t process, thread, event;
    uint8_t category;
    bool is_free;
    bool is_category;  // nothing is taken or given back: the block is counted as this from now on
    bool is_use;  // nothing is taken or given back: the event's op used the block; `category` is
                  // the role, `bytes` the number of the saved tensor's name
  };
  /// What is known of the memory of one process beyond its blocks.
  struct ProcessMemory {
    std::array<int64_t, kMemoryCategoryCount> at_start{};  // bytes that were alive then
    int64_t begin = 0, end = 0;
    bool closes = false;  // it ended before others: its blocks are free then
  };
  Profile profile;
  Symbols symbols;
  int64_t start_ns = 0;
  int32_t processes = 0;
  std::vector<double> handler_ns;  // of each sample
  int64_t watched_ns = 0;          // processor time of the threads that watch over the sampler
  std::unordered_map<uint64_t, int32_t> nodes;  // key(process, tape node) -> the event it is of
  std::vector<BackwardNode> backward;
  std::vector<Block> blocks;
  std::map<std::pair<int32_t, int64_t>, std::string> names;  // by process and number
  std::vector<ProcessMemory> memory;                         // by the number of the process
  std::map<std::string, int32_t> module_types;
  std::map<std::tuple<std::string, int, std::string, std::string>, int32_t> places;  // of frames
  std::map<std::pair<int32_t, int32_t>, int32_t> frame_numbers;
  /// The place of a frame's line among the profile's sites; the same line has one.
  int32_t place_of(const Site& site);
  /// The frame of a site that was called by another frame.
  int32_t child_frame(int32_t parent, int32_t site);
  /// A number that is not the same in two processes.
  static uint64_t key(int32_t process, uint64_t number) {
    return number ^ static_cast<uint64_t>(process) << 44;
  }
  /// The place of a thread among the profile's, which gets it at first sight.
  int32_t thread_index(int32_t process, int32_t id, const std::string& name = {});
  /// The signature of a module's forward: its type's name.
  int32_t module_signature(int32_t module);
  /// The signature of samples in which a thread of the pool had nothing to do.
  int32_t idle_signature();
  /// Whether a Python file is one of the package's own.
  bool is_python_package(const std::string& file) const;
  std::string
      python_package;  // its folder, where the program told; else "/pellucid/" is looked for
  int32_t idle = -1;
  /// Adds a sentence to the run's notes, once.
  void add_note(const std::string& text);
};

/// What is known only when all events are read (charge.cpp).
void charge_events(Collected& all);

/// Makes allocations of the blocks and finds the peak (pair_blocks.cpp).
void pair_blocks(Collected& all);

/// Adds the samples of one process (unwind.cpp).
void read_samples(Collected& all, const std::string& folder, const std::string& tag,
                  int32_t process, const ProcessClock& clock, const std::vector<CalledFrom>& calls);

/// Adds the page faults and switches of one process (charge_stalls.cpp), when its events are known.
void read_stalls(Collected& all, const std::string& folder, const std::string& tag, int32_t process,
                 const ProcessClock& clock);

}  // namespace pellucid::profile
