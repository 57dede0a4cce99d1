// Which block of memory was freed when and by whom, in the exact order in which blocks were taken
// and given back. A block that is freed without having been taken was there before the recording;
// what else was there is known by its category.
#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "profile/collect.h"

namespace pellucid::profile {
namespace {

using Categories = std::array<int64_t, kMemoryCategoryCount>;

MemoryCategory category_of(const Collected::Block& b) {
  return static_cast<MemoryCategory>(std::min<int>(b.category, kMemoryCategoryCount - 1));
}

// The blocks of one process and what happened to them, in order.
struct ProcessHistory {
  struct Change {
    int64_t at;
    size_t row;
    bool is_free;
  };
  std::vector<Allocation> rows;
  std::vector<Change> changes;
  std::vector<BlockUse> uses;  // `allocation` is a row
};

class Pairing {
 public:
  Pairing(Collected& all, const Collected::ProcessMemory& process)
      : p_(all.profile), process_(process), names_(all.names) {}

  ProcessHistory run(const std::vector<const Collected::Block*>& blocks) {
    for (const Collected::Block* b : blocks)
      b->is_use ? use(*b) : b->is_category ? rename(*b) : b->is_free ? give(*b) : take(*b);
    keep_the_rest();
    if (process_.closes) end_process();
    // What was there before comes first.
    std::vector<ProcessHistory::Change> all;
    for (size_t i = 0; i < h_.rows.size(); ++i)
      if (h_.rows[i].before) all.push_back({process_.begin, i, false});
    all.insert(all.end(), h_.changes.begin(), h_.changes.end());
    h_.changes = std::move(all);
    return std::move(h_);
  }

 private:
  Event* event_of(const Collected::Block& b) {
    return b.event >= 0 ? &p_.events[static_cast<size_t>(b.event)] : nullptr;
  }

  void take(const Collected::Block& b) {
    if (Event* e = event_of(b)) e->allocated += b.bytes;
    // Its address was in use: the free was dropped, at the limit of a thread's events.
    if (const auto it = alive_.find(b.address); it != alive_.end()) free_row(it->second, b.at, -1);
    alive_[b.address] = h_.rows.size();
    h_.changes.push_back({b.at, h_.rows.size(), false});
    h_.rows.push_back({b.at, -1, b.bytes, b.event, -1, b.thread, category_of(b)});
    h_.rows.back().address = b.address;
  }

  // Of a block that was there before the recording it is not known which one it is.
  void use(const Collected::Block& b) {
    const auto it = alive_.find(b.address);
    if (it == alive_.end() || b.event < 0) return;
    const auto name = names_.find({b.process, b.bytes});
    h_.uses.push_back({b.event, static_cast<int32_t>(it->second),
                       static_cast<BlockUse::Kind>(std::min<int>(b.category, 2)),
                       name == names_.end() ? "" : name->second});
  }

  // What a block was taken for is known later: a tensor becomes a parameter. One that was there
  // before the recording is told apart when it is freed.
  void rename(const Collected::Block& b) {
    if (const auto it = alive_.find(b.address); it != alive_.end())
      h_.rows[it->second].category = category_of(b);
  }

  void give(const Collected::Block& b) {
    if (Event* e = event_of(b)) e->freed += b.bytes;
    const auto it = alive_.find(b.address);
    if (it == alive_.end()) {
      Allocation a{process_.begin, -1, b.bytes, -1, -1, b.thread, category_of(b)};
      a.before = true;
      known_before_[static_cast<size_t>(a.category)] += a.bytes;
      h_.rows.push_back(a);
      free_row(h_.rows.size() - 1, b.at, b.event);
      return;
    }
    h_.rows[it->second].category = category_of(b);  // it may have changed since
    free_row(it->second, b.at, b.event);
    alive_.erase(it);
  }

  void free_row(size_t row, int64_t at, int32_t event) {
    Allocation& a = h_.rows[row];
    a.end = std::max(at, a.begin);
    a.freed_by = event;
    h_.changes.push_back({a.end, row, true});
  }

