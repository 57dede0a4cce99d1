// Matrix products against the defining sum: sizes around the tiles' edges, every layout and dtype,
// batches, vectors, beta that must not read C, every ISA level, and bits that do not depend on
// threads.
#include "kernels/gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "kernels/gemm_stream.h"
#include "pellucid/dtype.h"
#include "pellucid/parallel.h"
#include "threads.h"

namespace {

using namespace pellucid::kernels;
using pellucid::BFloat16;
using pellucid::Half;

enum class Layout { Rows, Columns, PaddedRows, Strided, Reversed };

/// A matrix of the given layout inside a larger block of memory.
template <class T> struct Matrix {
  Matrix(int64_t m, int64_t n, Layout layout, uint32_t seed) : rows(m), columns(n) {
    switch (layout) {
      case Layout::Rows:
        row_stride = n, col_stride = 1;
        break;
      case Layout::Columns:
        row_stride = 1, col_stride = m;
        break;
      case Layout::PaddedRows:
        row_stride = n + 5, col_stride = 1;
        break;
      case Layout::Strided:
        row_stride = 2 * n + 1, col_stride = 2;
        break;
      case Layout::Reversed:
        row_stride = -n, col_stride = 1;
        offset = std::max<int64_t>(m - 1, 0) * n;
        break;
    }
    std::mt19937 g(seed);
    data.resize(
        static_cast<size_t>(std::max<int64_t>(1, m) * (2 * n + 5) + m * std::max<int64_t>(1, n)));
    for (T& x : data) {
      if constexpr (std::is_same_v<T, bool>)
        x = g() % 4 == 0;
      else if constexpr (std::is_integral_v<T>)
        x = static_cast<T>(g());
      else
        x = static_cast<T>(static_cast<float>(static_cast<int>(g() % 65) - 32) / 32.0f);
    }
  }
  int64_t index(int64_t i, int64_t j) const { return offset + i * row_stride + j * col_stride; }
  MatrixView<T> view() { return {data.data() + offset, row_stride, col_stride}; }
  MatrixView<const T> read() const { return {data.data() + offset, row_stride, col_stride}; }
  T at(int64_t i, int64_t j) const { return data[static_cast<size_t>(index(i, j))]; }

  int64_t rows, columns, row_stride = 0, col_stride = 0, offset = 0;
  std::vector<T> data;
};

/// The largest error relative to the sum of the absolute products.
template <class T>
double error(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& before, const Matrix<T>& c,
             double alpha, double beta) {
  double worst = 0;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.columns; ++j) {
      double sum = 0, size = 1;
      for (int64_t p = 0; p < a.columns; ++p) {
        const double x = static_cast<double>(a.at(i, p)) * static_cast<double>(b.at(p, j));
        sum += x, size += std::abs(x);
      }
      const double expected =
          alpha * sum + (beta == 0 ? 0 : beta * static_cast<double>(before.at(i, j)));
      const double e = std::abs(static_cast<double>(c.at(i, j)) - expected) / size;
      worst = std::isnan(e) ? INFINITY : std::max(worst, e);
    }
  return worst;
}

const Layout kLayouts[] = {Layout::Rows, Layout::Columns, Layout::PaddedRows, Layout::Strided,
                           Layout::Reversed};

/// With 1, 2 and 4 threads; `multiply` has gemm's arguments.
template <class T, class F>
void check_with(const F& multiply, int64_t m, int64_t n, int64_t k, Layout la, Layout lb, Layout lc,
                float alpha, float beta, double tolerance) {
  INFO("m ", m, " n ", n, " k ", k, " layouts ", int(la), int(lb), int(lc), " alpha ", alpha,
       " beta ", beta);
  const Matrix<T> a(m, k, la, 1), b(k, n, lb, 2);
  const Matrix<T> before(m, n, lc, 3);
  std::vector<Matrix<T>> results;
  for (const int threads : {1, 2, 4}) {
    const Threads set(threads);
    Matrix<T> c = before;
    if (beta == 0)  // must not be read
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          c.data[static_cast<size_t>(c.index(i, j))] =
              static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    multiply(m, n, k, static_cast<T>(alpha), a.read(), b.read(), static_cast<T>(beta), c.view());
    results.push_back(std::move(c));
  }
  CHECK(error(a, b, before, results[0], alpha, beta) < tolerance);
  for (const Matrix<T>& other : {results[1], results[2]}) {
    bool same = true;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        same &= static_cast<double>(results[0].at(i, j)) == static_cast<double>(other.at(i, j));
    CHECK(same);
  }
}

