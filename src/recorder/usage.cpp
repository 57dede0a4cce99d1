#include "recorder/usage.h"

#include <sys/resource.h>

#include <algorithm>
#include <exception>

#include "recorder/stalls.h"

namespace pellucid::profile {

UsageScopes::Usage UsageScopes::read() noexcept {
  rusage now{};
  getrusage(RUSAGE_THREAD, &now);
  return {now.ru_minflt + now.ru_majflt, now.ru_nvcsw, now.ru_nivcsw};
}

void UsageScopes::begin(uint64_t ticks) noexcept {
  try {
    open_.push_back({ticks, read(), {}});
  } catch (const std::exception&) {
    // No memory: end() finds one scope less, and the counts belong to the one around.
  }
}

void UsageScopes::end(int32_t thread) noexcept {
  if (open_.empty()) return;
  const Scope scope = open_.back();
  open_.pop_back();
  const Usage now = read();
  RawStall records[3];
  size_t count = 0;
  const auto add = [&](uint32_t kind, int64_t Usage::*what) {
    const int64_t whole = now.*what - scope.at_begin.*what, own = whole - scope.inside.*what;
    if (!open_.empty()) open_.back().inside.*what += whole;
    constexpr int64_t kMost = (1 << (32 - RawStall::kCountShift)) - 1;
    if (own > 0)
      records[count++] = {static_cast<int64_t>(scope.begun), thread,
                          kind | static_cast<uint32_t>(std::min(own, kMost))
                                     << RawStall::kCountShift};
  };
  add(RawStall::kFaultsCounted, &Usage::faults);
  add(RawStall::kWaitsCounted, &Usage::waits);
  add(RawStall::kPreemptionsCounted, &Usage::preemptions);
  if (count > 0) write_stalls(records, count);
}

}  // namespace pellucid::profile
