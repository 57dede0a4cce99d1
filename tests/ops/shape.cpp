// Shape ops: what shares storage, what copies, and sizes that are easy to get wrong. Values and
// gradients of every op are checked by tests/derived.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("shape: views share storage and versions, copies do not") {
  const Tensor x = arange(24).view({2, 3, 4});
  const Tensor views[] = {x.transpose(0, 2),
                          x.mT(),
                          x.swapaxes(0, 1),
                          x.movedim(0, 2),
                          x.numpy_T(),
                          x.squeeze(),
                          x.flatten(1),
                          x.ravel(),
                          x.unflatten(2, {2, 2}),
                          x.narrow(1, 1, 2),
                          x.unfold(2, 2, 1),
                          x.chunk(2, 2)[1],
                          x.split(2, 1)[1],
                          x.unbind(1)[2],
                          x.expand_as(x),
                          x.atleast_3d(),
                          x.tensor_split(3, 2)[2],
                          x.view_as(x)};
  for (const Tensor& v : views) {
    CAPTURE(describe(v));
    CHECK(v.is_alias_of(x));
    const uint32_t before = x._version();
    v.add_(0);
    CHECK(x._version() == before + 1);
  }
  for (const Tensor& c : {x.flip({0}), x.roll(1), x.repeat({1, 1, 1}), x.tril(), cat({x, x}),
                          stack({x, x}), x.rot90(), x.repeat_interleave(1),
                          x.transpose(0, 1).flatten(), x[0].diag(), pad(x, {1, 1})}) {
    CAPTURE(describe(c));
    CHECK(!c.is_alias_of(x));
  }
}

TEST_CASE("shape: a change through a view is seen by the gradient of its base") {
  const Tensor x = ones({2, 3}).requires_grad_();
  Tensor y = x * 2;
  y.transpose(0, 1).select(0, 1).mul_(10);
  y.sum().backward();
  CHECK(equal(x.grad(), tensor({{2.0, 20.0, 2.0}, {2.0, 20.0, 2.0}})));
}

TEST_CASE("shape: split, chunk and tensor_split cut where PyTorch cuts") {
  const auto sizes = [](const Tensors& parts) {
    std::vector<int64_t> out;
    for (const Tensor& t : parts) out.push_back(t.size(0));
    return out;
  };
  const Tensor x = arange(10);
  using V = std::vector<int64_t>;
  CHECK(sizes(x.split(4)) == V{4, 4, 2});
  CHECK(sizes(x.split({3, 7})) == V{3, 7});
  CHECK(sizes(x.chunk(4)) == V{3, 3, 3, 1});
  CHECK(sizes(x.chunk(6)) == V{2, 2, 2, 2, 2});
  CHECK(sizes(zeros({0}).chunk(3)) == V{0, 0, 0});
  CHECK(sizes(x.tensor_split(4)) == V{3, 3, 2, 2});
  CHECK(sizes(x.tensor_split({2, 5, 20})) == V{2, 3, 5, 0});
  CHECK(sizes(zeros({0}).split(5)) == V{0});
  CHECK(equal(x.split(4)[2], tensor({8, 9})));
}

TEST_CASE("shape: cat promotes dtypes, skips empty vectors and keeps a channels-last order") {
  CHECK(cat({tensor({1, 2}), tensor({0.5})}).dtype() == kFloat32);
  CHECK(equal(cat({zeros({0}), ones({2, 2})}, 1), ones({2, 2})));
  CHECK(equal(cat({arange(4).view({2, 2}), arange(2).view({2, 1})}, -1),
              tensor({{0, 1, 0}, {2, 3, 1}})));
  const Tensor image = randn({2, 3, 4, 4}).contiguous(MemoryFormat::ChannelsLast);
  const Tensor both = cat({image, image}, 1);
  CHECK(both.is_contiguous(MemoryFormat::ChannelsLast));
  CHECK(equal(both.slice(1, 3), image));
  CHECK_THROWS_AS(cat({ones({2}), ones({2, 2})}), ShapeError);
}

TEST_CASE("shape: stacks") {
  const Tensor a = tensor({1, 2}), b = tensor({3, 4});
  CHECK(equal(stack({a, b}), tensor({{1, 2}, {3, 4}})));
  CHECK(equal(stack({a, b}, -1), tensor({{1, 3}, {2, 4}})));
  CHECK(equal(hstack({a, b}), tensor({1, 2, 3, 4})));
  CHECK(equal(vstack({a, b}), tensor({{1, 2}, {3, 4}})));
  CHECK(dstack({a, b}).sizes() == IntArrayRef({1, 2, 2}));
  CHECK(equal(column_stack({a, b}), tensor({{1, 3}, {2, 4}})));
  CHECK(equal(block_diag({tensor({{1, 2}}), tensor(5)}), tensor({{1, 2, 0}, {0, 0, 5}})));
}

