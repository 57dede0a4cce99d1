// Coordinates and values that are not finite: grid_sampler in all its modes, and the gradients of
// extremes and products; ties too. All as PyTorch 2.13 has them on the CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kLinearMode = 0, kNearestMode = 1, kCubicMode = 2, kZeroPadding = 0,
              kBorderPadding = 1, kReflectionPadding = 2;

struct Sampling {
  int dims, mode, padding;
  bool align_corners;
  DType dtype;

  Tensor image() const {
    return arange(1, dims == 2 ? 13 : 25, dtype)
        .reshape(dims == 2 ? std::vector<int64_t>{1, 1, 3, 4}
                           : std::vector<int64_t>{1, 1, 2, 3, 4});
  }
  /// One place whose coordinate k is `value`.
  Tensor grid(int k, double value) const {
    std::vector<double> place = {0.1, 0.3, 0.5};
    place[static_cast<size_t>(k)] = value;
    place.resize(static_cast<size_t>(dims));
    return tensor(place, dtype)
        .reshape(dims == 2 ? std::vector<int64_t>{1, 1, 1, 2}
                           : std::vector<int64_t>{1, 1, 1, 1, 3});
  }
  double value(int k, double coordinate) const {
    return grid_sampler(image(), grid(k, coordinate), mode, padding, align_corners).item<double>();
  }
  /// The value where the coordinate k is moved to an edge.
  double at_edge(int k, bool last) const {
    Sampling border = *this;
    border.padding = kBorderPadding;
    return border.value(k, last ? 2 : -2);
  }
  /// The gradients of the value: the image's, the grid's.
  Tensors gradients(int k, double coordinate) const {
    const Tensor x = image().requires_grad_(), g = grid(k, coordinate).requires_grad_();
    return autograd::grad({grid_sampler(x, g, mode, padding, align_corners)}, {x, g});
  }
};

template <class F> void for_every_sampling(F f) {
  for (const int dims : {2, 3})
    for (int mode = kLinearMode; mode <= (dims == 2 ? kCubicMode : kNearestMode); ++mode)
      for (const int padding : {kZeroPadding, kBorderPadding, kReflectionPadding})
        for (const bool align : {false, true})
          for (const DType dtype : {kFloat32, kFloat64}) {
            CAPTURE(dims);
            CAPTURE(mode);
            CAPTURE(padding);
            CAPTURE(align);
            f(Sampling{dims, mode, padding, align, dtype});
          }
}

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) < 1e-4;
}

}  // namespace

TEST_CASE("grid_sampler: coordinates that are not finite") {
  for_every_sampling([](const Sampling& s) {
    for (int k = 0; k < s.dims; ++k)
      for (const double bad : {kNotANumber, kInfinite, -kInfinite}) {
        CAPTURE(k);
        CAPTURE(bad);
        const double found = s.value(k, bad);
        double expected;
        if (s.dims == 2 &&
            (s.mode == kCubicMode || (s.mode == kLinearMode && s.padding == kZeroPadding)))
          expected = kNotANumber;  // a weight is NaN
        else if (s.padding == kZeroPadding)
          expected = 0;
        else if (s.padding == kBorderPadding && !std::isnan(bad))
          expected = s.at_edge(k, bad > 0);
        else
          expected = s.at_edge(k, s.dims == 3);
        CHECK(same_number(found, expected));
      }
    for (const double far : {1e9, -1e9, 1e20}) CHECK(std::isfinite(s.value(0, far)));
  });
}

TEST_CASE("grid_sampler: gradients at coordinates that are not finite") {
  for_every_sampling([](const Sampling& s) {
    for (const double bad : {kNotANumber, kInfinite, -kInfinite}) {
      CAPTURE(bad);
      const Tensors g = s.gradients(0, bad);
      const double image = g[0].sum().item<double>();
      const Tensor grid = g[1].flatten();
      const bool moved = s.padding == kBorderPadding && !std::isnan(bad);
      if (s.mode == kCubicMode) {
        CHECK(same_number(image, s.padding == kZeroPadding ? 0 : kNotANumber));
        CHECK(grid.isnan().all().item<bool>());
      } else if (s.padding == kZeroPadding) {
        CHECK(image == 0);
        CHECK(grid[0].item<double>() == 0);
        CHECK(std::isnan(grid[1].item<double>()) == (s.dims == 2 && s.mode == kLinearMode));
      } else {  // the value of one pixel, or of none where a volume has no such place
        CHECK(image == doctest::Approx(s.dims == 2 || moved ? 1 : 0));
        CHECK(grid[0].item<double>() == 0);
        CHECK(grid.isfinite().all().item<bool>());
      }
    }
  });
}

