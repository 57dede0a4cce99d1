// Sorting, selection, unique, nonzero and masked_select against the standard library.
#include "kernels/sort.h"

#include <algorithm>
#include <numeric>

#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

/// a < b with NaN largest.
template <class T> bool less(T a, T b) {
  const auto x = static_cast<long double>(a), y = static_cast<long double>(b);
  return std::isnan(x) ? false : std::isnan(y) ? true : x < y;
}

template <class T> std::vector<int64_t> order(const std::vector<T>& line, bool descending) {
  std::vector<int64_t> index(line.size());
  std::iota(index.begin(), index.end(), 0);
  std::stable_sort(index.begin(), index.end(), [&](int64_t a, int64_t b) {
    const T x = line[static_cast<size_t>(a)], y = line[static_cast<size_t>(b)];
    return descending ? less(y, x) : less(x, y);
  });
  return index;
}

template <class T> void check(int64_t rows, int64_t n, std::vector<T> x) {
  INFO("rows " << rows << " n " << n << " element size " << sizeof(T));
  // Lines are the columns of a [n, rows] array, so that they are strided.
  const std::vector<int64_t> sizes = {n, rows}, strides = {rows, 1};
  for (const bool descending : {false, true}) {
    std::vector<T> values(x.size());
    const auto indices = at_every_level([&] {
      std::vector<int64_t> out(x.size());
      sort({.type = dtype_of<T>,
            .in = x.data(),
            .values = values.data(),
            .indices = out.data(),
            .sizes = sizes,
            .in_strides = strides,
            .out_strides = strides,
            .dim = 0},
           descending);
      return out;
    });
    const int64_t k = std::min<int64_t>(n, 5);
    std::vector<T> top(static_cast<size_t>(k * rows));
    std::vector<int64_t> top_indices(top.size());
    topk({.type = dtype_of<T>,
          .in = x.data(),
          .values = top.data(),
          .indices = top_indices.data(),
          .sizes = sizes,
          .in_strides = strides,
          .out_strides = strides,
          .dim = 0},
         k, descending);
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<T> line;
      for (int64_t i = 0; i < n; ++i) line.push_back(x[static_cast<size_t>(i * rows + r)]);
      const auto want = order(line, descending);
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i * rows + r);
        INFO("line " << r << " place " << i);
        REQUIRE(indices[at] == want[static_cast<size_t>(i)]);
        const T value = line[static_cast<size_t>(want[static_cast<size_t>(i)])];
        REQUIRE(std::memcmp(&values[at], &value, sizeof(T)) == 0);
        if (i < k) REQUIRE(top_indices[at] == indices[at]);
      }
    }
  }
}

}  // namespace

TEST_CASE("sort and topk: every dtype, short and long lines, ties") {
  for (const auto& [rows, n] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 10}, {2, 1500}, {1, 5000}}) {
    check<float>(rows, n, random_vector<float>(rows * n, 1));
    check<double>(rows, n, random_vector<double>(rows * n, 2));
    check<int64_t>(rows, n, random_vector<int64_t>(rows * n, 3, -1e18, 1e18));
    check<int32_t>(rows, n, random_vector<int32_t>(rows * n, 4, -5, 5));
    check<uint8_t>(rows, n, random_vector<uint8_t>(rows * n, 5, 0, 255));
    check<BFloat16>(rows, n, random_vector<BFloat16>(rows * n, 6));
  }
}

TEST_CASE("sort: NaN is largest, zeros of both signs are equal, infinities have their place") {
  for (const int64_t n : {12, 2000}) {
    auto x = random_vector<float>(n, 7);
    x[1] = x[7] = static_cast<float>(kNan), x[2] = -0.0f, x[3] = 0.0f, x[4] = -0.0f;
    x[5] = static_cast<float>(kInf), x[6] = static_cast<float>(-kInf),
    x[8] = -static_cast<float>(kNan);
    check<float>(1, n, x);
    check<double>(1, n, std::vector<double>(x.begin(), x.end()));
  }
}

TEST_CASE("kthvalue and median") {
  const std::vector<float> x = {5, 1, 4, 2, 3, static_cast<float>(kNan), 9, 8, 7, 6};
  const std::vector<int64_t> sizes = {2, 5}, strides = {5, 1}, out_strides = {1, 1};
  std::vector<float> values(2);
  std::vector<int64_t> indices(2);
  const SortArgs args{.type = kFloat32,
                      .in = x.data(),
                      .values = values.data(),
                      .indices = indices.data(),
                      .sizes = sizes,
                      .in_strides = strides,
                      .out_strides = out_strides,
                      .dim = 1};
  kthvalue(args, 2, false);
  CHECK(values == std::vector<float>{3, 8});
  CHECK(indices == std::vector<int64_t>{4, 2});
  kthvalue(args, 2, true);
  CHECK(values[0] == 3);
  CHECK(std::isnan(values[1]));
  CHECK(indices[1] == 0);
}

TEST_CASE("unique: values, inverse and counts") {
  for (const auto& [n, reach] : {std::pair{0, 20}, {1, 20}, {9, 20}, {4000, 20}, {4000, 100000}}) {
    const auto x = random_vector<int32_t>(n, 8, -reach, reach);
    std::vector<int64_t> inverse(x.size());
    const Unique u = unique(kInt32, x.data(), n, inverse.data());
    auto want = x;
    std::sort(want.begin(), want.end());
    want.erase(std::unique(want.begin(), want.end()), want.end());
    REQUIRE(u.first.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      CHECK(x[static_cast<size_t>(u.first[i])] == want[i]);
      CHECK(u.first[i] == std::find(x.begin(), x.end(), want[i]) - x.begin());
      CHECK(u.counts[i] == std::count(x.begin(), x.end(), want[i]));
    }
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(want[static_cast<size_t>(inverse[i])] == x[i]);
  }
  const std::vector<float> nans = {static_cast<float>(kNan), 1, static_cast<float>(kNan), 1};
  CHECK(unique(kFloat32, nans.data(), 4, nullptr).counts == std::vector<int64_t>{2, 1, 1});
}

TEST_CASE("nonzero and masked_select on strided arrays") {
  // A [n, 3] view of every second column.
  for (const int64_t n : {0, 1, 50, 40000}) {
    auto x = random_vector<float>(n * 6, 9);
    for (auto& v : x) v = v < 0 ? -0.0f : v;
    const std::vector<int64_t> sizes = {n, 3}, strides = {6, 2};
    std::vector<int64_t> want, got;
    std::vector<float> chosen;
    std::vector<uint8_t> mask(x.size());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        const auto at = static_cast<size_t>(i * 6 + j * 2);
        if (x[at] == 0) continue;
        want.insert(want.end(), {i, j});
        chosen.push_back(x[at]);
        mask[at] = 1;
      }
    const int64_t count = count_nonzero(kFloat32, x.data(), sizes, strides);
    REQUIRE(count * 2 == static_cast<int64_t>(want.size()));
    got = at_every_level([&] {
      std::vector<int64_t> out(want.size());
      nonzero(kFloat32, x.data(), sizes, strides, out.data());
      return out;
    });
    CHECK(got == want);
    CHECK(at_every_level([&] {
            std::vector<float> out(chosen.size());
            masked_select(4, x.data(), strides, reinterpret_cast<const bool*>(mask.data()), strides,
                          sizes, out.data());
            return out;
          }) == chosen);
  }
  const float one = 1;
  CHECK(count_nonzero(kFloat32, &one, {}, {}) == 1);
}
