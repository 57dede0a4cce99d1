// Indexing: views and copies, masks, broadcasting of index tensors, writing, gradients and errors.
// The expected values are what PyTorch gives.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;
using namespace pellucid::indexing;

namespace {
const Tensor& grid() {
  static const Tensor x = arange(24).view({2, 3, 4});
  return x;
}
}  // namespace

TEST_CASE("index: numbers, slices, None and Ellipsis give views") {
  const Tensor x = grid();
  CHECK(x.index({1, -1, 2}).item<int>() == 22);
  CHECK(equal(x.index({0, Slice(1, None), Slice(None, None, 2)}), tensor({{4, 6}, {8, 10}})));
  CHECK(equal(x.index({"...", 0}), tensor({{0, 4, 8}, {12, 16, 20}})));
  CHECK(equal(x.index({Ellipsis, 1, Slice(-2)}), tensor({{6, 7}, {18, 19}})));
  CHECK(x.index({None, 0, None, "..."}).sizes() == IntArrayRef({1, 1, 3, 4}));
  CHECK(x.index({Slice(5, 9)}).sizes() == IntArrayRef({0, 3, 4}));
  for (const Tensor& v :
       {x.index({1}), x.index({"..."}), x.index({Slice(), None, 2}), x[0], x[tensor(1)]})
    CHECK(v.is_alias_of(x));
  CHECK(equal(x[1][2], tensor({20, 21, 22, 23})));
}

TEST_CASE("index: tensors and masks give copies") {
  const Tensor x = grid();
  CHECK(equal(x.index({0, tensor({2, 0}), 1}), tensor({9, 1})));
  CHECK(
      equal(x.index({tensor({1, 0}), tensor({-1, 0})}), tensor({{20, 21, 22, 23}, {0, 1, 2, 3}})));
  CHECK(x.index({tensor({{0}, {1}}), tensor({0, 1, 2})}).sizes() == IntArrayRef({2, 3, 4}));
  CHECK(x.index({tensor({0, 1}), Slice(), tensor({2, 3})}).sizes() == IntArrayRef({2, 3}));
  CHECK(x.index({Slice(), tensor({0, 1, 2}), tensor({2, 3, 0})}).sizes() == IntArrayRef({2, 3}));
  CHECK(equal(x.index({x > 20}), tensor({21, 22, 23})));
  CHECK(x.index({tensor({true, false}), 1}).sizes() == IntArrayRef({1, 4}));
  CHECK(equal(x.index({0, tensor({true, false, true}), tensor({1, 3})}), tensor({1, 11})));
  CHECK(x.index({true}).sizes() == IntArrayRef({1, 2, 3, 4}));
  CHECK(x.index({false}).sizes() == IntArrayRef({0, 2, 3, 4}));
  CHECK(x.index({tensor({0, 1}, kInt32)}).sizes() == IntArrayRef({2, 3, 4}));
  CHECK(!x.index({tensor({0})}).is_alias_of(x));
  CHECK(equal(x[tensor({1})], x.slice(0, 1)));
}

TEST_CASE("index: writing through every kind of index") {
  Tensor x = zeros({3, 4});
  x.index_put_({0}, 1);
  x.index_put_({Slice(), 3}, tensor({7.0, 8.0, 9.0}));
  x.index_put_({tensor({1, 2}), tensor({0, 1})}, tensor({5.0, 6.0}));
  x.index_put_({x == 0}, -1);
  CHECK(equal(x, tensor({{1.0, 1.0, 1.0, 7.0}, {5.0, -1.0, -1.0, 8.0}, {-1.0, 6.0, -1.0, 9.0}})));
  x.index_put_({"...", Slice(0, 2)}, ones({1, 3, 2}));
  CHECK(equal(x.slice(1, 0, 2), ones({3, 2})));
  x[1].fill_(4);
  CHECK(equal(x[1], full({4}, 4.0)));
  const uint32_t before = x._version();
  x.index_put_({tensor({0, 0, 0}), tensor({0, 0, 0})}, tensor({1.0, 1.0, 1.0}));
  CHECK(x._version() == before + 1);
  x.zero_();
  const Tensor at[] = {tensor({0, 0, 2})};
  x.index_put_(TensorList(at), ones({4}), true);
  CHECK(equal(x.sum(1), tensor({8.0, 0.0, 4.0})));
}

TEST_CASE("index: gradients flow through reads and writes") {
  const Tensor x = ones({3, 2}).requires_grad_(), v = ones({2}).requires_grad_();
  x.index({tensor({0, 0, 2})}).sum().backward();
  CHECK(equal(x.grad(), tensor({{2.0, 2.0}, {0.0, 0.0}, {1.0, 1.0}})));
  x.zero_grad();
  Tensor y = x * 3;
  y.index_put_({1}, v * 5);
  y.index_put_({y > 4}, 0);  // writes 0 over what v gave
  y.sum().backward();
  CHECK(equal(x.grad(), tensor({{3.0, 3.0}, {0.0, 0.0}, {3.0, 3.0}})));
  CHECK(equal(v.grad(), zeros({2})));
}

