// Random fills: the numbers are those of base/philox.h whatever the threads, and their moments are
// right.
#include "kernels/random.h"

#include <algorithm>

#include "base/philox.h"
#include "kernels/random_words.h"
#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

constexpr int64_t kMany = 100003;  // odd, several chunks and a tail
constexpr PhiloxRange kRange{.seed = 12345, .offset = 77};

struct Moments {
  double mean, variance;
};
template <class T> Moments moments(const std::vector<T>& v) {
  double sum = 0, squares = 0;
  for (const T x : v) sum += static_cast<double>(x);
  const double mean = sum / static_cast<double>(v.size());
  for (const T x : v) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
  return {mean, squares / static_cast<double>(v.size())};
}

template <class T, class Fill>
std::vector<T> filled(int64_t n, const Fill& fill, bool across = true) {
  return at_every_level(
      [&] {
        std::vector<T> out(static_cast<size_t>(n));
        fill(out.data());
        return out;
      },
      across);
}

}  // namespace

TEST_CASE("philox_words: the blocks of the reference, from any counter, in any number") {
  for (const uint64_t first : {uint64_t{0}, uint64_t{0xfffffff9}, uint64_t{0xfffffffffffffff0}})
    for (const int64_t blocks : {1, 3, 4, 15, 16, 37}) {
      CAPTURE(first);
      CAPTURE(blocks);
      const auto words = filled<uint32_t>(
          4 * blocks, [&](uint32_t* out) { philox_words(0x123456789abcdef0, first, blocks, out); });
      for (int64_t b = 0; b < blocks; ++b) {
        const PhiloxBlock want = philox4x32(0x123456789abcdef0, first + static_cast<uint64_t>(b));
        for (size_t k = 0; k < 4; ++k) REQUIRE(words[static_cast<size_t>(4 * b) + k] == want[k]);
      }
    }
}

TEST_CASE("random_uniform: the words of the counter, in range, with the right moments") {
  const auto f =
      filled<float>(kMany, [](float* out) { random_uniform(kFloat32, out, kMany, kRange, 0, 1); });
  for (int64_t i = 0; i < kMany; ++i)
    REQUIRE(f[static_cast<size_t>(i)] ==
            uniform_float(philox4x32(
                kRange.seed,
                kRange.offset + static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)]));
  const auto d = filled<double>(
      kMany, [](double* out) { random_uniform(kFloat64, out, kMany, kRange, -3, 5); });
  const auto [mean, variance] = moments(d);
  CHECK(std::fabs(mean - 1) < 0.03);
  CHECK(std::fabs(variance - 64.0 / 12) < 0.06);
  CHECK(*std::min_element(d.begin(), d.end()) >= -3);
  CHECK(*std::max_element(d.begin(), d.end()) < 5);
  // A narrow interval, where rounding would reach the excluded end.
  const auto narrow = filled<float>(
      kMany, [](float* out) { random_uniform(kFloat32, out, kMany, kRange, 1e6, 1e6 + 0.125); });
  for (const float v : narrow) REQUIRE(v < 1e6f + 0.125f);
  // A fill is the continuation of a shorter one.
  std::vector<float> part(1000);
  random_uniform(kFloat32, part.data(), 1000, kRange, 0, 1);
  CHECK(std::equal(part.begin(), part.end(), f.begin()));
  // And the next range starts where blocks_for says.
  random_uniform(kFloat32, part.data(), 1000,
                 {kRange.seed, kRange.offset + blocks_for(kFloat32, 1000)}, 0, 1);
  CHECK(std::equal(part.begin(), part.end(), f.begin() + 1000));
}

