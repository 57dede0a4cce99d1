// The caching allocator: alignment, exact statistics, reuse, limits, threads, fork, hooks and
// failures.
#include "base/allocator.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/central_heap.h"
#include "base/cpu.h"
#include "pellucid/error.h"
#include "subprocess.h"

using namespace pellucid;

namespace {

constexpr auto kOther = MemoryCategory::Other;
constexpr auto kGradient = MemoryCategory::Gradient;
constexpr auto kParameter = MemoryCategory::Parameter;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSizes[] = {0,        1,    63,       64,       65,       100,   4095,
                             4096,     4097, 5000,     9000,     32768,    32769, 70000,
                             kMiB - 1, kMiB, kMiB + 1, 3 * kMiB, 9'999'999};

int64_t of(const MemoryStats& stats, MemoryCategory category) {
  return stats.by_category[static_cast<size_t>(category)];
}

/// Frees its blocks at the end of the scope.
struct Blocks {
  explicit Blocks(MemoryCategory c = kOther) : category(c) {}
  ~Blocks() { clear(); }
  char* add(size_t bytes) {
    list.reserve(list.size() + 1);
    auto* p = static_cast<char*>(allocate(bytes, category));
    list.emplace_back(p, bytes);
    return p;
  }
  void clear() {
    for (const auto& [p, bytes] : list) deallocate(p, bytes, category);
    list.clear();
  }
  MemoryCategory category;
  std::vector<std::pair<char*, size_t>> list;
};

std::string message_of(size_t bytes) {
  try {
    deallocate(allocate(bytes, kOther), bytes, kOther);
  } catch (const OutOfMemoryError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("allocator: size classes cover every size with at most an eighth of waste") {
  using namespace detail;
  for (size_t bytes = 1; bytes <= kMediumMost; ++bytes) {
    const int c = class_of(bytes);
    REQUIRE(c < kClasses);
    REQUIRE(class_bytes(c) >= bytes);
    REQUIRE((c == 0 || class_bytes(c - 1) < bytes));
    REQUIRE(class_bytes(c) % 64 == 0);
    if (bytes > kSmallMost) REQUIRE(class_bytes(c) - bytes <= bytes / 8);
  }
  CHECK(class_of(0) == 0);
}

TEST_CASE("allocator: blocks are aligned, distinct and keep what is written") {
  Blocks blocks;
  std::set<char*> seen;
  for (int round = 0; round < 3; ++round) {
    for (const size_t bytes : kSizes) {
      char* p = blocks.add(bytes);
      REQUIRE(p != nullptr);
      CHECK(reinterpret_cast<uintptr_t>(p) % kAllocationAlignment == 0);
      CHECK(seen.insert(p).second);
      std::memset(p, static_cast<int>(seen.size()), bytes);
    }
  }
  int number = 0;
  for (const auto& [p, bytes] : blocks.list) {
    ++number;
    for (size_t i = 0; i < bytes; i += 997) REQUIRE(p[i] == static_cast<char>(number));
    if (bytes > 0) REQUIRE(p[bytes - 1] == static_cast<char>(number));
  }
  deallocate(nullptr, 5, kOther);
}

TEST_CASE("allocator: counters are exact to the byte") {
  const MemoryStats before = memory_stats();
  {
    Blocks mine(kGradient);
    int64_t sum = 0;
    for (const size_t bytes : kSizes) {
      mine.add(bytes);
      sum += static_cast<int64_t>(bytes);
      const MemoryStats now = memory_stats();
      REQUIRE(now.allocated == before.allocated + sum);
      REQUIRE(of(now, kGradient) == of(before, kGradient) + sum);
      REQUIRE(now.reserved >= now.allocated);
      REQUIRE(now.cached == now.reserved - now.allocated);
      REQUIRE(now.peak_reserved >= now.reserved);
    }
    CHECK(memory_stats().allocations ==
          before.allocations + static_cast<int64_t>(std::size(kSizes)));
    change_memory_category(100, kGradient, kParameter);
    CHECK(of(memory_stats(), kParameter) == of(before, kParameter) + 100);
    change_memory_category(100, kParameter, kGradient);
  }
  const MemoryStats after = memory_stats();
  CHECK(after.allocated == before.allocated);
  CHECK(after.by_category == before.by_category);
}

TEST_CASE("allocator: the peak is exact to the byte, and split by category at that moment") {
  reset_peak_memory_stats();
  const MemoryStats before = memory_stats();
  CHECK(before.peak == before.allocated);
  void* a = allocate(1000, kGradient);
  void* b = allocate(5 * kMiB + 7, kParameter);
  deallocate(a, 1000, kGradient);
  void* c = allocate(999, kGradient);  // one byte less than the peak
  CHECK(memory_stats().peak == before.allocated + 1000 + static_cast<int64_t>(5 * kMiB) + 7);
  void* d = allocate(2, kOther);  // one byte more
  deallocate(b, 5 * kMiB + 7, kParameter);
  deallocate(c, 999, kGradient);
  deallocate(d, 2, kOther);
  const MemoryStats after = memory_stats();
  CHECK(after.peak == before.allocated + 1001 + static_cast<int64_t>(5 * kMiB) + 7);
  CHECK(after.by_category_at_peak[static_cast<size_t>(kGradient)] == of(before, kGradient) + 999);
  CHECK(after.by_category_at_peak[static_cast<size_t>(kParameter)] ==
        of(before, kParameter) + static_cast<int64_t>(5 * kMiB) + 7);
  CHECK(after.by_category_at_peak[static_cast<size_t>(kOther)] == of(before, kOther) + 2);
  reset_peak_memory_stats();
  CHECK(memory_stats().peak == before.allocated);
}

TEST_CASE("allocator: the category guard nests and is the thread's own") {
  CHECK(current_memory_category() == kOther);
  const MemoryCategoryGuard outer(kParameter);
  {
    const MemoryCategoryGuard inner(MemoryCategory::Packed);
    const MemoryStats before = memory_stats();
    void* p = allocate(128);
    CHECK(of(memory_stats(), MemoryCategory::Packed) == of(before, MemoryCategory::Packed) + 128);
    deallocate(p, 128, MemoryCategory::Packed);
    std::thread([] { CHECK(current_memory_category() == kOther); }).join();
  }
  CHECK(current_memory_category() == kParameter);
  CHECK(name_of(MemoryCategory::Activation) == "activation");
}

TEST_CASE("allocator: a steady loop maps no new pages") {
  const auto step = [] {
    Blocks blocks;
    for (int i = 0; i < 300; ++i) blocks.add(static_cast<size_t>(i) * 16);
    for (const size_t bytes : kSizes) blocks.add(bytes);
    for (size_t i = 0; i < blocks.list.size();
         i += 2) {  // every second block early, as saved tensors are
      deallocate(blocks.list[i].first, blocks.list[i].second, kOther);
      blocks.list[i].first = nullptr;
    }
    blocks.add(6 * kMiB);
  };
  for (int i = 0; i < 3; ++i) step();
  const MemoryStats before = memory_stats();
  for (int i = 0; i < 50; ++i) step();
  const MemoryStats after = memory_stats();
  CHECK(after.page_maps == before.page_maps);
  CHECK(after.reserved == before.reserved);
  if (!allocator_bypassed()) CHECK(after.page_maps > 0);
}

TEST_CASE("allocator: random sizes and lifetimes do not overlap, and all can be given back") {
  empty_cache();
  const MemoryStats before = memory_stats();
  {
    std::mt19937_64 random(7);
    std::vector<std::tuple<unsigned char*, size_t, unsigned char>> live;
    for (int i = 0; i < 20'000; ++i) {
      if (live.size() > 200 || (!live.empty() && random() % 2 == 0)) {
        std::swap(live[random() % live.size()], live.back());
        const auto [p, bytes, mark] = live.back();
        live.pop_back();
        REQUIRE(p[0] == mark);
        REQUIRE(p[bytes - 1] == mark);
        deallocate(p, bytes, kOther);
      } else {
        const size_t bytes =
            1 + (random() >> (44 + random() % 20));  // up to 1 MiB, most much smaller
        auto* p = static_cast<unsigned char*>(allocate(bytes, kOther));
        const auto mark = static_cast<unsigned char>(random());
        p[0] = p[bytes - 1] = mark;
        live.emplace_back(p, bytes, mark);
      }
    }
    for (const auto& [p, bytes, mark] : live) {
      REQUIRE(p[bytes / 2 == 0 ? 0 : bytes - 1] == mark);
      deallocate(p, bytes, kOther);
    }
  }
  empty_cache();
  CHECK(memory_stats().allocated == before.allocated);
  CHECK(memory_stats().reserved <= before.reserved);
}

TEST_CASE("allocator: empty_cache gives free pages back and keeps live blocks") {
  Blocks keep;
  char* p = keep.add(3 * kMiB);
  std::memset(p, 1, 3 * kMiB);
  {
    Blocks drop;
    for (int i = 0; i < 8; ++i) drop.add(8 * kMiB);
  }
  const MemoryStats before = memory_stats();
  empty_cache();
  const MemoryStats after = memory_stats();
  if (!allocator_bypassed())
    CHECK(after.reserved <= before.reserved - static_cast<int64_t>(64 * kMiB));
  CHECK(after.allocated == before.allocated);
  for (size_t i = 0; i < 3 * kMiB; i += 4096) REQUIRE(p[i] == 1);
  Blocks again;
  std::memset(again.add(40 * kMiB), 2, 40 * kMiB);  // the holes can be mapped again
}

TEST_CASE("allocator: beyond the limit it throws, says why, and stays usable") {
  empty_cache();
  const MemoryStats before = memory_stats();
  set_memory_limit(before.reserved + static_cast<int64_t>(32 * kMiB));
  Blocks blocks;
  blocks.add(20 * kMiB);
  const MemoryStats full = memory_stats();
  const std::string message = message_of(20 * kMiB);
  for (const char* part : {"requested 20971520 bytes (20.00 MiB)", "allocated ", "cached ",
                           "the limit is ", "set_memory_limit", "Try "}) {
    CAPTURE(message);
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(memory_stats().allocated == full.allocated);
  CHECK(message_of(4 * kMiB) == "");
  blocks.clear();
  CHECK(message_of(20 * kMiB) == "");  // the freed block serves
  CHECK(message_of(25 * kMiB) == "");  // the cache is given back first
  CHECK(message_of(50 * kMiB) != "");
  set_memory_limit(1);
  CHECK_THROWS_AS(allocate(5000, kOther), OutOfMemoryError);
  CHECK_THROWS_AS(set_memory_limit(-1), ValueError);
  CHECK(memory_stats().limit == 1);
  set_memory_limit(0);
  CHECK(message_of(50 * kMiB) == "");
}

TEST_CASE("allocator: fragments never stand in the way of a request that fits the limit") {
  empty_cache();
  set_memory_limit(memory_stats().reserved + static_cast<int64_t>(100 * kMiB));
  Blocks blocks;
  for (int i = 0; i < 20; ++i) blocks.add(4 * kMiB);
  for (size_t i = 0; i < 20; i += 2) {
    deallocate(blocks.list[i].first, 4 * kMiB, kOther);
    blocks.list[i].first = nullptr;
  }
  CHECK(message_of(50 * kMiB) == "");
  set_memory_limit(0);
}

TEST_CASE("allocator: sizes that no machine has are refused at once") {
  const MemoryStats before = memory_stats();
  const auto most = static_cast<size_t>(cpu_info().total_memory);
  for (const size_t bytes :
       {most + 1, 2 * most, size_t{1} << 62, std::numeric_limits<size_t>::max() - 5,
        std::numeric_limits<size_t>::max()}) {
    CAPTURE(bytes);
    CHECK_THROWS_AS(allocate(bytes, kOther), OutOfMemoryError);
  }
  CHECK(memory_stats().allocated == before.allocated);
  CHECK(memory_stats().reserved == before.reserved);
}

TEST_CASE("allocator: the nth allocation fails on request, and nothing is lost") {
  const MemoryStats before = memory_stats();
  for (const int64_t nth : {1, 2, 5}) {
    set_allocation_failure(nth);
    Blocks blocks;
    for (int64_t i = 1; i < 8; ++i) {
      const size_t bytes = i % 2 == 0 ? 100 : 100'000;
      if (i == nth)
        CHECK_THROWS_AS(blocks.add(bytes), OutOfMemoryError);
      else
        CHECK_NOTHROW(blocks.add(bytes));
    }
  }
  set_allocation_failure(1);
  set_allocation_failure(0);
  CHECK(message_of(10) == "");
  CHECK(memory_stats().allocated == before.allocated);
}

TEST_CASE("allocator: the hook sees allocations and frees, but not its own") {
  static std::vector<std::tuple<void*, size_t, MemoryCategory, bool>> events;
  events.clear();
  const AllocationHook none =
      set_allocation_hook([](void* p, size_t bytes, MemoryCategory category, bool is_free) {
        deallocate(allocate(32, kOther), 32, kOther);
        events.emplace_back(p, bytes, category, is_free);
      });
  CHECK((none == nullptr));
  void* small = allocate(10, kGradient);
  void* large = allocate(kMiB, kParameter);
  deallocate(small, 10, kGradient);
  deallocate(large, kMiB, kParameter);
  CHECK((set_allocation_hook(nullptr) != nullptr));
  deallocate(allocate(10, kOther), 10, kOther);
  REQUIRE(events.size() == 4);
  CHECK(events[0] == std::tuple(small, size_t{10}, kGradient, false));
  CHECK(events[1] == std::tuple(large, kMiB, kParameter, false));
  CHECK(events[2] == std::tuple(small, size_t{10}, kGradient, true));
  CHECK(events[3] == std::tuple(large, kMiB, kParameter, true));
}

TEST_CASE("allocator: blocks wander between threads that end") {
  const MemoryStats before = memory_stats();
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<std::pair<char*, size_t>>> made(4);
    std::vector<std::thread> makers;
    for (size_t t = 0; t < made.size(); ++t) {
      makers.emplace_back([&mine = made[t], t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < 500; ++i) {
          const size_t bytes = 1 + random() % 6000;
          auto* p = static_cast<char*>(allocate(bytes, kGradient));
          p[0] = p[bytes - 1] = static_cast<char>(t);
          if (i % 3 == 0)
            deallocate(p, bytes, kGradient);
          else
            mine.emplace_back(p, bytes);
        }
      });
    }
    for (std::thread& t : makers) t.join();
    std::vector<std::thread> takers;
    std::atomic<int> wrong{0};
    for (size_t t = 0; t < made.size(); ++t) {
      takers.emplace_back([&wrong, &theirs = made[t], t] {
        for (const auto& [p, bytes] : theirs) {
          wrong += p[0] != static_cast<char>(t) || p[bytes - 1] != static_cast<char>(t);
          deallocate(p, bytes, kGradient);
        }
      });
    }
    for (std::thread& t : takers) t.join();
    CHECK(wrong == 0);
  }
  const MemoryStats after = memory_stats();
  CHECK(after.allocated == before.allocated);
  CHECK(after.by_category == before.by_category);
  CHECK(after.allocations == before.allocations + 5 * 4 * 500);
}

TEST_CASE("allocator: statistics may be read while other threads allocate") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (int t = 0; t < 2; ++t) {
    workers.emplace_back([&stop] {
      while (!stop) {
        for (const size_t bytes : {size_t{64}, size_t{3000}, size_t{100'000}}) {
          deallocate(allocate(bytes, kOther), bytes, kOther);
        }
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const MemoryStats stats = memory_stats();
    CHECK(stats.allocated >= 0);
    if (i % 50 == 0) empty_cache();
  }
  stop = true;
  for (std::thread& t : workers) t.join();
}

namespace {

/// Allocates and frees after its thread's cache is gone: thread-local objects die in reverse order.
struct LateUser {
  char* early = nullptr;
  ~LateUser() {
    deallocate(early, 100, kOther);
    for (const size_t bytes : kSizes) {
      void* p = allocate(bytes, kOther);
      change_memory_category(bytes, kOther, kGradient);
      deallocate(p, bytes, kGradient);
    }
  }
};

struct AtExit {
  void* p = nullptr;
  ~AtExit() {
    if (p == nullptr) return;
    deallocate(p, 5000, kOther);
    deallocate(allocate(64, kOther), 64, kOther);
    deallocate(allocate(2 * kMiB, kOther), 2 * kMiB, kOther);
  }
} g_at_exit;

}  // namespace

TEST_CASE("allocator: destructors of threads and of the program may use it") {
  const MemoryStats before = memory_stats();
  std::thread([] {
    thread_local LateUser user;
    user.early = static_cast<char*>(allocate(100, kOther));
  }).join();
  const MemoryStats after = memory_stats();
  CHECK(after.allocated == before.allocated);
  CHECK(after.by_category == before.by_category);
  if (g_at_exit.p == nullptr) g_at_exit.p = allocate(5000, kOther);
}

TEST_CASE("allocator: a child forked while threads allocate can allocate") {
  std::atomic<bool> stop{false};
  std::thread worker([&stop] {
    while (!stop) deallocate(allocate(50'000, kOther), 50'000, kOther);
  });
  Blocks blocks;
  char* p = blocks.add(100);
  p[0] = 42;
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (const size_t bytes : kSizes) deallocate(allocate(bytes, kOther), bytes, kOther);
      _exit(p[0] == 42 && memory_stats().allocated >= 100 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  stop = true;
  worker.join();
}

TEST_CASE("child: allocator without arenas" * doctest::skip()) {
  CHECK(allocator_bypassed());
  CHECK(memory_stats().page_maps == 0);
}

TEST_CASE("child: allocator with the limit of 8 MiB" * doctest::skip()) {
  CHECK(memory_stats().limit == static_cast<int64_t>(8 * kMiB));
  CHECK_THROWS_AS(allocate(9 * kMiB, kOther), OutOfMemoryError);
  CHECK(message_of(kMiB) == "");
}

TEST_CASE("allocator: the environment chooses limit and arenas") {
  CHECK(test::run_test_case("child: allocator without arenas", {{"PELLUCID_NO_CACHE", "1"}}) == 0);
  CHECK(test::run_test_case("child: allocator with the limit of 8 MiB",
                            {{"PELLUCID_MEMORY_LIMIT", "8M"}}) == 0);
  CHECK(test::run_test_case("child: allocator with the limit of 8 MiB",
                            {{"PELLUCID_MEMORY_LIMIT", "lots"}}) != 0);
}

#ifdef __SANITIZE_ADDRESS__
TEST_CASE("child: allocator use after free" * doctest::skip()) {
  auto* p = static_cast<volatile char*>(allocate(200, kOther));
  deallocate(const_cast<char*>(p), 200, kOther);
  CHECK(p[100] == 0);
}

TEST_CASE("child: allocator overrun within the size class" * doctest::skip()) {
  auto* p = static_cast<volatile char*>(allocate(100, kOther));
  p[101] = 1;
  deallocate(const_cast<char*>(p), 100, kOther);
}

TEST_CASE("allocator: AddressSanitizer sees errors with and without arenas") {
  constexpr int kErrorFound = 77;
  for (const char* arenas : {"0", "1"}) {
    const test::Environment environment = {{"PELLUCID_ASAN_ARENAS", arenas},
                                           {"ASAN_OPTIONS", "exitcode=77"}};
    CHECK(test::run_test_case("child: allocator use after free", environment) == kErrorFound);
    CHECK(test::run_test_case("child: allocator overrun*", environment) == kErrorFound);
  }
}
#endif
