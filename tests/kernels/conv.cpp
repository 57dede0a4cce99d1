// Convolution kernels against the defining sum in double: random strides, paddings, dilations and
// groups; bits that do not depend on threads; packed weights that follow their source.
#include "kernels/conv.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "pellucid/parallel.h"
#include "threads.h"

namespace {

using pellucid::kernels::ConvShape;
namespace kernels = pellucid::kernels;

template <class T> std::vector<T> random_values(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(static_cast<int>(generator() % 2001) - 1000) / T(1000);
  return v;
}

/// Calls f(index in x, in w, in y) for each product of the defining sum.
template <class F> void for_each_product(const ConvShape& s, F f) {
  const int64_t cg = s.C / s.groups, og = s.O / s.groups;
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t p = 0; p < s.out_pixels(); ++p)
      for (int64_t o = 0; o < s.O; ++o)
        for (int64_t c = 0; c < cg; ++c)
          for (int64_t tap = 0; tap < s.taps(); ++tap) {
            const int64_t k = p / (s.OH() * s.OW()), i = p / s.OW() % s.OH(), j = p % s.OW();
            const int64_t e = tap / (s.KH * s.KW), a = tap / s.KW % s.KH, b = tap % s.KW;
            const int64_t d = k * s.stride_d - s.pad_d + e * s.dilation_d,
                          h = i * s.stride_h - s.pad_h + a * s.dilation_h,
                          w = j * s.stride_w - s.pad_w + b * s.dilation_w;
            if (d < 0 || d >= s.D || h < 0 || h >= s.H || w < 0 || w >= s.W) continue;
            f((((n * s.D + d) * s.H + h) * s.W + w) * s.C + o / og * cg + c,
              (o * cg + c) * s.taps() + tap, (n * s.out_pixels() + p) * s.O + o);
          }
}

struct Results {
  std::vector<double> y, dx, dw, dbias;
};

Results reference(const ConvShape& s, const std::vector<double>& x, const std::vector<double>& w,
                  const std::vector<double>& bias, const std::vector<double>& dy) {
  Results r{std::vector<double>(dy.size()), std::vector<double>(x.size()),
            std::vector<double>(w.size()), std::vector<double>(bias.size())};
  for (size_t i = 0; i < dy.size(); ++i)
    r.y[i] = bias[i % bias.size()], r.dbias[i % bias.size()] += dy[i];
  for_each_product(s, [&](int64_t xi, int64_t wi, int64_t yi) {
    r.y[yi] += x[xi] * w[wi];
    r.dx[xi] += dy[yi] * w[wi];
    r.dw[wi] += dy[yi] * x[xi];
  });
  return r;
}

template <class T> struct Computed {
  std::vector<T> y, dx, dw, dbias;
  bool operator==(const Computed&) const = default;
};

template <class T>
Computed<T> compute(const ConvShape& s, const std::vector<T>& x, const std::vector<T>& w,
                    const std::vector<T>& bias, const std::vector<T>& dy) {
  // NaN to begin with: whatever is not written shows.
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Computed<T> r{std::vector<T>(dy.size(), nan), std::vector<T>(x.size(), nan),
                std::vector<T>(w.size(), nan), std::vector<T>(bias.size(), nan)};
  kernels::conv_forward<T>(s, x.data(), w.data(), bias.data(), r.y.data());
  kernels::conv_backward_data<T>(s, dy.data(), w.data(), nullptr, r.dx.data());
  kernels::conv_backward_weights<T>(s, x.data(), dy.data(), r.dw.data(), r.dbias.data());
  return r;
}

/// The largest error, as a part of the largest value; NaN counts as infinite.
template <class T> double error(const std::vector<T>& a, const std::vector<double>& b) {
  double scale = 1, worst = 0;
  for (const double v : b) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < a.size(); ++i) {
    const double e = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst / scale;
}

