// Reductions, running folds, statistics and norms: the meaning at edges (no elements, NaN, ties,
// integers), dtypes, gradients of ties, and that results do not depend on the number of threads.
// Expected values are PyTorch's.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "ops/values.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

/// The gradient of sum(f(x)) by x.
Tensor gradient(const Tensor& values, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor x = values.detach().clone().requires_grad_();
  f(x).sum().backward();
  return x.grad();
}
}  // namespace

TEST_CASE("sum: dims, keepdim, dtypes and nothing at all") {
  const Tensor x = arange(24).view({2, 3, 4});
  CHECK(x.sum().item<int64_t>() == 276);
  CHECK(equal(x.sum({0, 2}), tensor({60, 92, 124})));
  CHECK(x.sum(-1, true).sizes() == IntArrayRef({2, 3, 1}));
  CHECK(x.to(kInt8).sum().dtype() == kInt64);
  CHECK(tensor({true, true, false}).sum().item<int64_t>() == 2);
  CHECK(tensor({1.5, 1.7}).sum(std::nullopt, false, kInt64).item<int64_t>() ==
        2);  // truncated one by one
  CHECK(x.sum(std::nullopt, false, kFloat64).dtype() == kFloat64);
  CHECK(only(zeros({0, 3}).sum()) == 0);
  CHECK(equal(zeros({0, 3}).sum(0), zeros({3})));
  CHECK(std::isnan(only(zeros({0}).mean())));
  CHECK(equal(x.sum(IntArrayRef()), tensor(276)));  // no dims named means all
  CHECK(only(tensor(3.0).sum(0)) == 3);
}

TEST_CASE("sum: every order of strides gives the sum of the same elements") {
  const Tensor x = randn({7, 5, 33}, kFloat64);
  for (const Tensor& v : {x.permute({2, 0, 1}), x.permute({1, 2, 0}), x.slice(2, 1, 30, 3),
                          x.select(1, 2), x.narrow(0, 2, 3).transpose(0, 2)})
    for (int64_t d = 0; d < v.dim(); ++d) CHECK(allclose(v.sum(d), v.contiguous().sum(d)));
  const Tensor repeated = ones({4, 1}).expand({4, 1000});
  CHECK(only(repeated.sum()) == 4000);
}

TEST_CASE("float32 sums stay accurate over a million terms") {
  const Tensor x = full({1 << 20}, 0.1, kFloat32);
  CHECK(std::fabs(only(x.sum()) / (0.1f * static_cast<double>(1 << 20)) - 1) < 1e-6);
}

TEST_CASE("extremes: NaN wins, the first place is found, ties share the gradient") {
  const Tensor x = tensor({1.0, 3.0, 3.0, 2.0});
  const auto [values, indices] = x.max(0);
  CHECK(only(values) == 3);
  CHECK(indices.item<int64_t>() == 1);
  CHECK(x.argmin().item<int64_t>() == 0);
  const Tensor holes = tensor({1.0, kNan, 5.0});
  CHECK(std::isnan(only(holes.max())));
  CHECK(std::isnan(only(holes.amin())));
  CHECK(holes.argmax().item<int64_t>() == 1);
  CHECK(equal(gradient(x, [](const Tensor& t) { return t.amax(); }), tensor({0.0, 0.5, 0.5, 0.0})));
  CHECK(equal(gradient(x, [](const Tensor& t) { return t.max(); }), tensor({0.0, 0.5, 0.5, 0.0})));
  CHECK(equal(gradient(x, [](const Tensor& t) { return std::get<0>(t.max(0)); }),
              tensor({0.0, 1.0, 0.0, 0.0})));
  const auto [low, high] = x.aminmax();
  CHECK(only(low) == 1);
  CHECK(only(high) == 3);
  CHECK(tensor({true, false}).max().item<bool>());
  CHECK_THROWS_AS(zeros({0}).max(), ShapeError);
  CHECK_THROWS_AS(zeros({2, 0}).amax(1), ShapeError);
  CHECK(zeros({2, 0}).amax(0).sizes() == IntArrayRef({0}));
}

