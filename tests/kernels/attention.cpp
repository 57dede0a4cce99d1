// Attention kernels against the formula in double: shapes that do not fill tiles, strided heads,
// masks, shared k and v, dropout; the gradient against the formula's; bits that do not depend on
// threads.
#include "kernels/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/philox.h"
#include "pellucid/parallel.h"
#include "threads.h"

namespace {

using namespace pellucid::kernels;

enum class Mask { None, Additive, Boolean };

struct Case {
  AttentionShape shape;
  bool causal = false;
  Mask mask = Mask::None;
  bool mask_per_head = false;  // else broadcast over batch and heads
  double dropout = 0;
  bool positions_outside = true;  // [B, T, H, D] in memory, seen as [B, H, T, D]
};

template <class T> std::vector<T> random_values(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(static_cast<int>(generator() % 2001) - 1000) / T(500);
  return v;
}

HeadStrides strides(const Case& c, int64_t heads, int64_t positions, int64_t width) {
  if (c.positions_outside) return {positions * heads * width, width, heads * width};
  return {positions * heads * width, positions * width, width};
}

/// Inputs, outputs and the mask of a case.
template <class T> struct Data {
  explicit Data(const Case& c) : c(c), s(c.shape) {
    q = random_values<T>(s.B * s.H * s.T * s.D, 1),
    k = random_values<T>(s.B * s.Hkv * s.S * s.D, 2);
    v = random_values<T>(s.B * s.Hkv * s.S * s.Dv, 3),
    dout = random_values<T>(s.B * s.H * s.T * s.Dv, 4);
    const int64_t masks = c.mask_per_head ? s.B * s.H : 1;
    mask = random_values<T>(masks * s.T * s.S, 5);
    std::mt19937 g(6);
    for (int64_t i = 0; i < masks * s.T * s.S; ++i) {
      keep.push_back(g() % 3 != 0);
      if (g() % 7 == 0) mask[i] = -std::numeric_limits<T>::infinity();
    }
    // A row that sees nothing.
    for (int64_t j = 0; j < s.S && s.T > 0; ++j)
      keep[j] = 0, mask[j] = -std::numeric_limits<T>::infinity();
    options.scale = 0.37;
    options.is_causal = c.causal;
    if (c.mask == Mask::Additive) options.mask = mask.data();
    if (c.mask == Mask::Boolean) options.bool_mask = reinterpret_cast<const bool*>(keep.data());
    if (c.mask_per_head)
      options.mask_strides = {s.H * s.T * s.S, s.T * s.S, s.S, 1};
    else
      options.mask_strides = {0, 0, s.S, 1};
    options.dropout = c.dropout;
    options.seed = 99, options.offset = 17;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    out.assign(dout.size(), nan), dq.assign(q.size(), nan), dk.assign(k.size(), nan),
        dv.assign(v.size(), nan);
    lse.assign(s.B * s.H * s.T, nan);
  }

  template <class U>
  HeadTensor<const U> in(const std::vector<U>& x, int64_t heads, int64_t n, int64_t width) const {
    return {x.data(), strides(c, heads, n, width)};
  }
  HeadTensor<T> to(std::vector<T>& x, int64_t heads, int64_t n, int64_t width) const {
    return {x.data(), strides(c, heads, n, width)};
  }

  void run() {
    attention_forward<T>(s, options, in(q, s.H, s.T, s.D), in(k, s.Hkv, s.S, s.D),
                         in(v, s.Hkv, s.S, s.Dv), to(out, s.H, s.T, s.Dv), lse.data());
    attention_backward<T>(s, options, in(q, s.H, s.T, s.D), in(k, s.Hkv, s.S, s.D),
                          in(v, s.Hkv, s.S, s.Dv), in(out, s.H, s.T, s.Dv), lse.data(),
                          in(dout, s.H, s.T, s.Dv), to(dq, s.H, s.T, s.D), to(dk, s.Hkv, s.S, s.D),
                          to(dv, s.Hkv, s.S, s.Dv));
  }

  Case c;
  AttentionShape s;
  AttentionOptions<T> options;
  std::vector<T> q, k, v, dout, mask, out, lse, dq, dk, dv;
  std::vector<uint8_t> keep;
};

struct Reference {
  std::vector<double> out, lse, dq, dk, dv;
};

/// The formula, one query at a time.
template <class T> Reference reference(const Data<T>& d) {
  const AttentionShape& s = d.s;
  Reference r{std::vector<double>(d.out.size()), std::vector<double>(d.lse.size()),
              std::vector<double>(d.q.size()), std::vector<double>(d.k.size()),
              std::vector<double>(d.v.size())};
  const HeadStrides qs = strides(d.c, s.H, s.T, s.D), ks = strides(d.c, s.Hkv, s.S, s.D),
                    vs = strides(d.c, s.Hkv, s.S, s.Dv), os = strides(d.c, s.H, s.T, s.Dv);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.T; ++i) {
        const int64_t head = h / (s.H / s.Hkv), qi = b * qs[0] + h * qs[1] + i * qs[2],
                      oi = b * os[0] + h * os[1] + i * os[2];
        const auto kj = [&](int64_t j) { return b * ks[0] + head * ks[1] + j * ks[2]; };
        const auto vj = [&](int64_t j) { return b * vs[0] + head * vs[1] + j * vs[2]; };
        std::vector<double> p(s.S), z(s.S, 1.0);
        double sum = 0;
        for (int64_t j = 0; j < s.S; ++j) {
          double x = 0;
          for (int64_t e = 0; e < s.D; ++e) x += double(d.q[qi + e]) * double(d.k[kj(j) + e]);
          x *= d.options.scale;
          const int64_t m = (d.c.mask_per_head ? (b * s.H + h) * s.T * s.S : 0) + i * s.S + j;
          if (d.options.mask != nullptr) x += d.mask[m];
          if (d.options.bool_mask != nullptr && !d.keep[m]) x = -INFINITY;
          if (d.c.causal && j > i) x = -INFINITY;
          p[j] = std::exp(x);
          sum += p[j];
          if (d.c.dropout > 0) {
            const uint64_t counter =
                d.options.offset + uint64_t(((b * s.H + h) * s.T + i) * ((s.S + 3) / 4) + j / 4);
            z[j] = pellucid::uniform_float(pellucid::philox4x32(d.options.seed, counter)[j % 4]) >=
                           float(d.c.dropout)
                       ? 1 / (1 - d.c.dropout)
                       : 0;
          }
        }
        r.lse[(b * s.H + h) * s.T + i] = sum == 0 ? INFINITY : std::log(sum);
        if (sum == 0) continue;
        double delta = 0;
        std::vector<double> dp(s.S);
        for (int64_t j = 0; j < s.S; ++j) {
          p[j] /= sum;
          for (int64_t e = 0; e < s.Dv; ++e) {
            r.out[oi + e] += p[j] * z[j] * d.v[vj(j) + e];
            r.dv[vj(j) + e] += p[j] * z[j] * d.dout[oi + e];
            dp[j] += z[j] * d.dout[oi + e] * d.v[vj(j) + e];
          }
          delta += p[j] * dp[j];
        }
        for (int64_t j = 0; j < s.S; ++j)
          for (int64_t e = 0; e < s.D; ++e) {
            const double ds = p[j] * (dp[j] - delta) * d.options.scale;
            r.dq[qi + e] += ds * d.k[kj(j) + e];
            r.dk[kj(j) + e] += ds * d.q[qi + e];
          }
      }
  return r;
}

