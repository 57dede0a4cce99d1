// softmax, log_softmax, cross entropy and their gradients against long double loops.
#include "kernels/softmax.h"

#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

using Reals = std::vector<long double>;

template <class T> Reals reals(const std::vector<T>& v) { return Reals(v.begin(), v.end()); }

/// Calls f(first offset, step) for each line along the middle dim.
template <class F> void lines(SoftmaxShape s, const F& f) {
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.inner; ++i)
      f(static_cast<size_t>(o * s.dim * s.inner + i), static_cast<size_t>(s.inner));
}

Reals reference(const Reals& x, SoftmaxShape s, bool log) {
  Reals y(x.size());
  const auto n = static_cast<size_t>(s.dim);
  lines(s, [&](size_t first, size_t step) {
    long double largest = -kInf, sum = 0;
    for (size_t k = 0; k < n; ++k)
      largest = std::isnan(x[first + k * step]) ? x[first + k * step]
                                                : std::max(largest, x[first + k * step]);
    for (size_t k = 0; k < n; ++k) sum += std::exp(x[first + k * step] - largest);
    for (size_t k = 0; k < n; ++k) {
      const long double d = x[first + k * step] - largest;
      y[first + k * step] = log ? d - std::log(sum) : std::exp(d) / sum;
    }
  });
  return y;
}

Reals reference_backward(const Reals& dy, const Reals& y, SoftmaxShape s, bool log) {
  Reals dx(y.size());
  lines(s, [&](size_t first, size_t step) {
    long double sum = 0;
    for (size_t k = 0; k < static_cast<size_t>(s.dim); ++k)
      sum += log ? dy[first + k * step] : dy[first + k * step] * y[first + k * step];
    for (size_t k = 0; k < static_cast<size_t>(s.dim); ++k) {
      const size_t at = first + k * step;
      dx[at] = log ? dy[at] - std::exp(y[at]) * sum : y[at] * (dy[at] - sum);
    }
  });
  return dx;
}

template <class T>
void check_close(const std::vector<T>& got, const Reals& want, double tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << " got " << static_cast<double>(got[i]) << " want "
                    << static_cast<double>(want[i]));
    REQUIRE(close(static_cast<double>(got[i]), want[i], tolerance));
  }
}

template <class T> void check(SoftmaxShape s, double tolerance) {
  const auto n = s.outer * s.dim * s.inner;
  const auto x = random_vector<T>(n, 1, -8, 8), dy = random_vector<T>(n, 2);
  for (const bool log : {false, true}) {
    INFO("shape " << s.outer << "x" << s.dim << "x" << s.inner << " log " << log);
    const auto y = at_every_level(
        [&] {
          std::vector<T> out(x.size());
          softmax(dtype_of<T>, x.data(), out.data(), s, log);
          return out;
        },
        false);
    check_close(y, reference(reals(x), s, log), tolerance);
    auto in_place = x;
    softmax(dtype_of<T>, in_place.data(), in_place.data(), s, log);
    check_close(in_place, reference(reals(x), s, log), tolerance);
    const auto dx = at_every_level(
        [&] {
          std::vector<T> out(x.size());
          softmax_backward(dtype_of<T>, dy.data(), y.data(), out.data(), s, log);
          return out;
        },
        false);
    check_close(dx, reference_backward(reals(dy), reals(y), s, log),
                tolerance * static_cast<double>(1 + s.dim / 100));
  }
}

/// Loss, its weight, and d(sum of g loss)/dlogits, by the formula with log-probabilities.
struct Expected {
  Reals loss, weight, gradient;
};
template <class T>
Expected cross_entropy_reference(const CrossEntropy& c, const std::vector<T>& x,
                                 const std::vector<T>& w, const std::vector<T>& g) {
  const auto rows = static_cast<size_t>(c.rows), classes = static_cast<size_t>(c.classes);
  Expected e{Reals(rows), Reals(rows), Reals(x.size())};
  const Reals p = reference(reals(x), {c.rows, c.classes, 1}, false),
              logp = reference(reals(x), {c.rows, c.classes, 1}, true);
  const auto weight = [&](size_t k) -> long double {
    return w.empty() ? 1 : static_cast<long double>(w[k]);
  };
  for (size_t r = 0; r < rows; ++r) {
    if (c.target[r] == c.ignore_index) continue;
    const auto t = static_cast<size_t>(c.target[r]);
    const long double eps = c.label_smoothing;
    e.weight[r] = weight(t);
    // The loss is -sum_k q_k log p_k, whose gradient is p_j sum(q) - q_j.
    Reals q(classes);
    long double total = 0;
    for (size_t k = 0; k < classes; ++k)
      total += q[k] = (k == t ? (1 - eps) * weight(t) : 0) +
                      eps / static_cast<long double>(classes) * weight(k);
    for (size_t k = 0; k < classes; ++k) {
      e.loss[r] -= q[k] == 0 ? 0 : q[k] * logp[r * classes + k];
      e.gradient[r * classes + k] =
          static_cast<long double>(g[r]) * (p[r * classes + k] * total - q[k]);
    }
  }
  return e;
}

}  // namespace