std::vector<ConvShape> shapes() {
  std::vector<ConvShape> all = {
      {.N = 3, .C = 5, .H = 30, .W = 33, .O = 64, .KH = 2, .KW = 4},   // many pixels, few weights
      {.N = 8, .C = 16, .H = 13, .W = 14, .O = 32, .KH = 2, .KW = 3},  // small images, no padding
      {.N = 4,
       .C = 3,
       .H = 49,
       .W = 47,
       .O = 32,
       .KH = 5,
       .KW = 3,
       .stride_h = 2,
       .pad_h = 2,
       .pad_w = 1},
      {.N = 3, .C = 1, .H = 12, .W = 12, .O = 8, .KH = 5, .KW = 5},
      {.N = 2,
       .C = 3,
       .H = 17,
       .W = 15,
       .O = 16,
       .KH = 7,
       .KW = 7,
       .stride_h = 2,
       .stride_w = 2,
       .pad_h = 3,
       .pad_w = 3},
      {.N = 5, .C = 32, .H = 9, .W = 9, .O = 48, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
      {.N = 2, .C = 16, .H = 8, .W = 8, .O = 32, .KH = 1, .KW = 1, .stride_h = 2, .stride_w = 2},
      {.N = 4,
       .C = 24,
       .H = 7,
       .W = 7,
       .O = 24,
       .KH = 3,
       .KW = 3,
       .pad_h = 1,
       .pad_w = 1,
       .groups = 24},
      {.N = 2,
       .C = 12,
       .H = 10,
       .W = 6,
       .O = 8,
       .KH = 3,
       .KW = 2,
       .pad_h = 2,
       .pad_w = 1,
       .dilation_h = 2,
       .dilation_w = 3,
       .groups = 4},
      {.N = 3, .C = 6, .H = 1, .W = 30, .O = 10, .KH = 1, .KW = 5, .stride_w = 3, .pad_w = 2},
      {.N = 1, .C = 20, .H = 6, .W = 6, .O = 20, .KH = 3, .KW = 3},
      {.N = 1, .C = 4, .H = 5, .W = 5, .O = 4, .KH = 5, .KW = 5, .groups = 2},
      {.N = 1, .C = 5, .H = 4, .W = 4, .O = 3, .KH = 1, .KW = 1},
      {.N = 2, .C = 96, .H = 3, .W = 3, .O = 320, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
      {.N = 17, .C = 4, .H = 4, .W = 4, .O = 4, .KH = 2, .KW = 2},
      // Weights' gradients that are cut by output channels.
      {.N = 1, .C = 9, .H = 7, .W = 6, .O = 64, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
      {.N = 3, .C = 512, .H = 2, .W = 2, .O = 256, .KH = 1, .KW = 1},
      // By Winograd's algorithm: odd and even sizes, each padding, small and large filters.
      {.N = 3, .C = 16, .H = 11, .W = 9, .O = 32, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
      {.N = 2, .C = 64, .H = 14, .W = 13, .O = 32, .KH = 3, .KW = 3, .pad_w = 2},
      {.N = 9, .C = 32, .H = 9, .W = 8, .O = 96, .KH = 3, .KW = 3, .pad_h = 2},
      {.N = 7, .C = 160, .H = 7, .W = 7, .O = 128, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
      // Volumes.
      {.N = 2, .C = 3, .H = 5, .W = 4, .O = 8, .KH = 3, .KW = 2, .pad_h = 1, .D = 6, .KD = 2},
      {.N = 3,
       .C = 16,
       .H = 6,
       .W = 7,
       .O = 32,
       .KH = 3,
       .KW = 3,
       .stride_w = 2,
       .pad_h = 1,
       .pad_w = 1,
       .D = 5,
       .KD = 3,
       .stride_d = 2,
       .pad_d = 1},
      {.N = 1,
       .C = 4,
       .H = 4,
       .W = 4,
       .O = 6,
       .KW = 2,
       .groups = 2,
       .D = 7,
       .KD = 3,
       .dilation_d = 2},
      {.N = 2, .C = 5, .H = 3, .W = 3, .O = 4, .D = 1, .KD = 3, .pad_d = 1},
  };
  std::mt19937 g(7);
  const auto pick = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(g() % static_cast<uint64_t>(to - from + 1));
  };
  while (all.size() < 48) {
    ConvShape s;
    s.groups = pick(1, 3);
    s.N = pick(1, 5);
    s.C = s.groups * pick(1, 9);
    s.O = s.groups * pick(1, 9);
    s.H = pick(1, 11), s.W = pick(1, 11), s.KH = pick(1, 4), s.KW = pick(1, 4);
    s.stride_h = pick(1, 3), s.stride_w = pick(1, 3), s.dilation_h = pick(1, 2),
    s.dilation_w = pick(1, 2);
    s.pad_h = pick(0, s.KH / 2), s.pad_w = pick(0, s.KW / 2);
    const bool fits = s.H + 2 * s.pad_h > s.dilation_h * (s.KH - 1) &&
                      s.W + 2 * s.pad_w > s.dilation_w * (s.KW - 1);
    if (fits) all.push_back(s);
  }
  return all;
}

/// One result for each number of threads: none of the parts may depend on it.
template <class T> void check_same_bits(const std::vector<Computed<T>>& results) {
  for (size_t i = 1; i < results.size(); ++i) {
    CHECK_MESSAGE(results[0].y == results[i].y, "forward, result ", i);
    CHECK_MESSAGE(results[0].dx == results[i].dx, "gradient of the input, result ", i);
    CHECK_MESSAGE(results[0].dw == results[i].dw, "gradient of the weights, result ", i);
    CHECK_MESSAGE(results[0].dbias == results[i].dbias, "gradient of the bias, result ", i);
  }
}

template <class T> void check_all(double tolerance) {
  for (const ConvShape& s : shapes()) {
    INFO("N ", s.N, " C ", s.C, " D ", s.D, " KD ", s.KD, " H ", s.H, " W ", s.W, " O ", s.O, " K ",
         s.KH, "x", s.KW, " stride ", s.stride_h, ",", s.stride_w, " pad ", s.pad_h, ",", s.pad_w,
         " dilation ", s.dilation_h, ",", s.dilation_w, " groups ", s.groups);
    const auto x = random_values<double>(s.N * s.in_pixels() * s.C, 1),
               w = random_values<double>(s.weight_count(), 2);
    const auto bias = random_values<double>(s.O, 3),
               dy = random_values<double>(s.N * s.out_pixels() * s.O, 4);
    const auto as = [](const std::vector<double>& v) { return std::vector<T>(v.begin(), v.end()); };
    const Results expected = reference(s, x, w, bias, dy);
    std::vector<Computed<T>> results;
    for (const int threads : {1, 2, 4}) {
      const Threads set(threads);
      results.push_back(compute<T>(s, as(x), as(w), as(bias), as(dy)));
    }
    CHECK(error(results[0].y, expected.y) < tolerance);
    CHECK(error(results[0].dx, expected.dx) < tolerance);
    CHECK(error(results[0].dw, expected.dw) < tolerance);
    CHECK(error(results[0].dbias, expected.dbias) < tolerance);
    check_same_bits(results);
  }
}

}  // namespace

TEST_CASE("conv: float equals the defining sum, with the same bits for 1, 2 and 4 threads") {
  check_all<float>(2e-6);
}
TEST_CASE("conv: double equals the defining sum, with the same bits for 1, 2 and 4 threads") {
  check_all<double>(1e-14);
}

TEST_CASE("conv: larger shapes have the same bits for 1, 2 and 4 threads") {
  for (const ConvShape& s :
       {ConvShape{.N = 8, .C = 32, .H = 26, .W = 26, .O = 64, .KH = 3, .KW = 3},
        ConvShape{.N = 4, .C = 128, .H = 14, .W = 14, .O = 64, .KH = 1, .KW = 1},
        ConvShape{.N = 2,
        .C = 3,
        .H = 64,
        .W = 64,
        .O = 64,
        .KH = 7,
        .KW = 7,
        .stride_h = 2,
        .stride_w = 2,
        .pad_h = 3,
        .pad_w = 3},
        ConvShape{
            .N = 2, .C = 256, .H = 7, .W = 7, .O = 256, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
        ConvShape{
            .N = 4, .C = 256, .H = 14, .W = 14, .O = 256, .KH = 3, .KW = 3, .pad_h = 1, .pad_w = 1},
        ConvShape{.N = 1,
        .C = 64,
        .H = 28,
        .W = 28,
        .O = 64,
        .KH = 3,
        .KW = 3,
        .pad_h = 1,
        .pad_w = 1}}) {
    INFO("C ", s.C, " O ", s.O, " K ", s.KH);
    const auto x = random_values<float>(s.N * s.H * s.W * s.C, 1),
               w = random_values<float>(s.weight_count(), 2);
    const auto bias = random_values<float>(s.O, 3),
               dy = random_values<float>(s.N * s.OH() * s.OW() * s.O, 4);
    std::vector<Computed<float>> results;
    for (const int threads : {1, 2, 4}) {
      const Threads set(threads);
      results.push_back(compute<float>(s, x, w, bias, dy));
    }
    check_same_bits(results);
  }
}

TEST_CASE_TEMPLATE("conv: a transposed convolution is backward_data with a bias", T, float,
                   double) {
  const ConvShape s{.N = 2,
                    .C = 5,
                    .H = 9,
                    .W = 8,
                    .O = 4,
                    .KH = 3,
                    .KW = 3,
                    .stride_h = 2,
                    .stride_w = 2,
                    .pad_h = 1,
                    .pad_w = 1};
  const auto in = random_values<T>(s.N * s.OH() * s.OW() * s.O, 1),
             w = random_values<T>(s.weight_count(), 2), bias = random_values<T>(s.C, 3);
  std::vector<double> expected(s.N * s.H * s.W * s.C);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = bias[i % 5];
  for_each_product(s, [&](int64_t xi, int64_t wi, int64_t yi) {
    expected[xi] += double(in[yi]) * double(w[wi]);
  });
  std::vector<T> out(expected.size());
  kernels::conv_backward_data<T>(s, in.data(), w.data(), bias.data(), out.data());
  CHECK(error(out, expected) < 1e-6);
}

TEST_CASE_TEMPLATE("conv: an empty batch gives zero gradients", T, float, double) {
  const ConvShape s{.N = 0, .C = 2, .H = 5, .W = 5, .O = 3, .KH = 3, .KW = 3};
  std::vector<T> dw(s.weight_count(), T(7)), dbias(3, T(7)), w(s.weight_count(), T(1));
  kernels::conv_forward<T>(s, nullptr, w.data(), nullptr, nullptr);
  kernels::conv_backward_weights<T>(s, nullptr, nullptr, dw.data(), dbias.data());
  CHECK(dw == std::vector<T>(dw.size(), T(0)));
  CHECK(dbias == std::vector<T>(3, T(0)));
}

// Keeps one form, as an owner of weights does.
class KeptWeights final : public kernels::Weights {
 public:
  explicit KeptWeights(const void* values) : Weights(values) {}
  bool keeps() const override { return true; }
  void keep(std::shared_ptr<const kernels::PackedForm> form) const override {
    form_ = std::move(form);
  }
  bool has_form() const { return form_ != nullptr; }

 protected:
  std::shared_ptr<const kernels::PackedForm> find_form(const Fits& fits) const override {
    return form_ && fits(*form_) ? form_ : nullptr;
  }

 private:
  mutable std::shared_ptr<const kernels::PackedForm> form_;
};

// One for each way that a convolution takes (conv.cpp).
const ConvShape kWays[] = {
    {.N = 2, .C = 16, .H = 6, .W = 6, .O = 32, .KH = 3, .KW = 3},  // oneDNN
    {.N = 2,
     .C = 32,
     .H = 26,
     .W = 26,
     .O = 64,
     .KH = 3,
     .KW = 3,
     .pad_h = 1,
     .pad_w = 1},  // tiles
    {.N = 2,
     .C = 256,
     .H = 16,
     .W = 16,
     .O = 256,
     .KH = 3,
     .KW = 3,
     .pad_h = 1,
     .pad_w = 1},                                                                // panels
    {.N = 8, .C = 16, .H = 14, .W = 14, .O = 32, .KH = 5, .KW = 5},              // direct
    {.N = 2, .C = 32, .H = 9, .W = 9, .O = 32, .KH = 3, .KW = 3, .groups = 32},  // depthwise
    {.N = 3, .C = 64, .H = 8, .W = 8, .O = 64, .stride_h = 2, .stride_w = 2},    // 1x1
    {.N = 2, .C = 7, .H = 9, .W = 8, .O = 6, .KH = 3, .KW = 2, .dilation_h = 2}};

TEST_CASE_TEMPLATE("conv: weights that were kept in another order give the same bits", T, float,
                   double) {
  for (const ConvShape& s : kWays) {
    CAPTURE(s.C);
    CAPTURE(s.KH);
    const int64_t in = s.N * s.H * s.W * s.C, out = s.N * s.OH() * s.OW() * s.O;
    const auto x = random_values<T>(in, 1), dy = random_values<T>(out, 3);
    auto w = random_values<T>(s.weight_count(), 2);
    std::vector<T> y(out), dx(in), kept_y(out), kept_dx(in);
    kernels::conv_forward<T>(s, x.data(), w.data(), nullptr, y.data());
    kernels::conv_backward_data<T>(s, dy.data(), w.data(), nullptr, dx.data());
    const KeptWeights forward(w.data()), backward(w.data());
    for (int round = 0; round < 3; ++round) {
      kernels::PrimitiveSlot slot;
      kernels::conv_forward<T>(s, x.data(), forward, nullptr, kept_y.data(), nullptr, &slot);
      kernels::conv_backward_data<T>(s, dy.data(), backward, nullptr, kept_dx.data(), &slot);
      CHECK(kept_y == y);
      CHECK(kept_dx == dx);
      // The owner promised that nothing changed: what was kept is read, not the weights.
      if (forward.has_form() && backward.has_form()) std::fill(w.begin(), w.end(), T(0));
    }
    const int64_t built = kernels::conv_primitives_built();
    kernels::conv_forward<T>(s, x.data(), forward, nullptr, kept_y.data());
    CHECK(kernels::conv_primitives_built() == built);
  }
}

TEST_CASE("conv: NaN in the input reaches the outputs that read it, and no others") {
  const ConvShape s{.N = 1, .C = 1, .H = 6, .W = 6, .O = 16, .KH = 3, .KW = 3};
  std::vector<float> x(36, 1.0f), w(s.weight_count(), 1.0f), y(16 * 16);
  x[0] = NAN;
  kernels::conv_forward<float>(s, x.data(), w.data(), nullptr, y.data());
  CHECK(std::isnan(y[0]));
  CHECK(y[16] == 9.0f);
}

TEST_CASE("conv: inf and NaN stay where they are in shapes that Winograd's algorithm serves, too") {
  const ConvShape s{.N = 2, .C = 32, .H = 18, .W = 18, .O = 32, .KH = 3, .KW = 3};
  const int64_t outputs = s.N * s.OH() * s.OW() * s.O;
  std::vector<float> x(s.N * s.H * s.W * s.C, 1.0f), w(s.weight_count(), 1.0f), y(outputs),
      dy(outputs, 1.0f), dx(x.size()), dw(w.size()), dbias(s.O);
  x[0] = INFINITY;
  kernels::conv_forward<float>(s, x.data(), w.data(), nullptr, y.data());
  CHECK(y[0] == INFINITY);
  CHECK(y[s.O] == 288.0f);
  kernels::conv_backward_weights<float>(s, x.data(), dy.data(), dw.data(), dbias.data());
  CHECK(dw[0] == INFINITY);
  CHECK(dw[1] == 512.0f);
  CHECK(dbias[0] == 512.0f);
  dy[0] = NAN;
  kernels::conv_backward_data<float>(s, dy.data(), w.data(), nullptr, dx.data());
  CHECK(std::isnan(dx[0]));
  CHECK(dx[3 * s.C] == 96.0f);
  w[0] = NAN;  // of output 0 and input 0: the last pixel of dx does not read it
  dy[0] = 1;
  kernels::conv_backward_data<float>(s, dy.data(), w.data(), nullptr, dx.data());
  CHECK(std::isnan(dx[0]));
  CHECK(dx[(s.W - 1) * s.C] == 32.0f);
}