TEST_CASE("random_normal: the reference formula, and the right moments") {
  const auto f = filled<float>(
      kMany, [](float* out) { random_normal(kFloat32, out, kMany, kRange, 0, 1); }, false);
  for (size_t i = 0; i < 2000; ++i)
    REQUIRE(
        close(f[i], normal_floats(philox4x32(kRange.seed, kRange.offset + i / 4))[i % 4], 3e-6));
  const auto last = static_cast<size_t>(kMany - 1);
  CHECK(close(f[last], normal_floats(philox4x32(kRange.seed, kRange.offset + last / 4))[last % 4],
              3e-6));
  const auto d = filled<double>(
      kMany, [](double* out) { random_normal(kFloat64, out, kMany, kRange, 2, 3); }, false);
  for (size_t i = 0; i < 2000; ++i)
    REQUIRE(close(d[i],
                  2 + 3 * normal_doubles(philox4x32(kRange.seed, kRange.offset + i / 2))[i % 2],
                  1e-14));
  const auto [mean, variance] = moments(d);
  CHECK(std::fabs(mean - 2) < 0.05);
  CHECK(std::fabs(variance - 9) < 0.2);
  CHECK(std::count_if(f.begin(), f.end(), [](float v) { return std::fabs(v) > 1.96f; }) ==
        doctest::Approx(0.05 * kMany).epsilon(0.06));
  const auto half = filled<BFloat16>(
      1000, [](BFloat16* out) { random_normal(kBFloat16, out, 1000, kRange, 0, 1); }, false);
  for (size_t i = 0; i < 1000; ++i)
    REQUIRE(close(static_cast<double>(static_cast<float>(half[i])), f[i], 5e-3));
}

TEST_CASE("random_exponential and random_bernoulli") {
  const auto [mean, variance] = moments(filled<float>(
      kMany, [](float* out) { random_exponential(kFloat32, out, kMany, kRange, 2); }, false));
  CHECK(mean == doctest::Approx(0.5).epsilon(0.02));
  CHECK(variance == doctest::Approx(0.25).epsilon(0.05));
  const auto b = filled<uint8_t>(
      kMany, [](uint8_t* out) { random_bernoulli(kBool, out, kMany, kRange, 0.3); });
  CHECK(moments(b).mean == doctest::Approx(0.3).epsilon(0.02));
  for (const double p : {0.0, 1.0}) {
    const auto sure =
        filled<float>(1000, [&](float* out) { random_bernoulli(kFloat32, out, 1000, kRange, p); });
    CHECK(moments(sure).mean == p);
  }
  std::vector<double> p(kMany);
  for (size_t i = 0; i < p.size(); ++i) p[i] = i % 2 ? 1.0 : 0.0;
  const auto each = filled<float>(kMany, [&](float* out) {
    random_bernoulli(kFloat32, out, kMany, kRange, kFloat64, p.data());
  });
  for (size_t i = 0; i < p.size(); ++i) REQUIRE(each[i] == static_cast<float>(p[i]));
}

TEST_CASE("random_integers: every value, nothing outside, all of int64") {
  const auto v = filled<int32_t>(
      kMany, [](int32_t* out) { random_integers(kInt32, out, kMany, kRange, -3, 4); });
  for (int32_t k = -3; k < 4; ++k)
    CHECK(std::count(v.begin(), v.end(), k) == doctest::Approx(kMany / 7.0).epsilon(0.05));
  CHECK(std::all_of(v.begin(), v.end(), [](int32_t x) { return x >= -3 && x < 4; }));
  const auto wide = filled<int64_t>(kMany, [](int64_t* out) {
    random_integers(kInt64, out, kMany, kRange, INT64_MIN, INT64_MAX);
  });
  CHECK(std::count_if(wide.begin(), wide.end(), [](int64_t x) { return x < 0; }) ==
        doctest::Approx(kMany / 2.0).epsilon(0.02));
}

TEST_CASE("random_permutation is a permutation, and another for another seed") {
  for (const int64_t n : {0, 1, 10, 5000}) {
    const auto p = filled<int64_t>(n, [&](int64_t* out) { random_permutation(out, n, kRange); });
    const auto q = filled<int64_t>(n, [&](int64_t* out) {
      random_permutation(out, n, {kRange.seed + 1, 0});
    });
    auto sorted = p;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < n; ++i) REQUIRE(sorted[static_cast<size_t>(i)] == i);
    if (n >= 10) CHECK(p != q);
  }
}

TEST_CASE("random_permutation: every number is as likely at every place") {
  // 8 numbers by one bucket, and the first of 20,000 by many: both against the uniform law.
  int64_t counts[8][8] = {}, halves = 0;
  constexpr int64_t kTrials = 8000;
  for (int64_t t = 0; t < kTrials; ++t) {
    int64_t p[8];
    random_permutation(p, 8, {.seed = 9, .offset = static_cast<uint64_t>(4 * t)});
    for (int64_t i = 0; i < 8; ++i) ++counts[i][p[i]];
  }
  for (const auto& row : counts)  // 1,000 expected, with a deviation of 30
    for (const int64_t c : row) CHECK(std::abs(c - kTrials / 8) < 150);
  std::vector<int64_t> many(20000);
  random_permutation(many.data(), 20000, {.seed = 10, .offset = 0});
  for (size_t i = 0; i < 10000; ++i) halves += many[i] < 10000;
  CHECK(std::abs(halves - 5000) < 250);
  int64_t rising = 0;
  for (size_t i = 1; i < many.size(); ++i) rising += many[i] > many[i - 1];
  CHECK(std::abs(rising - 10000) < 250);
}