template <class T>
void check(int64_t m, int64_t n, int64_t k, Layout la, Layout lb, Layout lc, float alpha,
           float beta, double tolerance) {
  const auto multiply = [](auto... x) { gemm<T>(x...); };
  check_with<T>(multiply, m, n, k, la, lb, lc, alpha, beta, tolerance);
}

template <class T> void check_sizes(double tolerance) {
  const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 4},      {14, 32, 8},   {15, 33, 9},
                              {13, 16, 300}, {1, 50, 40},    {50, 1, 40},   {1, 1, 500},
                              {28, 64, 1},   {5, 0, 3},      {0, 4, 3},     {6, 7, 0},
                              {65, 70, 66},  {100, 20, 530}, {130, 150, 90}};
  int turn = 0;
  for (const auto& [m, n, k] : sizes)
    for (const Layout la : kLayouts)
      for (const Layout lb : kLayouts) {
        const Layout lc = kLayouts[++turn % 4];  // C is never reversed
        check<T>(m, n, k, la, lb, lc, turn % 3 == 0 ? 0.5f : 1.0f,
                 turn % 4 == 0   ? 0.0f
                 : turn % 4 == 1 ? 1.0f
                 : turn % 4 == 2 ? 0.0f
                                 : -0.5f,
                 tolerance);
      }
}

}  // namespace

TEST_CASE("gemm: float in every layout") { check_sizes<float>(1e-6); }
TEST_CASE("gemm: double in every layout") { check_sizes<double>(1e-14); }
TEST_CASE("gemm: float16 and bfloat16 sum in float and round once") {
  check<Half>(33, 20, 70, Layout::Rows, Layout::Columns, Layout::Rows, 1, 0, 1e-3);
  check<Half>(5, 9, 7, Layout::Strided, Layout::Reversed, Layout::Columns, 1, 0.5f, 1e-3);
  check<BFloat16>(33, 20, 70, Layout::Columns, Layout::Rows, Layout::PaddedRows, 1, 0, 8e-3);
}

TEST_CASE("gemm: every ISA level") {
  for (const pellucid::Isa level : pellucid::available_isas()) {
    const pellucid::IsaGuard guard(level);
    INFO("level ", int(level));
    for (const int64_t m : {1, 3, 4, 5, 6, 7, 13, 14, 15, 29})
      for (const int64_t n : {1, 4, 8, 15, 16, 17, 31, 33, 70}) {
        check<float>(m, n, 19, Layout::Rows, Layout::Rows, Layout::Rows, 1,
                     m % 2 == 0 ? 0.0f : 1.0f, 1e-6);
        check<double>(m, n, 19, Layout::Rows, Layout::Columns, Layout::Rows, 1,
                      n % 2 == 0 ? 0.0f : 1.0f, 1e-14);
        check<double>(m, n, 300, Layout::Columns, Layout::Columns, Layout::PaddedRows, 0.5f, 1,
                      1e-14);
      }
  }
}

TEST_CASE("gemm: large products are right, and the same for 1, 2 and 4 threads") {
  const int64_t sizes[][3] = {{48, 161, 815}, {153, 279, 847}, {18, 303, 991},
                              {16, 16, 9000}, {200, 520, 130}, {3, 700, 400}};
  for (const auto& [m, n, k] : sizes)
    for (const Layout lb : {Layout::Rows, Layout::Columns}) {
      check<float>(m, n, k, Layout::Rows, lb, Layout::Rows, 1, 0, 1e-6);
      check<double>(m, n, k, Layout::Columns, lb, Layout::Rows, 1, 1, 1e-14);
    }
}

