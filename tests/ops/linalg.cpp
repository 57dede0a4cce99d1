// Matrix products by hand: ranks and strides against the defining sum, what a product adds to, what
// is saved and computed for gradients, costs, and bits that do not depend on threads.
#include <doctest/doctest.h>

#include <limits>

#include "pellucid/pellucid.h"
#include "threads.h"

using namespace pellucid;

namespace {

// The sum over the last dimension of a and the last but one of b, by broadcast and reduce.
Tensor defining_sum(const Tensor& a, const Tensor& b) {
  return a.unsqueeze(-1).mul(b.unsqueeze(-3)).sum(-2);
}

double cost_of(std::string_view name, std::initializer_list<Tensor> inputs, Attrs attrs = {}) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(&t);
  const OpDef& op = *find_ops(name).at(0);
  Call c(op, pointers, attrs);
  op.infer(c);
  return op.cost(c).flops;
}

}  // namespace

TEST_CASE("linalg: matmul agrees with the defining sum for all ranks and strides") {
  manual_seed(1);
  const auto check = [](const Tensor& a, const Tensor& b) {
    INFO(to_string(a.sizes()) << " and " << to_string(b.sizes()));
    CHECK(allclose(a.matmul(b), defining_sum(a, b)));
  };
  const Tensor a = randn({3, 4, 5}, kFloat64), b = randn({5, 6}, kFloat64),
               c = randn({2, 1, 5, 3}, kFloat64);
  check(a, b);
  check(a, c);
  check(randn({3, 5, 4}, kFloat64).mT(), b);  // cannot be folded without copying
  check(randn({4, 3, 5}, kFloat64).transpose(0, 1), b.t().clone().t());
  check(randn({2, 4, 3, 5}, kFloat64).transpose(1, 2),
        randn({2, 2, 3, 5}, kFloat64).permute({0, 2, 3, 1}));  // batches with gaps
  check(randn({1, 4, 5}, kFloat64).expand({3, 4, 5}), c);
  check(randn({4, 5}, kFloat64), randn({3, 5, 2}, kFloat64));
  check(randn({4, 10}, kFloat64).slice(1, 0, 10, 2), b.flip({0}));
  CHECK(allclose(a.matmul(b.select(1, 0)), defining_sum(a, b.narrow(1, 0, 1)).squeeze(-1)));
  CHECK(allclose(b.select(0, 0).matmul(randn({2, 6, 3}, kFloat64).zero_().add_(1)),
                 b.select(0, 0).sum().expand({2, 3})));
  CHECK(equal(randn({3, 0}).matmul(randn({0, 4})), zeros({3, 4})));
  CHECK(randn({2, 0, 3}).matmul(randn({3, 4})).sizes() == IntArrayRef({2, 0, 4}));
}

TEST_CASE("linalg: every dtype multiplies in its own type") {
  for (const DType t : {kInt64, kInt32, kInt16, kInt8, kUInt8}) {
    const Tensor a = arange(6).reshape({2, 3}).to(t), b = arange(6).reshape({3, 2}).to(t);
    const Tensor product = a.matmul(b);
    CHECK((product.dtype() == t));
    CHECK(equal(product.to(kInt64), tensor({10, 13, 28, 40}).reshape({2, 2})));
  }
  // Sums of 16-bit floats are kept in float32: 4096 ones are not lost.
  CHECK(ones({1, 4096}, kBFloat16).matmul(ones({4096, 1}, kBFloat16)).item<double>() == 4096);
  CHECK(ones({1, 4096}, kFloat16).matmul(ones({4096, 1}, kFloat16)).item<double>() == 4096);
}

TEST_CASE("linalg: with beta = 0 the tensor added to is not read") {
  const Tensor nan = full({2, 2}, std::numeric_limits<double>::quiet_NaN());
  CHECK(equal(nan.addmm(ones({2, 3}), ones({3, 2}), 0), full({2, 2}, 3.0)));
  CHECK(equal(nan.addr(ones({2}), ones({2}), 0), ones({2, 2})));
  CHECK(equal(nan.select(0, 0).addmv(ones({2, 3}), ones({3}), 0), full({2}, 3.0)));
  CHECK(equal(nan.unsqueeze(0).baddbmm(ones({1, 2, 3}), ones({1, 3, 2}), 0), full({1, 2, 2}, 3.0)));
}

