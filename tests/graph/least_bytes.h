// What tests of plans of memory share.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "graph/plan.h"

namespace pellucid::graph {

/// The most bytes that are needed at one time: no plan can be smaller.
inline size_t least_bytes(const std::vector<Block>& blocks) {
  std::map<uint32_t, int64_t> changes;
  for (const Block& b : blocks) {
    changes[b.first] += static_cast<int64_t>(bytes_in_plan(b.bytes));
    changes[b.last + 1] -= static_cast<int64_t>(bytes_in_plan(b.bytes));
  }
  int64_t now = 0, most = 0;
  for (const auto& [step, change] : changes) most = std::max(most, now += change);
  return static_cast<size_t>(most);
}

}  // namespace pellucid::graph
