// Some random programs run three times: at once, as a program that is made then, and replayed. What
// a pass gives runs as such: with one pass off, with one alone, with all up to one, so that the
// graph after each of them is compared with eager calls; on 1, 2 or 4 threads, and some with a
// budget of memory.
#pragma once

#include <cstdlib>
#include <string>

#include "core/program.h"
#include "pellucid/parallel.h"

namespace pellucid::test {

struct ReplayRounds {
  explicit ReplayRounds(uint32_t seed) : count(seed % 2 == 0 ? 3 : 1) {
    const auto all = graph::passes();
    const size_t way = seed / 2 % (3 * all.size() + 1), pass = way / 3;
    if (pass < all.size()) {
      passes = (way % 3 == 0 ? "-" : "") + std::string(all[pass].name);
      for (size_t i = 0; way % 3 == 2 && i < pass; ++i) passes += "," + std::string(all[i].name);
    }
    graph::PassSet::set(graph::PassSet(passes));
    constexpr size_t kBudgets[] = {0, 1, 300, 2000};  // recompute does nothing without one
    const bool repeats = graph::PassSet(passes).has("recompute");
    budget = repeats ? kBudgets[seed / 5 % 4] : 0;
    graph::least_repeated = 1;
    detail::memory_budget = budget;
    set_num_threads(threads = seed / 3 % 32 == 31 ? 4 : 1 + static_cast<int>(seed / 3 % 2));
  }
  ~ReplayRounds() {
    graph::PassSet::set(graph::PassSet());
    graph::least_repeated = graph::kLeastRepeated;
    detail::memory_budget = 0;
    set_num_threads(threads_before_);
  }
  ReplayRounds(const ReplayRounds&) = delete;
  std::string text() const {
    return "passes '" + passes + "', budget " + std::to_string(budget) + ", threads " +
           std::to_string(threads);
  }
  const int count;
  std::string passes;
  size_t budget = 0;
  int threads = 1;

 private:
  const int threads_before_ = get_num_threads();
};

}  // namespace pellucid::test
