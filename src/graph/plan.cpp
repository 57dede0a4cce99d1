#include "graph/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace pellucid::graph {
namespace {

constexpr size_t kMostBySize = 4096;

bool meet(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

Plan largest_first(const std::vector<Block>& blocks) {
  Plan plan{std::vector<size_t>(blocks.size()), 0};
  std::vector<size_t> order(blocks.size()), placed;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  for (const size_t i : order) {
    const size_t bytes = bytes_in_plan(blocks[i].bytes);
    size_t at = 0;
    for (const size_t other : placed) {  // in the order of their offsets
      if (!meet(blocks[i], blocks[other])) continue;
      if (plan.offsets[other] >= at + bytes) break;
      at = std::max(at, plan.offsets[other] + bytes_in_plan(blocks[other].bytes));
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [&](size_t a, size_t o) { return a < plan.offsets[o]; }),
                  i);
  }
  return plan;
}

/// Free memory between blocks, by place and by size.
class Gaps {
 public:
  /// The place of the smallest gap that will do, the first of them; else the end grows.
  size_t take(size_t bytes) {
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) {
      const size_t at = end_;
      end_ += bytes;
      return at;
    }
    const auto [size, at] = *best;
    by_size_.erase(best);
    gaps_.erase(at);
    if (size > bytes) add(at + bytes, size - bytes);
    return at;
  }
  void give(size_t at, size_t bytes) {
    auto next = gaps_.lower_bound(at);
    if (next != gaps_.end() && at + bytes == next->first) {
      bytes += next->second;
      by_size_.erase({next->second, next->first});
      next = gaps_.erase(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        at = before->first;
        bytes += before->second;
        by_size_.erase({before->second, before->first});
        gaps_.erase(before);
      }
    }
    add(at, bytes);
  }
  size_t end() const { return end_; }

 private:
  void add(size_t at, size_t bytes) {
    gaps_.emplace(at, bytes);
    by_size_.emplace(bytes, at);
  }
  std::map<size_t, size_t> gaps_;
  std::set<std::pair<size_t, size_t>> by_size_;
  size_t end_ = 0;
};

Plan first_first(const std::vector<Block>& blocks) {
  Plan plan{std::vector<size_t>(blocks.size()), 0};
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].first < blocks[b].first; });
  std::multimap<uint32_t, size_t> ends;
  Gaps gaps;
  for (const size_t i : order) {
    while (!ends.empty() && ends.begin()->first < blocks[i].first) {
      const size_t done = ends.begin()->second;
      gaps.give(plan.offsets[done], bytes_in_plan(blocks[done].bytes));
      ends.erase(ends.begin());
    }
    plan.offsets[i] = gaps.take(bytes_in_plan(blocks[i].bytes));
    ends.emplace(blocks[i].last, i);
  }
  plan.bytes = gaps.end();
  return plan;
}

}  // namespace

Plan plan_memory(const std::vector<Block>& blocks) {
  return blocks.size() <= kMostBySize ? largest_first(blocks) : first_first(blocks);
}

// Lines of the cache do not meet; large blocks begin on pages, as the allocator's do.
size_t bytes_in_plan(size_t bytes) {
  const size_t unit = bytes >= (size_t{64} << 10) ? 4096 : 64;
  return (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit;
}

}  // namespace pellucid::graph
