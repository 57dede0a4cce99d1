// Attention by hand: against the formula with all its options, gradients with dropout, positions
// that see nothing, the layout of the result, and bits that do not depend on threads.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "pellucid/pellucid.h"
#include "threads.h"

using namespace pellucid;

namespace {

Tensor formula(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& added = {}) {
  Tensor scores = q.matmul(k.mT()).mul(1 / std::sqrt(static_cast<double>(q.size(-1))));
  if (added.defined()) scores = scores.add(added);
  return scores.softmax(-1).matmul(v);
}

Tensors gradients(const Tensor& y, const Tensors& x) {
  return autograd::grad({y.square().sum()}, x);
}

}  // namespace

TEST_CASE("attention: agrees with the formula, forward and backward, with every mask") {
  manual_seed(1);
  const double hidden = -std::numeric_limits<double>::infinity();
  for (const DType t : {kFloat64, kFloat32}) {
    const double tolerance = t == kFloat64 ? 1e-10 : 1e-4;
    const auto additive = [&](const Tensor& keep) {
      return zeros(keep.sizes(), t).masked_fill(keep.logical_not(), hidden);
    };
    const Tensor q = randn({2, 3, 70, 16}, t).requires_grad_(),
                 k = randn({2, 3, 90, 16}, t).requires_grad_(),
                 v = randn({2, 3, 90, 8}, t).requires_grad_();
    const Tensor keep = rand({2, 1, 70, 90}).gt(0.3), added = randn({70, 90}, t),
                 causal = additive(ones({70, 90}, kBool).tril());
    const auto check = [&](const Tensor& y, const Tensor& wanted) {
      CHECK(allclose(y, wanted, 1e-4, tolerance));
      const Tensors g = gradients(y, {q, k, v}), h = gradients(wanted, {q, k, v});
      for (size_t i = 0; i < 3; ++i) CHECK(allclose(g[i], h[i], 1e-4, 20 * tolerance));
    };
    check(scaled_dot_product_attention(q, k, v), formula(q, k, v));
    check(scaled_dot_product_attention(q, k, v, added), formula(q, k, v, added));
    check(scaled_dot_product_attention(q, k, v, keep), formula(q, k, v, additive(keep)));
    check(scaled_dot_product_attention(q, k, v, {}, 0.0, true), formula(q, k, v, causal));
    check(scaled_dot_product_attention(q, k, v, {}, 0.0, false, 0.5),
          formula(q.mul(0.5 * 4), k, v));
  }
}

TEST_CASE("attention: heads may be shared, ranks vary, and a mask may want a gradient") {
  const Tensor q = randn({2, 6, 5, 4}, kFloat64), k = randn({2, 2, 7, 4}, kFloat64),
               v = randn({2, 2, 7, 4}, kFloat64);
  CHECK(allclose(scaled_dot_product_attention(q, k, v, {}, 0.0, false, std::nullopt, true),
                 formula(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1))));
  const Tensor one = k.narrow(1, 0, 1), all = one.expand({2, 6, 7, 4});
  CHECK(allclose(scaled_dot_product_attention(q, one, one), formula(q, all, all)));
  CHECK(
      allclose(scaled_dot_product_attention(q[0], all[0], all[0]), formula(q[0], all[0], all[0])));
  CHECK(allclose(scaled_dot_product_attention(q[0][0], k[0][0], v[0][0]),
                 formula(q[0][0], k[0][0], v[0][0])));
  const Tensor bias = randn({6, 5, 7}, kFloat64).requires_grad_();
  const Tensor got = gradients(scaled_dot_product_attention(q, all, all, bias), {bias})[0],
               wanted = gradients(formula(q, all, all, bias), {bias})[0];
  CHECK(allclose(got, wanted));
}

TEST_CASE("attention: a position that sees nothing gives 0 and no gradient") {
  const Tensor q = randn({1, 1, 3, 4}, kFloat64).requires_grad_(),
               k = randn({1, 1, 3, 4}, kFloat64).requires_grad_(),
               v = randn({1, 1, 3, 4}, kFloat64).requires_grad_();
  Tensor keep = ones({3, 3}, kBool);
  keep.select(0, 1).fill_(false);
  const Tensor y = scaled_dot_product_attention(q, k, v, keep);
  CHECK(equal(y[0][0][1], zeros({4}, kFloat64)));
  const Tensors g = autograd::grad({y.square().sum()}, {q, k, v}, {}, true, true);
  CHECK(equal(g[0][0][0][1], zeros({4}, kFloat64)));
  for (const Tensor& t : g) CHECK(t.isfinite().all().item<bool>());
  // Second derivatives too.
  for (const Tensor& t : autograd::grad({g[0].square().sum().add(g[1].square().sum())}, {q, k, v}))
    CHECK(t.isfinite().all().item<bool>());
}

TEST_CASE("attention: dropout drops the same weights forward, backward and in second derivatives") {
  const Tensor q = randn({1, 2, 6, 4}, kFloat64).requires_grad_(),
               k = randn({1, 2, 9, 4}, kFloat64).requires_grad_(),
               v = randn({1, 2, 9, 4}, kFloat64).requires_grad_();
  const auto f = [](const Tensors& in) -> Tensors {
    manual_seed(7);
    return {scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.4)};
  };
  CHECK(autograd::gradcheck(f, {q, k, v}));
  CHECK(autograd::gradgradcheck(f, {q, k, v}));
  // The identity as values shows the weights: each is 0 or that without dropout over 0.6.
  const Tensor unit = eye(9, kFloat64).expand({1, 2, 9, 9});
  const Tensor dropped = f({q, k, unit})[0], weights = scaled_dot_product_attention(q, k, unit);
  const Tensor zero = dropped.eq(0);
  CHECK(allclose(where(zero, 0.0, weights.div(0.6)), dropped));
  const double share = zero.to(kFloat64).mean().item<double>();
  CHECK(share > 0.2);
  CHECK(share < 0.6);
}

TEST_CASE(
    "attention: the result has the query's order of heads and positions, so that reshaping is "
    "free") {
  const Tensor qkv = randn({2, 5, 3, 4, 8});  // batch, positions, q k v, heads, features
  const Tensor q = qkv.select(2, 0).transpose(1, 2), k = qkv.select(2, 1).transpose(1, 2),
               v = qkv.select(2, 2).transpose(1, 2);
  const Tensor y = scaled_dot_product_attention(q, k, v);
  CHECK(y.transpose(1, 2).is_contiguous());
  CHECK(allclose(y, formula(q, k, v), 1e-4, 1e-5));
  CHECK(scaled_dot_product_attention(q.contiguous(), k, v).is_contiguous());
}

TEST_CASE("attention: bits do not depend on the number of threads") {
  const Tensor q = randn({2, 4, 130, 32}), k = randn({2, 4, 130, 32}), v = randn({2, 4, 130, 32});
  const auto all = [&] {
    manual_seed(9);
    const Tensors leaves = {q.detach().requires_grad_(), k.detach().requires_grad_(),
                            v.detach().requires_grad_()};
    const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {}, 0.1, true);
    Tensors out = gradients(y, leaves);
    out.push_back(y.detach());
    return out;
  };
  const Threads one(1);
  const Tensors first = all();
  const Threads two(2);
  const Tensors second = all();
  for (size_t i = 0; i < first.size(); ++i) CHECK(equal(first[i], second[i]));
}
