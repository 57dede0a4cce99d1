// Creation: values, dtypes as libtorch deduces them, memory of the program, and random numbers that
// seeds decide.
#include <doctest/doctest.h>

#include "pellucid/parallel.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("creation: tensor deduces the dtype as libtorch does") {
  CHECK(tensor(1).dtype() == kInt64);
  CHECK(tensor(1.5).dtype() == kFloat32);
  CHECK(tensor(1.5f).dtype() == kFloat32);
  CHECK(tensor(true).dtype() == kBool);
  CHECK(tensor(uint8_t{3}).dtype() == kUInt8);
  CHECK(tensor({1, 2}).dtype() == kInt64);
  CHECK(tensor({1.0, 2.0}).dtype() == kFloat32);
  CHECK(tensor(std::vector<double>{1, 2}).dtype() == kFloat32);
  CHECK(tensor(std::vector<int32_t>{1, 2}).dtype() == kInt64);
  CHECK(tensor(std::vector<bool>{true, false}).dtype() == kBool);
  CHECK(tensor(ArrayRef<int16_t>({1, 2})).dtype() == kInt16);
  CHECK(tensor({1, 2}, kFloat64).dtype() == kFloat64);
  CHECK(tensor(1.5, requires_grad()).requires_grad());
}

TEST_CASE("creation: tensor takes nested braces") {
  CHECK(tensor({}).sizes() == IntArrayRef({0}));
  CHECK(tensor({5}).sizes() == IntArrayRef({1}));
  const Tensor t = tensor({{{{1, 2}, {3, 4}}}, {{{5, 6}, {7, 8}}}});
  CHECK(t.sizes() == IntArrayRef({2, 1, 2, 2}));
  CHECK(equal(t.view({-1}), arange(1, 9)));
  CHECK(tensor({std::vector<float>{1, 2}, std::vector<float>{3, 4}}).sizes() ==
        IntArrayRef({2, 2}));
  CHECK_THROWS_AS(tensor({{1, 2}, {3}}), ShapeError);
  CHECK_THROWS_AS(tensor({1, 2.5}), TypeError);
}

TEST_CASE("creation: from_blob looks at the program's memory and calls the deleter once") {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const Tensor t = from_blob(data, {2, 3});
  CHECK(t[1][2].item<float>() == 5);
  data[5] = 9;
  CHECK(t[1][2].item<float>() == 9);
  t.mul_(2);
  CHECK(data[5] == 18);
  const Tensor columns = from_blob(data, {3, 2}, {1, 3});
  CHECK(columns[2][1].item<float>() == 18);
  int deleted = 0;
  {
    const Tensor owner = from_blob(data, {6}, [&](void* p) { deleted += p == data; });
    const Tensor view = owner.slice(0, 2, 4);
    CHECK(deleted == 0);
  }
  CHECK(deleted == 1);
  int64_t whole[2] = {7, 8};
  CHECK(equal(from_blob(whole, {2}, kInt64), tensor({7, 8})));
  CHECK_THROWS_AS(from_blob(nullptr, {2}), ValueError);
  CHECK_THROWS_AS(from_blob(data, {2, 3}, {1}), ShapeError);
}

TEST_CASE("creation: arange's dtypes and ends") {
  CHECK(arange(5).dtype() == kInt64);
  CHECK(arange(5.0).dtype() == kFloat32);
  CHECK(arange(0, 5, 0.5).dtype() == kFloat32);
  CHECK(equal(arange(2, 8, 3), tensor({2, 5})));
  CHECK(equal(arange(3, 0, -1), tensor({3, 2, 1})));
  CHECK(arange(0, 1, 0.1).numel() == 10);
  CHECK(arange(0).numel() == 0);
  CHECK(equal(arange(0, 3, 1, kInt16).to(kInt64), tensor({0, 1, 2})));
  CHECK(
      equal(arange(int64_t{1} << 60, (int64_t{1} << 60) + 2) - (int64_t{1} << 60), tensor({0, 1})));
  CHECK_THROWS_AS(arange(0, 5, 0), ValueError);
  CHECK_THROWS_AS(arange(0, std::numeric_limits<double>::infinity()), ValueError);
}

TEST_CASE("creation: linspace, logspace, eye, triangles") {
  CHECK(equal(linspace(0, 1, 5), tensor({0.0, 0.25, 0.5, 0.75, 1.0})));
  CHECK(linspace(0, 1, 3001)[3000].item<float>() == 1);
  CHECK(equal(logspace(0, 2, 3), tensor({1.0, 10.0, 100.0})));
  CHECK(equal(eye(2), tensor({{1.0, 0.0}, {0.0, 1.0}})));
  CHECK(equal(eye(2, 3, kInt64), tensor({{1, 0, 0}, {0, 1, 0}})));
  CHECK(equal(tril_indices(2, 2), tensor({{0, 1, 1}, {0, 0, 1}})));
  CHECK(equal(triu_indices(2, 3, 1), tensor({{0, 0, 1}, {1, 2, 2}})));
  CHECK(scalar_tensor(3).dtype() == kFloat32);
}

TEST_CASE("creation: one seed, the same numbers, for any number of threads") {
  const auto draw = [] {
    manual_seed(42);
    return Tensors{randn({300, 301}), rand({100000}), randint(1000, {1000}), randperm(1000),
                   rand_like(zeros({7, 9}).t())};
  };
  const int threads = get_num_threads();
  set_num_threads(1);
  const Tensors one = draw();
  set_num_threads(4);
  const Tensors four = draw();
  set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) CHECK(equal(one[i], four[i]));
  manual_seed(43);
  CHECK(!equal(randn({300, 301}), one[0]));
  CHECK(initial_seed() == 43);
}

TEST_CASE("creation: random numbers lie where they should") {
  manual_seed(1);
  const Tensor u = rand({100000}), n = randn({100000}), i = randint(-3, 4, {100000});
  CHECK(u.min().item<float>() >= 0);
  CHECK(u.max().item<float>() < 1);
  CHECK(std::abs(u.mean().item<float>() - 0.5) < 0.01);
  CHECK(std::abs(n.mean().item<float>()) < 0.02);
  CHECK(std::abs(n.std().item<float>() - 1) < 0.02);
  CHECK(i.min().item<int>() == -3);
  CHECK(i.max().item<int>() == 3);
  CHECK(equal(std::get<0>(randperm(1000).sort()), arange(1000)));
  CHECK(randint_like(u, 5).dtype() == kFloat32);
  CHECK_THROWS_AS(randint(5, 5, {2}), ValueError);
  CHECK_THROWS_AS(rand({2}, kInt64), TypeError);
}
