// Normalisations: against their formula written with ops, running statistics, layouts, gradients to
// the second order, and independence of the number of threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
Tensor normalized(const Tensor& x, IntArrayRef dims, double eps) {
  const Tensor centred = x - x.mean(dims, true);
  return centred / (centred.square().mean(dims, true) + eps).sqrt();
}

Tensor real(IntArrayRef sizes) { return randn(sizes, kFloat64); }
}  // namespace

TEST_CASE("layer_norm and rms_norm are their formulas") {
  const Tensor x = real({4, 3, 7}), w = real({7}), b = real({7});
  CHECK(allclose(layer_norm(x, {7}, w, b), normalized(x, {2}, 1e-5) * w + b, 1e-10, 1e-12));
  CHECK(allclose(layer_norm(x.permute({2, 0, 1}), {4, 3}),
                 normalized(x.permute({2, 0, 1}), {1, 2}, 1e-5), 1e-10, 1e-12));
  CHECK(allclose(rms_norm(x, {7}, w, 1e-3), x * (x.square().mean(2, true) + 1e-3).rsqrt() * w,
                 1e-10, 1e-12));
  // Without eps it is the least difference from 1.
  CHECK(allclose(rms_norm(zeros({1, 2}), {2}), zeros({1, 2})));
  const Tensor wide = randn({3, 2000}).add(1000);  // a mean that is large against the deviation
  CHECK(allclose(layer_norm(wide, {2000}), normalized(wide.to(kFloat64), {1}, 1e-5).to(kFloat32),
                 1e-3, 1e-3));
  CHECK(layer_norm(zeros({0, 3}), {3}).sizes() == IntArrayRef({0, 3}));
}

TEST_CASE("group_norm is layer_norm of each group") {
  const Tensor x = real({2, 6, 2, 3}), w = real({6}), b = real({6});
  const Tensor plain =
      normalized(x.view({2, 3, 2, 6}), {2, 3}, 1e-5).view({2, 6, 2, 3}) * w.view({6, 1, 1}) +
      b.view({6, 1, 1});
  CHECK(allclose(group_norm(x, 3, w, b), plain, 1e-10, 1e-12));
  CHECK_THROWS_AS(group_norm(x, 4), ShapeError);
}

TEST_CASE("batch_norm moves its running statistics in training alone") {
  const Tensor x = real({4, 3, 2, 2}), mean = zeros({3}, kFloat64), variance = ones({3}, kFloat64);
  const Tensor y = batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5);
  CHECK(allclose(y, normalized(x, {0, 2, 3}, 1e-5), 1e-10, 1e-12));
  CHECK(allclose(mean, x.mean({0, 2, 3}) * 0.1));
  CHECK(allclose(variance, x.var({0, 2, 3}, true) * 0.1 + 0.9));  // unbiased
  const Tensor kept = mean.clone();
  const Tensor z = batch_norm(x, {}, {}, mean, variance, false, 0.1, 1e-5);
  CHECK(equal(mean, kept));
  CHECK(allclose(z, (x - mean.view({3, 1, 1})) / (variance.view({3, 1, 1}) + 1e-5).sqrt()));
  CHECK_THROWS_AS(batch_norm(x, {}, {}, {}, {}, false, 0.1, 1e-5), ValueError);
  CHECK_THROWS_AS(batch_norm(real({1, 3}), {}, {}, {}, {}, true, 0.1, 1e-5), ValueError);
}

TEST_CASE("batch_norm keeps running statistics as they were when it throws") {
  const Tensor mean = zeros({3}), variance = ones({3});
  CHECK_THROWS_AS(batch_norm(randn({4, 3}), randn({2}), {}, mean, variance, true, 0.1, 1e-5),
                  ShapeError);
  CHECK(equal(mean, zeros({3})));
  CHECK(equal(variance, ones({3})));
}

