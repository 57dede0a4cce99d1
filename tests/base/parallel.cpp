// parallel_for: coverage, independence of thread count, exceptions, and when it must run serially.
#include "base/parallel.h"

#include <doctest/doctest.h>
#include <omp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "pellucid/data/dataloader.h"
#include "pellucid/error.h"
#include "subprocess.h"
#include "threads.h"

using namespace pellucid;

TEST_CASE("parallel_for: every element once, every run on a grain") {
  for (const int threads : {1, 2, 4, 7}) {
    const Threads guard(threads);
    for (const int64_t begin : {int64_t{0}, int64_t{-5}, int64_t{1000}})
      for (const int64_t n : {0, 1, 2, 3, 7, 64, 1001})
        for (const int64_t grain : {1, 2, 3, 64, 5000}) {
          CAPTURE(threads);
          CAPTURE(n);
          CAPTURE(grain);
          std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
          std::atomic<bool> aligned{true};
          parallel_for(begin, begin + n, grain, [&](int64_t b, int64_t e) {
            if ((b - begin) % grain != 0 || b >= e || (e != begin + n && (e - begin) % grain != 0))
              aligned = false;
            for (int64_t i = b; i < e; ++i) ++seen[static_cast<size_t>(i - begin)];
          });
          CHECK(aligned);
          for (const auto& count : seen) REQUIRE(count == 1);
        }
  }
  bool called = false;
  parallel_for(5, 3, 1, [&](int64_t, int64_t) { called = true; });
  CHECK(!called);
  CHECK_THROWS_AS(parallel_for(0, 3, 0, [](int64_t, int64_t) {}), Error);
}

