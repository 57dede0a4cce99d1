// Pooling kernels against the definition, in both layouts: dilation, ceil_mode, padding, divisors,
// adaptive windows, ties and NaN, gradients, and bits that do not depend on threads.
#include "kernels/pool.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "pellucid/parallel.h"
#include "threads.h"

namespace {

using namespace pellucid::kernels;

/// Few distinct values, so that windows have ties.
template <class T> std::vector<T> random_values(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(static_cast<int>(generator() % 21) - 10) / T(4);
  return v;
}

int64_t at(PoolLayout layout, int64_t C, int64_t H, int64_t W, int64_t n, int64_t c, int64_t h,
           int64_t w) {
  return layout == PoolLayout::NHWC ? ((n * H + h) * W + w) * C + c : ((n * C + c) * H + h) * W + w;
}

struct Expected {
  std::vector<double> y, dx;
  std::vector<int64_t> indices;
};

/// The windows as PyTorch's formulas state them, independent of the plan's.
struct Rule {
  PoolShape s;
  bool adaptive = false;
  int64_t OH = 0, OW = 0;
  int64_t rows() const { return adaptive ? OH : s.OH(); }
  int64_t columns() const { return adaptive ? OW : s.OW(); }
  PoolPlan plan() const {
    return adaptive ? adaptive_pool_plan(s.N, s.C, s.H, s.W, OH, OW) : pool_plan(s);
  }

  /// Positions of output i; those in the padding too.
  static std::vector<int64_t> positions(bool adaptive, int64_t i, int64_t size, int64_t outputs,
                                        int64_t k, int64_t stride, int64_t pad, int64_t dilation) {
    std::vector<int64_t> all;
    if (adaptive) {
      for (int64_t p = static_cast<int64_t>(std::floor(double(i) * size / outputs));
           p < std::ceil(double(i + 1) * size / outputs); ++p)
        all.push_back(p);
    } else {
      for (int64_t t = 0; t < k; ++t)
        if (i * stride - pad + t * dilation < size + pad)
          all.push_back(i * stride - pad + t * dilation);
    }
    return all;
  }
  std::vector<int64_t> h(int64_t i) const {
    return positions(adaptive, i, s.H, OH, s.KH, s.stride_h, s.pad_h, s.dilation_h);
  }
  std::vector<int64_t> w(int64_t i) const {
    return positions(adaptive, i, s.W, OW, s.KW, s.stride_w, s.pad_w, s.dilation_w);
  }
};

template <class T>
Expected expected(const Rule& r, PoolLayout layout, bool maximum, const AverageOptions& o,
                  const std::vector<T>& x, const std::vector<T>& dy) {
  const PoolShape& s = r.s;
  Expected e{std::vector<double>(dy.size()), std::vector<double>(x.size()),
             std::vector<int64_t>(dy.size())};
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t c = 0; c < s.C; ++c)
      for (int64_t i = 0; i < r.rows(); ++i)
        for (int64_t j = 0; j < r.columns(); ++j) {
          const int64_t to = at(layout, s.C, r.rows(), r.columns(), n, c, i, j);
          double best = -INFINITY, sum = 0;
          int64_t where = -1, inside = 0;
          const auto hs = r.h(i), ws = r.w(j);
          for (const int64_t h : hs)
            for (const int64_t w : ws) {
              if (h < 0 || h >= s.H || w < 0 || w >= s.W) continue;
              const double v = x[at(layout, s.C, s.H, s.W, n, c, h, w)];
              if (where < 0 || v > best || std::isnan(v)) best = v, where = h * s.W + w;
              sum += v;
              ++inside;
            }
          const double by = o.divisor_override != 0 ? double(o.divisor_override)
                            : o.count_include_pad   ? double(hs.size() * ws.size())
                                                    : double(inside);
          e.y[to] = maximum ? best : sum / by;
          e.indices[to] = where;
          if (maximum) {
            e.dx[at(layout, s.C, s.H, s.W, n, c, where / s.W, where % s.W)] += dy[to];
          } else {
            for (const int64_t h : hs)
              for (const int64_t w : ws)
                if (h >= 0 && h < s.H && w >= 0 && w < s.W)
                  e.dx[at(layout, s.C, s.H, s.W, n, c, h, w)] += dy[to] / by;
          }
        }
  return e;
}

template <class T> struct Computed {
  std::vector<T> y, dx;
  std::vector<int64_t> indices;
  bool operator==(const Computed&) const = default;
};

