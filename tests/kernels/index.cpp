// Reading and writing by index against plain loops; duplicates must give the same bits for any
// number of threads.
#include "kernels/index.h"

#include <algorithm>

#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

std::vector<int64_t> random_index(int64_t n, int64_t limit, uint64_t seed) {
  return random_vector<int64_t>(n, seed, 0, static_cast<double>(limit));
}

template <class T> T& at(std::vector<T>& v, int64_t i) { return v[static_cast<size_t>(i)]; }
template <class T> const T& at(const std::vector<T>& v, int64_t i) {
  return v[static_cast<size_t>(i)];
}

}  // namespace

TEST_CASE("first_bad_index: range, wrapping, strides") {
  const std::vector<int64_t> index = {0, 9, 3, 9, -4, 9, 4, 9};
  const std::vector<int64_t> sizes = {2, 2}, strides = {4, 2}, short_sizes = {2, 1}, empty = {0, 2};
  CHECK(first_bad_index(index.data(), sizes, strides, 4, false) == 2);  // -4
  CHECK(first_bad_index(index.data(), sizes, strides, 4, true) == 3);   // 4
  CHECK(first_bad_index(index.data(), sizes, strides, 5, true) == -1);
  CHECK(first_bad_index(index.data(), short_sizes, strides, 4, true) == -1);
  CHECK(first_bad_index(nullptr, empty, strides, 4, true) == -1);
}

