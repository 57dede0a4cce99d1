// What the tests of reductions and their relatives share: running a kernel at every ISA level and
// with several thread counts, comparing bits, and random arrays.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/parallel.h"
#include "pellucid/dtype.h"
#include "pellucid/parallel.h"

namespace pellucid::test {

/// Restores the number of threads at the end of a scope.
class ThreadsGuard {
 public:
  explicit ThreadsGuard(int threads) : previous_(get_num_threads()) { set_num_threads(threads); }
  ~ThreadsGuard() { set_num_threads(previous_); }
  ThreadsGuard(const ThreadsGuard&) = delete;
  ThreadsGuard& operator=(const ThreadsGuard&) = delete;

 private:
  int previous_;
};

template <class T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// run() at one thread, then at 2 (and at the last level 4): each result must have the bits of the
/// first. At every ISA level; `across` also compares the levels. Returns the result at the last
/// level.
template <class Run> auto at_every_level(const Run& run, bool across = true) {
  decltype(run()) first{};
  bool have_first = false;
  for (const Isa level : available_isas()) {
    const IsaGuard isa_guard(level);
    auto result = [&] {
      const ThreadsGuard one(1);
      return run();
    }();
    for (const int threads : {2, 4}) {
      if (threads == 4 && level != available_isas().back())
        continue;  // more threads than cores wait long for each other
      const ThreadsGuard guard(threads);
      INFO("level " << isa_name(level) << ", threads " << threads);
      CHECK(same_bits(run(), result));
    }
    if (across && have_first) {
      INFO("level " << isa_name(level) << " against " << isa_name(available_isas().front()));
      CHECK(same_bits(result, first));
    }
    if (!have_first || !across) first = std::move(result);
    have_first = true;
  }
  return first;
}

template <class T>
std::vector<T> random_vector(int64_t n, uint64_t seed, double low = -2, double high = 2) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> v(static_cast<size_t>(n));
  for (auto& x : v) x = static_cast<T>(uniform(engine));
  return v;
}

/// |got - want| <= tolerance * (1 + |want|), or both NaN, or both the same infinity.
inline bool close(double got, long double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return static_cast<long double>(got) == want;
  return std::fabs(static_cast<long double>(got) - want) <= tolerance * (1 + std::fabs(want));
}

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace pellucid::test