template <class T>
Computed<T> compute(const Rule& r, PoolLayout layout, bool maximum, const AverageOptions& o,
                    const std::vector<T>& x, const std::vector<T>& dy) {
  const PoolPlan plan = r.plan();
  Computed<T> c{std::vector<T>(dy.size(), T(77)), std::vector<T>(x.size(), T(77)),
                std::vector<int64_t>(dy.size(), -7)};
  if (maximum) {
    max_pool_forward<T>(plan, layout, x.data(), c.y.data(), c.indices.data());
    max_pool_backward<T>(plan, layout, dy.data(), c.indices.data(), c.dx.data());
    std::vector<T> alone(dy.size(), T(77));
    max_pool_forward<T>(plan, layout, x.data(), alone.data(), nullptr);
    CHECK(alone == c.y);
  } else {
    avg_pool_forward<T>(plan, layout, o, x.data(), c.y.data());
    avg_pool_backward<T>(plan, layout, o, dy.data(), c.dx.data());
  }
  return c;
}

std::vector<Rule> rules() {
  std::vector<Rule> all = {
      // wide rows, in which most windows are alike: strides of 1 to 4, borders, more than one block
      {{.C = 2, .H = 4, .W = 610, .KH = 2, .KW = 2, .stride_h = 2, .stride_w = 2}},
      {{.C = 2, .H = 3, .W = 45, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1}},
      {{.C = 3, .H = 1, .W = 61, .KW = 5, .stride_w = 3, .pad_w = 2, .ceil_mode = true}},
      {{.C = 2, .H = 2, .W = 80, .KW = 3, .stride_w = 4, .pad_w = 1}},
      {{.N = 2, .C = 70, .H = 6, .W = 6, .KH = 2, .KW = 2, .stride_h = 2, .stride_w = 2}},
      {{.N = 9,
        .C = 5,
        .H = 7,
        .W = 8,
        .KH = 3,
        .KW = 3,
        .stride_h = 2,
        .stride_w = 2,
        .pad_h = 1,
        .pad_w = 1}},
      {{.N = 1,
        .C = 17,
        .H = 7,
        .W = 8,
        .KH = 3,
        .KW = 2,
        .stride_h = 2,
        .stride_w = 3,
        .pad_h = 1,
        .pad_w = 1,
        .ceil_mode = true}},
      {{.N = 2,
        .C = 3,
        .H = 1,
        .W = 20,
        .KH = 1,
        .KW = 4,
        .stride_w = 3,
        .pad_w = 2,
        .ceil_mode = true}},
      {{.N = 2, .C = 4, .H = 5, .W = 7}, true, 3, 2},
      {{.N = 2, .C = 4, .H = 5, .W = 7}, true, 1, 1},
      {{.N = 1, .C = 4, .H = 3, .W = 2}, true, 5, 4},
      {{.N = 0, .C = 4, .H = 4, .W = 4, .KH = 2, .KW = 2}},
      {{.N = 3, .C = 64, .H = 20, .W = 20, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1}},
  };
  std::mt19937 g(11);
  const auto pick = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(g() % static_cast<uint64_t>(to - from + 1));
  };
  while (all.size() < 40) {
    PoolShape s{.N = pick(1, 3),
                .C = pick(1, 20),
                .H = pick(1, 9),
                .W = pick(1, 9),
                .KH = pick(1, 4),
                .KW = pick(1, 4),
                .stride_h = pick(1, 3),
                .stride_w = pick(1, 3)};
    s.pad_h = pick(0, s.KH / 2), s.pad_w = pick(0, s.KW / 2);
    s.ceil_mode = pick(0, 1) == 1;
    if (s.OH() > 0 && s.OW() > 0) all.push_back({s});
  }
  return all;
}

template <class T>
void check(const Rule& r, PoolLayout layout, bool maximum, const AverageOptions& o) {
  const PoolShape& s = r.s;
  INFO("NHWC ", layout == PoolLayout::NHWC, " max ", maximum, " N ", s.N, " C ", s.C, " H ", s.H,
       " W ", s.W, " K ", s.KH, "x", s.KW, " stride ", s.stride_h, ",", s.stride_w, " pad ",
       s.pad_h, ",", s.pad_w, " dilation ", s.dilation_h, ",", s.dilation_w, " ceil ", s.ceil_mode,
       " adaptive ", r.adaptive);
  const auto x = random_values<T>(s.N * s.C * s.H * s.W, 1),
             dy = random_values<T>(s.N * s.C * r.rows() * r.columns(), 2);
  const Expected e = expected(r, layout, maximum, o, x, dy);
  std::vector<Computed<T>> results;
  for (const int threads : {1, 2, 4}) {
    const Threads set(threads);
    results.push_back(compute<T>(r, layout, maximum, o, x, dy));
  }
  REQUIRE(r.plan().OH() == r.rows());
  const Computed<T>& c = results[0];
  double worst = 0;
  for (size_t i = 0; i < c.y.size(); ++i) worst = std::max(worst, std::abs(c.y[i] - e.y[i]));
  for (size_t i = 0; i < c.dx.size(); ++i) worst = std::max(worst, std::abs(c.dx[i] - e.dx[i]));
  CHECK(worst < (sizeof(T) == 4 ? 2e-6 : 1e-14));
  if (maximum) CHECK(c.indices == e.indices);
  CHECK(results[1] == c);
  CHECK(results[2] == c);
}

}  // namespace

