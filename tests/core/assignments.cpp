// Assignments to what an expression gives, and views of temporaries: beside what libtorch programs
// do (tests/libtorch/programs/writes.cpp), what must not compile and what must not be lost.
#include <doctest/doctest.h>

#include <type_traits>

#include "pellucid/io/safetensors.h"
#include "pellucid/torch.h"

namespace {

using torch::Tensor;
using torch::indexing::Slice;

template <class T>
concept HasAccessor = requires(T&& t) {
  std::forward<T>(t).template accessor<float, 2>();
};
template <class L, class R>
concept Assignable = requires(L&& l, R&& r) {
  std::forward<L>(l) = std::forward<R>(r);
};

// A temporary's accessor would look at memory that is gone; a variable's is as before.
static_assert(HasAccessor<Tensor&> && HasAccessor<const Tensor&>);
static_assert(!HasAccessor<Tensor> && !HasAccessor<const Tensor>);
// A variable is bound to a tensor, never to a number; a constant is not assigned to.
static_assert(Assignable<Tensor&, Tensor> && Assignable<Tensor&, const Tensor&>);
static_assert(!Assignable<Tensor&, double> && !Assignable<const Tensor&, Tensor>);
static_assert(Assignable<Tensor, double> && Assignable<Tensor, Tensor> && Assignable<Tensor, bool>);
static_assert(!Assignable<Tensor, const char*> && !Assignable<const Tensor, Tensor>);
static_assert(std::is_nothrow_move_constructible_v<Tensor>);
static_assert(std::is_nothrow_move_assignable_v<Tensor>);
static_assert(std::is_swappable_v<Tensor>);
// What an ArrayRef cannot keep alive is not assigned to it.
static_assert(!Assignable<torch::IntArrayRef&, int64_t>);
static_assert(!Assignable<torch::IntArrayRef&, std::vector<int64_t>>);
static_assert(Assignable<torch::IntArrayRef&, std::vector<int64_t>&>);
// A temporary dictionary or file gives its contents away instead of referring to them.
using Dict = torch::OrderedDict<std::string, Tensor>;
static_assert(!std::is_reference_v<decltype(std::declval<Dict>().items())>);
static_assert(std::is_reference_v<decltype(std::declval<Dict&>().items())>);
static_assert(!std::is_reference_v<decltype(std::declval<torch::io::SafeTensors>().at("a"))>);

}  // namespace

TEST_CASE("assignments: a write that nobody would see is refused") {
  const Tensor x = torch::arange(6.0).reshape({2, 3}), before = x.clone();
  const Tensor mask = x > 2;
  CHECK_THROWS_AS(x.index({mask}) = 1, torch::ValueError);
  CHECK_THROWS_AS(x.index({torch::tensor({0, 1})}) = torch::ones({3}), torch::ValueError);
  CHECK_THROWS_AS((x + 1) = 2, torch::ValueError);
  CHECK_THROWS_AS(x.clone() = x, torch::ValueError);
  CHECK_THROWS_AS(torch::zeros({2}) = x[0], torch::ValueError);
  CHECK(x.equal(before));
  // Somebody sees these.
  x.index({torch::tensor(1)}) = 7;
  x[torch::tensor(0)] = 8;
  CHECK(x.equal(torch::tensor({{8., 8., 8.}, {7., 7., 7.}})));
  x.detach()[0] = 1;
  x.data()[1] = 2;
  x.view({6})[5] = 3;
  CHECK(x.equal(torch::tensor({{1., 1., 1.}, {2., 2., 3.}})));
  float memory[2] = {0, 0};
  torch::from_blob(memory, {2})[1] = 4;
  CHECK(memory[1] == 4);
  const auto same = [&] { return x; };
  same() = 5;
  CHECK(x.sum().item<float>() == 30);
}

TEST_CASE("assignments: undefined tensors, empty views, and what an error leaves") {
  const Tensor x = torch::ones({2, 2});
  CHECK_THROWS_AS(x[0] = Tensor(), torch::Error);
  CHECK_THROWS_AS(Tensor() = x, torch::Error);
  CHECK_THROWS_AS(x[0] = torch::ones({3}), torch::ShapeError);
  CHECK(x.equal(torch::ones({2, 2})));
  x.index({Slice(2)}) = 9;  // no rows
  CHECK(x.equal(torch::ones({2, 2})));
  Tensor moved = torch::ones({2});
  const Tensor kept = std::move(moved);
  CHECK_FALSE(moved.defined());
  moved = kept;
  CHECK(moved.is_same(kept));
  moved = moved;
  CHECK(moved.is_same(kept));
}

TEST_CASE("assignments: versions and history are those of copy_ and fill_") {
  const Tensor w = torch::ones({3}, torch::requires_grad());
  const Tensor x = torch::zeros({2, 3});
  const uint32_t version = x._version();
  x[0] = w * 3;
  CHECK(x._version() == version + 1);
  CHECK(x.requires_grad());
  x[0] = x[0].clone().square();  // of the view itself, backward would miss the old values
  x[1] = x[0];
  x.sum().backward();
  CHECK(w.grad().equal(torch::full({3}, 36.0)));  // d/dw of 2 (3 w)^2
  CHECK_THROWS_AS(w[0] = 1, torch::AutogradError);
  const Tensor y = w * 2, z = y * y;
  y[0] = 0;  // z needs y as it was
  CHECK_THROWS_AS(z.sum().backward(), torch::AutogradError);
}

TEST_CASE("assignments: chains write all targets") {
  const Tensor x = torch::zeros({3, 2});
  x[0] = x[1] = torch::tensor({1.0, 2.0});
  x[2] = x[0] + x[1];
  CHECK(x.equal(torch::tensor({{1., 2.}, {1., 2.}, {2., 4.}})));
}