TEST_CASE("gemm: products that are cut by threads have the same bits for 1, 2 and 4") {
  check<float>(1400, 1450, 20, Layout::Rows, Layout::Rows, Layout::Rows, 1, 0, 1e-6);
  check<float>(1401, 1435, 33, Layout::Columns, Layout::Rows, Layout::PaddedRows, 1, 1, 1e-6);
  check<float>(790, 2550, 70, Layout::Rows, Layout::Columns, Layout::Rows, 0.5f, 0, 1e-6);
  for (const int64_t m : {28, 43, 60, 192})
    check<float>(m, 100, 2050, Layout::Rows, Layout::Columns, Layout::Rows, 1, 0, 1e-6);
  check<double>(97, 203, 515, Layout::Rows, Layout::Rows, Layout::Rows, 1, -0.5f, 1e-14);
}

TEST_CASE("gemm: a weight that is stored [out, in], with few and many rows of the input") {
  const int64_t sizes[][3] = {{8, 1600, 256},  {17, 100, 1000}, {33, 45, 1030},  // two blocks of k
                              {64, 40, 2048},  {49, 29, 3072},                   // rows 4 kB apart
                              {270, 57, 1024}, {512, 32, 300},  {300, 71, 257}};
  for (const auto& [m, n, k] : sizes)
    for (const Layout la : {Layout::Rows, Layout::Columns})
      check<float>(m, n, k, la, Layout::Columns, Layout::PaddedRows, 1, 0, 1e-6);
}

/// The kernels in which an operand streams past, whatever gemm would choose.
using Streamed = void (*)(const stream::Task&);
auto streamed(Streamed kernel) {
  return [kernel](int64_t m, int64_t n, int64_t k, float alpha, MatrixView<const float> a,
                  MatrixView<const float> b, float beta, MatrixView<float> c) {
    kernel({m, n, k, alpha, a, b.data, b.row_stride, beta, c.data, c.row_stride});
  };
}

TEST_CASE("gemm: few rows and a large matrix in rows, as in the gradient of a layer's input") {
  if (!stream::available()) return;
  const int64_t sizes[][3] = {{1, 1, 1},      {14, 32, 256},  {15, 33, 257}, {33, 270, 300},
                              {57, 47, 1030}, {130, 65, 515}, {270, 48, 70}, {600, 80, 90}};
  int turn = 0;
  for (const auto& [m, n, k] : sizes)
    for (const Layout la : {Layout::Rows, Layout::Columns, Layout::PaddedRows}) {
      const float beta = ++turn % 3 == 0 ? 0.0f : turn % 3 == 1 ? 1.0f : -0.5f;
      check_with<float>(streamed(stream::multiply_few_rows), m, n, k, la,
                        turn % 2 == 0 ? Layout::PaddedRows : Layout::Rows, Layout::PaddedRows,
                        turn % 4 == 0 ? 0.5f : 1.0f, beta, 1e-6);
    }
  // By gemm, and with a bias.
  check<float>(97, 1040, 1940, Layout::Rows, Layout::Rows, Layout::Rows, 1, 0, 1e-6);
  const Matrix<float> a(97, 1940, Layout::Rows, 1), b(1940, 1040, Layout::Rows, 2);
  Matrix<float> c(97, 1040, Layout::Rows, 3), expected = c;
  gemm_bias<float>(97, 1040, 1940, a.read(), b.read(), a.data.data(), 1, c.data.data(), 1040);
  gemm<float>(97, 1040, 1940, 1, a.read(), b.read(), 0, expected.view());
  add_bias<float>(97, 1040, a.data.data(), 1, expected.data.data(), 1040);
  CHECK(c.data == expected.data);
}

TEST_CASE("gemm: a large result of a short sum, as in the gradient of a layer's weight") {
  if (!stream::available()) return;
  const int64_t sizes[][3] = {{1, 1, 1},     {14, 32, 256},  {15, 33, 257},
                              {75, 800, 40}, {300, 50, 300}, {130, 1550, 20}};
  int turn = 0;
  for (const auto& [m, n, k] : sizes)
    for (const Layout la : {Layout::Rows, Layout::Columns, Layout::Strided}) {
      const float beta = ++turn % 3 == 0 ? 0.0f : turn % 3 == 1 ? 1.0f : -0.5f;
      check_with<float>(streamed(stream::multiply_short), m, n, k, la,
                        turn % 2 == 0 ? Layout::PaddedRows : Layout::Rows, Layout::PaddedRows,
                        turn % 4 == 0 ? 0.5f : 1.0f, beta, 1e-6);
    }
  check<float>(2050, 980, 129, Layout::Columns, Layout::Rows, Layout::Rows, 1, 0, 1e-6);  // by gemm
}

