// reassociate: products that are added become one, with results that agree to rounding; off unless
// asked for; what reads a product on its own keeps it.
#include <doctest/doctest.h>

#include "core/program.h"
#include "graph/passes.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

const CompileOptions kReassociate{.reassociate = true};

int64_t products(const Explanation& e) {
  int64_t n = 0;
  for (const auto& p : e.parts)
    for (const std::string& op : p.ops) n += op == "mm" || op == "bmm" || op == "linear";
  return n;
}

// Runs f with and without; the results agree, and so many products are left.
template <class F, class... Args> void check(int64_t left, const F& f, const Args&... args) {
  const NoGradGuard off;
  const Tensor expected = f(args...);
  auto fast = compile(f, kReassociate);
  auto plain = compile(f, CompileMode::Always);
  for (int i = 0; i < 4; ++i) {
    CHECK(plain(args...).equal(expected));
    CHECK(fast(args...).allclose(expected, 2e-6, 2e-5));
  }
  CHECK(products(fast.explain(args...)) == left);
}

TEST_CASE("reassociate: products that share an operand become one") {
  const Tensor x = rand({70, 50}), y = rand({50, 60}), z = rand({50, 60}), v = rand({50, 60});
  const Tensor other = rand({70, 50}), bias = rand({60});
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c) { return matmul(a, b) + matmul(a, c); },
      x, y, z);
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c) {
        return (matmul(a, b) + 100) + (matmul(a, c) + 1000);
      },
      x, y, z);
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
        return ((matmul(a, b) - d) + (matmul(a, c) + 2 - 3)).relu();
      },
      x, y, z, bias);
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c) { return matmul(a, b) + matmul(c, b); },
      x, y, other);
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
        return matmul(a, b) + matmul(a, c) + matmul(a, d);
      },
      x, y, z, v);
  const Tensor w = rand({60, 50}), u = rand({60, 50});
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
        return linear(a, b, d) + linear(a, c);
      },
      x, w, u, bias);
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
        return linear(a, c) + linear(a, b, d);
      },
      x, w, u, bias);
  check(
      1,
      [](const Tensor& a, const Tensor& b, const Tensor& c) {
        return matmul(a, b.t()) + matmul(a, c);
      },
      x, w, y);
  const Tensor batch = rand({4, 20, 50}), many = rand({4, 50, 30}), more = rand({4, 50, 30});
  check(
      1, [](const Tensor& a, const Tensor& b, const Tensor& c) { return bmm(a, b) + bmm(a, c); },
      batch, many, more);
}

TEST_CASE("reassociate: what does not fit stays as it is") {
  const Tensor x = rand({70, 50}), y = rand({50, 60}), z = rand({50, 60}), other = rand({70, 50});
  // Another operand, another factor, a number in the way, a result that is read twice.
  check(
      2,
      [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
        return matmul(a, b) + matmul(d, c);
      },
      x, y, z, other);
  check(
      2,
      [](const Tensor& a, const Tensor& b, const Tensor& c) {
        return matmul(a, b) + matmul(a, c) * 2;
      },
      x, y, z);
  check(
      2,
      [](const Tensor& a, const Tensor& b, const Tensor& c) {
        return add(matmul(a, b), matmul(a, c), 3);
      },
      x, y, z);
  check(
      2,
      [](const Tensor& a, const Tensor& b, const Tensor& c) {
        const Tensor p = matmul(a, b);
        return p + matmul(a, c) + p.exp();
      },
      x, y, z);
  check(
      2,
      [](const Tensor& a, const Tensor& b, const Tensor& c) {
        const Tensor s = a.clone(), p = matmul(s, b);
        s.mul_(2);
        return p + matmul(s, c);
      },
      x, y, z);
  // Too few rows for a sum of the other operands to pay.
  const Tensor row = rand({1, 500}), wide = rand({500, 600}), wider = rand({500, 600});
  check(
      2,
      [](const Tensor& a, const Tensor& b, const Tensor& c) { return matmul(a, b) + matmul(a, c); },
      row, wide, wider);
  // Results that somebody keeps.
  const NoGradGuard off;
  auto keeps = compile(
      [&](const Tensor& a) {
        const Tensor p = matmul(a, y);
        return std::make_pair(p, p + matmul(a, z));
      },
      kReassociate);
  for (int i = 0; i < 3; ++i) {
    const auto found = keeps(x);
    CHECK(found.first.equal(matmul(x, y)));
    CHECK(found.second.equal(matmul(x, y) + matmul(x, z)));
  }
}

TEST_CASE("reassociate: gradients are those of the plain function") {
  const auto run = [](const CompileOptions& options) {
    manual_seed(2);
    const Tensor x = rand({40, 30}).requires_grad_(), y = rand({30, 50}).requires_grad_(),
                 z = rand({30, 50}).requires_grad_();
    auto step = compile(
        [&] {
          const Tensor p = matmul(x, y);
          const Tensor loss =
              ((p + 100) + (matmul(x, z) + 1000)).square().mean() + (p.sigmoid() * p).sum();
          loss.backward();
          Tensors out{x.grad(), y.grad(), z.grad(), loss.detach()};
          for (const Tensor* t : {&x, &y, &z}) t->zero_grad();
          return out;
        },
        options);
    for (int i = 0; i < 3; ++i) step();
    return step();
  };
  const Tensors plain = run({.mode = CompileMode::Always}), fast = run(kReassociate);
  for (size_t i = 0; i < plain.size(); ++i) CHECK(fast[i].allclose(plain[i], 1e-5, 1e-3));
}

TEST_CASE("reassociate: a kernel that fails in the middle leaves all that can still be computed") {
  const NoGradGuard off;
  const Tensor x = rand({64, 64}), y = rand({64, 64}), z = rand({64, 64}), table = rand({9, 64});
  const Tensor expected = (matmul(x, y) + 100) + (matmul(x, z) + 1000);
  auto f = compile(
      [&](const Tensor& i) {
        const Tensor sum = (matmul(x * 1, y) + 100) + (matmul(x * 1, z * 1) + 1000);
        return std::make_pair(sum, embedding(table, i) + 1);
      },
      {.mode = CompileMode::Always, .reassociate = true});
  const Tensor good = full({64}, 3, kInt64);
  for (int k = 0; k < 4; ++k) CHECK(f(good).first.allclose(expected, 1e-5, 1e-3));
  CHECK_THROWS_AS(f(full({64}, 33, kInt64)), IndexError);
  CHECK(f(good).first.allclose(expected, 1e-5, 1e-3));
}

TEST_CASE("reassociate: it is off unless it is asked for") {
  using graph::PassSet;
  CHECK_FALSE(PassSet().has("reassociate"));
  CHECK_FALSE(PassSet("-fuse").has("reassociate"));
  CHECK(PassSet("+reassociate").has("reassociate"));
  CHECK(PassSet("+reassociate").has("fuse"));
  CHECK(PassSet("reassociate").has("reassociate"));
  CHECK_FALSE(PassSet("reassociate").has("fuse"));
  CHECK_FALSE(PassSet("+reassociate,-reassociate").has("reassociate"));
  CHECK_THROWS_AS(PassSet("+no_such_pass"), ValueError);
}

}  // namespace
}  // namespace pellucid
