// LU, Cholesky, QR, eigenvalues and singular values against what they must reproduce, at sizes
// around those of their blocks; bits that do not depend on threads.
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

namespace {

template <class T> std::vector<T> as(const Matrix& m, double factor = 1) {
  std::vector<T> to;
  for (const double x : m) to.push_back(static_cast<T>(x * factor));
  return to;
}

template <class T> Matrix wide(const std::vector<T>& m, double factor = 1) {
  Matrix to;
  for (const T x : m) to.push_back(static_cast<double>(x) * factor);
  return to;
}

/// An orthogonal matrix.
Matrix basis(int64_t n, uint32_t seed) {
  const Matrix a = random_matrix(n, n, seed);
  Matrix q(a.size()), r(a.size());
  kernels::qr<double>(n, n, n, a.data(), q.data(), r.data());
  return q;
}

/// Values from 1 down to 10^-12, steeper and steeper.
double steep(int64_t i, int64_t n) {
  return std::pow(10.0,
                  -12 * static_cast<double>(i) / static_cast<double>(std::max<int64_t>(n - 1, 1)));
}

/// Spectra that iterations find hard: zeros, equal values, clusters, steep slopes in both
/// directions.
std::vector<Matrix> hard_spectra(int64_t n) {
  std::vector<Matrix> all(6, Matrix(static_cast<size_t>(n)));
  for (int64_t i = 0; i < n; ++i) {
    all[0][i] = 0;
    all[1][i] = 1;
    all[2][i] = i < n / 2 ? 1 : 0;
    all[3][i] = steep(i, n);
    all[4][i] = steep(n - 1 - i, n);
    all[5][i] = i % 2 == 0 ? 1 + 1e-14 * static_cast<double>(i) : -1;
  }
  return all;
}

template <class T> struct Svd {
  Svd(int64_t m, int64_t n, bool full, const Matrix& a, double factor = 1)
      : rows(m), columns(n), k(std::min(m, n)), left(full ? m : k), right(full ? n : k) {
    const std::vector<T> given = as<T>(a, factor);
    std::vector<T> u_found(m * left), s_found(k), vt_found(right * n), alone(k);
    REQUIRE(
        kernels::svd<T>(m, n, full, given.data(), u_found.data(), s_found.data(), vt_found.data()));
    REQUIRE(kernels::svd<T>(m, n, full, given.data(), nullptr, alone.data(), nullptr));
    CHECK(s_found == alone);
    CHECK(std::is_sorted(s_found.rbegin(), s_found.rend()));
    CHECK((k == 0 || s_found.back() >= 0));
    u = wide(u_found), s = wide(s_found, 1 / factor), vt = wide(vt_found);
    given_ = wide(given, 1 / factor);
  }
  void check(double tolerance) const {
    Matrix scaled(static_cast<size_t>(rows * k)), v(static_cast<size_t>(k * columns));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < k; ++j) scaled[i * k + j] = u[i * left + j] * s[j];
    std::copy_n(vt.begin(), v.size(), v.begin());
    CHECK(difference(product(scaled, v, rows, k, columns), given_) < tolerance);
    CHECK(difference(product(transposed(u, rows, left), u, left, rows, left), identity(left)) <
          tolerance);
    CHECK(difference(product(vt, transposed(vt, right, columns), right, columns, right),
                     identity(right)) < tolerance);
  }
  int64_t rows, columns, k, left, right;
  Matrix u, s, vt, given_;
};

template <class T>
Matrix checked_eigenvalues(int64_t n, const Matrix& a, double tolerance, double factor = 1) {
  const std::vector<T> given = as<T>(a, factor);
  std::vector<T> found(n), vectors(n * n), alone(n);
  for (const bool lower : {true, false}) {
    std::vector<T> triangle = given;  // the other one is not read
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) triangle[lower ? i * n + j : j * n + i] = NAN;
    REQUIRE(kernels::eigh<T>(n, lower, triangle.data(), found.data(), vectors.data()));
    REQUIRE(kernels::eigh<T>(n, lower, triangle.data(), alone.data(), nullptr));
    CHECK(found == alone);
    CHECK(std::is_sorted(found.begin(), found.end()));
  }
  Matrix values = wide(found, 1 / factor);
  const Matrix v = wide(vectors);
  Matrix scaled = v;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) scaled[i * n + j] *= values[j];
  CHECK(difference(product(scaled, transposed(v, n, n), n, n, n), wide(given, 1 / factor)) <
        tolerance);
  CHECK(difference(product(transposed(v, n, n), v, n, n, n), identity(n)) < tolerance);
  return values;
}

Matrix symmetric(int64_t n, uint32_t seed) {
  const Matrix m = random_matrix(n, n, seed);
  Matrix a = transposed(m, n, n);
  for (size_t i = 0; i < a.size(); ++i) a[i] += m[i];
  return a;
}

}  // namespace

