// Losses: worked values, one pass against the unreduced losses, ignored and weighted classes, bad
// targets, and independence of the number of threads. Expected values are PyTorch's.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ops/values.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
constexpr int64_t kNone = 0, kMean = 1, kSum = 2;
}  // namespace

TEST_CASE("pointwise losses: worked values") {
  const Tensor x = tensor({0.5, -2.0, 3.0}), t = tensor({0.0, 0.0, 1.0});
  CHECK(equal(mse_loss(x, t, kNone), tensor({0.25, 4.0, 4.0})));
  CHECK(only(mse_loss(x, t)) == doctest::Approx(8.25 / 3));
  CHECK(only(l1_loss(x, t, kSum)) == 4.5);
  CHECK(equal(smooth_l1_loss(x, t, kNone, 2.0), tensor({0.0625, 1.0, 1.0})));
  CHECK(equal(smooth_l1_loss(x, t, kNone, 0.0), l1_loss(x, t, kNone)));
  CHECK(equal(huber_loss(x, t, kNone, 1.5), tensor({0.125, 1.875, 1.875})));
  CHECK(equal(binary_cross_entropy(tensor({0.0, 1.0, 0.0}), tensor({1.0, 0.0, 0.0}), {}, kNone),
              tensor({100.0, 100.0, 0.0})));
  CHECK(only(binary_cross_entropy_with_logits(tensor({200.0}), tensor({0.0}))) == 200);
  CHECK(std::isnan(only(mse_loss(zeros({0}), zeros({0})))));
  CHECK(only(mse_loss(zeros({0}), zeros({0}), kSum)) == 0);
  CHECK_THROWS_AS(binary_cross_entropy(tensor({1.5}), tensor({1.0})), ValueError);
  CHECK_THROWS_AS(
      binary_cross_entropy(tensor({std::numeric_limits<double>::quiet_NaN()}), tensor({1.0})),
      ValueError);
}

TEST_CASE("a reduced loss is the sum or mean of the losses, however the inputs lie") {
  const Tensor a = randn({301, 307}), b = randn({301, 307});
  const Tensor scattered = randn({307, 301}).t();
  for (const Tensor& t : {b, scattered, b[0], b.to(kFloat64), b.to(kFloat16)}) {
    const Tensor each = mse_loss(a, t, kNone);
    CHECK(allclose(mse_loss(a, t, kSum).to(kFloat64), each.to(kFloat64).sum(), 1e-5));
    CHECK(allclose(mse_loss(a, t).to(kFloat64), each.to(kFloat64).mean(), 1e-5));
    CHECK(mse_loss(a, t).dtype() == each.dtype());
  }
  CHECK(allclose(smooth_l1_loss(a, b, kSum), smooth_l1_loss(a, b, kNone).sum(), 1e-5));
  CHECK(allclose(binary_cross_entropy_with_logits(a, b.sigmoid()),
                 binary_cross_entropy(a.sigmoid(), b.sigmoid()), 1e-4));
}

TEST_CASE("the gradient of a mean divides by the number of losses") {
  const Tensor x = tensor({1.0, 2.0, 4.0}).requires_grad_(), t = tensor({0.0}).requires_grad_();
  mse_loss(x, t).backward();
  CHECK(allclose(x.grad(), tensor({2.0, 4.0, 8.0}) / 3));
  CHECK(allclose(t.grad(), tensor({-14.0}) / 3));
}

TEST_CASE("cross_entropy_loss: the fused loss is log_softmax and nll_loss") {
  const Tensor x = randn({6, 5}, kFloat64), t = tensor({0, 4, 2, -100, 3, 1}),
               w = rand({5}, kFloat64) + 0.5;
  for (int64_t how : {kNone, kMean, kSum}) {
    CHECK(allclose(cross_entropy_loss(x, t, {}, how), nll_loss(x.log_softmax(1), t, {}, how), 1e-10,
                   1e-12));
    CHECK(allclose(cross_entropy_loss(x, t, w, how), nll_loss(x.log_softmax(1), t, w, how), 1e-10,
                   1e-12));
  }
  const Tensor labels = tensor({0, 4, 2, 0, 3, 1}), p = one_hot(labels, 5).to(kFloat64);
  CHECK(allclose(cross_entropy_loss(x, labels, {}, kMean, -100, 0.1),
                 cross_entropy_loss(x, p, {}, kMean, -100, 0.1), 1e-10, 1e-12));
  const Tensor image = randn({2, 5, 3, 4}, kFloat64), classes = randint(5, {2, 3, 4});
  CHECK(allclose(cross_entropy_loss(image, classes, w), nll_loss(image.log_softmax(1), classes, w),
                 1e-10, 1e-12));
  CHECK(cross_entropy_loss(image, classes, {}, kNone).sizes() == IntArrayRef({2, 3, 4}));
  CHECK(cross_entropy_loss(x[0], tensor(2)).dim() == 0);
  CHECK(std::isnan(only(cross_entropy_loss(x, full({6}, -100)))));  // nothing counts: 0 / 0
}