TEST_CASE("batch_norm keeps channels-last and gives the same values") {
  const Tensor x = real({2, 3, 4, 5}), w = real({3}), b = real({3}), g = real({2, 3, 4, 5});
  const Tensor last = x.contiguous(MemoryFormat::ChannelsLast);
  const Tensor y = batch_norm(last, w, b, {}, {}, true, 0.1, 1e-5);
  CHECK(y.is_contiguous(MemoryFormat::ChannelsLast));
  CHECK(allclose(y, batch_norm(x, w, b, {}, {}, true, 0.1, 1e-5)));
  const Tensor rows_leaf = x.clone().requires_grad_(),
               last_leaf = last.detach().clone().requires_grad_();
  batch_norm(rows_leaf, w, b, {}, {}, true, 0.1, 1e-5).backward(g);
  batch_norm(last_leaf, w, b, {}, {}, true, 0.1, 1e-5).backward(g);
  CHECK(allclose(rows_leaf.grad(), last_leaf.grad()));
}

TEST_CASE("instance_norm normalises each item, and averages running statistics over the batch") {
  const Tensor x = real({2, 3, 5}), mean = zeros({3}, kFloat64), variance = ones({3}, kFloat64);
  CHECK(allclose(instance_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5),
                 normalized(x, {2}, 1e-5), 1e-10, 1e-12));
  CHECK(allclose(mean, x.mean(2).mean(0) * 0.1));
  CHECK(allclose(variance, x.var(2, true).mean(0) * 0.1 + 0.9));
}

TEST_CASE("a gradient that nobody needs is not computed, and the others are right") {
  const Tensor x = real({3, 5}), w = real({5}).requires_grad_();
  const Tensor y = layer_norm(x, {5}, w);
  y.sum().backward();
  CHECK(allclose(w.grad(), normalized(x, {1}, 1e-5).sum(0), 1e-10, 1e-12));
  const auto [dx, dw, db] = layer_norm_backward(real({3, 5}), x, zeros({3}, kFloat64),
                                                ones({3}, kFloat64), {}, {5}, 1e-5, {1, 0, 0});
  CHECK(dx.defined());
  CHECK_FALSE(dw.defined());
  CHECK_FALSE(db.defined());
}

TEST_CASE("second derivatives of the normalisations") {
  using autograd::variable_list;
  const auto leaf = [](IntArrayRef sizes) { return real(sizes).requires_grad_(); };
  // Squares make the incoming gradient depend on the input as well.
  CHECK(autograd::gradgradcheck(
      [](const variable_list& in) {
        return variable_list{layer_norm(in[0], {4}, in[1], in[2]).square()};
      },
      {leaf({3, 4}), leaf({4}), leaf({4})}));
  CHECK(autograd::gradgradcheck(
      [](const variable_list& in) { return variable_list{rms_norm(in[0], {4}, in[1]).square()}; },
      {leaf({3, 4}), leaf({4})}));
  CHECK(autograd::gradgradcheck(
      [](const variable_list& in) {
        return variable_list{group_norm(in[0], 2, in[1], in[2]).square()};
      },
      {leaf({2, 4, 2}), leaf({4}), leaf({4})}));
  CHECK(autograd::gradgradcheck(
      [](const variable_list& in) {
        return variable_list{batch_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5).square()};
      },
      {leaf({4, 2, 2}), leaf({2}), leaf({2})}));
}

TEST_CASE("normalisations give the same bits with 1, 2 and 4 threads") {
  const Tensor x = randn({64, 32, 8, 8}), g = randn({64, 32, 8, 8}), w = randn({32}),
               rows = randn({500, 300}), grad_rows = randn({500, 300});
  const int before = get_num_threads();
  std::vector<Tensor> first;
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    const Tensor a = x.clone().requires_grad_(), b = w.clone().requires_grad_(),
                 r = rows.clone().requires_grad_(), v = ones({300}).requires_grad_();
    const Tensor batch = batch_norm(a, b, {}, {}, {}, true, 0.1, 1e-5),
                 layer = layer_norm(r, {300}, v);
    batch.backward(g);
    layer.backward(grad_rows);
    const Tensor group = group_norm(x, 4, w);
    const std::vector<Tensor> now{batch.detach(), a.grad(), b.grad(), layer.detach(),
                                  r.grad(),       v.grad(), group};
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i) {
      INFO("result ", i, " with ", threads, " threads");
      CHECK(std::memcmp(now[i].const_data_ptr(), first[i].const_data_ptr(), now[i].nbytes()) == 0);
    }
  }
  set_num_threads(before);
}
