// grid_sample, affine_grid, fold and unfold, bags and scatter with a reduction: PyTorch 2.13's
// values, what ties the functions together, and borders.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "nn/waves.h"

using namespace pellucid;
using namespace pellucid::nn_tests;
namespace F = pellucid::nn::functional;

namespace {

double weighted(const Tensor& t, double phase) {
  return (t * wave(t.sizes(), phase)).sum().item<double>();
}

struct Sampled {
  double value, input, grid;
};

Sampled sampled(const Tensor& values, const Tensor& places, int64_t mode, int64_t padding,
                bool corners) {
  const Tensor x = values.detach().requires_grad_(), grid = places.detach().requires_grad_();
  const Tensor y = grid_sampler(x, grid, mode, padding, corners);
  const Tensor total = (y * wave(y.sizes(), 1)).sum();
  total.backward();
  return {total.item<double>(), weighted(x.grad(), 2), weighted(grid.grad(), 3)};
}

}  // namespace

TEST_CASE("grid_sampler gives PyTorch's values and gradients") {
  struct Case {
    int64_t mode, padding;
    bool corners;
    Sampled expected;
  };
  const Case cases[] = {
      {0, 0, false, {-0.4558574852314, 1.632930489575, 0.1239449234646}},
      {0, 0, true, {-0.3963917093739, 1.252980072959, 0.4894877931521}},
      {0, 1, false, {-0.8706590199606, 1.644157736927, 0.4588898695067}},
      {0, 1, true, {-0.6350423648882, 1.294011521103, 0.8240548965776}},
      {0, 2, false, {-0.9656420219322, 1.618341845457, 0.7270381881033}},
      {0, 2, true, {-0.7650715552513, 2.223698600968, 0.2964900437265}},
      {1, 0, false, {-0.9428101297447, 2.935401886821, 0}},
      {1, 1, false, {-1.47366011838, 2.660696969951, 0}},
      {1, 2, true, {-1.127179257996, 3.056750617284, 0}},
      {2, 0, false, {-0.516941721471, 1.889451558784, -1.471254638089}},
      {2, 0, true, {-0.4939673960474, 1.447002656149, 1.521448987487}},
      {2, 1, false, {-0.9626623029739, 2.358608947952, -0.228568672174}},
      {2, 1, true, {-0.6688291422053, 1.33697829556, 2.623648017941}},
      {2, 2, false, {-1.141834942033, 2.398154840885, 0.3894159958448}},
      {2, 2, true, {-0.8473511057309, 2.546051987141, 1.14466409977}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.mode);
    CAPTURE(c.padding);
    CAPTURE(c.corners);
    const Sampled s =
        sampled(wave({1, 2, 3, 4}, 10), wave({1, 2, 3, 2}, 11) * 1.3, c.mode, c.padding, c.corners);
    CHECK(s.value == doctest::Approx(c.expected.value).epsilon(1e-10));
    CHECK(s.input == doctest::Approx(c.expected.input).epsilon(1e-10));
    CHECK(s.grid == doctest::Approx(c.expected.grid).epsilon(1e-10));
  }
  const Sampled volume =
      sampled(wave({1, 1, 2, 3, 2}, 10), wave({1, 1, 2, 2, 3}, 11) * 1.3, 0, 1, true);
  CHECK(volume.value == doctest::Approx(-1.283585513692).epsilon(1e-10));
  CHECK(volume.input == doctest::Approx(0.02487200967666).epsilon(1e-10));
  CHECK(volume.grid == doctest::Approx(-0.09782878705466).epsilon(1e-10));
}

TEST_CASE("the identity's grid gives the picture back") {
  const Tensor x = wave({2, 3, 7, 90}, 1).to(kFloat32);  // more points than a block has
  const Tensor theta =
      tensor({1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f}).view({1, 2, 3}).repeat({2, 1, 1});
  for (const bool corners : {false, true}) {
    const Tensor grid = F::affine_grid(theta, x.sizes(), corners);
    CHECK(grid.sizes() == IntArrayRef({2, 7, 90, 2}));
    const auto options = F::GridSampleFuncOptions().padding_mode(kBorder).align_corners(corners);
    CHECK(allclose(F::grid_sample(x, grid, options), x, 1e-4, 1e-4));
  }
  CHECK(weighted(affine_grid_generator(wave({2, 2, 3}, 1), {2, 1, 2, 3}, false), 1) ==
        doctest::Approx(-0.8405386288928).epsilon(1e-10));
  CHECK(weighted(affine_grid_generator(wave({1, 3, 4}, 1), {1, 1, 2, 3, 2}, true), 1) ==
        doctest::Approx(-1.31459775057).epsilon(1e-10));
}