TEST_CASE("shape: flip, roll and rot90 of values") {
  const Tensor x = tensor({{0, 1, 2}, {3, 4, 5}});
  CHECK(equal(x.flip({1}), tensor({{2, 1, 0}, {5, 4, 3}})));
  CHECK(equal(x.flip({0, 1}), tensor({{5, 4, 3}, {2, 1, 0}})));
  CHECK(equal(x.roll(1), tensor({{5, 0, 1}, {2, 3, 4}})));
  CHECK(equal(x.roll({1, -1}, {0, 1}), tensor({{4, 5, 3}, {1, 2, 0}})));
  CHECK(equal(x.roll(7, 1), x.roll(1, 1)));
  CHECK(equal(x.rot90(), tensor({{2, 5}, {1, 4}, {0, 3}})));
  CHECK(equal(x.rot90(-1), tensor({{3, 0}, {4, 1}, {5, 2}})));
}

TEST_CASE("shape: triangles in place, of strided tensors too") {
  const Tensor x = ones({3, 3});
  x.triu_(1);
  CHECK(equal(x, tensor({{0.0, 1.0, 1.0}, {0.0, 0.0, 1.0}, {0.0, 0.0, 0.0}})));
  const Tensor wide = ones({3, 6});
  wide.slice(1, 0, 6, 2).tril_();
  CHECK(equal(wide[0], tensor({1.0, 1.0, 0.0, 1.0, 0.0, 1.0})));
}

TEST_CASE("shape: pad modes") {
  const Tensor x = tensor({1, 2, 3}).view({1, 3});
  CHECK(equal(pad(x, {1, 2}), tensor({{0, 1, 2, 3, 0, 0}})));
  CHECK(equal(pad(x, {1, 2}, "constant", 9), tensor({{9, 1, 2, 3, 9, 9}})));
  CHECK(equal(pad(x, {-1, 1}), tensor({{2, 3, 0}})));
  CHECK(equal(pad(x, {2, 1}, "reflect"), tensor({{3, 2, 1, 2, 3, 2}})));
  CHECK(equal(pad(x, {2, 1}, "replicate"), tensor({{1, 1, 1, 2, 3, 3}})));
  CHECK(equal(pad(x, {2, 1}, "circular"), tensor({{2, 3, 1, 2, 3, 1}})));
  CHECK(equal(pad(x, {0, 0, 1, 0}), tensor({{0, 0, 0}, {1, 2, 3}})));
}

TEST_CASE("shape: meshgrid in both index orders") {
  const Tensors ij = meshgrid({arange(2), arange(3)}), xy = meshgrid({arange(2), arange(3)}, "xy");
  CHECK(equal(ij[0], tensor({{0, 0, 0}, {1, 1, 1}})));
  CHECK(equal(xy[0], tensor({{0, 1}, {0, 1}, {0, 1}})));
  CHECK(equal(xy[1], tensor({{0, 0}, {1, 1}, {2, 2}})));
}

TEST_CASE("shape: unfold's windows overlap, and their gradient counts them") {
  const Tensor x = arange(5).to(kFloat32).requires_grad_();
  const Tensor w = x.unfold(0, 3, 1);
  CHECK(equal(w.detach(), tensor({{0.0, 1.0, 2.0}, {1.0, 2.0, 3.0}, {2.0, 3.0, 4.0}})));
  w.sum().backward();
  CHECK(equal(x.grad(), tensor({1.0, 2.0, 3.0, 2.0, 1.0})));
}

TEST_CASE("shape: movedim and repeat_interleave") {
  CHECK(zeros({2, 3, 4}).movedim(0, -1).sizes() == IntArrayRef({3, 4, 2}));
  CHECK(zeros({2, 3, 4, 5}).movedim({0, 1}, {3, 0}).sizes() == IntArrayRef({3, 4, 5, 2}));
  CHECK(equal(tensor({1, 2}).repeat_interleave(2), tensor({1, 1, 2, 2})));
  CHECK(equal(tensor({1, 2, 3}).repeat_interleave(tensor({2, 0, 1})), tensor({1, 1, 3})));
  CHECK(equal(tensor({{1, 2}}).repeat({2, 2}), tensor({{1, 2, 1, 2}, {1, 2, 1, 2}})));
  CHECK(equal(tensor({1, 2}).tile({2}), tensor({1, 2, 1, 2})));
}