TEST_CASE("cross_entropy_loss: logits far apart give neither inf nor NaN") {
  const Tensor x = tensor({{1000.0, -1000.0}}).requires_grad_();
  const Tensor loss = cross_entropy_loss(x, tensor({1}));
  CHECK(only(loss) == 2000);
  loss.backward();
  CHECK(equal(x.grad(), tensor({{1.0, -1.0}})));
}

TEST_CASE("a class target out of range is named, and nothing is written") {
  const Tensor x = randn({3, 4});
  for (const Tensor& t : {tensor({0, 4, 1}), tensor({0, -1, 1})}) {
    CHECK_THROWS_AS(cross_entropy_loss(x, t), IndexError);
    CHECK_THROWS_AS(nll_loss(x, t), IndexError);
  }
  try {
    nll_loss(x, tensor({0, 9, 1}));
    CHECK(false);
  } catch (const IndexError& e) {
    CHECK(std::string(e.what()).find("target 9 at row 1") != std::string::npos);
  }
}

TEST_CASE("second derivatives of the losses where the gradient depends on the input") {
  using autograd::variable_list;
  const Tensor x = randn({3, 4}, kFloat64).requires_grad_(),
               t = randn({3, 4}, kFloat64).requires_grad_();
  CHECK(autograd::gradgradcheck(
      [](const variable_list& in) { return variable_list{mse_loss(in[0], in[1]).square()}; },
      {x, t}));
  const Tensor labels = tensor({1, 3, 0}), w = (rand({4}, kFloat64) + 0.5).requires_grad_();
  CHECK(autograd::gradgradcheck(
      [&](const variable_list& in) {
        return variable_list{cross_entropy_loss(in[0], labels, in[1], kMean, -100, 0.1).square()};
      },
      {x, w}));
  CHECK(autograd::gradgradcheck(
      [](const variable_list& in) {
        return variable_list{
            binary_cross_entropy_with_logits(in[0], in[1].sigmoid(), {}, {}, kSum)};
      },
      {x, t}));
}

TEST_CASE("margin losses and likelihoods: worked values") {
  CHECK(equal(hinge_embedding_loss(tensor({0.5, 0.5, 3.0}), tensor({1, -1, -1}), 1.0, kNone),
              tensor({0.5, 0.5, 0.0})));
  CHECK(equal(
      margin_ranking_loss(tensor({1.0, 1.0}), tensor({2.0, 0.0}), tensor({1.0, 1.0}), 0.5, kNone),
      tensor({1.5, 0.0})));
  CHECK(only(cosine_similarity(tensor({{3.0, 4.0}}), tensor({{4.0, 3.0}}))) ==
        doctest::Approx(0.96));
  CHECK(only(cosine_similarity(zeros({1, 2}), ones({1, 2}))) == 0);
  CHECK(only(kl_div(tensor({0.0}), tensor({0.0}), kSum)) == 0);  // 0 log 0 is 0
  CHECK(only(soft_margin_loss(tensor({-1000.0}), tensor({1.0}))) == 1000);
  CHECK(only(triplet_margin_loss(tensor({{0.0, 0.0}}), tensor({{3.0, 4.0}}),
                                 tensor({{0.0, 1.0}}))) == doctest::Approx(5.0));
  CHECK(only(gaussian_nll_loss(tensor({1.0}), tensor({3.0}), tensor({4.0}))) ==
        doctest::Approx(0.5 * (std::log(4.0) + 1)));
  CHECK(only(poisson_nll_loss(tensor({0.0}), tensor({3.0}), true, false, 1e-8, kMean)) == 1);
}

TEST_CASE("losses give the same bits with 1, 2 and 4 threads") {
  const Tensor a = randn({400, 500}), b = randn({400, 500}), labels = randint(500, {400});
  const int before = get_num_threads();
  std::vector<double> first;
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    const std::vector<double> now{only(mse_loss(a, b)), only(l1_loss(a, b, kSum)),
                                  only(huber_loss(a, b)), only(cross_entropy_loss(a, labels)),
                                  only(binary_cross_entropy_with_logits(a, b.sigmoid()))};
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  set_num_threads(before);
}