TEST_CASE("dropout: one mask for both passes, scaled, in every float type") {
  const auto x = random_vector<float>(kMany, 1, 1, 2);
  const auto y = filled<float>(
      kMany, [&](float* out) { dropout(kFloat32, x.data(), out, kMany, kRange, 0.25); });
  int64_t dropped = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    dropped += y[i] == 0;
    REQUIRE((y[i] == 0 || close(y[i], x[i] / 0.75L, 1e-6)));
  }
  CHECK(static_cast<double>(dropped) == doctest::Approx(0.25 * kMany).epsilon(0.02));
  const std::vector<double> wide(x.begin(), x.end());
  const auto z = filled<double>(
      kMany, [&](double* out) { dropout(kFloat64, wide.data(), out, kMany, kRange, 0.25); });
  for (size_t i = 0; i < x.size(); ++i) REQUIRE((z[i] == 0) == (y[i] == 0));
  auto in_place = x;
  dropout(kFloat32, in_place.data(), in_place.data(), kMany, kRange, 0.25);
  CHECK(in_place == y);
  const auto none =
      filled<float>(kMany, [&](float* out) { dropout(kFloat32, x.data(), out, kMany, kRange, 1); });
  CHECK(std::all_of(none.begin(), none.end(), [](float v) { return v == 0; }));
  CHECK(filled<float>(
            kMany, [&](float* out) { dropout(kFloat32, x.data(), out, kMany, kRange, 0); }) == x);
}

TEST_CASE("random_multinomial: frequencies with replacement, distinct classes without") {
  const std::vector<float> p = {1, 0, 3, 6};
  const auto drawn = filled<int64_t>(20000, [&](int64_t* out) {
    random_multinomial(kFloat32, p.data(), 1, 4, 20000, true, kRange, out);
  });
  for (const auto& [k, share] :
       std::vector<std::pair<int64_t, double>>{{0, 0.1}, {1, 0}, {2, 0.3}, {3, 0.6}})
    CHECK(static_cast<double>(std::count(drawn.begin(), drawn.end(), k)) ==
          doctest::Approx(20000 * share).epsilon(0.08));
  std::vector<float> rows;
  for (int i = 0; i < 5000; ++i) rows.insert(rows.end(), p.begin(), p.end());
  const auto pairs = filled<int64_t>(10000, [&](int64_t* out) {
    random_multinomial(kFloat32, rows.data(), 5000, 4, 2, false, kRange, out);
  });
  int64_t first[4] = {};
  for (size_t i = 0; i < pairs.size(); i += 2) {
    REQUIRE(pairs[i] != pairs[i + 1]);
    REQUIRE(pairs[i] != 1);
    REQUIRE(pairs[i + 1] != 1);
    ++first[pairs[i]];
  }
  CHECK(static_cast<double>(first[0]) == doctest::Approx(500).epsilon(0.15));
  CHECK(static_cast<double>(first[3]) == doctest::Approx(3000).epsilon(0.05));
}

TEST_CASE("first_bad_distribution") {
  const auto nan = static_cast<float>(kNan);
  const std::vector<float> p = {1, 2, 0, 1, 0, 0, 0, 0, -1, 2, 1, nan};
  CHECK(first_bad_distribution(kFloat32, p.data(), 1, 2, 2, false) == -1);
  CHECK(first_bad_distribution(kFloat32, p.data(), 2, 2, 2, true) == -1);
  CHECK(first_bad_distribution(kFloat32, p.data(), 2, 2, 2, false) ==
        1);  // one positive class, two samples
  CHECK(first_bad_distribution(kFloat32, p.data(), 4, 2, 1, true) == 2);       // a sum of 0
  CHECK(first_bad_distribution(kFloat32, p.data() + 8, 2, 2, 1, true) == 0);   // negative
  CHECK(first_bad_distribution(kFloat32, p.data() + 10, 1, 2, 1, true) == 0);  // NaN
}
