// Threads that call ops while recordings start and stop: nothing is torn, and every profile is
// whole.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "pellucid/pellucid.h"

namespace pellucid {
namespace {

void check_whole(const profile::Profile& p) {
  for (size_t i = 0; i < p.events.size(); ++i) {
    const profile::Event& e = p.events[i];
    REQUIRE(e.end >= e.begin);
    REQUIRE(e.parent < static_cast<int32_t>(i));
    REQUIRE(e.signature >= 0);
    REQUIRE(e.signature < static_cast<int32_t>(p.signatures.size()));
    REQUIRE(e.thread < static_cast<int32_t>(p.threads.size()));
  }
}

TEST_CASE("recordings start and stop while other threads call ops") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&stop, t] {
      Tensor x = ones({3 + t}).requires_grad_();
      while (!stop.load()) {
        const RecordFunction scope("work");
        exp(x).sum().backward();
        x.mutable_grad() = Tensor();
      }
    });
  for (int round = 0; round < 12; ++round) {
    profile::RecorderOptions o;
    o.mode = round % 3 == 2 ? profile::Mode::Count : profile::Mode::Trace;
    ProfilerSession session("", o);
    ones({4}).cos();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    check_whole(session.stop());
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace pellucid