TEST_CASE("gemm: a nan or an infinity reaches its row or column and nothing else") {
  if (!stream::available()) return;
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const int64_t m = 40, n = 75, k = 300;
  for (const Streamed kernel : {stream::multiply_few_rows, stream::multiply_short}) {
    Matrix<float> a(m, k, Layout::Rows, 1), b(k, n, Layout::Rows, 2), c(m, n, Layout::Rows, 3);
    for (std::vector<float>* values : {&a.data, &b.data})
      for (float& x : *values) x = std::abs(x) + 1;
    a.data[static_cast<size_t>(a.index(m - 1, k - 1))] = nan;
    b.data[static_cast<size_t>(b.index(k - 3, n - 1))] = inf;
    streamed(kernel)(m, n, k, 1, a.read(), b.read(), 0, c.view());
    bool right = true;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        right &= i == m - 1   ? std::isnan(c.at(i, j))
                 : j == n - 1 ? c.at(i, j) == inf
                              : std::isfinite(c.at(i, j));
    CHECK(right);
  }
}

TEST_CASE_TEMPLATE("gemm: a linear layer has the bits of the product and then the bias", T, float,
                   double, Half, int32_t) {
  const int64_t sizes[][3] = {{5, 7, 9},     {1, 40, 30},     {40, 1, 30},
                              {3, 4, 0},     {60, 100, 2100}, {40, 50, 300},
                              {130, 90, 70}, {64, 300, 100},  {0, 3, 2}};
  for (const pellucid::Isa level : pellucid::available_isas()) {
    const pellucid::IsaGuard guard(level);
    for (const auto& [m, n, k] : sizes)
      for (const int64_t stride : {0, 1, 2}) {
        INFO("m ", m, " n ", n, " k ", k, " stride ", stride);
        const Matrix<T> a(m, k, Layout::Rows, 1), b(k, n, Layout::Columns, 2),
            bias(2, n + 1, Layout::Rows, 3);
        Matrix<T> c(m, n, Layout::PaddedRows, 4), expected = c;
        gemm_bias<T>(m, n, k, a.read(), b.read(), bias.data.data(), stride, c.data.data(),
                     c.row_stride);
        gemm<T>(m, n, k, T(1), a.read(), b.read(), T(0), expected.view());
        add_bias<T>(m, n, bias.data.data(), stride, expected.data.data(), expected.row_stride);
        bool same = true;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            same &= static_cast<double>(c.at(i, j)) == static_cast<double>(expected.at(i, j));
        CHECK(same);
      }
  }
}

TEST_CASE("gemm: matrix times vector, rows and columns, short and long") {
  const int64_t sizes[][2] = {{1, 70000}, {3, 70000},  {1000, 37},
                              {37, 1000}, {2500, 300}, {70, 4000}};
  for (const auto& [m, k] : sizes)
    for (const Layout la : {Layout::Rows, Layout::Columns, Layout::Strided}) {
      check<float>(m, 1, k, la, Layout::Rows, Layout::Rows, 1, 0, 1e-6);
      check<double>(1, m, k, Layout::Strided, la, Layout::Rows, 1, -0.5f, 1e-14);
    }
}

TEST_CASE_TEMPLATE("gemm: a row of a large matrix has the bits of the row alone", T, float,
                   double) {
  const int64_t m = 403, k = 448;  // several streams of rows, and rows that are left over
  std::mt19937 g(5);
  std::vector<T> a(static_cast<size_t>(m * k)), x(static_cast<size_t>(k)), before(m);
  for (auto* const values : {&a, &x, &before})
    for (T& v : *values)
      v = std::ldexp(T(1), static_cast<int>(g() % 9) - 4) * T(g()) / T(1e9) - T(2);
  for (const int threads : {1, 2, 3}) {
    const Threads set(threads);
    std::vector<T> all = before, alone = before;
    gemm<T>(m, 1, k, T(0.75), {a.data(), k, 1}, {x.data(), 1, 1}, T(-0.5), {all.data(), 1, 1});
    for (int64_t i = 0; i < m; ++i)
      gemm<T>(1, 1, k, T(0.75), {a.data() + i * k, k, 1}, {x.data(), 1, 1}, T(-0.5),
              {alone.data() + i, 1, 1});
    CHECK(all == alone);
  }
}

