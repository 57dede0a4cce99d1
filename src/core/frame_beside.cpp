// Units of a frame that run side by side: which ones, what they need, and their runs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "base/parallel.h"
#include "core/program.h"
#include "pellucid/autograd.h"

namespace pellucid::detail {
namespace {

using graph::kNone;

// From so many bytes on a result has memory of its own.
constexpr size_t kLarge = Frame::kLargeResult;

// Rates of one core that products of small matrices and other small calls reach from a cache, and
// what a call takes beside. What matters is which of two branches is the longer one.
constexpr double kProductRate = 120e9, kOtherRate = 20e9, kByteRate = 40e9, kCallSeconds = 0.1e-6;
// From so many FLOPs on the kernels cut their work for several threads.
constexpr double kProductCut = 2e6, kOtherCut = 32768;

constexpr int kWarmRuns = 2, kTimedRuns = 8;

}  // namespace

std::atomic<BesideRule> beside_rule{BesideRule::Pays};

graph::Step Frame::step_of(const graph::Graph& g, const Unit& u) const {
  graph::Step step;
  for (size_t i = u.first; i < u.first + u.count; ++i) {
    const graph::Node& n = g.nodes[i];
    graph::for_each_read(g, n, [&](uint32_t s) { step.reads.push_back(s); });
    step.writes.insert(step.writes.end(), n.writes.begin(), n.writes.end());
    bool writes_once = !graph::changes_in_place(g, n);
    for (const uint32_t s : n.writes)
      writes_once = writes_once && !g.storages[s].external && g.storages[s].writes == 1;
    if (!writes_once) step.alone = "it changes a tensor in place";
    if (!n.op->cost) step.alone = "what it costs is not known";
    if (!step.alone.empty()) return step;
    Cost cost;
    with_captured(*calls_[i], [&](const Call& c) { cost = n.op->cost(c); });
    const bool product = n.op->kind == OpKind::Contraction;
    if (cost.flops >= (product ? kProductCut : kOtherCut) || cost.bytes >= 8 * kOtherCut)
      step.alone = "it runs on all threads";
    step.seconds += kCallSeconds + std::max(cost.flops / (product ? kProductRate : kOtherRate),
                                            cost.bytes / kByteRate);
  }
  return step;
}

void Frame::find_beside(const graph::Graph& g, bool plan) {
  std::vector<graph::Step> steps;
  steps.reserve(units_.size());
  for (const Unit& u : units_) steps.push_back(step_of(g, u));
  const bool always = beside_rule.load(std::memory_order_relaxed) == BesideRule::Always;
  const size_t serial_peak = peak_bytes_;
  for (graph::Section& s :
       graph::side_by_side(steps, static_cast<size_t>(get_num_threads()), always)) {
    if (!s.refused.empty()) {
      not_beside_.push_back(std::move(s));
      continue;
    }
    Beside b;
    b.done = std::make_unique<std::atomic<uint32_t>[]>(s.size());
    b.section = std::move(s);
    beside_.push_back(std::move(b));
  }
  if (beside_.empty()) return;
  place_results(g, plan);
  if (always || peak_bytes_ <= serial_peak + kMoreMemory) return;
  for (Beside& b : beside_) {
    b.section.refused =
        fmt::format("the program would need {} bytes and not {}", peak_bytes_, serial_peak);
    not_beside_.push_back(std::move(b.section));
  }
  beside_.clear();
  place_results(g, plan);
}

const Frame::Beside* Frame::beside_at(size_t unit) const {
  const auto at = std::upper_bound(beside_.begin(), beside_.end(), unit,
                                   [](size_t u, const Beside& b) { return u < b.section.first; });
  if (at == beside_.begin() || unit >= std::prev(at)->end()) return nullptr;
  return &*std::prev(at);
}

Frame::Uses Frame::uses_of(const graph::Graph& g) const {
  const size_t count = storages_.size();
  Uses uses{.own_first = std::vector<uint32_t>(count, kNone),
            .own_last = std::vector<uint32_t>(count, 0)};
  constexpr int kNobody = -1, kSeveralThreads = -2;
  std::vector<int> user(count, kNobody);  // the thread of a section
  for (uint32_t u = 0; u < units_.size(); ++u) {
    const Beside* const b = beside_at(u);
    const int thread = b ? b->section.thread[u - b->section.first] : 0;
    const auto use = [&](uint32_t s) {
      if (uses.own_first[s] == kNone) uses.own_first[s] = u;
      uses.own_last[s] = u;
      if (user[s] == kNobody)
        user[s] = thread;
      else if (user[s] != thread)
        user[s] = kSeveralThreads;
    };
    for (size_t i = units_[u].first; i < units_[u].first + units_[u].count; ++i) {
      graph::for_each_read(g, g.nodes[i], use);
      for (const uint32_t s : g.nodes[i].writes) use(s);
    }
  }
  keep_for_ties(g, uses);
  uses.first = uses.own_first;
  uses.last = uses.own_last;
  if (beside_.empty()) return uses;
  for (size_t s = 0; s < count; ++s) {
    if (uses.own_first[s] == kNone) continue;
    const Beside* const begins = beside_at(uses.own_first[s]);
    const Beside* const ends = beside_at(uses.own_last[s]);
    const graph::Storage& storage = g.storages[s];
    const bool private_to_thread = begins && begins == ends && user[s] != kSeveralThreads &&
                                   !storage.external && !storage.live_out &&
                                   storage.bytes >= kLarge;
    if (private_to_thread) continue;
    if (begins) uses.first[s] = static_cast<uint32_t>(begins->section.first);
    if (ends) uses.last[s] = static_cast<uint32_t>(ends->end() - 1);
  }
  return uses;
}

// What calls that were rewritten together read is there until all of them ran: one that fails makes
// them run again.
void Frame::keep_for_ties(const graph::Graph& g, Uses& uses) const {
  for (const graph::Graph::Tie& tie : g.ties) {
    uint32_t last = 0;
    std::vector<uint32_t> read;
    for (uint32_t u = 0; u < units_.size(); ++u)
      for (size_t i = units_[u].first; i < units_[u].first + units_[u].count; ++i) {
        if (!std::binary_search(tie.begin(), tie.end(), g.nodes[i].call)) continue;
        last = u;
        graph::for_each_read(g, g.nodes[i], [&](uint32_t s) { read.push_back(s); });
      }
    for (const uint32_t s : read) {
      const bool made_inside =
          uses.own_first[s] != kNone && !g.storages[s].external &&
          std::binary_search(tie.begin(), tie.end(), g.nodes[units_[uses.own_first[s]].first].call);
      if (!made_inside) uses.own_last[s] = std::max(uses.own_last[s], last);
    }
  }
}

// The most bytes at one time in a section: what its threads share, and the most of each one's own.
int64_t Frame::foresee_section(const graph::Graph& g, const Beside& b,
                               const std::vector<uint32_t>& first,
                               const std::vector<uint32_t>& last,
                               const std::vector<int64_t>& change) const {
  const size_t begin = b.section.first;
  int64_t shared = static_cast<int64_t>(plan_.bytes);
  for (size_t u = 0; u <= begin; ++u) shared += change[u];
  std::vector<std::pair<uint32_t, uint32_t>> own;  // first and last use of what a thread has alone
  std::vector<int64_t> bytes;
  for (const uint32_t s : large_) {
    if (first[s] < begin || last[s] >= b.end()) continue;
    if (first[s] == begin && last[s] == b.end() - 1) continue;
    if (first[s] == begin) shared -= static_cast<int64_t>(g.storages[s].bytes);
    own.emplace_back(first[s], last[s]);
    bytes.push_back(static_cast<int64_t>(g.storages[s].bytes));
  }
  int64_t most = shared;
  for (size_t t = 0; t < b.section.threads; ++t) {
    int64_t thread_most = 0;
    for (size_t u = begin; u < b.end(); ++u) {
      if (b.section.thread[u - begin] != t) continue;
      int64_t now = scratch_of(units_[u]);
      for (size_t k = 0; k < own.size(); ++k)
        if (own[k].first <= u && u <= own[k].second && b.section.thread[own[k].first - begin] == t)
          now += bytes[k];
      thread_most = std::max(thread_most, now);
    }
    most += thread_most;
  }
  return most;
}

// One after the other and side by side in turns, until it is known which is faster.
void Frame::run_beside(Beside& b, const Outside& outside) {
  Unit &front = units_[b.section.first], &back = units_[b.end() - 1];
  {
    const MemoryCategoryGuard category(calls_[front.first]->category);
    take_memory(front, outside);
  }
  const bool always = beside_rule.load(std::memory_order_relaxed) == BesideRule::Always;
  const bool possible = (modes & kObserve) == 0 && !profile::recording() && get_num_threads() > 1 &&
                        !in_parallel_region();
  if (!possible || b.slower) {
    run_in_order(b, outside);
  } else if (always || b.runs == kWarmRuns + kTimedRuns) {
    run_on_threads(b, outside);
  } else {
    const bool beside = b.runs++ % 2 == 1;
    const auto begun = std::chrono::steady_clock::now();
    if (beside)
      run_on_threads(b, outside);
    else
      run_in_order(b, outside);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    double& least = beside ? b.beside : b.serial;
    if (b.runs > kWarmRuns && (least == 0 || taken.count() < least)) least = taken.count();
    if (b.runs == kWarmRuns + kTimedRuns) b.slower = b.beside >= b.serial;
  }
  give_back(back, outside);
}

void Frame::run_in_order(Beside& b, const Outside& outside) {
  for (size_t u = b.section.first; u < b.end(); ++u) run_own(b, u, outside);
}

// A unit of a section, with what is its thread's own: the memory of the first unit and of the last
// is the section's.
void Frame::run_own(const Beside& b, size_t u, const Outside& outside) {
  Unit& unit = units_[u];
  const MemoryCategoryGuard category(calls_[unit.first]->category);
  if (u != b.section.first) take_memory(unit, outside);
  run_unit(unit, outside);
  if (u + 1 != b.end()) give_back(unit, outside);
}

void Frame::run_on_threads(Beside& b, const Outside& outside) {
  const graph::Section& section = b.section;
  const uint32_t run = ++b.run;
  const uint8_t modes_here = modes;
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;  // of the first of the units that failed, in program order
  size_t failed_at = SIZE_MAX;
  const auto wait_for = [&](uint32_t step) {
    constexpr int kSpins = 4000;
    for (int spins = 0; b.done[step].load(std::memory_order_acquire) != run; ++spins) {
      if (failed.load(std::memory_order_acquire)) return false;
      if (spins < kSpins)
        __builtin_ia32_pause();
      else
        std::this_thread::yield();
    }
    return true;
  };
  parallel_team(static_cast<int>(section.threads), [&](TeamMember& member) {
    struct Modes {
      explicit Modes(uint8_t now) : before(std::exchange(modes, now)) {}
      ~Modes() { modes = before; }
      const uint8_t before;
    } const as_the_caller(modes_here);
    const AutoGradMode off(false);
    const auto is_mine = [&](size_t i) {
      return section.thread[i] % member.threads() == member.thread();
    };
    for (size_t i = 0; i < section.size(); ++i) {
      if (!is_mine(i)) continue;
      for (const uint32_t w : section.waits[i])
        if (!is_mine(w) && !wait_for(w)) return;
      if (failed.load(std::memory_order_acquire)) return;
      try {
        run_own(b, section.first + i, outside);
      } catch (...) {
        failed.store(true, std::memory_order_release);
        const std::lock_guard lock(mutex);
        if (i < failed_at) error = std::current_exception(), failed_at = i;
        return;
      }
      b.done[i].store(run, std::memory_order_release);
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace pellucid::detail