TEST_CASE("linalg: in-place products write self, also where an operand shares its memory") {
  const Tensor a = randn({3, 3}, kFloat64), b = randn({3, 3}, kFloat64);
  const Tensor wanted = a.add(a.matmul(b)), square = a.add(a.matmul(a));
  Tensor t = a.clone();
  t.addmm_(t, b);
  CHECK(allclose(t, wanted));
  t = a.clone();
  t.addmm_(t, t);
  CHECK(allclose(t, square));
  const Tensor base = randn({3, 6}, kFloat64), view = base.slice(1, 0, 6, 2);  // strided result
  const Tensor expected = view.mul(2).add(a.matmul(b));
  view.addmm_(a, b, 2);
  CHECK(allclose(view, expected));
  CHECK_THROWS_AS(randn({2}).addmm_(ones({2, 3}), ones({3, 2})), ShapeError);
}

TEST_CASE("linalg: linear keeps and computes only what is needed") {
  const Tensor x = randn({4, 3}), w = randn({2, 3}).requires_grad_(),
               bias = randn({2}).requires_grad_();
  const Tensor y = linear(x, w, bias);
  bool keeps_input = false;
  for (const autograd::SavedInfo& s : y.grad_fn()->saved_tensors())
    keeps_input |= s.name == "input";
  CHECK(keeps_input);
  CHECK(!y.grad_fn()->next_edge(0).is_valid());
  const Tensor z = linear(randn({4, 3}).requires_grad_(), w.detach());
  for (const autograd::SavedInfo& s : z.grad_fn()->saved_tensors()) CHECK(s.name == "weight");
  CHECK(allclose(y, x.matmul(w.t()).add(bias)));
}

TEST_CASE("linalg: costs are the worked figures") {
  CHECK(cost_of("linear", {randn({32, 768}), randn({3072, 768}), Tensor()}) == 150994944);
  CHECK(cost_of("linear", {randn({32, 768}), randn({3072, 768}), randn({3072})}) == 151093248);
  CHECK(cost_of("mm", {randn({64, 512}), randn({512, 512})}) == 33554432);
  CHECK(cost_of("linear", {randn({1, 128}), randn({64, 128}), Tensor()}) == 16384);
}

TEST_CASE("linalg: bits do not depend on the number of threads") {
  manual_seed(3);
  const Tensor a = randn({257, 300}), b = randn({300, 190}), batch = randn({6, 64, 300});
  const auto all = [&] {
    return Tensors{a.matmul(b), batch.matmul(b), batch.matmul(batch.mT()),
                   linear(a, b.t(), b.select(0, 0)), a.mv(b.select(1, 0))};
  };
  const Threads one(1);
  const Tensors first = all();
  const Threads two(2);
  const Tensors second = all();
  for (size_t i = 0; i < first.size(); ++i) CHECK(equal(first[i], second[i]));
}

TEST_CASE("linalg: einsum agrees with the products it stands for") {
  const Tensor a = randn({2, 3, 4}, kFloat64), b = randn({2, 4, 5}, kFloat64),
               m = randn({4, 4}, kFloat64);
  CHECK(allclose(einsum("bij,bjk->bik", {a, b}), a.bmm(b)));
  CHECK(allclose(einsum("bij,bjk->kbi", {a, b}), a.bmm(b).permute({2, 0, 1})));
  CHECK(allclose(einsum("...ij,...jk", {a, b}), a.matmul(b)));
  CHECK(allclose(einsum("ii->i", {m}), m.diagonal()));
  CHECK(allclose(einsum("ii", {m}), m.trace()));
  CHECK(allclose(einsum("bij,bjk,kl->il", {a, b, randn({5, 5}, kFloat64).fill_(1)}),
                 a.bmm(b).sum(0).sum(-1, true).expand({3, 5})));
  CHECK(allclose(einsum("ij,ij->i", {m, m}), m.mul(m).sum(1)));
  CHECK(equal(einsum("ij,jk->ik", {arange(4).reshape({2, 2}), arange(4).reshape({2, 2})}),
              tensor({2, 3, 6, 11}).reshape({2, 2})));
}
