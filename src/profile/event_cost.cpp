// What recording costs: the same one-element additions with and without a recording, each timed on
// its own. A traced addition is three events: the op, its block taken, its block given back;
// counting and sampling look at the op alone. Between two additions the caches are swept as a
// kernel of the run's size sweeps them, for that is where events of a program lie: in a loop of
// additions alone an event costs a third of that.
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "base/statistics.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "pellucid/profiler.h"
#include "recorder/recorder.h"
#include "recorder/sampler.h"
#include "recorder/thread_log.h"

namespace pellucid::profile {
namespace {

// What a kernel between two events does to the caches and the branch predictor.
class Sweep {
 public:
  explicit Sweep(int64_t bytes) : data_(static_cast<size_t>(bytes) / sizeof(uint32_t) + 16, 1) {}
  void run() {
    uint32_t state = seed_++ | 1, odd = 0;
    for (size_t i = 0; i < data_.size(); i += 16) {  // a word of each line
      state = state * 1664525 + 1013904223;
      if (state >> 31) odd += data_[i];
      data_[i] += odd;
    }
    keep_.store(odd, std::memory_order_relaxed);
  }

 private:
  std::vector<uint32_t> data_;
  uint32_t seed_ = 1;
  std::atomic<uint32_t> keep_{0};
};

// Ticks of one addition after a sweep: the lower quartile, since interrupts and other programs can
// only make one longer.
double ticks_of_addition(const Tensor& x, Sweep& sweep, int count) {
  std::vector<double> ticks;
  for (int i = 0; i < count; ++i) {
    sweep.run();
    const uint64_t begun = __rdtsc();
    x.add(x);
    ticks.push_back(static_cast<double>(__rdtsc() - begun));
  }
  const auto quartile = ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 4);
  std::nth_element(ticks.begin(), quartile, ticks.end());
  return *quartile;
}

double nanoseconds_of_tick() {
  static const double scale = [] {
    const ClockPair first = read_clocks();
    ClockPair last = read_clocks();
    while (last.nanoseconds - first.nanoseconds < 2'000'000) last = read_clocks();
    return static_cast<double>(last.nanoseconds - first.nanoseconds) /
           static_cast<double>(last.ticks - first.ticks);
  }();
  return scale;
}

constexpr int64_t kLeastSwept = int64_t{32} << 10, kMostSwept = int64_t{1} << 20;

double cost_of_event(Mode mode, int64_t swept) {
#ifdef PELLUCID_NO_RECORDER
  return 0;
#endif
  if (recording()) return 0;
  constexpr int kCount = 100, kTurns = 12;
  const NoGradGuard off;
  const Tensor x = ones({1});
  Sweep sweep(swept);
  RecorderOptions options;
  options.mode = mode;
  options.sample_rate = 1;  // samples themselves are not what is measured
  std::vector<double> differences;
  // In turns: what else runs on the core's other half may change in between.
  for (int turn = 0; turn < kTurns; ++turn) {
    const double plain = ticks_of_addition(x, sweep, kCount);
    const ProfilerSession session("", options);
    x.add(x);  // defines the call
    differences.push_back(ticks_of_addition(x, sweep, kCount) - plain);
  }
  const double events = mode == Mode::Trace ? 3.0 : 1.0;
  return std::max(0.0, median(std::move(differences)) * nanoseconds_of_tick() / events);
}

// The bytes that the run's ops move, the middle one: what lies between two of its events.
int64_t bytes_between(const Profile& p) {
  std::vector<double> bytes;
  for (const Event& e : p.events) {
    const Signature& s = p.signatures[static_cast<size_t>(e.signature)];
    if (s.kind == EventKind::Op && s.op_kind != "view" && s.has_cost) bytes.push_back(s.bytes);
  }
  if (p.events.empty())  // samples and counts: each kind of call once
    for (const Signature& s : p.signatures)
      if (s.kind == EventKind::Op && s.op_kind != "view" && s.has_cost) bytes.push_back(s.bytes);
  const double middle = bytes.empty() ? 0 : median(std::move(bytes));
  // In powers of two, so that a process measures a few times at most.
  int64_t swept = kLeastSwept;
  while (swept < kMostSwept && static_cast<double>(swept) < middle) swept *= 2;
  return swept;
}

struct Measured {
  double event = 0, interruption = 0;
};

// Measured once in a process for a mode and a size, by a session of its own, which finds nothing.
Measured measured_cost(Mode mode, int64_t swept) {
  static std::mutex mutex;
  // Never destroyed: a program's own profile is made when it exits, after static objects are gone.
  static auto& known = *new std::map<std::pair<Mode, int64_t>, Measured>;
  static thread_local bool measuring = false;
  if (measuring) return {};
  const std::lock_guard lock(mutex);
  if (const auto it = known.find({mode, swept}); it != known.end()) return it->second;
  measuring = true;
  Measured m;
  try {
    m.event = cost_of_event(mode, swept);
    if (mode == Mode::Sample) m.interruption = measure_interruption();
    known[{mode, swept}] = m;
  } catch (const Error&) {}  // another thread has begun a session meanwhile
  measuring = false;
  return m;
}

}  // namespace

double measure_event_cost(Mode mode) { return cost_of_event(mode, kLeastSwept); }

void state_recording_cost(Profile& p) {
  if (recording()) return;
  const Measured m = measured_cost(mode_from_name(p.run.mode), bytes_between(p));
  p.run.event_cost = m.event;
  if (!p.samples.empty()) p.run.sample_cost += m.interruption;
}

}  // namespace pellucid::profile
