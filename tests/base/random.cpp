// Philox against the published vectors, the distributions, and the Generator.
#include "base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "base/philox.h"

using namespace pellucid;

TEST_CASE("philox: the known answers of Random123") {
  constexpr PhiloxBlock zeros = philox4x32_10({0, 0, 0, 0}, {0, 0});
  static_assert(zeros == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t f = 0xffffffff;
  CHECK(philox4x32_10({f, f, f, f}, {f, f}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(philox4x32(0, 0) == zeros);
  CHECK(philox4x32(uint64_t{5} << 32 | 7, uint64_t{3} << 32 | 2) ==
        philox4x32_10({2, 3, 0, 0}, {7, 5}));
}

TEST_CASE("philox: uniform numbers stay in [0, 1) at both ends") {
  CHECK(uniform_float(0) == 0.0F);
  CHECK(uniform_float(0xffffffff) == 1.0F - 0x1p-24F);
  CHECK(uniform_double(0, 0) == 0.0);
  CHECK(uniform_double(0xffffffff, 0xffffffff) == 1.0 - 0x1p-53);
  CHECK(uniform_double(0x80000000, 0) == 0.5);
}

TEST_CASE("philox: normal numbers are finite at the ends and have the moments of a normal") {
  for (const float u : {0.0F, 0.5F, 1.0F - 0x1p-24F})
    for (const float z : normal_pair(u, u)) CHECK(std::isfinite(z));
  constexpr int kBlocks = 50'000;
  double sum = 0, squares = 0, cubes = 0, cross = 0;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const auto z = normal_floats(philox4x32(1, i));
    for (const float v : z) {
      sum += v;
      squares += double{v} * v;
      cubes += double{v} * v * v;
    }
    cross += double{z[0]} * z[1];
  }
  const double n = 4.0 * kBlocks;
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(cubes / n) < 5 * std::sqrt(15 / n));
  CHECK(std::abs(cross / kBlocks) < 5 / std::sqrt(double{kBlocks}));
  const auto d = normal_doubles(philox4x32(1, 0));
  CHECK(d[0] != d[1]);
}

TEST_CASE("generator: reserves consecutive ranges, and states go back and forth") {
  Generator g;
  CHECK(g.initial_seed() == 67280421310721);
  CHECK(g.reserve(10) == PhiloxRange{kDefaultSeed, 0});
  CHECK(g.reserve(0) == PhiloxRange{kDefaultSeed, 10});
  const PhiloxRange state = g.get_state();
  CHECK(g.reserve(3).offset == 10);
  CHECK(g.reserve(1).offset == 13);
  g.set_state(state);
  CHECK(g.reserve(1).offset == 10);
  g.manual_seed(7);
  CHECK(g.reserve(1) == PhiloxRange{7, 0});
  const uint64_t a = g.seed(), b = g.seed();
  CHECK(a != b);
  CHECK(g.get_state() == PhiloxRange{b, 0});
  CHECK(&default_generator() == &default_generator());
}

TEST_CASE("generator: threads never get overlapping ranges") {
  Generator g;
  std::vector<std::vector<uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&g, &mine] {
      for (int i = 0; i < 1000; ++i) mine.push_back(g.reserve(3).offset);
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<uint64_t> all;
  for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == 3 * i);
}

TEST_CASE("generator: a thread may be given one of its own for a while") {
  const PhiloxRange before = process_generator().get_state();
  Generator mine(7), inner(8);
  {
    const GeneratorGuard guard(mine);
    CHECK(&default_generator() == &mine);
    {
      const GeneratorGuard nested(inner);
      CHECK(default_generator().reserve(2).seed == 8);
    }
    CHECK(default_generator().reserve(1) == PhiloxRange{7, 0});
    const Generator* other = nullptr;
    std::thread([&] { other = &default_generator(); }).join();
    CHECK(other == &process_generator());
  }
  CHECK(&default_generator() == &process_generator());
  CHECK(process_generator().get_state() == before);
}