TEST_CASE("index: errors name the index, the dim and the sizes, and nothing is written") {
  const Tensor x = grid();
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const IndexError& e) { return e.what(); }
    return "";
  };
  CHECK(message([&] { x.index({2}); }).find("2 is out of bounds for dimension 0 with size 2") !=
        std::string::npos);
  CHECK(message([&] {
          x.index({tensor({5})});
        }).find("index 5 is out of bounds for dimension 0 with size 2") != std::string::npos);
  CHECK(message([&] {
          x.index({0, 0, 0, 0});
        }).find("too many indices: 4 for a tensor of 3 dimensions") != std::string::npos);
  CHECK(message([&] {
          x.index({tensor({true, false, true})});
        }).find("the mask has sizes [3]") != std::string::npos);
  CHECK_THROWS_AS(x.index({Slice(None, None, -1)}), ValueError);
  CHECK_THROWS_AS(x.index({"x"}), ValueError);
  CHECK_THROWS_AS(x[9], IndexError);
  const Tensor y = zeros({3});
  CHECK_THROWS_AS(y.index_put_({tensor({0, 7})}, 1), IndexError);
  CHECK_THROWS_AS(y.scatter_(0, tensor({0, 3}), 1), IndexError);
  CHECK_THROWS_AS(y.index_add_(0, tensor({0, -1}), ones({2})), IndexError);
  CHECK(equal(y, zeros({3})));
  CHECK(y._version() == 0);
}

TEST_CASE("index: gather, scatter and their relatives") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(equal(x.gather(1, tensor({{0, 0}, {1, 0}})), tensor({{1, 1}, {4, 3}})));
  CHECK(
      equal(zeros({2, 3}, kInt64).scatter(1, tensor({{2, 0}}), x), tensor({{2, 0, 1}, {0, 0, 0}})));
  CHECK(equal(zeros({3}, kInt64).scatter_add(0, tensor({1, 1, 0}), tensor({5, 6, 7})),
              tensor({7, 11, 0})));
  CHECK(equal(x.index_select(1, tensor({1, 1, 0})), tensor({{2, 2, 1}, {4, 4, 3}})));
  CHECK(equal(x.index_add(0, tensor({1, 1}), x, 2), tensor({{1, 2}, {11, 16}})));
  CHECK(equal(x.index_copy(1, tensor({1}), tensor({{9}, {8}})), tensor({{1, 9}, {3, 8}})));
  CHECK(equal(x.index_fill(1, tensor({0}), 7), tensor({{7, 2}, {7, 4}})));
  CHECK(equal(x.take(tensor({3, -4})), tensor({4, 1})));
  CHECK(equal(x.take_along_dim(tensor({{1}, {0}}), 1), tensor({{2}, {3}})));
  CHECK(equal(one_hot(tensor({1, 0})), tensor({{0, 1}, {1, 0}})));
  CHECK(equal(tensor({1, 3, 1}).bincount(), tensor({0, 2, 0, 1})));
}

TEST_CASE("index: in-place forms write strided tensors") {
  const Tensor whole = zeros({4, 6}), x = whole.slice(1, 0, 6, 2).t();  // [3, 4], strides 2 and 6
  x.index_add_(0, tensor({1, 1}), ones({2, 4}));
  x.index_fill_(1, tensor({-1}), 5);
  x.scatter_(0, tensor({{2, 2, 2, 2}}), 3);
  x.masked_fill_(x == 0, -1);
  CHECK(equal(x, tensor({{-1.0, -1.0, -1.0, 5.0}, {2.0, 2.0, 2.0, 5.0}, {3.0, 3.0, 3.0, 3.0}})));
  CHECK(whole.select(1, 1).abs().sum().item<float>() == 0);
  x.masked_scatter_(x == 5, tensor({7.0, 8.0}));
  CHECK(x[0][3].item<float>() == 7);
  CHECK(x[1][3].item<float>() == 8);
}

TEST_CASE("index: masks and positions") {
  const Tensor x = tensor({{1, 0}, {0, 4}});
  CHECK(equal(x.nonzero(), tensor({{0, 0}, {1, 1}})));
  CHECK(equal(where(x)[1], tensor({0, 1})));
  CHECK(nonzero(tensor(3)).sizes() == IntArrayRef({1, 0}));
  CHECK(equal(x.masked_select(x > 0), tensor({1, 4})));
  CHECK(equal(x.masked_fill(x > 0, 9), tensor({{9, 0}, {0, 9}})));
  CHECK(equal((x > 9).masked_fill(x == 0, 0.5), x == 0));
  CHECK(equal(x.count_nonzero(0), tensor({1, 1})));
  CHECK(x.count_nonzero().item<int>() == 2);
}