TEST_CASE("parallel_chunks: a sum has the same bits for every thread count") {
  std::vector<float> data(100'003);
  for (size_t i = 0; i < data.size(); ++i) data[i] = 1.0F / static_cast<float>(i + 1);
  const auto sum = [&] {
    constexpr int64_t kChunk = 1000;
    const auto n = static_cast<int64_t>(data.size());
    std::vector<float> partial(static_cast<size_t>((n + kChunk - 1) / kChunk));
    parallel_chunks(static_cast<int64_t>(partial.size()), [&](int64_t i) {
      float s = 0;
      for (int64_t k = i * kChunk; k < std::min(n, (i + 1) * kChunk); ++k)
        s += data[static_cast<size_t>(k)];
      partial[static_cast<size_t>(i)] = s;
    });
    return std::accumulate(partial.begin(), partial.end(), 0.0F);
  };
  const Threads one(1);
  const float expected = sum();
  for (const int threads : {2, 3, 4}) {
    const Threads guard(threads);
    CHECK(sum() == expected);
  }
  parallel_chunks(0, [](int64_t) { FAIL("no chunk to run"); });
}

TEST_CASE("parallel_for: uses several threads") {
  const Threads guard(4);
  std::vector<std::thread::id> ids(4);
  parallel_chunks(4, [&](int64_t i) { ids[static_cast<size_t>(i)] = std::this_thread::get_id(); });
  CHECK(std::set<std::thread::id>(ids.begin(), ids.end()).size() == 4);
}

TEST_CASE("parallel_for: an exception reaches the caller, and the pool goes on") {
  const Threads guard(4);
  for (int round = 0; round < 20; ++round) {
    for (const int64_t thrower : {0, 3}) {
      CHECK_THROWS_WITH_AS(parallel_chunks(4,
                                           [&](int64_t i) {
                                             if (i == thrower) throw IndexError("chunk failed");
                                           }),
                           "chunk failed", IndexError);
    }
    CHECK_THROWS_AS(parallel_chunks(4, [](int64_t) { throw 42; }), int);
    std::atomic<int> count{0};
    parallel_chunks(8, [&](int64_t) { ++count; });
    CHECK(count == 8);
  }
}

TEST_CASE("parallel_for: serial inside a region, under a guard and beside another region") {
  const Threads guard(4);
  const auto is_serial = [] {
    const auto self = std::this_thread::get_id();
    std::atomic<bool> serial{true};
    parallel_chunks(64, [&](int64_t) {
      if (std::this_thread::get_id() != self) serial = false;
    });
    return serial.load();
  };
  CHECK(!is_serial());
  CHECK(!in_parallel_region());
  std::atomic<int> serial_inside{0};
  parallel_chunks(4, [&](int64_t) { serial_inside += is_serial() && in_parallel_region(); });
  CHECK(serial_inside == 4);
  {
    const SerialGuard serial;
    CHECK(is_serial());
  }
  std::atomic<bool> other_serial{false};
  parallel_chunks(4, [&](int64_t i) {
    if (i == 0) std::thread([&] { other_serial = is_serial(); }).join();
  });
  CHECK(other_serial);
  {
    const TeamLock lock;
    CHECK(lock.num_threads() == 4);
    CHECK(omp_get_max_threads() == 4);
    CHECK(is_serial());
    const TeamLock second;
    CHECK(second.num_threads() == 1);
    CHECK(omp_get_max_threads() == 1);
  }
  CHECK(!is_serial());
}

TEST_CASE("parallel_for: many threads may call it at once") {
  const Threads guard(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        std::vector<int> data(1000);
        parallel_for(0, 1000, 10, [&](int64_t b, int64_t e) {
          for (int64_t k = b; k < e; ++k) data[static_cast<size_t>(k)] = 1;
        });
        total += std::accumulate(data.begin(), data.end(), 0);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(total == 4 * 50 * 1000);
}

TEST_CASE("parallel_for: a forked child runs on one thread") {
  const Threads guard(4);
  parallel_chunks(4, [](int64_t) {});  // the parent's pool exists
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto self = std::this_thread::get_id();
    int count = 0;
    parallel_chunks(16, [&](int64_t) { count += std::this_thread::get_id() == self; });
    const TeamLock lock;
    _exit(count == 16 && lock.num_threads() == 1 && omp_get_max_threads() == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("parallel_team: members meet, and see what the others wrote") {
  for (const int threads : {1, 2, 4, 7}) {  // also more than there are cores
    const Threads guard(threads);
    std::vector<int64_t> values(100, 1), sums(7);
    std::atomic<int> members{0};
    parallel_team(100, [&](TeamMember& team) {
      ++members;
      CHECK(team.threads() == threads);
      for (int round = 0; round < 50; ++round) {
        for (int64_t i = team.begin(100); i < team.end(100); ++i) ++values[static_cast<size_t>(i)];
        team.meet();
        sums[static_cast<size_t>(team.thread())] =
            std::accumulate(values.begin(), values.end(), int64_t{0});
        team.meet();
        for (int t = 0; t < team.threads(); ++t)
          if (sums[static_cast<size_t>(t)] != 100 * (round + 2)) throw ValueError("a sum is wrong");
      }
    });
    CHECK(members == threads);
    CHECK(values == std::vector<int64_t>(100, 51));
  }
}

TEST_CASE("parallel_team: at most as many as asked for, and alone where a region is serial") {
  const Threads guard(4);
  const auto size = [](int most) {
    std::atomic<int> members{0};
    parallel_team(most, [&](TeamMember& team) {
      ++members;
      team.meet();
      if (team.threads() != members) throw ValueError("some are missing");
    });
    return members.load();
  };
  CHECK(size(100) == 4);
  CHECK(size(3) == 3);
  CHECK(size(1) == 1);
  {
    const SerialGuard serial;
    CHECK(size(100) == 1);
  }
  std::atomic<int> inside{0};
  parallel_chunks(4, [&](int64_t) { inside += size(100); });
  CHECK(inside == 4);
  parallel_team(100, [&](TeamMember&) {
    CHECK(in_parallel_region());
    inside += size(100);
  });
  CHECK(inside == 8);
}

TEST_CASE("parallel_team: an exception frees those who wait, and reaches the caller") {
  const Threads guard(4);
  for (int round = 0; round < 20; ++round) {
    CHECK_THROWS_WITH_AS(parallel_team(4,
                                       [&](TeamMember& team) {
                                         team.meet();
                                         if (team.thread() == round % 4) throw IndexError("lost");
                                         team.meet();
                                       }),
                         "lost", IndexError);
    std::atomic<int> members{0};
    parallel_team(4, [&](TeamMember& team) {
      team.meet();
      ++members;
    });
    CHECK(members == 4);
  }
}

TEST_CASE("threads: below one is refused") {
  const int before = get_num_threads();
  CHECK_THROWS_AS(set_num_threads(0), ValueError);
  CHECK_THROWS_AS(set_num_threads(-2), ValueError);
  CHECK(get_num_threads() == before);
}

TEST_CASE("child: three threads" * doctest::skip()) { CHECK(get_num_threads() == 3); }

TEST_CASE("threads: the environment is respected, ours first") {
  const char* child = "child: three threads";
  CHECK(test::run_test_case(child, {{"PELLUCID_NUM_THREADS", "3"}}) == 0);
  CHECK(test::run_test_case(child, {{"OMP_NUM_THREADS", "3"}, {"PELLUCID_NUM_THREADS", ""}}) == 0);
  CHECK(test::run_test_case(child, {{"OMP_NUM_THREADS", "5"}, {"PELLUCID_NUM_THREADS", "3"}}) == 0);
  CHECK(test::run_test_case(child, {{"PELLUCID_NUM_THREADS", "many"}}) != 0);
  CHECK(test::run_test_case(child, {{"PELLUCID_NUM_THREADS", "0"}}) != 0);
}

TEST_CASE("threads: numbers that no machine has are errors") {
  const int before = get_num_threads();
  for (const int threads : {0, -1, INT_MIN, 4097, 100'000, INT_MAX}) {
    CAPTURE(threads);
    CHECK_THROWS_AS(set_num_threads(threads), ValueError);
    CHECK(get_num_threads() == before);
  }
  std::atomic<int> ran{0};
  parallel_chunks(8, [&](int64_t) { ++ran; });
  CHECK(ran == 8);
}

TEST_CASE("child: a team is refused" * doctest::skip()) {
  CHECK_THROWS_AS(parallel_chunks(64, [](int64_t) {}), ValueError);
}

TEST_CASE("child: no more threads can be made" * doctest::skip()) {
  set_num_threads(1);
  // Address space for a few stacks of 8 MB; libgomp would end the process at the first that fails.
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit bound{pages * 4096 + (uint64_t{60} << 20), RLIM_INFINITY};
  REQUIRE(setrlimit(RLIMIT_AS, &bound) == 0);
  CHECK_THROWS_WITH_AS(set_num_threads(500), doctest::Contains("threads"), ValueError);
  CHECK(get_num_threads() == 1);
  std::atomic<int> ran{0};
  parallel_chunks(8, [&](int64_t) { ++ran; });
  CHECK(ran == 8);
  CHECK_THROWS_AS(data::detail::WorkerPool(500), ValueError);
  CHECK_THROWS_AS(data::detail::WorkerPool(1'000'000'000), ValueError);
}

TEST_CASE("threads: silly environments and limits are errors, not the end of the process") {
  const char* child = "child: a team is refused";
  CHECK(test::run_test_case(child, {{"PELLUCID_NUM_THREADS", "100000"}}) == 0);
  CHECK(test::run_test_case(child, {{"OMP_NUM_THREADS", "100000"}, {"PELLUCID_NUM_THREADS", ""}}) ==
        0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
  CHECK(test::run_test_case("child: no more threads can be made", {}) == 0);
#endif
}

#ifdef __SANITIZE_THREAD__
TEST_CASE("child: a planted race" * doctest::skip()) {
  const Threads guard(2);
  static int shared = 0;
  for (int i = 0; i < 100; ++i) parallel_chunks(2, [](int64_t) { ++shared; });
  CHECK(shared > 0);
}

TEST_CASE("child: ordinary use" * doctest::skip()) {
  const Threads guard(2);
  std::vector<int> data(1000, 1);
  for (int i = 0; i < 100; ++i) {
    parallel_for(0, 1000, 10, [&](int64_t b, int64_t e) {
      for (int64_t k = b; k < e; ++k)
        data[static_cast<size_t>(k)] += data[static_cast<size_t>(k)] & 1;
    });
  }
  CHECK(data[0] == 2);
}

TEST_CASE("parallel_for: ThreadSanitizer finds a planted race, and none in ordinary use") {
  constexpr int kRaceFound = 66;  // ThreadSanitizer's exit code
  CHECK(test::run_test_case("child: a planted race",
                            {{"TSAN_OPTIONS", "exitcode=66 atexit_sleep_ms=0"}}) == kRaceFound);
  CHECK(test::run_test_case("child: ordinary use",
                            {{"TSAN_OPTIONS", "exitcode=66 atexit_sleep_ms=0"}}) == 0);
}
#endif
