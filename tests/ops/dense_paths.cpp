// Ops that have a path of their own for dense tensors: it gives what the general one gives, and
// errors leave tensors as they were.
#include <doctest/doctest.h>

#include <limits>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {

/// The same values with another layout, which takes the general path.
Tensor spaced(const Tensor& t) {
  Tensor wide = stack(Tensors{t, t}, -1);
  return wide.select(-1, 0);
}

}  // namespace

TEST_CASE("logical ops: dense bools, and the same spaced out") {
  const Tensor a = randn({70, 1000}).gt(0), b = randn({70, 1000}).gt(0);
  CHECK(equal(logical_and(a, b), logical_and(spaced(a), b)));
  CHECK(equal(logical_or(a, b), logical_or(spaced(a), b)));
  CHECK(equal(logical_xor(a, b), logical_xor(spaced(a), b)));
  CHECK(equal(logical_xor(a, b), a.ne(b)));
}

TEST_CASE("addr: one pass over dense matrices, and beta 0 does not read self") {
  const Tensor self = randn({37, 50}), x = randn({37}), y = randn({50});
  const Tensor want = self * 0.5 + outer(x, y) * 2.0;
  CHECK(allclose(addr(self, x, y, 0.5, 2.0), want, 1e-5, 1e-5));
  CHECK(allclose(addr(spaced(self), x, y, 0.5, 2.0), want, 1e-5, 1e-5));
  const Tensor bad = full({37, 50}, std::numeric_limits<double>::quiet_NaN());
  CHECK(allclose(addr(bad, x, y, 0, 1), outer(x, y)));
}

TEST_CASE("masked_scatter undoes masked_select over several pieces of a mask") {
  const Tensor x = randn({3, 70001}), mask = x.gt(0.3);
  const Tensor back = zeros_like(x).masked_scatter(mask, x.masked_select(mask));
  CHECK(equal(back, x.masked_fill(~mask, 0)));
  CHECK_THROWS_WITH_AS(zeros_like(x).masked_scatter(mask, randn({5})),
                       doctest::Contains("source only 5 elements"), ShapeError);
}

TEST_CASE("scatter and gather: a bad index is named, and a tensor in place stays as it was") {
  const Tensor self = randn({4, 600}), source = randn({4, 600});
  const Tensor good = randint(600, {4, 600}), bad = good.clone();
  bad.select(0, 2).select(0, 599).fill_(600);
  CHECK_THROWS_WITH_AS(self.gather(1, bad), doctest::Contains("index 600 is out of bounds"),
                       IndexError);
  CHECK_THROWS_WITH_AS(self.scatter(1, bad, source), doctest::Contains("index 600"), IndexError);
  const Tensor kept = self.clone();
  CHECK_THROWS_AS(self.scatter_(1, bad, source), IndexError);
  CHECK_THROWS_AS(self.scatter_add_(1, bad, source), IndexError);
  CHECK(equal(self, kept));
  CHECK(equal(self.scatter_add(1, good, source), self.clone().scatter_add_(1, good, source)));
  CHECK(equal(self.scatter(1, good, source), self.clone().scatter_(1, good, source)));
  // Along the first dim, and with an index that does not reach every line.
  const Tensor few = randint(4, {2, 300});
  CHECK(equal(self.scatter_add(0, few, source), self.clone().scatter_add_(0, few, source)));
  const Tensor part = randint(600, {2, 300});
  CHECK(equal(self.scatter(1, part, source), self.clone().scatter_(1, part, source)));
}