TEST_CASE("gather and scatter along each dim of [6, 50, 40]") {
  const std::vector<int64_t> self_sizes = {6, 50, 40}, self_strides = {2000, 40, 1};
  const auto self = random_vector<float>(12000, 1);
  for (int64_t dim = 0; dim < 3; ++dim) {
    INFO("dim " << dim);
    std::vector<int64_t> sizes = self_sizes;
    at(sizes, dim) = 70;  // longer than the dim, so that indices repeat
    const std::vector<int64_t> strides = {sizes[1] * sizes[2], sizes[2], 1};
    const int64_t n = sizes[0] * sizes[1] * sizes[2];
    const auto index = random_index(n, at(self_sizes, dim), 2);
    const auto source = random_vector<float>(n, 3);
    const GatherArgs args{.sizes = sizes,
                          .dim = dim,
                          .index = index.data(),
                          .index_strides = strides,
                          .self_strides = self_strides,
                          .other_strides = strides};
    const auto target = [&](int64_t i) {
      int64_t p[3] = {i / strides[0], i / strides[1] % sizes[1], i % sizes[2]};
      p[dim] = at(index, i);
      return p[0] * 2000 + p[1] * 40 + p[2];
    };
    auto set = self, added = self;
    std::vector<float> want(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      at(want, i) = at(self, target(i)), at(set, target(i)) = at(source, i),
               at(added, target(i)) += at(source, i);
    CHECK(at_every_level([&] {
            std::vector<float> out(want.size());
            gather(4, args, self.data(), out.data());
            return out;
          }) == want);
    CHECK(at_every_level([&] {
            auto out = self;
            scatter(4, args, out.data(), source.data());
            return out;
          }) == set);
    CHECK(at_every_level([&] {
            auto out = self;
            scatter_add(kFloat32, args, out.data(), source.data());
            return out;
          }) == added);
  }
}

TEST_CASE("gather and scatter look at indices on the way, and leave out lines with bad ones") {
  const std::vector<int64_t> sizes = {2, 3}, strides = {3, 1};
  const std::vector<int64_t> index = {0, 2, 1, 0, 3, 1}, negative = {0, 2, 1, 0, -1, 1};
  const std::vector<float> self = {1, 2, 3, 4, 5, 6};
  for (const auto& chosen : {index, negative}) {
    GatherArgs args{.sizes = sizes,
                    .dim = 1,
                    .index = chosen.data(),
                    .index_strides = strides,
                    .self_strides = strides,
                    .other_strides = strides,
                    .limit = 3};
    std::vector<float> out(6, 9), set(6, 9), added(6, 9);
    CHECK_FALSE(gather(4, args, self.data(), out.data()));
    CHECK(out == std::vector<float>{1, 3, 2, 9, 9, 9});
    CHECK_FALSE(scatter(4, args, set.data(), self.data()));
    CHECK(set == std::vector<float>{1, 3, 2, 9, 9, 9});
    CHECK_FALSE(scatter_add(kFloat32, args, added.data(), self.data()));
    CHECK(added == std::vector<float>{10, 12, 11, 9, 9, 9});
  }
}

TEST_CASE("lines side by side: a bad index leaves out its group and is told") {
  const std::vector<int64_t> sizes = {2, 300}, strides = {300, 1};
  std::vector<int64_t> index(600, 1);
  index[300 + 299] = 2;  // in the second group of columns
  const GatherArgs args{.sizes = sizes,
                        .dim = 0,
                        .index = index.data(),
                        .index_strides = strides,
                        .self_strides = strides,
                        .other_strides = strides,
                        .limit = 2};
  const std::vector<float> self(600, 3);
  std::vector<float> added(600, 1), out(600, 1);
  CHECK_FALSE(scatter_add(kFloat32, args, added.data(), self.data()));
  CHECK(added[0] == 1);
  CHECK(added[300] == 7);
  CHECK(added[599] == 1);
  CHECK_FALSE(gather(4, args, self.data(), out.data()));
  CHECK(out[0] == 3);
  CHECK(out[299] == 1);
}

TEST_CASE("scatter_add: integers wrap, bool is or, one value for all") {
  const std::vector<int64_t> index = {1, 1, 0, 1}, size = {4}, one = {1}, zero = {0};
  const GatherArgs args{.sizes = size,
                        .dim = 0,
                        .index = index.data(),
                        .index_strides = one,
                        .self_strides = one,
                        .other_strides = zero};
  std::vector<int8_t> bytes = {1, 2};
  const int8_t hundred = 100;
  scatter_add(kInt8, args, bytes.data(), &hundred);
  CHECK(bytes == std::vector<int8_t>{101, static_cast<int8_t>(302 - 256)});
  uint8_t flags[2] = {0, 1};
  const bool yes = true;
  scatter_add(kBool, args, flags, &yes);
  CHECK(flags[0] == 1);
  CHECK(flags[1] == 1);
}

TEST_CASE("index_select and index_add") {
  for (const auto& [outer, limit, inner, n] : std::vector<std::array<int64_t, 4>>{
           {1, 10, 300, 500}, {3, 7, 1, 20}, {2, 5, 9, 0}, {4, 3, 600, 11}}) {
    INFO("outer " << outer << " limit " << limit << " inner " << inner << " n " << n);
    const auto in = random_vector<double>(outer * limit * inner, 4),
               source = random_vector<double>(outer * n * inner, 5);
    const auto index = random_index(n, limit, 6);
    std::vector<double> want(source.size());
    auto added = in;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < inner; ++c) {
          const int64_t self = (o * limit + at(index, i)) * inner + c,
                        other = (o * n + i) * inner + c;
          at(want, other) = at(in, self);
          at(added, self) += 0.5 * at(source, other);
        }
    CHECK(at_every_level([&] {
            std::vector<double> out(want.size());
            index_select(8, in.data(), outer, limit, inner, index.data(), n, out.data());
            return out;
          }) == want);
    CHECK(at_every_level([&] {
            auto out = in;
            index_add(kFloat64, out.data(), outer, limit, inner, index.data(), n, source.data(),
                      0.5);
            return out;
          }) == added);
  }
}

TEST_CASE("embedding_backward: sums in order, padding stays zero") {
  const int64_t limit = 20, inner = 600, n = 1000, padding = 3;
  const auto dy = random_vector<float>(n * inner, 7);
  const auto index = random_index(n, limit, 8);
  std::vector<float> want(static_cast<size_t>(limit * inner));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < inner && at(index, i) != padding; ++c)
      at(want, at(index, i) * inner + c) += at(dy, i * inner + c);
  CHECK(at_every_level([&] {
          std::vector<float> out(want.size(), 42);
          embedding_backward(kFloat32, dy.data(), index.data(), n, limit, inner, padding,
                             out.data());
          return out;
        }) == want);
  // In bfloat16 a running sum of ones would stop at 256; the sum is kept in float32.
  const std::vector<BFloat16> ones(1000, BFloat16(1));
  const std::vector<int64_t> zeros(1000, 0);
  BFloat16 sum;
  embedding_backward(kBFloat16, ones.data(), zeros.data(), 1000, 1, 1, -1, &sum);
  CHECK(static_cast<float>(sum) == 1000);
}

