// Checks of a profile that was read: what comes from outside may be damaged or made up, and whoever
// reads a profile later need not ask again.
#include "profile/load_checks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "profile/database.h"

namespace pellucid::profile {
namespace {

constexpr int kDeepest = 2000;  // calls inside calls: reports recurse, and print whole stacks
constexpr size_t kMostDimensions = 64;  // as of a tensor

[[noreturn]] void damaged(const std::string& file, std::string_view what) {
  fail_file(file, fmt::format("is damaged: {}", what));
}

/// Rows whose parents come before them: how deep the deepest one lies.
template <class Rows>
void check_depth(const Rows& rows, const char* what, const std::string& file) {
  std::vector<int> depth(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].parent >= 0) depth[i] = depth[static_cast<size_t>(rows[i].parent)] + 1;
    if (depth[i] > kDeepest)
      damaged(file, fmt::format("its {} nest more than {} deep", what, kDeepest));
  }
}

/// A sum that notices when it leaves 64 bits.
class Sum {
 public:
  Sum(const char* what, const std::string& file) : what_(what), file_(file) {}
  /// Adds the size of a number that may be negative.
  void add(int64_t value) {
    if (value == INT64_MIN || __builtin_add_overflow(sum_, std::abs(value), &sum_) ||
        sum_ > INT64_MAX / 4)
      damaged(file_, fmt::format("{} are too large", what_));
  }

 private:
  const char* what_;
  const std::string& file_;
  int64_t sum_ = 0;
};

}  // namespace

void check_references(const Profile& p, const std::string& file) {
  const auto inside = [&](int64_t index, size_t size, const char* what, bool needed = false) {
    if (index < (needed ? 0 : -1) || index >= static_cast<int64_t>(size))
      fail_file(file, fmt::format("is damaged: it has no {} {}", what, index));
  };
  for (size_t i = 0; i < p.modules.size(); ++i) inside(p.modules[i].parent, i, "module");
  for (size_t i = 0; i < p.frames.size(); ++i) {
    inside(p.frames[i].parent, i, "frame");
    inside(p.frames[i].site, p.sites.size(), "site");
  }
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    inside(e.parent, i, "parent");
    inside(e.signature, p.signatures.size(), "signature", true);
    inside(e.thread, p.threads.size(), "thread", true);
    inside(e.site, p.sites.size(), "site");
    inside(e.module, p.modules.size(), "module");
    inside(e.forward, p.events.size(), "forward event");
    inside(e.stack, p.frames.size(), "stack");
    if (e.end < e.begin) fail_file(file, "is damaged: an event ends before it begins");
  }
  for (const Allocation& a : p.allocations) {
    inside(a.event, p.events.size(), "event");
    inside(a.freed_by, p.events.size(), "event");
    inside(a.thread, p.threads.size(), "thread", true);
    // Of the order it is all or nothing, and a block is taken before it is freed.
    const bool ordered = p.allocations[0].order >= 0;
    if ((a.order >= 0) != ordered || (a.end >= 0 && ordered && a.freed_order <= a.order))
      fail_file(file, "is damaged: a block is freed before it is taken");
  }
  for (const Sample& s : p.samples) {
    inside(s.thread, p.threads.size(), "thread", true);
    inside(s.stack, p.frames.size(), "stack");
    inside(s.signature, p.signatures.size(), "signature");
    inside(s.site, p.sites.size(), "site");
  }
  for (const Stall& s : p.stalls) {
    inside(s.thread, p.threads.size(), "thread", true);
    inside(s.event, p.events.size(), "event");
    if (s.duration < 0) fail_file(file, "is damaged: a stall ends before it begins");
    if (s.count < 1) fail_file(file, "is damaged: a stall that never was");
  }
  for (const BlockUse& u : p.uses) {
    inside(u.event, p.events.size(), "event", true);
    inside(u.allocation, p.allocations.size(), "block", true);
  }
  for (const CallCount& c : p.counts) {
    inside(c.signature, p.signatures.size(), "signature", true);
    inside(c.site, p.sites.size(), "site");
  }
  check_depth(p.modules, "modules", file);
  check_depth(p.frames, "frames", file);
  check_depth(p.events, "events", file);
}

void check_values(const Profile& p, const std::string& file) {
  constexpr int64_t kLatest = int64_t{1} << 60;  // nanoseconds: 36 years
  const auto time = [&](int64_t t) {
    if (t < -kLatest || t > kLatest) damaged(file, "a time in it is impossible");
  };
  const auto amount = [&](double x) {
    if (!std::isfinite(x) || x < 0) damaged(file, "a number in it is negative or not finite");
  };
  const auto count = [&](int64_t x) {
    if (x < 0) damaged(file, "a count in it is negative");
  };
  Sum times("the times", file), bytes("the bytes", file), calls("the counts", file);
  for (const Event& e : p.events) {
    time(e.begin), time(e.end);
    times.add(e.end - e.begin), times.add(e.self);
    bytes.add(e.allocated), bytes.add(e.freed);
    if (e.step < -1 || e.step > static_cast<int64_t>(p.events.size()))
      damaged(file, "an event is of a step that it does not have");
  }
  for (const Allocation& a : p.allocations) {
    time(a.begin), time(a.end), count(a.bytes), bytes.add(a.bytes);
  }
  for (const Sample& s : p.samples) time(s.at);
  for (const Stall& s : p.stalls)
    time(s.begin), time(s.duration), times.add(s.duration), calls.add(s.count);
  for (const CallCount& c : p.counts) count(c.calls), calls.add(c.calls);
  for (const ModuleInfo& m : p.modules) {
    count(m.parameters), count(m.parameter_bytes);
    calls.add(m.parameters), bytes.add(m.parameter_bytes);
  }
  for (const Signature& s : p.signatures) {
    amount(s.flops), amount(s.contraction_flops), amount(s.bytes);
    for (const auto* tensors : {&s.inputs, &s.outputs})
      for (const TensorInfo& t : *tensors) {
        if (t.sizes.size() > kMostDimensions)
          damaged(file, "a tensor in it has too many dimensions");
        double elements = 1;
        for (const int64_t n : t.sizes) {
          count(n);
          elements *= static_cast<double>(n);
        }
        if (!(elements < 0x1p60)) damaged(file, "a tensor in it is too large");
      }
  }
  for (const Counter& c : p.counters)
    if (!std::isfinite(c.value)) damaged(file, "a counter in it is not finite");
  for (const Site& s : p.sites)
    if (s.line < 0) damaged(file, "a line in it has a negative number");
  const RunInfo& r = p.run;
  time(r.duration), count(r.duration), count(r.dropped), count(r.scopes), count(r.recorded_bytes);
  amount(r.event_cost), amount(r.sample_cost), amount(r.sample_rate);
  bytes.add(r.peak_memory), bytes.add(r.memory_at_start), count(r.stalls_lost);
}

}  // namespace pellucid::profile
