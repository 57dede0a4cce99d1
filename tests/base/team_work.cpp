// What the threads of the pool work on: the call that opened the region, for our regions and for
// those of libraries that hold the team.
#include "base/team_work.h"

#include <doctest/doctest.h>

#include "base/parallel.h"
#include "threads.h"

using namespace pellucid;

namespace {

struct Working {
  explicit Working(uint32_t call) { detail::t_work = call; }
  ~Working() { detail::t_work = 0; }
};

uint32_t team_work() { return detail::g_team_work.load(); }

}  // namespace

TEST_CASE("team work: a region belongs to the call that opened it") {
  const int before = get_num_threads();
  set_num_threads(2);
  {
    const Working call(7);
    std::atomic<int> seen{0}, pool{0};
    parallel_chunks(64, [&](int64_t) {
      seen += team_work() == 7 ? 1 : 0;
      if (detail::t_pool_thread && detail::t_work == 0) pool += 1;
    });
    CHECK(seen == 64);
    CHECK(pool > 0);
    CHECK(pool < 64);
    CHECK(team_work() == 0);
    CHECK_FALSE(detail::t_pool_thread);
    std::atomic<int> members{0};
    parallel_team(2, [&](TeamMember&) { members += team_work() == 7 ? 1 : 0; });
    CHECK(members >= 1);
    {
      const TeamLock lock;
      if (lock.num_threads() == 2) CHECK(team_work() == 7);
    }
    CHECK(team_work() == 0);
    CHECK_THROWS(parallel_chunks(64, [](int64_t i) {
      if (i == 3) throw 1;
    }));
    CHECK(team_work() == 0);
  }
  set_num_threads(before);
}