TEST_CASE("any and all: truth of every dtype, and of nothing") {
  CHECK(tensor({0, 2}).any().item<bool>());
  CHECK_FALSE(tensor({0, 2}).all().item<bool>());
  CHECK(tensor({0.0, kNan}).any().item<bool>());
  CHECK_FALSE(zeros({0}).any().item<bool>());
  CHECK(zeros({0}).all().item<bool>());
  CHECK(tensor({0, 1}, kUInt8).any().dtype() == kUInt8);
  CHECK(equal(tensor({{0, 1}, {1, 1}}).all(1), tensor({false, true})));
  CHECK(tensor({{0, 1}, {1, 1}}).any(IntArrayRef()).sizes() ==
        IntArrayRef({2, 2}));  // no dims: each element
}

TEST_CASE("prod and cumprod: gradients are right where elements are zero") {
  const Tensor one = tensor({2.0, 0.0, 3.0}), two = tensor({0.0, 5.0, 0.0});
  CHECK(equal(gradient(one, [](const Tensor& t) { return t.prod(); }), tensor({0.0, 6.0, 0.0})));
  CHECK(equal(gradient(two, [](const Tensor& t) { return t.prod(); }), zeros({3})));
  CHECK(
      equal(gradient(one, [](const Tensor& t) { return t.cumprod(0); }), tensor({1.0, 8.0, 0.0})));
  CHECK(only(zeros({0}).prod()) == 1);
}

TEST_CASE("running folds") {
  const Tensor x = tensor({{1.0, 3.0, 2.0}, {4.0, 0.0, 5.0}});
  CHECK(equal(x.cumsum(1), tensor({{1.0, 4.0, 6.0}, {4.0, 4.0, 9.0}})));
  CHECK(equal(x.cumsum(0), tensor({{1.0, 3.0, 2.0}, {5.0, 3.0, 7.0}})));
  CHECK(tensor({true, true}).cumsum(0).dtype() == kInt64);
  const auto [values, places] = tensor({1.0, 3.0, 3.0, 2.0, kNan, 9.0}).cummax(0);
  CHECK(equal(values.slice(0, 0, 4), tensor({1.0, 3.0, 3.0, 3.0})));
  CHECK(equal(places, tensor({0, 1, 2, 2, 4, 4})));
  CHECK(std::isnan(only(values[5])));
  CHECK(allclose(x.logcumsumexp(1).exp(), x.exp().cumsum(1)));
  CHECK(only(tensor({1000.0, 1000.0}).logcumsumexp(0)[1]) == doctest::Approx(1000 + std::log(2.0)));
  Tensor y = x.clone();
  y.cumsum_(1);
  CHECK(equal(y, x.cumsum(1)));

  // a long line is cut into segments
  for (const int64_t n : {32768, 32769, 100001}) {
    const Tensor ones_and_twos = arange(n).remainder(2) + 1;
    const Tensor sums = ones_and_twos.cumsum(0);
    CHECK(equal(sums, arange(1, n + 1) + arange(1, n + 1).div(2, "floor")));
    CHECK(equal(stack({ones_and_twos, ones_and_twos}).cumsum(1)[1], sums));
    Tensor in_place = ones_and_twos.clone();
    CHECK(equal(in_place.cumsum_(0), sums));
    CHECK(equal(stack({ones_and_twos, ones_and_twos}, 1).select(1, 0).to(kFloat32).cumsum(0),
                sums.to(kFloat32)));
    const Tensor backwards = cumsum_backward(ones({n}, kFloat64), 0);
    CHECK(equal(backwards, arange(n, 0, -1).to(kFloat64)));
  }
}

TEST_CASE("logsumexp neither overflows nor turns -inf into NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(only(tensor({1000.0, 1000.0}).logsumexp(0)) == doctest::Approx(1000 + std::log(2.0)));
  const Tensor x = tensor({-inf, -inf});
  CHECK(only(x.logsumexp(0)) == -inf);
  CHECK(equal(gradient(x, [](const Tensor& t) { return t.logsumexp(0); }), zeros({2})));
}

