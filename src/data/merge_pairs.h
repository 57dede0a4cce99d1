// The common heart of byte-pair encodings: neighbours are merged, the best pair first, the left of
// equals first, until no pair can be. O(n log n), whatever the text.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace pellucid::data {

/// What a pair of ids becomes; the least priority is merged first.
struct PairMerge {
  double priority = 0;
  int64_t id = -1;  ///< negative: the pair is not merged
};

/// Merges `ids` in place; find(left, right) gives a PairMerge.
template <class Find> void merge_pairs(std::vector<int64_t>& ids, const Find& find) {
  struct Candidate {
    double priority;
    int64_t at, left, right, id;
    bool operator<(const Candidate& o) const {  // the queue's top is the greatest
      return priority != o.priority ? priority > o.priority : at > o.at;
    }
  };
  const auto n = static_cast<int64_t>(ids.size());
  std::vector<int64_t> next(ids.size()), previous(ids.size());
  for (int64_t i = 0; i < n; ++i)
    next[static_cast<size_t>(i)] = i + 1, previous[static_cast<size_t>(i)] = i - 1;
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int64_t at) {
    if (at < 0 || next[static_cast<size_t>(at)] >= n) return;
    const int64_t left = ids[static_cast<size_t>(at)],
                  right = ids[static_cast<size_t>(next[static_cast<size_t>(at)])];
    const PairMerge merge = find(left, right);
    if (merge.id >= 0) queue.push({merge.priority, at, left, right, merge.id});
  };
  for (int64_t i = 0; i + 1 < n; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    const auto at = static_cast<size_t>(c.at);
    const int64_t after = next[at];
    // Stale: one of the two was merged with another neighbour meanwhile.
    if (ids[at] != c.left || after >= n || ids[static_cast<size_t>(after)] != c.right) continue;
    ids[at] = c.id;
    ids[static_cast<size_t>(after)] = -1;
    next[at] = next[static_cast<size_t>(after)];
    if (next[at] < n) previous[static_cast<size_t>(next[at])] = c.at;
    consider(c.at);
    consider(previous[at]);
  }
  std::erase(ids, -1);
}

}  // namespace pellucid::data