TEST_CASE("advanced indexing: offsets, get, put and accumulate") {
  // x[:, a, :, b] of x [3, 5, 4, 6] with a [7, 1] and b [2]: the result is [7, 2, 3, 4].
  const auto x = random_vector<float>(360, 9);
  const std::vector<int64_t> a = {0, -1, 4, -5, 2, 2, 1}, b = {5, -6}, common = {7, 2},
                             a_strides = {1, 0}, b_strides = {0, 1};
  const IndexTensor tensors[2] = {{a.data(), a_strides, 5, 24}, {b.data(), b_strides, 6, 1}};
  std::vector<int64_t> offsets(14);
  CHECK(index_offsets(tensors, common, offsets.data()).tensor == -1);
  const std::vector<int64_t> inner_sizes = {3, 4}, inner_self = {120, 6}, inner_other = {4, 1};
  const IndexArgs args{.outer_sizes = {},
                       .outer_self = {},
                       .outer_other = {},
                       .offsets = offsets.data(),
                       .n = 14,
                       .other_stride = 12,
                       .inner_sizes = inner_sizes,
                       .inner_self = inner_self,
                       .inner_other = inner_other};
  const auto values = random_vector<float>(168, 10);
  std::vector<float> want(168);
  auto put = x, added = x;
  for (int64_t i = 0; i < 168; ++i) {
    const int64_t p = i / 24, q = i / 12 % 2, r = i / 4 % 3, s = i % 4;
    const int64_t self = r * 120 + (at(a, p) + 5) % 5 * 24 + s * 6 + (at(b, q) + 6) % 6;
    at(want, i) = at(x, self), at(put, self) = at(values, i), at(added, self) += at(values, i);
  }
  CHECK(at_every_level([&] {
          std::vector<float> out(168);
          index_get(4, args, x.data(), out.data());
          return out;
        }) == want);
  CHECK(at_every_level([&] {
          auto out = x;
          index_put(4, args, out.data(), values.data());
          return out;
        }) == put);
  CHECK(at_every_level([&] {
          auto out = x;
          index_put_add(kFloat32, args, out.data(), values.data());
          return out;
        }) == added);

  const std::vector<int64_t> bad = {5, 6};
  const IndexTensor wrong[2] = {tensors[0], {bad.data(), b_strides, 6, 1}};
  const BadIndex found = index_offsets(wrong, common, offsets.data());
  CHECK(found.tensor == 1);
  CHECK(found.position == 1);
  CHECK(found.value == 6);
}

TEST_CASE("advanced indexing: many repeated positions keep their order for any number of threads") {
  const int64_t n = 100000;
  const auto offsets = random_index(n, 50, 11);
  const auto values = random_vector<float>(n, 12);
  const IndexArgs args{.outer_sizes = {},
                       .outer_self = {},
                       .outer_other = {},
                       .offsets = offsets.data(),
                       .n = n,
                       .other_stride = 1,
                       .inner_sizes = {},
                       .inner_self = {},
                       .inner_other = {}};
  std::vector<float> put(50), added(50);
  for (int64_t i = 0; i < n; ++i)
    at(put, at(offsets, i)) = at(values, i), at(added, at(offsets, i)) += at(values, i);
  CHECK(at_every_level([&] {
          std::vector<float> out(50);
          index_put(4, args, out.data(), values.data());
          return out;
        }) == put);
  CHECK(at_every_level([&] {
          std::vector<float> out(50);
          index_put_add(kFloat32, args, out.data(), values.data());
          return out;
        }) == added);
}

TEST_CASE("one_hot, tril and triu") {
  const std::vector<int64_t> index = {2, 0};
  std::vector<int64_t> hot(6, 42);
  one_hot(index.data(), 2, 3, hot.data());
  CHECK(hot == std::vector<int64_t>{0, 0, 1, 1, 0, 0});
  const auto x = random_vector<float>(2 * 4 * 5, 13, 1, 2);
  for (const bool lower : {true, false})
    for (const int64_t diagonal :
         {int64_t{-100}, int64_t{-2}, int64_t{0}, int64_t{1}, int64_t{100}, INT64_MIN, INT64_MAX}) {
      INFO("lower " << lower << " diagonal " << diagonal);
      std::vector<float> got(x.size()), in_place = x;
      tril_triu(4, x.data(), 2, 4, 5, diagonal, lower, got.data());
      tril_triu(4, in_place.data(), 2, 4, 5, diagonal, lower, in_place.data());
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t distance = i % 5 - i / 5 % 4;
        CHECK(at(got, i) == ((lower ? distance <= diagonal : distance >= diagonal) ? at(x, i) : 0));
      }
      CHECK(in_place == got);
    }
}
