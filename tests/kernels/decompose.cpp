// LU, Cholesky and QR against what they must reproduce, at sizes around those of their blocks; bits
// that do not depend on threads.
#include "kernels/decompose.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "pellucid/parallel.h"
#include "threads.h"

namespace {

namespace kernels = pellucid::kernels;
using Matrix = std::vector<double>;

constexpr int64_t kSizes[] = {1, 2, 7, 8, 9, 15, 17, 31, 33, 64, 90, 131};

Matrix random_matrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 generator(seed);
  Matrix m(static_cast<size_t>(rows * columns));
  for (double& x : m) x = static_cast<double>(generator() % 2001) / 1000 - 1;
  return m;
}

Matrix product(const Matrix& a, const Matrix& b, int64_t m, int64_t k, int64_t n) {
  Matrix c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
  return c;
}

Matrix transposed(const Matrix& a, int64_t rows, int64_t columns) {
  Matrix t(a.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  return t;
}

Matrix identity(int64_t n) {
  Matrix m(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) m[i * (n + 1)] = 1;
  return m;
}

double difference(const Matrix& a, const Matrix& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::isnan(a[i]) ? INFINITY : std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("lu: solutions solve, inverses invert, whatever the size") {
  for (const int64_t n : kSizes) {
    CAPTURE(n);
    const Matrix a = random_matrix(n, n, 1), b = random_matrix(n, 5, 2);
    Matrix x(b.size()), inverse(a.size());
    REQUIRE(kernels::solve<double>(n, 5, a.data(), b.data(), x.data()));
    CHECK(difference(product(a, x, n, n, 5), b) < 1e-9);
    REQUIRE(kernels::inverse<double>(n, a.data(), inverse.data()));
    CHECK(difference(product(a, inverse, n, n, n), identity(n)) < 1e-9);
  }
}

TEST_CASE(
    "lu: a determinant is the product of a triangle's diagonal, with the permutation's sign") {
  for (const int64_t n : kSizes) {
    CAPTURE(n);
    Matrix a = random_matrix(n, n, 3);
    double expected = 1;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) a[i * n + j] = 0;
      a[i * (n + 1)] += a[i * (n + 1)] < 0 ? -0.5 : 0.5;
      expected *= a[i * (n + 1)];
    }
    Matrix turned(a.size());  // the rows in reverse: n / 2 swaps
    for (int64_t i = 0; i < n; ++i) std::copy_n(&a[i * n], n, &turned[(n - 1 - i) * n]);
    const double found = kernels::determinant<double>(n, turned.data());
    CHECK(found == doctest::Approx(n / 2 % 2 == 0 ? expected : -expected).epsilon(1e-9));
  }
  CHECK(kernels::determinant<double>(0, nullptr) == 1);
}

TEST_CASE("lu: a singular matrix has neither inverse nor solution") {
  for (const int64_t n : {2, 9, 40}) {
    Matrix a = random_matrix(n, n, 4), b(static_cast<size_t>(n)), out(a.size());
    for (int64_t i = 0; i < n; ++i) a[i * n + n / 2] = 0;
    CHECK_FALSE(kernels::inverse<double>(n, a.data(), out.data()));
    CHECK_FALSE(kernels::solve<double>(n, 1, a.data(), b.data(), out.data()));
    CHECK(kernels::determinant<double>(n, a.data()) == 0);
  }
}

TEST_CASE("cholesky: L L^T gives the matrix back; the first bad minor is named") {
  for (const int64_t n : kSizes) {
    CAPTURE(n);
    const Matrix m = random_matrix(n, n, 5);
    Matrix a = product(m, transposed(m, n, n), n, n, n), l(a.size());
    for (int64_t i = 0; i < n; ++i) a[i * (n + 1)] += 1;
    REQUIRE(kernels::cholesky<double>(n, a.data(), l.data()) == 0);
    CHECK(difference(product(l, transposed(l, n, n), n, n, n), a) < 1e-10 * static_cast<double>(n));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) CHECK_EQ(l[i * n + j], 0);
    const int64_t bad = n / 2;
    a[bad * (n + 1)] = -1;
    CHECK(kernels::cholesky<double>(n, a.data(), l.data()) == bad + 1);
  }
}

TEST_CASE("qr: Q is orthonormal, R is a triangle, and Q R gives the matrix back") {
  for (const int64_t m : {1, 5, 31, 33, 70, 100})
    for (const int64_t n : {1, 6, 32, 34, 80})
      for (const bool complete : {false, true}) {
        CAPTURE(m);
        CAPTURE(n);
        const int64_t columns = complete ? m : std::min(m, n);
        Matrix a = random_matrix(m, n, 6);
        if (n > 2)
          for (int64_t i = 0; i < m; ++i) a[i * n + 2] = 0;  // a column without a direction
        Matrix q(static_cast<size_t>(m * columns)), r(static_cast<size_t>(columns * n));
        kernels::qr<double>(m, n, columns, a.data(), q.data(), r.data());
        CHECK(difference(product(q, r, m, columns, n), a) < 1e-12);
        CHECK(difference(product(transposed(q, m, columns), q, columns, m, columns),
                         identity(columns)) < 1e-12);
        for (int64_t i = 0; i < columns; ++i)
          for (int64_t j = 0; j < std::min(i, n); ++j) CHECK_EQ(r[i * n + j], 0);
        Matrix alone(r.size());
        kernels::qr<double>(m, n, columns, a.data(), nullptr, alone.data());
        CHECK(alone == r);
      }
}

TEST_CASE("decompositions have the same bits for 1, 2 and 4 threads") {
  constexpr int64_t n = 200;
  const Matrix wide = random_matrix(n, n, 7);
  std::vector<float> a(wide.begin(), wide.end());
  for (int64_t i = 0; i < n; ++i) a[i * (n + 1)] += 30;  // regular, and its triangle positive
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4}) {
    const Threads set(threads);
    std::vector<float> all(4 * n * n);
    REQUIRE(kernels::inverse<float>(n, a.data(), all.data()));
    REQUIRE(kernels::cholesky<float>(n, a.data(), all.data() + n * n) == 0);
    kernels::qr<float>(n, n, n, a.data(), all.data() + 2 * n * n, all.data() + 3 * n * n);
    results.push_back(std::move(all));
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}
