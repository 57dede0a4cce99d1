// Random ops: moments, ranges, seeds, masks that backward draws again, gradients, and errors.
#include <doctest/doctest.h>

#include <cmath>

#include "ops/values.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
constexpr int64_t kMany = 200000;
}  // namespace

TEST_CASE("random fills have the moments of their distributions") {
  manual_seed(1);
  Tensor x = empty({kMany});
  x.normal_(2, 3);
  CHECK(std::fabs(only(x.mean()) - 2) < 0.05);
  CHECK(std::fabs(only(x.std()) - 3) < 0.05);
  x.uniform_(-1, 3);
  CHECK(std::fabs(only(x.mean()) - 1) < 0.02);
  CHECK(only(x.min()) >= -1);
  CHECK(only(x.max()) < 3);
  x.exponential_(2);
  CHECK(std::fabs(only(x.mean()) - 0.5) < 0.01);
  CHECK(only(x.min()) >= 0);
  x.bernoulli_(0.3);
  CHECK(std::fabs(only(x.mean()) - 0.3) < 0.01);
  CHECK(std::fabs(only(bernoulli(full({kMany}, 0.7)).mean()) - 0.7) < 0.01);
  const Tensor k = empty({kMany}, kInt64).random_(-3, 4);
  CHECK(k.min().item<int64_t>() == -3);
  CHECK(k.max().item<int64_t>() == 3);
  CHECK(std::fabs(only(k.to(kFloat64).mean())) < 0.02);
  const Tensor z = normal(full({kMany}, 5.0), full({kMany}, 0.5));
  CHECK(std::fabs(only(z.mean()) - 5) < 0.01);
}

TEST_CASE("one seed gives the same numbers, whatever the threads and strides") {
  const int before = get_num_threads();
  std::vector<Tensor> first;
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    manual_seed(5);
    const Tensor x = ones({300, 401});
    Tensor rows = empty({300, 401}), columns = empty({401, 300}).t();
    rows.normal_();
    manual_seed(5);
    columns.normal_();
    CHECK(equal(rows, columns));
    const std::vector<Tensor> now{rows.clone(), dropout(x, 0.3, true),
                                  multinomial(rand({50, 30}), 4), empty({1000}).uniform_()};
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i) CHECK(equal(now[i], first[i]));
  }
  set_num_threads(before);
}

TEST_CASE("dropout: backward uses the mask of forward") {
  manual_seed(3);
  const Tensor x = randn({1000}, kFloat64).requires_grad_();
  const Tensor y = dropout(x, 0.25, true);
  y.sum().backward();
  const Tensor kept = y.detach().ne(0).to(kFloat64);
  CHECK(std::fabs(only(kept.mean()) - 0.75) < 0.05);
  CHECK(allclose(y, x.detach() * kept / 0.75));
  CHECK(allclose(x.grad(), kept / 0.75));
  // Linear in the gradient: the same mask again, to any order.
  const auto f = [](const autograd::variable_list& in) {
    manual_seed(11);
    return autograd::variable_list{dropout(in[0], 0.5, true).square()};
  };
  const Tensor small = randn({8}, kFloat64).requires_grad_();
  CHECK(autograd::gradcheck(f, {small}));
  CHECK(autograd::gradgradcheck(f, {small}));
}

TEST_CASE("dropout: without effect it is the tensor itself; in place it changes it") {
  const Tensor x = randn({4, 5});
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK(dropout(x, 0.0, true).is_same(x));
  CHECK(equal(dropout(x, 1.0, true), zeros({4, 5})));
  Tensor y = x.clone();
  y.dropout_(0.5, true);
  CHECK_FALSE(equal(y, x));
  CHECK_THROWS_AS(dropout(x, 1.5, true), ValueError);
}

TEST_CASE("feature and alpha dropout") {
  manual_seed(7);
  const Tensor y = feature_dropout(ones({20, 30, 4}), 0.5, true);
  CHECK(equal(y.amin(2), y.amax(2)));  // whole channels
  CHECK(std::fabs(only(y.mean()) - 1) < 0.2);
  const Tensor z = alpha_dropout(randn({kMany}), 0.3, true);
  CHECK(std::fabs(only(z.mean())) < 0.02);
  CHECK(std::fabs(only(z.var()) - 1) < 0.02);
}

TEST_CASE("multinomial draws classes by their weights, without repeats unless replacing") {
  manual_seed(2);
  const Tensor p = tensor({0.0, 1.0, 3.0});
  const Tensor drawn = multinomial(p, kMany, true);
  CHECK(drawn.eq(0).sum().item<int64_t>() == 0);
  CHECK(std::fabs(only(drawn.eq(2).to(kFloat64).mean()) - 0.75) < 0.01);
  const Tensor rows = multinomial(rand({40, 6}), 6);
  for (int64_t r = 0; r < 40; ++r)
    CHECK(rows[r].sum().item<int64_t>() == 15);    // a permutation of 0 … 5
  CHECK_THROWS_AS(multinomial(p, 3), ValueError);  // only two have weight
  CHECK_THROWS_AS(multinomial(zeros({2, 3}), 1), ValueError);
}

TEST_CASE("a random fill cuts the gradient of what it replaced") {
  const Tensor x = ones({3}, kFloat64).requires_grad_();
  Tensor y = x * 2;
  y.normal_();
  (y * x).sum().backward();
  CHECK(allclose(x.grad(), y.detach()));
  CHECK_THROWS_AS(x.normal_(), AutogradError);  // a leaf
}