TEST_CASE_TEMPLATE("pool: max equals the definition, in both layouts, whatever the threads", T,
                   float, double) {
  for (Rule r : rules())
    for (const PoolLayout layout : {PoolLayout::NHWC, PoolLayout::NCHW}) {
      check<T>(r, layout, true, {});
      r.s.dilation_h = 2;
      if (!r.adaptive && r.s.OH() > 0) check<T>(r, layout, true, {});
      r.s.dilation_h = 1;
      r.s.dilation_w = 2;
      if (!r.adaptive && r.s.OW() > 0) check<T>(r, layout, true, {});
      r.s.dilation_w = 1;
    }
}

TEST_CASE_TEMPLATE("pool: average equals the definition, with every kind of divisor", T, float,
                   double) {
  for (const Rule& r : rules())
    for (const PoolLayout layout : {PoolLayout::NHWC, PoolLayout::NCHW})
      for (const AverageOptions& o :
           {AverageOptions{true, 0}, AverageOptions{false, 0}, AverageOptions{true, 5}})
        check<T>(r, layout, false, o);
}

TEST_CASE("pool: output sizes are PyTorch's") {
  // torch.nn.functional.max_pool1d(torch.zeros(1, 1, size), k, s, p, d, ceil_mode).size(-1)
  CHECK(PoolShape::output_size(5, 2, 2, 0, 1, false) == 2);
  CHECK(PoolShape::output_size(5, 2, 2, 0, 1, true) == 3);
  CHECK(PoolShape::output_size(4, 1, 3, 0, 1, true) == 2);
  CHECK(PoolShape::output_size(6, 3, 2, 1, 1, true) == 4);
  CHECK(PoolShape::output_size(3, 2, 4, 1, 1, true) ==
        1);  // a second window would begin in the right padding
  CHECK(PoolShape::output_size(7, 3, 1, 0, 3, false) == 1);
  CHECK(PoolShape::output_size(2, 3, 1, 0, 1, false) == 0);
}

TEST_CASE("pool: NaN wins, and of several the last; of equal values the first") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> row = {1, nan, 5, 5, nan, 9, 2, 5};
  // 1: one by one; 8, 64 and 77: in lanes, in a block, in all three ways
  for (const int64_t channels : {1, 8, 64, 77})
    for (const PoolLayout layout : {PoolLayout::NHWC, PoolLayout::NCHW}) {
      INFO("NHWC ", layout == PoolLayout::NHWC, ", channels ", channels);
      const auto C = static_cast<size_t>(channels);
      std::vector<float> x(8 * C);
      for (size_t i = 0; i < x.size(); ++i) x[i] = row[layout == PoolLayout::NHWC ? i / C : i % 8];
      const PoolPlan plan =
          pool_plan({.N = 1, .C = channels, .H = 1, .W = 8, .KH = 1, .KW = 5, .stride_w = 3});
      std::vector<float> y(2 * C);
      std::vector<int64_t> indices(2 * C);
      max_pool_forward<float>(plan, layout, x.data(), y.data(), indices.data());
      for (size_t i = 0; i < 2 * C; ++i) CHECK(std::isnan(y[i]));
      for (const int64_t index : indices) CHECK(index == 4);
      const PoolPlan tie =
          pool_plan({.N = 1, .C = channels, .H = 1, .W = 8, .KH = 1, .KW = 2, .stride_w = 2});
      y.resize(4 * C), indices.resize(4 * C);
      max_pool_forward<float>(tie, layout, x.data(), y.data(), indices.data());
      for (size_t c = 0; c < C; ++c)
        CHECK(indices[layout == PoolLayout::NHWC ? C + c : 4 * c + 1] == 2);
      max_pool_forward<float>(tie, layout, x.data(), y.data(), nullptr);  // indices are optional
      CHECK(y[4 * C - 1] == 5);
    }
}
