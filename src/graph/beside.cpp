#include "graph/beside.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "pellucid/error.h"

namespace pellucid::graph {
namespace {

// More steps at one time would need the memory of all their results.
constexpr size_t kMostSteps = 512, kMostThreads = 8;

/// Which steps of a section use a storage last, so far.
struct LastUses {
  uint32_t writer = UINT32_MAX;
  std::vector<uint32_t> readers;  // since it was written
};

/// For each step of a section those before it that it depends on.
std::vector<std::vector<uint32_t>> dependencies(std::span<const Step> steps) {
  std::unordered_map<uint32_t, LastUses> uses;
  std::vector<std::vector<uint32_t>> out(steps.size());
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const auto depend = [&](uint32_t on) {
      if (on != UINT32_MAX && on != i) out[i].push_back(on);
    };
    for (const uint32_t s : steps[i].reads) depend(uses[s].writer);
    for (const uint32_t s : steps[i].writes) {
      depend(uses[s].writer);
      for (const uint32_t reader : uses[s].readers) depend(reader);
    }
    for (const uint32_t s : steps[i].reads) uses[s].readers.push_back(i);
    for (const uint32_t s : steps[i].writes) uses[s] = {.writer = i, .readers = {}};
    std::sort(out[i].begin(), out[i].end());
    out[i].erase(std::unique(out[i].begin(), out[i].end()), out[i].end());
  }
  return out;
}

/// Gives each step, in the order of the program, to the thread on which it is done first.
class Schedule {
 public:
  Schedule(std::span<const Step> steps, size_t first, size_t threads)
      : steps_(steps), depends_(dependencies(steps)), free_(threads, 0) {
    section_.first = first;
    for (uint32_t i = 0; i < steps.size(); ++i) place(i);
    for (uint32_t i = 0; i < steps.size(); ++i) {
      std::vector<uint32_t>& waits = section_.waits.emplace_back();
      for (const uint32_t d : depends_[i])
        if (section_.thread[d] != section_.thread[i]) waits.push_back(d);
      section_.serial_seconds += steps[i].seconds;
    }
    section_.threads = 1u + *std::max_element(section_.thread.begin(), section_.thread.end());
    section_.beside_seconds = *std::max_element(free_.begin(), free_.end()) + kForkSeconds;
  }
  Section take() { return std::move(section_); }

 private:
  double earliest(uint32_t i, size_t thread) const {
    double at = free_[thread];
    for (const uint32_t d : depends_[i])
      at = std::max(at, done_[d] + (section_.thread[d] == thread ? 0 : kSeeSeconds));
    return at;
  }
  void place(uint32_t i) {
    size_t best = 0;
    for (size_t t = 1; t < free_.size(); ++t)
      if (earliest(i, t) < earliest(i, best)) best = t;
    const double end = earliest(i, best) + steps_[i].seconds;
    section_.thread.push_back(static_cast<uint8_t>(best));
    done_.push_back(end);
    free_[best] = end;
  }
  std::span<const Step> steps_;
  const std::vector<std::vector<uint32_t>> depends_;
  std::vector<double> free_, done_;  // when a thread is free; when a step is done
  Section section_;
};

std::string microseconds(double s) { return fmt::format("{:.1f} us", s * 1e6); }

}  // namespace

std::vector<Section> side_by_side(std::span<const Step> steps, size_t threads, bool always) {
  constexpr double kLeastGain = 0.1;  // of the time one after the other
  std::vector<Section> out;
  if (threads < 2) return out;
  for (size_t i = 0; i < steps.size();) {
    if (!steps[i].alone.empty()) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < steps.size() && end - i < kMostSteps && steps[end].alone.empty()) ++end;
    if (end - i >= 2) {
      const auto part = steps.subspan(i, end - i);
      Section s = Schedule(part, i, std::min(threads, kMostThreads)).take();
      if (s.threads > 1) {
        const double gain = s.serial_seconds - s.beside_seconds;
        if (!always && gain < kLeastGain * s.serial_seconds)
          s.refused = fmt::format("{} one after the other, {} side by side",
                                  microseconds(s.serial_seconds), microseconds(s.beside_seconds));
        verify(s, steps);
        out.push_back(std::move(s));
      }
    }
    i = end;
  }
  return out;
}

void verify(const Section& section, std::span<const Step> steps) {
  const auto part = steps.subspan(section.first, section.size());
  const std::vector<std::vector<uint32_t>> depends = dependencies(part);
  // For each step and thread how many of the thread's steps are done when it begins: those that it
  // waits for, and what these and the one before it on its own thread knew.
  std::vector<std::vector<uint32_t>> known(part.size());
  std::vector<uint32_t> number(part.size()), last(section.threads, UINT32_MAX);
  std::vector<uint32_t> counts(section.threads, 0);
  for (uint32_t i = 0; i < part.size(); ++i) {
    const size_t thread = section.thread[i];
    PELLUCID_CHECK(thread < section.threads, Error, "beside: step {} is on thread {} of {}", i,
                   thread, section.threads);
    known[i].assign(section.threads, 0);
    const auto learn = [&](uint32_t from) {
      for (size_t t = 0; t < section.threads; ++t)
        known[i][t] = std::max(known[i][t], known[from][t]);
      known[i][section.thread[from]] = std::max(known[i][section.thread[from]], number[from] + 1);
    };
    if (last[thread] != UINT32_MAX) learn(last[thread]);
    for (const uint32_t w : section.waits[i]) {
      PELLUCID_CHECK(w < i, Error, "beside: step {} waits for step {}", i, w);
      learn(w);
    }
    for (const uint32_t d : depends[i])
      PELLUCID_CHECK(number[d] < known[i][section.thread[d]], Error,
                     "beside: step {} does not wait for step {}, on which it depends", i, d);
    number[i] = counts[thread]++;
    last[thread] = i;
  }
}

}  // namespace pellucid::graph