TEST_CASE("svd: factors multiply to the matrix and are orthonormal, whatever its shape") {
  for (const int64_t m : kSizes)
    for (const int64_t n : {1, 3, 16, 33, 70})
      for (const bool full : {false, true}) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(full);
        const Matrix a = random_matrix(m, n, 8);
        Svd<double>(m, n, full, a).check(2e-13);
        Svd<float>(m, n, full, a).check(1e-4);
      }
}

TEST_CASE("svd: singular values that are known, equal, zero or of all magnitudes") {
  for (const int64_t n : {1, 2, 5, 16, 40, 100})
    for (const Matrix& values : hard_spectra(n)) {
      CAPTURE(n);
      Matrix scaled = basis(n, 9), sorted = values;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) scaled[i * n + j] *= values[j];
      for (double& x : sorted) x = std::abs(x);
      std::sort(sorted.rbegin(), sorted.rend());
      const Svd<double> found(n, n, true, product(scaled, basis(n, 10), n, n, n));
      found.check(1e-13);
      CHECK(difference(found.s, sorted) < 1e-13);
      // Two diagonals as they are: an upper one, from which nothing is left to do but the sweeps.
      Matrix two(static_cast<size_t>(n * n), 0.0);
      for (int64_t i = 0; i < n; ++i) {
        two[i * (n + 1)] = values[i];
        if (i + 1 < n) two[i * (n + 1) + 1] = values[n - 1 - i];
      }
      Svd<double>(n, n, false, two).check(1e-13);
    }
}

TEST_CASE("eigh: vectors diagonalise the matrix, whichever triangle is read") {
  for (const int64_t n : kSizes) {
    CAPTURE(n);
    const Matrix a = symmetric(n, 11);
    checked_eigenvalues<double>(n, a, 5e-13);
    checked_eigenvalues<float>(n, a, 2e-4);
  }
}

TEST_CASE("eigh: eigenvalues that are known, equal, zero or of all magnitudes") {
  for (const int64_t n : {1, 2, 5, 16, 40, 100})
    for (const Matrix& values : hard_spectra(n)) {
      CAPTURE(n);
      const Matrix q = basis(n, 12);
      Matrix scaled = q, sorted = values;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) scaled[i * n + j] *= values[j];
      std::sort(sorted.begin(), sorted.end());
      Matrix a = product(scaled, transposed(q, n, n), n, n, n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
      CHECK(difference(checked_eigenvalues<double>(n, a, 1e-13), sorted) < 1e-13);
    }
}

TEST_CASE("decompositions keep their digits where squares of the entries would not fit") {
  for (const int64_t n : {1, 3, 20, 50})
    for (const double factor : {0x1p-900, 0x1p-300, 0x1p300, 0x1p900}) {
      CAPTURE(n);
      CAPTURE(factor);
      const Matrix a = random_matrix(n, n, 13), scaled = as<double>(a, factor);
      Svd<double>(n, n, true, a, factor).check(1e-13);
      checked_eigenvalues<double>(n, symmetric(n, 14), 1e-12, factor);
      Matrix q(a.size()), r(a.size());
      kernels::qr<double>(n, n, n, scaled.data(), q.data(), r.data());
      CHECK(difference(product(q, wide(r, 1 / factor), n, n, n), a) < 1e-13);
      CHECK(difference(product(transposed(q, n, n), q, n, n, n), identity(n)) < 1e-13);
    }
  for (const double factor : {0x1p-100, 0x1p100})
    Svd<float>(20, 20, true, random_matrix(20, 20, 15), factor).check(1e-5);
}

TEST_CASE("eigh and svd refuse what is not finite") {
  for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)})
    for (const int64_t n : {1, 2, 9, 40}) {
      Matrix a = random_matrix(n, n, 16), u(a.size()), s(static_cast<size_t>(n)), vt(a.size());
      a[a.size() - 1] = bad;
      CHECK_FALSE(kernels::svd<double>(n, n, true, a.data(), u.data(), s.data(), vt.data()));
      CHECK_FALSE(kernels::eigh<double>(n, true, a.data(), s.data(), u.data()));
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
    std::vector<float> all(10 * n * n);
    REQUIRE(kernels::inverse<float>(n, a.data(), all.data()));
    REQUIRE(kernels::cholesky<float>(n, a.data(), all.data() + n * n) == 0);
    kernels::qr<float>(n, n, n, a.data(), all.data() + 2 * n * n, all.data() + 3 * n * n);
    float *const vectors = all.data() + 4 * n * n, *const values = vectors + 4 * n * n;
    REQUIRE(kernels::eigh<float>(n, true, a.data(), values, vectors));
    REQUIRE(kernels::svd<float>(n, n, true, a.data(), vectors + n * n, values + n,
                                vectors + 2 * n * n));
    REQUIRE(kernels::svd<float>(n, n / 2, false, a.data(), vectors + 3 * n * n, values + 2 * n,
                                values + 3 * n));
    results.push_back(std::move(all));
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}
