// Recording from several threads: blocks of memory that one thread takes and another gives back,
// and threads that come and go while others record.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "pellucid/pellucid.h"
#include "pellucid/profiler.h"
#include "tests/profile/calls.h"

namespace pellucid {
namespace {

using profile::Profile;

TEST_CASE("profile: blocks that go from thread to thread are paired, and the peak is right") {
  empty_cache();
  reset_peak_memory_stats();
  int64_t peak = 0;
  ProfilerSession session;
  {
    Tensor kept = ones({1000});
    for (int64_t i = 1; i <= 5; ++i) {
      Tensor made;
      std::thread([&] { made = zeros({5000 * i}) + 1; }).join();
      kept = made.exp();  // what was kept is given back inside this line, between its ops
      made = Tensor();
      std::thread([&] { kept = kept.sum(); }).join();
    }
    peak = memory_stats().peak;
  }
  const Profile p = session.stop();
  CHECK(p.run.peak_memory == peak);
  CHECK(p.allocations.size() >= 20);
  for (const profile::Allocation& a : p.allocations) {
    if (!a.before) CHECK(a.end >= a.begin);  // -1 would be a block that nobody gave back
    if (a.event >= 0) CHECK(p.events[static_cast<size_t>(a.event)].begin <= a.begin);
  }
}

TEST_CASE("profile: inside an op a block has the time of its op") {
  ProfilerSession session;
  { const Tensor x = ones({64}).add(1).mul(2); }
  const Profile p = session.stop();
  int inside = 0;
  for (const profile::Allocation& a : p.allocations) {
    if (a.event < 0) continue;
    const profile::Event& e = p.events[static_cast<size_t>(a.event)];
    CHECK(a.begin >= e.begin);
    CHECK(a.begin <= e.end);
    CHECK(a.end >= a.begin);
    ++inside;
  }
  CHECK(inside == 3);
}

TEST_CASE("profile: threads that come and go while others record") {
  constexpr int kThreads = 4, kCalls = 300;
  ProfilerSession session;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    const Tensor x = ones({4});
    while (!stop) x.mul(x);
  });
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([] {
        const RecordFunction scope("of a thread");
        const Tensor x = ones({8});
        for (int i = 0; i < kCalls; ++i) x.add(x);
      });
    for (std::thread& t : threads) t.join();
  }
  stop = true;
  busy.join();
  const Profile p = session.stop();
  const auto count = calls(p);
  CHECK(count.at("add") == 3 * kThreads * kCalls);
  CHECK(count.at("of a thread") == 3 * kThreads);
  CHECK(count.at("mul") > 0);
  for (const profile::Event& e : p.events) CHECK(e.end >= e.begin);
  for (const profile::Allocation& a : p.allocations)
    if (!a.before) CHECK(a.end >= a.begin);
}

TEST_CASE("profile: threads are sampled while they come and go") {
  profile::RecorderOptions o;
  o.mode = profile::Mode::Sample;
  o.sample_rate = 1000;
  ProfilerSession session("", o);
  for (int round = 0; round < 3; ++round)
    std::thread([] {
      const Tensor x = ones({64, 64});
      const auto begun = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(60)) x.exp();
    }).join();
  const Profile p = session.stop();
  for (const profile::Sample& s : p.samples) CHECK(s.stack >= 0);
  CHECK(p.run.mode == "sample");
}

}  // namespace
}  // namespace pellucid
