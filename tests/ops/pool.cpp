// Pooling by hand: windows against views of the input, positions, layouts, and bits that do not
// depend on threads.
#include <doctest/doctest.h>

#include <limits>

#include "pellucid/pellucid.h"
#include "threads.h"

using namespace pellucid;

namespace {

// All windows of a padded [N, C, H, W] as the last two dimensions.
Tensor windows(const Tensor& x, int64_t kernel, int64_t stride, int64_t padding, double fill) {
  return constant_pad_nd(x, {padding, padding, padding, padding}, fill)
      .unfold(2, kernel, stride)
      .unfold(3, kernel, stride);
}

}  // namespace

TEST_CASE("pool: agrees with windows taken as views, in every layout and dtype") {
  manual_seed(1);
  const double lowest = -std::numeric_limits<double>::infinity();
  for (const DType t : {kFloat64, kFloat32, kBFloat16})
    for (const bool channels_last : {false, true}) {
      Tensor x = randn({2, 5, 9, 8}).to(t);
      if (channels_last) x = x.contiguous(MemoryFormat::ChannelsLast);
      CHECK(equal(max_pool2d(x, 3, 2, 1), windows(x, 3, 2, 1, lowest).amax({-1, -2})));
      const Tensor mean = windows(x.to(kFloat64), 3, 2, 1, 0).mean({-1, -2});
      CHECK(allclose(avg_pool2d(x, 3, 2, 1).to(kFloat64), mean, t == kBFloat16 ? 1e-2 : 1e-5,
                     t == kBFloat16 ? 1e-2 : 1e-6));
      CHECK(allclose(adaptive_avg_pool2d(x, 1).to(kFloat64), x.to(kFloat64).mean({2, 3}, true),
                     1e-2, 1e-2));
      CHECK(equal(std::get<0>(adaptive_max_pool2d(x.narrow(3, 0, 6), {3, 2})),
                  windows(x.narrow(3, 0, 6), 3, 3, 0, lowest).amax({-1, -2})));
      CHECK(max_pool2d(x, 2).is_contiguous(MemoryFormat::ChannelsLast) == channels_last);
    }
}

TEST_CASE("pool: positions point at the maxima, NaN wins, ceil_mode adds a window") {
  const Tensor x = randn({2, 3, 7, 5});
  const auto [values, indices] = max_pool2d_with_indices(x, 3, 2, 1);
  CHECK((indices.dtype() == kInt64));
  CHECK(equal(x.flatten(2).gather(2, indices.flatten(2)).view(values.sizes()), values));
  const auto [most, where] = adaptive_max_pool1d(x[0], 2);
  CHECK(equal(x[0].gather(2, where), most));
  Tensor with_nan = zeros({1, 1, 4});
  with_nan.index_put_({0, 0, 2}, std::numeric_limits<double>::quiet_NaN());
  CHECK(equal(max_pool1d(with_nan, 2).isnan(), tensor({false, true}).view({1, 1, 2})));
  CHECK(max_pool1d(randn({1, 1, 6}), 3, 2).size(2) == 2);
  CHECK(max_pool1d(randn({1, 1, 6}), 3, 2, 0, 1, true).size(2) == 3);
  // Averages: the padding counts unless told not to; a divisor may be given.
  const Tensor ones4 = ones({1, 1, 4, 4});
  CHECK(avg_pool2d(ones4, 2, 2, 1)[0][0][0][0].item<double>() == 0.25);
  CHECK(avg_pool2d(ones4, 2, 2, 1, false, false)[0][0][0][0].item<double>() == 1);
  CHECK(avg_pool2d(ones4, 2, 2, 0, false, true, 2)[0][0][0][0].item<double>() == 2);
}

TEST_CASE("pool: gradients are the same in both layouts, and go to the maxima alone") {
  const auto gradient = [](const Tensor& x, auto pool) {
    const Tensor leaf = x.detach().clone().requires_grad_();
    pool(leaf).square().sum().backward();
    return leaf.grad();
  };
  const Tensor x = randn({2, 5, 8, 8}, kFloat64), last = x.contiguous(MemoryFormat::ChannelsLast);
  const auto same = [&](auto pool) { return allclose(gradient(x, pool), gradient(last, pool)); };
  CHECK(same([](const Tensor& t) { return max_pool2d(t, 3, 2, 1); }));
  CHECK(same([](const Tensor& t) { return avg_pool2d(t, 3, 2, 1); }));
  CHECK(same([](const Tensor& t) { return adaptive_avg_pool2d(t, {3, 5}); }));
  CHECK(same([](const Tensor& t) { return adaptive_avg_pool2d(t, 1); }));
  CHECK(same([](const Tensor& t) { return std::get<0>(adaptive_max_pool2d(t, {3, 5})); }));
  const Tensor g = gradient(x, [](const Tensor& t) { return max_pool2d(t, 2); });
  CHECK(g.ne(0).sum().item<int64_t>() == 2 * 5 * 4 * 4);
}

TEST_CASE("pool: bits do not depend on the number of threads") {
  const Tensor x = randn({4, 16, 30, 30});
  const auto all = [&] {
    const Tensor a = x.detach().requires_grad_();
    const Tensor y = max_pool2d(a, 3, 2, 1), z = avg_pool2d(a, 3, 2, 1);
    y.square().sum().add(z.square().sum()).backward();
    return Tensors{y.detach(), z.detach(), a.grad()};
  };
  const Threads one(1);
  const Tensors first = all();
  const Threads two(2);
  const Tensors second = all();
  for (size_t i = 0; i < first.size(); ++i) CHECK(equal(first[i], second[i]));
}