TEST_CASE("var, std and their means") {
  const Tensor x = tensor({{1.0, 2.0, 3.0, 6.0}, {2.0, 2.0, 2.0, 2.0}});
  CHECK(allclose(x.var(1, true), tensor({14.0 / 3, 0.0})));
  CHECK(allclose(x.var(1, false), tensor({3.5, 0.0})));
  const auto [deviation, mean] = x.std_mean(1, false);
  CHECK(allclose(deviation, tensor({std::sqrt(3.5), 0.0})));
  CHECK(equal(mean, tensor({3.0, 2.0})));
  CHECK(std::isnan(only(tensor({1.0}).var())));
  CHECK(gradient(x, [](const Tensor& t) { return t.std(1, true); })[1].abs().sum().item<double>() ==
        0);
  // A large offset must not drown the variance.
  CHECK(only(x[0].to(kFloat64).add(1e8).var()) == doctest::Approx(14.0 / 3));
  CHECK_THROWS_AS(tensor({1, 2}).var(), TypeError);
}

TEST_CASE("norms of every order") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({3.0, -4.0, 0.0});
  CHECK(only(x.norm()) == 5);
  CHECK(only(linalg_vector_norm(x, 1)) == 7);
  CHECK(only(linalg_vector_norm(x, inf)) == 4);
  CHECK(only(linalg_vector_norm(x, -inf)) == 0);
  CHECK(only(linalg_vector_norm(x, 0)) == 2);
  CHECK(equal(gradient(zeros({2}, kFloat64), [](const Tensor& t) { return t.norm(); }),
              zeros({2}, kFloat64)));
  const Tensor m = tensor({{1.0, -2.0}, {3.0, 4.0}});
  CHECK(only(linalg_matrix_norm(m, 1)) == 6);
  CHECK(only(linalg_matrix_norm(m, inf)) == 7);
  CHECK(only(linalg_norm(m, -1)) == 4);
  CHECK(only(linalg_norm(m, 2)) == doctest::Approx(5.116673));
  CHECK(only(linalg_matrix_norm(m, -2)) == doctest::Approx(1.954395));
  CHECK(only(linalg_matrix_norm(m, std::string_view("nuc"))) == doctest::Approx(7.071068));
  CHECK_THROWS_AS(linalg_norm(m, 3), ValueError);
  CHECK_THROWS_AS(linalg_vector_norm(zeros({0}), inf), ShapeError);
}

TEST_CASE("nansum and nanmean leave NaN out") {
  const Tensor x = tensor({{1.0, kNan}, {3.0, 5.0}});
  CHECK(only(nansum(x)) == 9);
  CHECK(equal(nanmean(x, 0), tensor({2.0, 5.0})));
  CHECK(equal(gradient(x, [](const Tensor& t) { return nansum(t); }),
              tensor({{1.0, 0.0}, {1.0, 1.0}})));
}

TEST_CASE("reductions give the same bits with 1, 2 and 4 threads") {
  const Tensor x = randn({300, 1100});
  const auto all = [&] {
    const Tensor wide = x.view({-1});
    return std::vector<Tensor>{wide.sum(),  x.sum(0),       x.sum(1),     wide.mean(),
                               wide.var(),  x.std(0, true), wide.norm(),  wide.logsumexp(0),
                               x.cumsum(1), wide.argmax(),  x.t().sum(1), wide.prod()};
  };
  const int before = get_num_threads();
  set_num_threads(1);
  const std::vector<Tensor> one = all();
  for (int threads : {2, 4}) {
    set_num_threads(threads);
    const std::vector<Tensor> many = all();
    for (size_t i = 0; i < one.size(); ++i) {
      INFO("result ", i, " with ", threads, " threads");
      CHECK(same_bits(one[i], many[i]));
    }
  }
  set_num_threads(before);
}