TEST_CASE_TEMPLATE("gemm: integers wrap around", T, int64_t, int32_t, int16_t, int8_t, uint8_t) {
  for (const Layout la : kLayouts)
    for (const Layout lb : {Layout::Rows, Layout::Columns, Layout::Strided}) {
      const Matrix<T> a(9, 31, la, 1), b(31, 700, lb, 2), before(9, 700, Layout::PaddedRows, 3);
      for (const T beta : {T(0), T(3)}) {
        Matrix<T> c = before;
        gemm<T>(9, 700, 31, T(2), a.read(), b.read(), beta, c.view());
        bool same = true;
        for (int64_t i = 0; i < 9; ++i)
          for (int64_t j = 0; j < 700; ++j) {
            uint64_t sum = 0;
            for (int64_t p = 0; p < 31; ++p)
              sum += static_cast<uint64_t>(a.at(i, p)) * static_cast<uint64_t>(b.at(p, j));
            same &=
                c.at(i, j) == static_cast<T>(2 * sum + static_cast<uint64_t>(beta) *
                                                           static_cast<uint64_t>(before.at(i, j)));
          }
        CHECK(same);
      }
    }
}

TEST_CASE("gemm: bool is any of ands") {
  const bool a[] = {true, false, false, true, false, false},
             b[] = {false, true, true, true, true, false};
  bool c[4] = {};
  gemm<bool>(2, 2, 3, true, {a, 3, 1}, {b, 2, 1}, false, {c, 2, 1});
  CHECK((!c[0] && c[1] && !c[2] && c[3]));
}

TEST_CASE_TEMPLATE("gemm: a batch equals its products, bit for bit", T, float, double, int32_t) {
  for (const int64_t m : {3, 20, 150})
    for (const bool shared : {false, true}) {
      const int64_t batch = 5, n = 17, k = 40;
      const Matrix<T> a(batch * m, k, Layout::Rows, 1), b(batch * k, n, Layout::Rows, 2);
      Matrix<T> c(batch * m, n, Layout::Rows, 3), expected = c;
      bgemm<T>(batch, m, n, k, T(1), a.read(), m * k, b.read(), shared ? 0 : k * n, T(0), c.view(),
               m * n);
      for (int64_t i = 0; i < batch; ++i)
        gemm<T>(m, n, k, T(1), a.read().at(i * m * k), b.read().at(shared ? 0 : i * k * n), T(0),
                expected.view().at(i * m * n));
      bool same = true;
      for (int64_t i = 0; i < batch * m; ++i)
        for (int64_t j = 0; j < n; ++j)
          same &= std::abs(double(c.at(i, j)) - double(expected.at(i, j))) <=
                  (shared ? 1e-5 : 0.0) * std::abs(double(c.at(i, j)));
      CHECK(same);
    }
}

TEST_CASE("gemm: dot and bias") {
  std::vector<double> x(20000), y(20000);
  double expected = 0;
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = double(i % 7), y[i] = double(i % 11), expected += x[i] * y[i];
  CHECK(dot<double>(20000, x.data(), 1, y.data(), 1) == expected);
  double reversed = 0;
  for (size_t i = 0; i < 20000; ++i) reversed += x[i] * y[19999 - i];
  CHECK(dot<double>(20000, x.data(), 1, y.data() + 19999, -1) == reversed);
  CHECK(dot<double>(0, x.data(), 1, y.data(), 1) == 0);
  std::vector<float> c(6, 1.0f);
  const float bias[] = {1, 0, 2, 0, 3, 0};
  add_bias<float>(2, 3, bias, 2, c.data(), 3);
  CHECK(c == std::vector<float>{2, 3, 4, 2, 3, 4});
}

TEST_CASE("gemm: NaN and infinity pass through, also where the other factor is 0") {
  std::vector<float> a(40 * 40, 0.0f), b(40 * 40, 0.0f), c(40 * 40);
  b[0] = std::numeric_limits<float>::infinity();
  gemm<float>(false, false, 40, 40, 40, 1, a.data(), 40, b.data(), 40, 0, c.data(), 40);
  CHECK(std::isnan(c[0]));
  CHECK(c[1] == 0);
}
