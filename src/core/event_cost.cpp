// What recording costs: the same one-element additions with and without a recording. A traced
// addition is three events: the op, its block taken, its block given back; counting and sampling
// look at the op alone.
#include <array>
#include <atomic>
#include <chrono>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "pellucid/profiler.h"
#include "profile/recorder.h"
#include "profile/sampler.h"

namespace pellucid::profile {
namespace {

double seconds_of_additions(const Tensor& x, int count) {
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) x.add(x);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// Measured once in a process, by a session of its own, which finds the flag set.
struct Measured {
  std::atomic_flag begun;
  std::atomic<double> event{0}, interruption{0};
};

const Measured& measured_cost(Mode mode) {
  static std::array<Measured, 4> all;
  Measured& m = all[static_cast<size_t>(mode)];
  if (m.begun.test_and_set()) return m;
  try {
    m.event = measure_event_cost(mode);
    if (mode == Mode::Sample) m.interruption = measure_interruption();
  } catch (const Error&) {
    m.begun.clear();  // another thread has begun a session meanwhile
  }
  return m;
}

}  // namespace

double measure_event_cost(Mode mode) {
#ifdef PELLUCID_NO_RECORDER
  return 0;
#endif
  if (recording()) return 0;
  constexpr int kCount = 2000, kRuns = 5, kTurns = 4;
  const NoGradGuard off;
  const Tensor x = ones({1});
  RecorderOptions options;
  options.mode = mode;
  options.sample_rate = 1;  // samples themselves are not what is measured
  double plain = 1e9, recorded = 1e9;
  const auto run_all = [&](double& least) {
    seconds_of_additions(x, kCount);
    for (int run = 0; run < kRuns; ++run) least = std::min(least, seconds_of_additions(x, kCount));
  };
  // In turns: what else runs on the core's other half may change in between.
  for (int turn = 0; turn < kTurns; ++turn) {
    run_all(plain);
    const ProfilerSession session("", options);
    run_all(recorded);
  }
  const double events = mode == Mode::Trace ? 3.0 * kCount : kCount;
  return std::max(0.0, (recorded - plain) / events * 1e9);
}

void state_recording_cost(Profile& p) {
  if (recording()) return;
  const Measured& m = measured_cost(mode_from_name(p.run.mode));
  p.run.event_cost = m.event;
  if (!p.samples.empty()) p.run.sample_cost += m.interruption;
}

}  // namespace pellucid::profile
