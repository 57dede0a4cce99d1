// What recording costs: the same one-element additions with and without a recording. A recorded
// addition is three events: the op, its block taken, its block given back.
#include <chrono>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "pellucid/profiler.h"

namespace pellucid::profile {
namespace {

double seconds_of_additions(const Tensor& x, int count) {
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) x.add(x);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

double measure_event_cost() {
#ifdef PELLUCID_NO_RECORDER
  return 0;
#endif
  if (recording()) return 0;
  constexpr int kCount = 2000, kRuns = 5;
  const NoGradGuard off;
  const Tensor x = ones({1});
  seconds_of_additions(x, kCount);
  double plain = 1e9, recorded = 1e9;
  for (int run = 0; run < kRuns; ++run) plain = std::min(plain, seconds_of_additions(x, kCount));
  {
    ProfilerSession session;
    seconds_of_additions(x, kCount);
    for (int run = 0; run < kRuns; ++run)
      recorded = std::min(recorded, seconds_of_additions(x, kCount));
  }
  return std::max(0.0, (recorded - plain) / (3.0 * kCount) * 1e9);
}

}  // namespace pellucid::profile
