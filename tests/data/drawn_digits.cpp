// The digits that the program draws itself: deterministic, varied, and told apart by a simple rule.
#include "pellucid/data/datasets/drawn_digits.h"

#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;
using data::datasets::drawn_digits;

TEST_CASE("drawn digits: form, labels in turn, and the same bits from the same seed") {
  const data::datasets::MNIST set = drawn_digits(200, 5);
  CHECK(set.bytes().sizes() == IntArrayRef({200, 1, 28, 28}));
  CHECK((set.bytes().dtype() == kUInt8));
  CHECK(equal(set.targets(), arange(200).remainder(10)));
  CHECK(equal(set.bytes(), drawn_digits(200, 5).bytes()));
  CHECK_FALSE(equal(set.bytes(), drawn_digits(200, 6).bytes()));
  CHECK(equal(set.bytes().narrow(0, 0, 70), drawn_digits(70, 5).bytes()));  // by index, not count
  const int threads = get_num_threads();
  set_num_threads(threads == 1 ? 2 : 1);
  CHECK(equal(set.bytes(), drawn_digits(200, 5).bytes()));
  set_num_threads(threads);
  CHECK_THROWS_AS(drawn_digits(0), ValueError);
}

TEST_CASE("drawn digits: ink as in MNIST, nothing cut off at the border") {
  const Tensor x = drawn_digits(1000, 1).images();
  const double ink = x.mean().item<double>();  // MNIST's is 0.1307
  CHECK(ink > 0.08);
  CHECK(ink < 0.2);
  CHECK(x.amax({1, 2, 3}).min().item<double>() > 0.9);
  const Tensor border = stack({x.select(2, 0), x.select(2, 27), x.select(3, 0), x.select(3, 27)});
  CHECK(border.mean().item<double>() < 0.002);
  // Grey edges, not only black and white.
  CHECK(((x > 0.1) & (x < 0.9)).to(kFloat32).mean().item<double>() > 0.03);
}

TEST_CASE("drawn digits: the nearest mean picture names most, but far from all") {
  const auto flat = [](const data::datasets::MNIST& s) { return s.images().flatten(1); };
  const data::datasets::MNIST train = drawn_digits(2000, 1), test = drawn_digits(500, 2);
  const Tensor means = flat(train).reshape({200, 10, 784}).mean(0);
  const Tensor distances = means.square().sum(1) - matmul(flat(test), means.t()) * 2;  // less |x|^2
  const double right = distances.argmin(1).eq(test.targets()).to(kFloat32).mean().item<double>();
  CHECK(right > 0.7);   // digits of a kind resemble each other
  CHECK(right < 0.98);  // and vary
}
