// Rotary positions, the KV cache, and attention with and without it.
#include <doctest/doctest.h>

#include <cmath>

#include "pellucid/torch.h"

using namespace pellucid;

TEST_CASE("rope: turns pairs by angles that grow with the position") {
  nn::RotaryEmbedding rope(4);
  const Tensor x = ones({1, 3, 4});
  const Tensor y = rope(x);
  CHECK(allclose(y[0][0], ones({4})));  // position 0 stays
  const double slow = 2.0 / 100;        // the second pair at position 2: 2 / 10000^(2/4)
  CHECK(allclose(y[0][2],
                 tensor({std::cos(2.0) - std::sin(2.0), std::sin(2.0) + std::cos(2.0),
                         std::cos(slow) - std::sin(slow), std::sin(slow) + std::cos(slow)}),
                 1e-5, 1e-6));
  const Tensor z = randn({2, 5, 3, 4});
  CHECK(allclose(rope(z).norm(2, {3}), z.norm(2, {3}), 1e-5, 1e-6));
  // Heads turn as the same tensor without heads does, and an offset is a later position.
  CHECK(allclose(rope(z).select(2, 1), rope(z.select(2, 1)), 1e-6, 1e-6));
  CHECK(allclose(rope(z.narrow(1, 2, 3), 2), rope(z).narrow(1, 2, 3), 1e-6, 1e-6));
}

TEST_CASE("rope: products depend on distances alone") {
  nn::RotaryEmbedding rope(8);
  const Tensor q = randn({1, 1, 8}), k = randn({1, 1, 8});
  const double near = (rope(q, 5) * rope(k, 3)).sum().item<double>();
  CHECK((rope(q, 105) * rope(k, 103)).sum().item<double>() == doctest::Approx(near).epsilon(1e-4));
}

TEST_CASE("rope: refuses odd sizes, wrong ranks and positions beyond its length") {
  CHECK_THROWS_AS(nn::RotaryEmbedding(5), ValueError);
  nn::RotaryEmbedding rope(4, 8);
  CHECK_THROWS_AS(rope(ones({2, 4})), ShapeError);
  CHECK_THROWS_AS(rope(ones({1, 2, 6})), ShapeError);
  CHECK_THROWS_AS(rope(ones({1, 9, 4})), ValueError);
  CHECK_THROWS_AS(rope(ones({1, 2, 4}), 7), ValueError);
  CHECK(rope->state_dict().is_empty());
}

TEST_CASE("rope: strides, dtypes, threads and gradients") {
  nn::RotaryEmbedding rope(6, 16);
  const Tensor x = randn({2, 5, 3, 6});
  CHECK(equal(rope(x.transpose(0, 3).contiguous().transpose(0, 3)), rope(x)));
  CHECK(rope(zeros({0, 5, 6})).numel() == 0);
  nn::RotaryEmbedding half(6, 16);
  half->to(kBFloat16);
  CHECK(allclose(half(x.to(kBFloat16)).to(kFloat32), rope(x), 0.05, 0.05));
  CHECK_THROWS_AS(half(x), TypeError);
  rope->to(kFloat64);
  const auto f = [&](const autograd::variable_list& in) -> autograd::variable_list {
    return {rope(in[0], 3)};
  };
  const Tensor z = randn({1, 3, 2, 6}, kFloat64).requires_grad_();
  CHECK(autograd::gradcheck(f, {z}));
  CHECK(autograd::gradgradcheck(f, {z}));
  CHECK(rope(z).grad_fn()->name() == "RotaryBackward0");
  // The op's own samples, gradients of the tables included.
  for (const OpDef* op : find_ops("rotary")) {
    const Samples samples = samples_of(*op);
    for (const Sample& sample : samples.valid) {
      autograd::variable_list in;
      for (const Value& v : sample.args) in.push_back(v.tensor().detach().requires_grad_());
      const auto g = [&](const autograd::variable_list& t) -> autograd::variable_list {
        return {invoke(*op, std::vector<Value>{t[0], t[1], t[2]})[0].tensor()};
      };
      CHECK(autograd::gradcheck(g, in));
      CHECK(autograd::gradgradcheck(g, in));
    }
    for (const Sample& sample : samples.failing)
      CHECK_THROWS_WITH_AS(invoke(*op, sample.args), doctest::Contains(sample.error.c_str()),
                           Error);
  }
}

TEST_CASE("kv cache: appends, grows by doubling, clears") {
  nn::KVCache cache;
  Tensor all;
  int growths = 0;
  int64_t capacity = 0;
  for (int i = 0; i < 100; ++i) {
    const Tensor k = randn({2, 3, 1, 4});
    all = all.defined() ? cat({all, k}, 2) : k;
    const auto [keys, values] = cache.append(k, k * 2);
    growths += cache.capacity() != capacity;
    capacity = cache.capacity();
    if (i % 33 == 0) CHECK(equal(keys, all));
    if (i % 33 == 0) CHECK(equal(values, all * 2));
  }
  CHECK(cache.length() == 100);
  CHECK(growths <= 3);
  CHECK_THROWS_AS(cache.append(ones({1, 3, 1, 4}), ones({1, 3, 1, 4})), ShapeError);
  CHECK_THROWS_AS(cache.append(ones({2, 3, 4}), ones({2, 3, 4})), ShapeError);
  cache.clear();
  CHECK(cache.empty());
  CHECK(cache.capacity() == capacity);
  cache.append(ones({1, 3, 1, 4}), ones({1, 3, 1, 4}));  // another batch size after clearing
  CHECK(cache.length() == 1);
}

TEST_CASE("cached attention: the same with and without the cache") {
  manual_seed(4);
  nn::CachedAttention attention(32, 4);
  const NoGradGuard off;
  const Tensor x = randn({2, 40, 32});
  const Tensor whole = attention(x);
  CHECK(attention->cache.empty());
  Tensors steps;
  for (int64_t t = 0; t < 40; ++t) steps.push_back(attention(x.narrow(1, t, 1), true));
  CHECK(attention->cache.length() == 40);
  CHECK(allclose(cat(steps, 1), whole, 1e-5, 1e-5));
  // In chunks, after clearing.
  const Tensor first = attention(x.narrow(1, 0, 25), true, true);
  const Tensor second = attention(x.narrow(1, 25, 15), true);
  CHECK(allclose(cat({first, second}, 1), whole, 1e-5, 1e-5));
  // Later positions do not change earlier ones.
  CHECK(allclose(attention(x.narrow(1, 0, 10)), whole.narrow(1, 0, 10), 1e-5, 1e-5));
  CHECK_THROWS_AS(attention(ones({2, 3, 31})), ShapeError);
  CHECK_THROWS_AS(nn::CachedAttention(30, 4), ValueError);
  CHECK_THROWS_AS(nn::CachedAttention(12, 4), ValueError);  // heads of size 3
}

TEST_CASE("cached attention: gradients flow without the cache") {
  nn::CachedAttention attention(8, 2);
  attention->to(kFloat64);
  const Tensor x = randn({1, 3, 8}, kFloat64).requires_grad_();
  CHECK(autograd::gradcheck([&](const autograd::variable_list& in)
                                -> autograd::variable_list { return {attention(in[0])}; },
                            {x}));
}