TEST_CASE("grid_sampler: NaN in an image is seen where it is read") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = ones({1, 1, 3, 3}, dtype);
    x.view({9})[4] = kNotANumber;
    const auto at = [&](double u, double v, int mode) {
      return grid_sampler(x, tensor({u, v}, dtype).reshape({1, 1, 1, 2}), mode, kZeroPadding, true)
          .item<double>();
    };
    CHECK(std::isnan(at(0, 0, kNearestMode)));
    CHECK(at(-1, -1, kNearestMode) == 1);
    CHECK(std::isnan(at(0.5, 0.5, kLinearMode)));
    CHECK(std::isnan(at(-1, -1, kLinearMode)));  // with the weight 0, as in PyTorch
    CHECK(at(1, 1, kLinearMode) == 1);           // the neighbours lie outside
    CHECK(at(5, 5, kLinearMode) == 0);
    const Tensor grid = zeros({1, 1, 1, 2}, dtype).requires_grad_();
    const Tensor nearest = grid_sampler(x, grid, kNearestMode, kZeroPadding, true);
    CHECK(autograd::grad({nearest}, {grid})[0].equal(zeros({1, 1, 1, 2}, dtype)));
  }
}

TEST_CASE("reductions: the gradient of an extreme that is NaN goes to the NaNs") {
  const Tensor x = tensor({3., kNotANumber, 2., kNotANumber, kInfinite}, kFloat64).requires_grad_();
  const Tensor shared = tensor({0., 0.5, 0., 0.5, 0.}, kFloat64);
  CHECK(autograd::grad({x.max()}, {x})[0].equal(shared));
  CHECK(autograd::grad({x.min()}, {x})[0].equal(shared));
  CHECK(autograd::grad({x.norm(kInfinite)}, {x})[0].equal(zeros({5}, kFloat64)));  // sign(NaN) is 0
  const Tensor ties = tensor({1., 2., 2.}, kFloat64).requires_grad_();
  CHECK(autograd::grad({ties.max()}, {ties})[0].equal(tensor({0., 0.5, 0.5}, kFloat64)));
}

namespace {
/// The gradient of the sum of f(x).
template <class F> Tensor gradient(const F& f, const Tensor& values) {
  const Tensor x = values.detach().requires_grad_();
  return autograd::grad({f(x).sum()}, {x})[0];
}
bool same(const Tensor& a, const Tensor& b) { return a.allclose(b, 0.0, 0.0, true); }
Tensor of(const std::vector<double>& values) { return tensor(values, kFloat64); }
Tensor rows(const std::vector<double>& values) { return of(values).view({-1, 3}); }
}  // namespace

TEST_CASE("reductions: the gradient of a median is shared among what equals it") {
  const auto median = [](const Tensor& x) { return x.median(); };
  CHECK(same(gradient(median, of({1, 2, 2, 3})), of({0, 0.5, 0.5, 0})));
  CHECK(same(gradient(median, of({2, kNotANumber, 3})), of({0, 1, 0})));
  CHECK(same(gradient(median, of({kNotANumber, kNotANumber, 1})), of({0.5, 0.5, 0})));
}

TEST_CASE("reductions: the gradients of products with NaN and zeros") {
  constexpr double n = kNotANumber;
  struct Case {
    Tensor x, all, dim, running;  // the gradients of prod(), prod(0) and cumprod(0)
  };
  const Case cases[] = {
      {of({2, n, 3}), of({n, n, n}), of({n, n, n}), of({n, n, n})},
      {of({0, n, 3}), of({n, 0, n}), of({n, 0, n}), of({n, 0, 0})},
      {of({0, 0, n}), of({0, 0, 0}), of({n, n, 0}), of({1, 0, 0})},
      {of({0, 2, 3}), of({6, 0, 0}), of({6, 0, 0}), of({9, 0, 0})},
      {of({kInfinite, n, 0}), of({n, n, n}), of({n, n, n}), of({n, n, n})},
  };
  for (const Case& c : cases) {
    INFO(c.x);
    CHECK(same(gradient([](const Tensor& x) { return x.prod(); }, c.x), c.all));
    CHECK(same(gradient([](const Tensor& x) { return x.prod(0); }, c.x), c.dim));
    CHECK(same(gradient([](const Tensor& x) { return x.cumprod(0); }, c.x), c.running));
  }
}

TEST_CASE("cdist: gradients at ties and at equal rows") {
  const Tensor a = rows({1, 2, 3, 0, 0, 0, 4, -4, 4}), b = rows({1, 2, 3, 1, 1, -1});
  const auto by = [&](double p) { return [p, &b](const Tensor& x) { return cdist(x, b, p); }; };
  CHECK(same(gradient(by(1), a), rows({0, 1, 1, -2, -2, 0, 2, -2, 2})));
  // Each difference that is the greatest gets all of it: row 1 and row 1 differ by (-1, -1, 1).
  CHECK(same(gradient(by(kInfinite), a), rows({0, 0, 1, -1, -1, 0, 0, -2, 1})));
}