TEST_CASE("grid_sampler reads nothing outside, whatever the grid holds") {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = full({1, 1, 2, 2}, inf, kFloat64);
  const Tensor grid =
      tensor({5.0, 5.0, inf, 0.0, nan, 0.0, -1e300, 0.0}, kFloat64).view({1, 1, 4, 2});
  for (const int64_t mode : {0, 1}) {
    const Tensor y = grid_sampler(x, grid, mode, 0, false).flatten();
    CHECK(y[0].item<double>() == 0);
    CHECK(y[3].item<double>() == 0);
    // The weights of a place that is not finite are NaN; the nearest pixel has none.
    for (const int64_t i : {1, 2}) {
      const double value = y[i].item<double>();
      CHECK((mode == 0 ? std::isnan(value) : value == 0));
    }
  }
}

TEST_CASE("fold counts how often unfold reads a pixel") {
  const auto windows = F::UnfoldFuncOptions({3, 2}).stride({2, 1}).padding({1, 0}).dilation({1, 2});
  const Tensor columns = F::unfold(ones({1, 2, 5, 6}), windows);
  CHECK(columns.sizes() == IntArrayRef({1, 12, 12}));
  const Tensor counts = F::fold(
      columns, F::FoldFuncOptions({5, 6}, {3, 2}).stride({2, 1}).padding({1, 0}).dilation({1, 2}));
  // Row 1 is read by the windows of rows 0 and 1, column 2 by both taps.
  CHECK(counts[0][0][1][2].item<float>() == 4);
  CHECK(counts[0][1][0][0].item<float>() == 1);
}

TEST_CASE("embedding_bag returns bags, sizes and maxima too") {
  const Tensor table = tensor({1.0, 5.0, 2.0, 4.0, 3.0, 3.0}, kFloat64).view({3, 2});
  const auto [out, bags, sizes, best] =
      embedding_bag(table, tensor({0, 2, 1}), tensor({0, 0, 2}), false, 2);
  CHECK(out.equal(tensor({0.0, 0.0, 3.0, 5.0, 2.0, 4.0}, kFloat64).view({3, 2})));
  CHECK(bags.equal(tensor({1, 1, 2})));
  CHECK(sizes.equal(tensor({0, 2, 1})));
  CHECK(best.equal(tensor({-1, -1, 2, 0, 1, 1}).view({3, 2})));
}

TEST_CASE("scatter adds or multiplies; factors of 0 have gradients too") {
  const Tensor self = tensor({2.0, 3.0, 4.0}, kFloat64), index = tensor({0, 0, 2});
  const Tensor src = tensor({0.0, 5.0, 0.5}, kFloat64).requires_grad_();
  CHECK(self.scatter(0, index, src.detach(), "add").equal(tensor({7.0, 3.0, 4.5}, kFloat64)));
  const Tensor y = self.scatter(0, index, src, "multiply");
  CHECK(y.equal(tensor({0.0, 3.0, 2.0}, kFloat64)));
  y.sum().backward();
  CHECK(src.grad().equal(tensor({10.0, 0.0, 4.0}, kFloat64)));
  CHECK(self.scatter(0, index, 2, "multiply").equal(tensor({8.0, 3.0, 8.0}, kFloat64)));
}

TEST_CASE("circular padding repeats what negative amounts leave") {
  const Tensor x = tensor({1, 2, 3, 4});
  CHECK(pad(x, {-1, 2}, "circular").equal(tensor({2, 3, 4, 2, 3})));
  CHECK(pad(x, {1, -2}, "circular").equal(tensor({2, 1, 2})));
  CHECK_THROWS_AS(pad(x, {-3, 2}, "circular"), ValueError);
}

TEST_CASE("indices count from the end, and an empty index may have any dtype") {
  const Tensor x = tensor({1.0, 2.0, 3.0}, kFloat64);
  CHECK(take_along_dim(x, tensor({-1, 0}), 0).equal(tensor({3.0, 1.0}, kFloat64)));
  CHECK(x.gather(0, empty({0}, kUInt8)).numel() == 0);
  CHECK_THROWS_AS(x.gather(0, ones({1}, kUInt8)), TypeError);
}

TEST_CASE("a text is no number: linalg_matrix_norm takes its order by name") {
  static_assert(!std::is_convertible_v<const char*, Scalar>);
  static_assert(std::is_convertible_v<bool, Scalar>);
  const Tensor m = tensor({3.0, 0.0, 0.0, 4.0}, kFloat64).view({2, 2});
  CHECK(linalg_matrix_norm(m, "nuc").item<double>() == doctest::Approx(7));
  CHECK(linalg_matrix_norm(m, "fro").item<double>() == doctest::Approx(5));
  CHECK(linalg_matrix_norm(m, 2).item<double>() == doctest::Approx(4));
  CHECK(linalg_matrix_norm(zeros({5, 0}), 1).item<double>() == 0);
}