template <class T> double error(const std::vector<T>& a, const std::vector<double>& b) {
  double scale = 1, worst = 0;
  for (const double v : b)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < a.size(); ++i) {
    if (static_cast<double>(a[i]) == b[i]) continue;  // infinities too
    const double e = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst / scale;
}

const Case kCases[] = {
    {.shape = {.B = 2, .H = 3, .Hkv = 3, .T = 5, .S = 7, .D = 4, .Dv = 4}},
    {.shape = {.B = 1, .H = 2, .Hkv = 2, .T = 1, .S = 1, .D = 8, .Dv = 8}},
    {.shape = {.B = 1, .H = 2, .Hkv = 2, .T = 150, .S = 150, .D = 16, .Dv = 16}, .causal = true},
    {.shape = {.B = 1, .H = 2, .Hkv = 2, .T = 150, .S = 70, .D = 16, .Dv = 16}, .causal = true},
    {.shape = {.B = 1, .H = 2, .Hkv = 1, .T = 40, .S = 300, .D = 8, .Dv = 12}, .causal = true},
    {.shape = {.B = 2, .H = 4, .Hkv = 2, .T = 70, .S = 530, .D = 8, .Dv = 5}},
    {.shape = {.B = 2, .H = 2, .Hkv = 2, .T = 20, .S = 33, .D = 8, .Dv = 8},
     .mask = Mask::Additive},
    {.shape = {.B = 2, .H = 2, .Hkv = 2, .T = 20, .S = 270, .D = 8, .Dv = 8},
     .mask = Mask::Boolean,
     .mask_per_head = true},
    {.shape = {.B = 2, .H = 2, .Hkv = 1, .T = 20, .S = 33, .D = 8, .Dv = 8},
     .causal = true,
     .mask = Mask::Additive,
     .mask_per_head = true,
     .positions_outside = false},
    {.shape = {.B = 2, .H = 2, .Hkv = 2, .T = 30, .S = 290, .D = 8, .Dv = 8}, .dropout = 0.3},
    {.shape = {.B = 1, .H = 4, .Hkv = 2, .T = 30, .S = 31, .D = 8, .Dv = 8},
     .causal = true,
     .mask = Mask::Boolean,
     .dropout = 0.5},
    {.shape = {.B = 2, .H = 2, .Hkv = 2, .T = 3, .S = 0, .D = 8, .Dv = 8}},
    {.shape = {.B = 2, .H = 2, .Hkv = 2, .T = 0, .S = 3, .D = 8, .Dv = 8}},
    {.shape = {.B = 0, .H = 2, .Hkv = 2, .T = 3, .S = 3, .D = 8, .Dv = 8}},
};