  // Of the bytes that were alive at the start, those that no free told of. A category that lost
  // more than it had got blocks of others while it ran.
  void keep_the_rest() {
    Categories rest{};
    int64_t missing = 0;
    for (size_t c = 0; c < rest.size(); ++c) {
      rest[c] = process_.at_start[c] - known_before_[c];
      if (rest[c] < 0) missing -= std::exchange(rest[c], 0);
    }
    for (int64_t& bytes : rest) {
      const int64_t taken = std::min(bytes, missing);
      bytes -= taken;
      missing -= taken;
    }
    for (size_t c = 0; c < rest.size(); ++c) {
      if (rest[c] == 0) continue;
      Allocation a{process_.begin, -1, rest[c], -1, -1, 0, static_cast<MemoryCategory>(c)};
      a.before = true;
      h_.rows.push_back(a);
    }
  }

  // The system takes all of it back.
  void end_process() {
    for (size_t i = 0; i < h_.rows.size(); ++i)
      if (h_.rows[i].end < 0) free_row(i, process_.end, -1);
  }

  Profile& p_;
  const Collected::ProcessMemory& process_;
  const std::map<std::pair<int32_t, int64_t>, std::string>& names_;
  ProcessHistory h_;
  std::unordered_map<uint64_t, size_t> alive_;  // by address
  Categories known_before_{};
};

// The order of a process's blocks: the first thread's log until there is a second one, then the
// numbers that all threads drew from one counter.
std::vector<const Collected::Block*> in_order(const std::vector<Collected::Block>& blocks,
                                              int32_t process) {
  std::vector<const Collected::Block*> order;
  for (const Collected::Block& b : blocks)
    if (b.process == process) order.push_back(&b);
  const auto earlier = [](const auto* a, const auto* b) { return a->number < b->number; };
  if (!std::is_sorted(order.begin(), order.end(), earlier))
    std::stable_sort(order.begin(), order.end(), earlier);
  return order;
}

// One after the other by their times; what is of one process stays in its order.
class Merge {
 public:
  Merge(Profile& p, std::vector<ProcessHistory> processes)
      : p_(p), processes_(std::move(processes)) {
    std::vector<size_t> next(processes_.size());
    for (const ProcessHistory& h : processes_) place_.emplace_back(h.rows.size(), -1);
    while (true) {
      size_t first = processes_.size();
      for (size_t i = 0; i < processes_.size(); ++i) {
        if (next[i] == processes_[i].changes.size()) continue;
        if (first == processes_.size() || change(i, next[i]).at < change(first, next[first]).at)
          first = i;
      }
      if (first == processes_.size()) break;
      add(first, change(first, next[first]));
      ++next[first];
    }
    for (size_t i = 0; i < processes_.size(); ++i)
      for (BlockUse& use : processes_[i].uses) {
        use.allocation = static_cast<int32_t>(place_[i][static_cast<size_t>(use.allocation)]);
        p_.uses.push_back(std::move(use));
      }
  }

 private:
  const ProcessHistory::Change& change(size_t process, size_t i) const {
    return processes_[process].changes[i];
  }
  void add(size_t process, const ProcessHistory::Change& c) {
    int64_t& place = place_[process][c.row];
    if (c.is_free) {
      Allocation& a = p_.allocations[static_cast<size_t>(place)];
      a.freed_order = order_++;
      now_ -= a.bytes;
      return;
    }
    place = static_cast<int64_t>(p_.allocations.size());
    p_.allocations.push_back(processes_[process].rows[c.row]);
    p_.allocations.back().order = order_++;
    now_ += p_.allocations.back().bytes;
    p_.run.peak_memory = std::max(p_.run.peak_memory, now_);
  }

  Profile& p_;
  std::vector<ProcessHistory> processes_;
  std::vector<std::vector<int64_t>> place_;  // of a process's row among the profile's allocations
  int64_t order_ = 0, now_ = 0;
};

}  // namespace

void pair_blocks(Collected& all) {
  std::vector<ProcessHistory> processes;
  for (size_t i = 0; i < all.memory.size(); ++i)
    processes.push_back(
        Pairing(all, all.memory[i]).run(in_order(all.blocks, static_cast<int32_t>(i))));
  all.profile.run.memory_at_start = 0;
  for (const ProcessHistory& h : processes)
    for (const Allocation& a : h.rows)
      if (a.before && a.begin == 0) all.profile.run.memory_at_start += a.bytes;
  const Merge merge(all.profile, std::move(processes));
}

}  // namespace pellucid::profile
