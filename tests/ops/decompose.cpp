// Inverses, determinants, systems of equations and factors: what they must satisfy, their gradients
// where the derived tests cannot go, and their refusals.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {

Tensor symmetric(const Tensor& a) { return (a + a.transpose(-2, -1)) * 0.5; }

double distance(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

}  // namespace

TEST_CASE("factors multiply to the matrix they came from") {
  manual_seed(3);
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{5, 5}, {3, 7, 4}, {4, 7}, {40, 25}}) {
    const Tensor a = randn(sizes, kFloat64);
    const auto [q, r] = linalg_qr(a);
    CHECK(distance(q.matmul(r), a) < 1e-12);
    CHECK(distance(r, r.triu()) == 0);
    for (const bool full : {false, true}) {
      const auto [u, s, vh] = linalg_svd(a, full);
      const int64_t k = s.size(-1);
      CHECK(distance(u.narrow(-1, 0, k).matmul(s.unsqueeze(-1) * vh.narrow(-2, 0, k)), a) < 1e-11);
      CHECK(distance(u.transpose(-2, -1).matmul(u), eye(u.size(-1), kFloat64)) < 1e-12);
      CHECK(distance(vh.matmul(vh.transpose(-2, -1)), eye(vh.size(-2), kFloat64)) < 1e-12);
    }
  }
  const Tensor b = randn({2, 6, 6}, kFloat64);
  const Tensor positive = b.matmul(b.transpose(-2, -1)) + eye(6, kFloat64);
  const Tensor l = linalg_cholesky(positive), u = linalg_cholesky(positive, true);
  CHECK(distance(l.matmul(l.transpose(-2, -1)), positive) < 1e-12);
  CHECK(distance(u, l.transpose(-2, -1)) < 1e-12);
  const auto [values, vectors] = linalg_eigh(positive);
  CHECK(distance(vectors.matmul(values.unsqueeze(-1) * vectors.transpose(-2, -1)), positive) <
        1e-11);
}

TEST_CASE("inverse, determinant and solve agree with each other") {
  manual_seed(4);
  const Tensor a = randn({3, 5, 5}, kFloat64), b = randn({3, 5, 2}, kFloat64);
  CHECK(distance(linalg_inv(a).matmul(a), eye(5, kFloat64).expand({3, 5, 5})) < 1e-10);
  CHECK(distance(linalg_solve(a, b), linalg_inv(a).matmul(b)) < 1e-10);
  const Tensor x = linalg_solve(a, b.transpose(-2, -1), false);
  CHECK(distance(x.matmul(a), b.transpose(-2, -1)) < 1e-10);
  const auto [u, s, vh] = linalg_svd(a);
  CHECK(distance(linalg_det(a).abs(), s.prod(-1)) < 1e-10);
}

TEST_CASE("gradients of symmetric factors, both triangles moved together") {
  manual_seed(5);
  const Tensor a = randn({2, 4, 4}, kFloat64).requires_grad_();
  const auto positive = [](const Tensor& t) {
    return t.matmul(t.transpose(-2, -1)) + eye(4, kFloat64) * 3;
  };
  for (const bool upper : {false, true}) {
    const auto f = [&](const autograd::variable_list& v) -> autograd::variable_list {
      return {linalg_cholesky(positive(v[0]), upper)};
    };
    CHECK(autograd::gradcheck(f, {a}));
    CHECK(autograd::gradgradcheck(f, {a}));
  }
  for (const char* triangle : {"L", "U"}) {
    const auto f = [&](const autograd::variable_list& v) -> autograd::variable_list {
      const auto [values, vectors] = linalg_eigh(symmetric(v[0]), triangle);
      return {values, vectors.abs()};  // the sign of a vector is not defined
    };
    CHECK(autograd::gradcheck(f, {a}));
  }
}

TEST_CASE("the gradient of a singular matrix's determinant is its adjugate") {
  const Tensor a = tensor({1.0, 2.0, 2.0, 4.0}, kFloat64).view({2, 2}).requires_grad_();
  linalg_det(a).backward();
  CHECK(distance(a.grad(), tensor({4.0, -2.0, -2.0, 1.0}, kFloat64).view({2, 2})) < 1e-12);
}

TEST_CASE("matrices without the asked factor are refused by a typed error") {
  CHECK_THROWS_WITH_AS(linalg_inv(zeros({2, 3, 3})),
                       "linalg_inv: matrix 0 of 2 is singular and has no inverse (A [2, 3, 3]).",
                       LinAlgError);
  const Tensor indefinite = tensor({2.0, 0.0, 0.0, -1.0}, kFloat64).view({2, 2});
  CHECK_THROWS_WITH_AS(linalg_cholesky(indefinite),
                       "linalg_cholesky: matrix 0 of 1 is not positive definite: its leading minor "
                       "of order 2 is not positive (self [2, 2]).",
                       LinAlgError);
  const Tensor a = randn({4, 2}).requires_grad_();
  CHECK_THROWS_AS(std::get<1>(linalg_qr(a, "r")).sum().backward(), AutogradError);
  CHECK_THROWS_AS(std::get<1>(linalg_qr(a, "complete")).sum().backward(), AutogradError);
  CHECK_THROWS_AS(linalg_inv(randn({2, 2}).to(kFloat16)), TypeError);
}
