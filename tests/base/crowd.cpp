// CrowdWatch, with times made by hand: when a team is given up for one thread, and when it is tried
// again.
#include "base/crowd.h"

#include <doctest/doctest.h>

using pellucid::CrowdWatch;

namespace {

constexpr uint64_t kSmall = 30'000;  // a region of 10 us

/// Regions in a row from `now` on until `end` or until the watch asks for a pause; the time then.
uint64_t run_regions(CrowdWatch& watch, uint64_t now, uint64_t end, uint64_t own, uint64_t waited,
                     int threads = 2) {
  while (now < end && watch.alone_until() <= now) {
    now += own + waited;
    watch.region(now, own, waited, threads);
  }
  return now;
}

}  // namespace

TEST_CASE("crowd: a quiet machine keeps its team") {
  CrowdWatch watch;
  run_regions(watch, 1, 100 * CrowdWatch::kWindow, kSmall, kSmall / 10);
  CHECK(watch.alone_until() == 0);
  // Shares that differ are no crowd, nor is a region that waits long for long work.
  run_regions(watch, 100 * CrowdWatch::kWindow, 200 * CrowdWatch::kWindow, 10 * CrowdWatch::kLate,
              19 * CrowdWatch::kLate);
  CHECK(watch.alone_until() == 0);
}

TEST_CASE("crowd: single interruptions are no crowd") {
  CrowdWatch watch;
  uint64_t now = 1;
  for (int i = 0; i < 50; ++i) {
    now = run_regions(watch, now, now + 2 * CrowdWatch::kWindow, kSmall, 0);
    now = run_regions(watch, now, now + 1, kSmall, CrowdWatch::kWindow / 2);
  }
  CHECK(watch.alone_until() == 0);
}

TEST_CASE("crowd: where others hold the cores, one thread works alone and tries again ever later") {
  CrowdWatch watch;
  constexpr uint64_t kLateWait = 4 * CrowdWatch::kLate;
  uint64_t now = 1;
  uint64_t pause = CrowdWatch::kShortest;
  watch.region(now, kSmall, 0, 2);
  for (int round = 0; round < 6; ++round) {
    const uint64_t begun = now;
    now = run_regions(watch, now, now + 10 * CrowdWatch::kWindow, kSmall, kLateWait);
    CHECK(now - begun >= CrowdWatch::kWindow);
    CHECK(now - begun <= 2 * CrowdWatch::kWindow);
    CHECK(watch.alone_until() == now + pause);
    pause = std::min(2 * pause, CrowdWatch::kLongest);
    now = watch.alone_until();
  }
  CHECK(pause == CrowdWatch::kLongest);

  // Once the cores are free again, so is the team, and the next pause is a short one.
  now = run_regions(watch, now, now + 5 * CrowdWatch::kWindow, kSmall, 0);
  CHECK(watch.alone_until() <= now);
  now = run_regions(watch, now, now + 10 * CrowdWatch::kWindow, kSmall, kLateWait);
  CHECK(watch.alone_until() == now + CrowdWatch::kShortest);
}

TEST_CASE("crowd: many threads are worth waiting for longer than two") {
  // A quarter of the time is not lost: two threads do half of what one could, eight twice as much.
  for (const int threads : {2, 8}) {
    CrowdWatch watch;
    constexpr uint64_t kOwn = CrowdWatch::kLate;
    watch.region(1, 0, 0, threads);
    const uint64_t now = run_regions(watch, 1, 20 * CrowdWatch::kWindow, kOwn, 3 * kOwn, threads);
    CHECK((watch.alone_until() > now) == (threads == 2));
  }
}
