// Where the results inside a program lie: blocks that are needed at different times share memory,
// so the peak is known before the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pellucid::graph {

/// A result that needs memory from step `first` to step `last`, both included.
struct Block {
  size_t bytes = 0;
  uint32_t first = 0, last = 0;
};

struct Plan {
  std::vector<size_t> offsets;  ///< of each block
  size_t bytes = 0;             ///< of all of it
};

/// Places the largest blocks first, each at the lowest place that is free while it is needed. Of
/// more than 4,096 blocks the first in time come first, which takes less time and some more memory.
Plan plan_memory(const std::vector<Block>& blocks);

/// What a block of so many bytes takes of a plan.
size_t bytes_in_plan(size_t bytes);

}  // namespace pellucid::graph