TEST_CASE("softmax: values and gradients over rows and strided dims") {
  for (const SoftmaxShape s : {SoftmaxShape{1, 1, 1},
                               {3, 5, 1},
                               {40, 1000, 1},
                               {2, 3000, 1},
                               {2, 7, 3},
                               {1, 100, 300},
                               {5, 33, 130},
                               {70, 10, 1}}) {
    check<float>(s, 3e-6);
    check<double>(s, 1e-14);
  }
  check<Half>({4, 50, 1}, 2e-2);
  check<BFloat16>({2, 20, 9}, 1e-1);
}

TEST_CASE("softmax: infinities and NaN") {
  const auto inf = static_cast<float>(kInf);
  for (const int64_t inner : {1, 2}) {
    std::vector<float> x(static_cast<size_t>(4 * inner), -inf), y(x.size());
    softmax(kFloat32, x.data(), y.data(), {1, 4, inner}, false);
    for (const float v : y) CHECK(std::isnan(v));
    x[0] = 1;
    softmax(kFloat32, x.data(), y.data(), {1, 4, inner}, false);
    CHECK(y[0] == 1);
    CHECK(y[static_cast<size_t>(inner)] == 0);
    softmax(kFloat32, x.data(), y.data(), {1, 4, inner}, true);
    CHECK(y[0] == 0);
    CHECK(y[static_cast<size_t>(inner)] == -inf);
    x[0] = static_cast<float>(kNan);
    softmax(kFloat32, x.data(), y.data(), {1, 4, inner}, false);
    for (size_t k = 0; k < 4; ++k) CHECK(std::isnan(y[k * static_cast<size_t>(inner)]));
  }
  std::vector<float> wide = {0, -200, 200, -1e30f}, y(4);
  softmax(kFloat32, wide.data(), y.data(), {1, 4, 1}, false);
  CHECK(y == std::vector<float>{0, 0, 1, 0});
  softmax(kFloat32, nullptr, nullptr, {0, 4, 1}, false);
  softmax(kFloat32, nullptr, nullptr, {4, 0, 1}, false);
}

TEST_CASE("cross entropy: weights, ignored rows, label smoothing") {
  for (const auto& [rows, classes] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {7, 10}, {33, 1500}})
    for (const double smoothing : {0.0, 0.1})
      for (const bool weighted : {false, true}) {
        INFO("rows " << rows << " classes " << classes << " smoothing " << smoothing << " weighted "
                     << weighted);
        const auto x = random_vector<float>(rows * classes, 3, -5, 5),
                   g = random_vector<float>(rows, 4);
        const auto w = weighted ? random_vector<float>(classes, 5, 0.5, 2) : std::vector<float>{};
        auto target = random_vector<int64_t>(rows, 6, 0, static_cast<double>(classes));
        if (rows > 3) target[2] = -100;
        const CrossEntropy c{.type = kFloat32,
                             .logits = x.data(),
                             .rows = rows,
                             .classes = classes,
                             .target = target.data(),
                             .weight = weighted ? w.data() : nullptr,
                             .ignore_index = -100,
                             .label_smoothing = smoothing};
        CHECK(first_bad_target(c) == -1);
        std::vector<float> lse(static_cast<size_t>(rows)), weights(lse.size());
        const auto loss = at_every_level(
            [&] {
              std::vector<float> out(lse.size());
              cross_entropy(c, out.data(), lse.data(), weights.data());
              return out;
            },
            false);
        const Expected e = cross_entropy_reference(c, x, w, g);
        check_close(loss, e.loss, 1e-5);
        check_close(weights, e.weight, 0);
        check_close(at_every_level(
                        [&] {
                          std::vector<float> out(x.size());
                          cross_entropy_backward(c, lse.data(), g.data(), out.data());
                          return out;
                        },
                        false),
                    e.gradient, 2e-6);
      }
}

TEST_CASE("cross entropy: a target that is no class is found") {
  const std::vector<float> x(8);
  const std::vector<int64_t> target = {0, 1, 2, -1};
  CrossEntropy c{
      .type = kFloat32, .logits = x.data(), .rows = 4, .classes = 2, .target = target.data()};
  CHECK(first_bad_target(c) == 2);
  c.ignore_index = 2;
  CHECK(first_bad_target(c) == 3);
}
