// In-place forms: of views, of numbers, and what they leave for gradients of gradients.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;
using autograd::grad;

TEST_CASE("in place: views change the tensor's own sizes and keep its storage") {
  const Tensor x = arange(6).view({2, 3}).clone();
  const void* const data = x.const_data_ptr();
  x.transpose_(0, 1);
  CHECK(x.sizes() == IntArrayRef({3, 2}));
  CHECK(x.strides() == IntArrayRef({1, 3}));
  CHECK(x.unsqueeze_(0).sizes() == IntArrayRef({1, 3, 2}));
  CHECK(x.squeeze_().sizes() == IntArrayRef({3, 2}));
  CHECK(x.t_().equal(arange(6).view({2, 3})));
  CHECK(x.const_data_ptr() == data);
  CHECK_THROWS_AS(x.transpose_(0, 2), IndexError);
  CHECK(x.sizes() == IntArrayRef({2, 3}));
}

TEST_CASE("in place: gradients pass through a changed view") {
  const Tensor w = arange(6, kFloat64).view({2, 3}).clone().requires_grad_();
  CHECK_THROWS_AS(w.t_(), AutogradError);
  const Tensor y = w * 2;
  y.transpose_(0, 1).unsqueeze_(1);
  const Tensor weight = arange(6, kFloat64).view({3, 1, 2});
  (y * weight).sum().backward();
  CHECK(w.grad().equal(weight.squeeze(1).t() * 2));
}

TEST_CASE("in place: grad of given inputs passes through a changed view as backward does") {
  const Tensor w = arange(6, kFloat64).requires_grad_();
  const Tensor y = w * 2;
  y.slice(0, 0, 2).mul_(3);
  const Tensor loss = y.square().sum();
  const Tensor asked = grad({loss}, {w}, {}, true)[0];
  CHECK(grad({loss}, {y}, {}, true)[0].equal(y.detach() * 2));
  loss.backward();
  CHECK(asked.equal(w.grad()));
  CHECK(asked[1].item<double>() == 2 * 6 * 6);
}

TEST_CASE("in place: a second derivative reads the value from before the change") {
  const Tensor x = tensor(3.0, kFloat64).requires_grad_();
  const Tensor y = x * 1;
  y.pow_(3);
  const Tensor first = grad({y}, {x}, {}, true, true)[0];
  CHECK(first.item<double>() == doctest::Approx(27));
  CHECK(grad({first}, {x})[0].item<double>() == doctest::Approx(18));
}

TEST_CASE("in place: random fills, and random numbers around a tensor of means") {
  manual_seed(7);
  const Tensor x = zeros({10000});
  CHECK(x.normal_(3, 0.5).is_same(x));
  CHECK(x.mean().item<double>() == doctest::Approx(3).epsilon(0.02));
  CHECK(x.bernoulli_().mean().item<double>() == doctest::Approx(0.5).epsilon(0.05));
  const Tensor around = normal(full({10000}, 5.0), 2.0);
  CHECK(around.mean().item<double>() == doctest::Approx(5).epsilon(0.02));
  CHECK(around.std().item<double>() == doctest::Approx(2).epsilon(0.05));
  CHECK_THROWS_AS(invoke("uniform", std::vector<Value>{x}), ValueError);
}

TEST_CASE("numbers where tensors may stand") {
  const Tensor x = tensor({-2.0, 0.5, 3.0});
  CHECK(where(x > 0, 1, -1).equal(tensor({-1, 1, 1})));
  CHECK(where(x > 0, x, 0.0).equal(tensor({0.0, 0.5, 3.0})));
  CHECK(clamp(x, 0).equal(tensor({0.0, 0.5, 3.0})));
  CHECK(x.clamp(-1, 1).equal(tensor({-1.0, 0.5, 1.0})));
  CHECK(x.clamp(std::nullopt, 0).equal(tensor({-2.0, 0.0, 0.0})));
  CHECK(!x.equal(tensor({-2.0, 0.5})));
  CHECK(x.allclose(x + 1e-7));
}

TEST_CASE("only what a gradient reads is kept") {
  const auto saved = [](const Tensor& y) {
    std::vector<std::string> names;
    for (const autograd::SavedInfo& s : y.grad_fn()->saved_tensors()) names.push_back(s.name);
    return names;
  };
  using Names = std::vector<std::string>;
  const Tensor a = ones({3}).requires_grad_(), b = full({3}, 2.0), c = ones({3}).requires_grad_();
  CHECK(saved(div(a, b)) == Names{"other"});
  CHECK(saved(div(b, a)) == Names{"self", "other"});
  CHECK(saved(mul(a, b)) == Names{"other"});
  CHECK(saved(mul(a, c)) == Names{"self", "other"});
  CHECK(saved(add(a, c)).empty());
}

TEST_CASE("views of a view that was made a leaf cannot be changed in place") {
  const Tensor x = arange(6.0).view({2, 3});
  x.requires_grad_();
  CHECK_THROWS_AS(x.select(0, 0).mul_(2), AutogradError);
  CHECK_THROWS_AS(x.mul_(2), AutogradError);
  const Tensor y = x * 1;
  y.select(0, 0).mul_(2);
  y.sum().backward();
  CHECK(equal(x.grad(), tensor({{2.0, 2.0, 2.0}, {1.0, 1.0, 1.0}}).to(x.dtype())));
  Tensor view;
  {
    const NoGradGuard off;
    view = x.select(0, 0);
    view.add_(1);  // nothing is tracked here
  }
  CHECK_THROWS_AS(view.add_(1), AutogradError);
}

TEST_CASE("a gradient that can be differentiated has memory of its own") {
  const Tensor x = ones({3, 2}).requires_grad_();
  x.sum().backward({}, true, true);
  CHECK(x.grad().is_contiguous());
  x.sum().backward();
  x.grad().detach().mul_(2);
  CHECK(equal(x.grad(), full({3, 2}, 4.0)));
}

TEST_CASE("in place: one value may be written to an expanded tensor, nothing else") {
  const Tensor x = zeros({2, 1}), wide = x.expand({2, 50'000});
  wide.fill_(2);
  CHECK(x.equal(full({2, 1}, 2.0)));
  wide.zero_();
  CHECK(x.equal(zeros({2, 1})));
  CHECK_THROWS_AS(wide.add_(1), ValueError);
  CHECK_THROWS_AS(wide.copy_(ones({})), ValueError);
  CHECK_THROWS_AS(wide.fill_(tensor(1.0)), ValueError);  // its gradient would count too often
  CHECK_THROWS_AS(wide.normal_(), ValueError);
  CHECK_THROWS_AS(wide.masked_fill_(wide.eq(0), 1), ValueError);
  CHECK(x.equal(zeros({2, 1})));
  const Tensor w = ones({2, 1}).requires_grad_(), base = w * 3;
  base.select(0, 0).expand({5}).fill_(7);
  CHECK(base.detach().equal(tensor({7.0, 3.0}).view({2, 1})));
  base.sum().backward();
  CHECK(w.grad().equal(tensor({0.0, 3.0}, kFloat32).view({2, 1})));
}

TEST_CASE("set_data: a view becomes a tensor of its own, and gradients need floats") {
  const Tensor x = ones({2, 3}).requires_grad_() * 1;
  const Tensor view = x.select(0, 0);
  view.set_data(full({5}, 2.0));
  CHECK_FALSE(view.is_view());
  view.mul_(3);
  CHECK(equal(view.detach(), full({5}, 6.0)));
  CHECK(equal(x.detach(), ones({2, 3})));
  CHECK_THROWS_AS(x.set_data(ones({2}, kInt64)), TypeError);
}