template <class T> void check_all(double tolerance) {
  for (const Case& c : kCases) {
    INFO("case ", &c - kCases);
    Data<T> one(c), two(c), four(c);
    {
      const Threads set(1);
      one.run();
    }
    {
      const Threads set(2);
      two.run();
    }
    {
      const Threads set(4);
      four.run();
    }
    const Reference r = reference(one);
    CHECK(error(one.out, r.out) < tolerance);
    CHECK(error(one.lse, r.lse) < tolerance);
    CHECK(error(one.dq, r.dq) < tolerance);
    CHECK(error(one.dk, r.dk) < tolerance);
    CHECK(error(one.dv, r.dv) < tolerance);
    for (const Data<T>* other : {&two, &four}) {
      CHECK(one.out == other->out);
      CHECK(one.lse == other->lse);
      CHECK(one.dq == other->dq);
      CHECK(one.dk == other->dk);
      CHECK(one.dv == other->dv);
    }
  }
}

}  // namespace

TEST_CASE("attention: float equals the formula, with the same bits for 1, 2 and 4 threads") {
  check_all<float>(3e-6);
}
TEST_CASE("attention: double equals the formula, with the same bits for 1, 2 and 4 threads") {
  check_all<double>(1e-13);
}

TEST_CASE("attention: NaN in a query reaches its own row only; large scores do not overflow") {
  Data<float> d(Case{.shape = {.B = 1, .H = 1, .Hkv = 1, .T = 3, .S = 40, .D = 4, .Dv = 4}});
  d.q[0] = NAN;
  for (int i = 4; i < 8; ++i) d.q[i] = 1000;  // the second query: scores of thousands
  d.run();
  CHECK(std::isnan(d.out[0]));
  for (int i = 4; i < 12; ++i) CHECK(std::isfinite(d.out[i]));
}

TEST_CASE("attention: values broadcast over positions by a stride of 0") {
  Data<double> d(Case{.shape = {.B = 1, .H = 1, .Hkv = 1, .T = 3, .S = 40, .D = 4, .Dv = 4}});
  HeadTensor<const double> v{d.v.data(), {0, 0, 0}};
  attention_forward<double>(d.s, d.options, d.in(d.q, 1, 3, 4), d.in(d.k, 1, 40, 4), v,
                            d.to(d.out, 1, 3, 4), d.lse.data());
  for (int i = 0; i < 12; ++i) CHECK(d.out[i] == doctest::Approx(d.v[i % 4]));
}