TEST_CASE("index: embedding gives no gradient to the padding row") {
  const Tensor w = ones({4, 2}).requires_grad_();
  embedding(w, tensor({1, 3, 1, 0}), 3).sum().backward();
  CHECK(equal(w.grad(), tensor({{1.0, 1.0}, {2.0, 2.0}, {0.0, 0.0}, {0.0, 0.0}})));
}

TEST_CASE("sorting: order, ties and NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto [values, indices] = tensor({3.0, nan, 1.0, 3.0}).sort();
  CHECK(equal(indices, tensor({2, 0, 3, 1})));
  CHECK(std::isnan(values[3].item<float>()));
  CHECK(equal(tensor({1, 3, 2, 3}).argsort(0, true), tensor({1, 3, 2, 0})));
  const auto [top, where_from] = tensor({1, 5, 3, 4}).topk(2);
  CHECK(equal(top, tensor({5, 4})));
  CHECK(equal(where_from, tensor({1, 3})));
  CHECK(std::get<0>(tensor({4, 1, 3}).kthvalue(2)).item<int>() == 3);
  CHECK(tensor({4, 1, 3, 2}).median().item<int>() == 2);
  CHECK(std::isnan(tensor({1.0, nan}).median().item<float>()));
}

TEST_CASE("unique: values, inverse, counts, along a dim, neighbours") {
  const auto [values, inverse, counts] = unique(tensor({{3, 1}, {1, 2}}), true, true, true);
  CHECK(equal(values, tensor({1, 2, 3})));
  CHECK(equal(inverse, tensor({{2, 0}, {0, 1}})));
  CHECK(equal(counts, tensor({2, 1, 1})));
  const auto [rows, which, times] = unique(tensor({{1, 2}, {0, 5}, {1, 2}}), true, true, true, 0);
  CHECK(equal(rows, tensor({{0, 5}, {1, 2}})));
  CHECK(equal(which, tensor({1, 0, 1})));
  CHECK(equal(times, tensor({1, 2})));
  CHECK(equal(std::get<0>(unique_consecutive(tensor({1, 1, 2, 1}))), tensor({1, 2, 1})));
  CHECK(equal(searchsorted(tensor({1, 3, 5}), tensor({3, 6, 0})), tensor({1, 3, 0})));
  CHECK(equal(bucketize(tensor({3, 4}), tensor({1, 3, 5}), false, true), tensor({2, 2})));
}

TEST_CASE("searchsorted: equals counting the smaller entries, for every length") {
  manual_seed(5);
  for (int64_t n = 0; n < 20; ++n) {
    const Tensor line = std::get<0>(randint(0, 8, {n}).sort()), x = arange(-1, 9);
    const Tensor below = (line.unsqueeze(0) < x.unsqueeze(1)).sum(1),
                 up_to = (line.unsqueeze(0) <= x.unsqueeze(1)).sum(1);
    CHECK(equal(searchsorted(line, x), below));
    CHECK(equal(searchsorted(line, x, false, true), up_to));
  }
}

TEST_CASE("index: a mask of several dims beside other indices takes those dims alone") {
  const Tensor x = arange(12).reshape({2, 2, 3}), mask = tensor({{true, false}, {false, true}});
  CHECK(equal(x.index({mask, tensor({2})}), tensor({2, 11})));
  CHECK(equal(x.index({mask, Slice(1, None)}), tensor({{1, 2}, {10, 11}})));
  CHECK(equal(x.transpose(0, 2).index({tensor({2, 0}), mask}), tensor({2, 9})));
  const Tensor y = x.clone();
  y.index_put_({mask, tensor({0})}, 7);
  CHECK(equal(y.index({mask}), tensor({{7, 1, 2}, {7, 10, 11}})));
}

TEST_CASE(
    "index: masks large enough for several threads give what any other order of memory gives") {
  manual_seed(6);
  const Tensor x = randn({7, 300, 101}), mask = x > 0.5, places = mask.nonzero();
  const Tensor turned = mask.transpose(0, 2).contiguous().transpose(0, 2);
  CHECK(equal(places, turned.nonzero()));
  const Tensor values = x.masked_select(mask);
  CHECK(equal(values, x.masked_select(turned)));
  CHECK(equal(values, x.index({mask})));
  CHECK(equal(values, x.index({places.select(1, 0), places.select(1, 1), places.select(1, 2)})));
  CHECK(equal(x.masked_fill(~mask, 0), zeros_like(x).masked_scatter(mask, values)));
}
