// interpolate and Upsample: PyTorch's values, as sums weighted by place, and refusals.
#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/nn.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
namespace F = pellucid::nn::functional;

namespace {

Tensor picture() { return arange(1, 13, kFloat32).view({1, 1, 3, 4}) / 7; }

// The sum of the values times 1, 2, 3 …: one number that sees every place.
double weighted(const Tensor& y) {
  return (y * arange(1, y.numel() + 1, kFloat32).view(y.sizes())).sum().item<double>();
}

template <class Mode>
double resized(std::vector<int64_t> size, Mode mode, std::optional<bool> corners = std::nullopt) {
  return weighted(F::interpolate(
      picture(), F::InterpolateFuncOptions().size(size).mode(mode).align_corners(corners)));
}

}  // namespace

TEST_CASE("interpolate gives PyTorch's values") {
  CHECK(resized({5, 3}, kNearest) == doctest::Approx(116.285706));
  CHECK(resized({2, 7}, kNearest) == doctest::Approx(82.285721));
  CHECK(resized({5, 3}, kNearestExact) == doctest::Approx(147.285706));
  CHECK(resized({2, 7}, kNearestExact) == doctest::Approx(131.142868));
  CHECK(resized({5, 3}, kBilinear) == doctest::Approx(140.076202));
  CHECK(resized({2, 7}, kBilinear) == doctest::Approx(122.704086));
  CHECK(resized({5, 3}, kBilinear, true) == doctest::Approx(139.285721));
  CHECK(resized({2, 7}, kBilinear, true) == doctest::Approx(129.500015));
  CHECK(resized({5, 3}, kBicubic) == doctest::Approx(142.972961));
  CHECK(resized({2, 7}, kBicubic) == doctest::Approx(124.622101));
  CHECK(resized({5, 3}, kBicubic, true) == doctest::Approx(140.250015));
  CHECK(resized({2, 7}, kBicubic, true) == doctest::Approx(129.607147));
  CHECK(resized({5, 3}, kArea) == doctest::Approx(138.571442));
  CHECK(resized({2, 7}, kArea) == doctest::Approx(115.5));
}

TEST_CASE("a scale factor that does not divide evenly is kept as it was given") {
  const auto scaled = [](auto mode) {
    const Tensor y = F::interpolate(
        picture(), F::InterpolateFuncOptions().scale_factor(std::vector<double>{1.7}).mode(mode));
    CHECK(y.sizes() == IntArrayRef({1, 1, 5, 6}));
    return weighted(y);
  };
  CHECK(scaled(kNearest) == doctest::Approx(453.999969));
  CHECK(scaled(kBilinear) == doctest::Approx(527.218567));
  CHECK(scaled(kBicubic) == doctest::Approx(536.217773));
  CHECK(scaled(kArea) == doctest::Approx(542.499939));
}

TEST_CASE("Upsample prints as Python prints it and resizes") {
  nn::Upsample up(nn::UpsampleOptions().scale_factor(std::vector<double>{2}).mode(kBilinear));
  std::ostringstream text;
  text << up << ' ' << nn::Upsample(nn::UpsampleOptions().size(std::vector<int64_t>{2, 3}));
  CHECK(text.str() ==
        "Upsample(scale_factor=2.0, mode='bilinear') Upsample(size=(2, 3), mode='nearest')");
  CHECK(up->forward(picture()).sizes() == IntArrayRef({1, 1, 6, 8}));
}

TEST_CASE("interpolate says what is wrong") {
  const F::InterpolateFuncOptions none;
  CHECK_THROWS_WITH_AS(F::interpolate(picture(), none),
                       "interpolate: give either size or scale_factor.", ValueError);
  auto options = F::InterpolateFuncOptions().size(std::vector<int64_t>{2, 2}).mode(kTrilinear);
  CHECK_THROWS_AS(F::interpolate(picture(), options), ShapeError);
  options.mode(kNearest).align_corners(true);
  CHECK_THROWS_AS(F::interpolate(picture(), options), ValueError);
  CHECK_THROWS_AS(F::interpolate(zeros({2, 2}), options), ShapeError);
}
