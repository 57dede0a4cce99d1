// Inference mode: what may be made in it, and what its tensors may do outside of it.
#include <doctest/doctest.h>

#include "pellucid/nn.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("inference mode: tensors and modules in it may require gradients") {
  Tensor leaf;
  nn::Linear layer{nullptr};
  {
    const InferenceMode on;
    leaf = ones({2}, TensorOptions().requires_grad(true));
    CHECK(leaf.is_inference());
    CHECK(leaf.is_leaf());
    CHECK(randn({2}).requires_grad_().requires_grad());
    CHECK(randn({2}).set_requires_grad(true).requires_grad());
    CHECK(!leaf.requires_grad_(false).requires_grad());
    leaf.requires_grad_();
    CHECK_THROWS_AS(ones({2}, kInt64).requires_grad_(), TypeError);
    layer = nn::Linear(2, 3);
    CHECK(layer->weight.requires_grad());
    CHECK(layer->weight.is_inference());
    CHECK(!layer->forward(ones({1, 2})).requires_grad());
    nn::Sequential(nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::LSTM(2, 2), nn::Embedding(3, 2));
    leaf.add_(1);  // nobody tracks it here
    layer->weight.copy_(ones({3, 2}));
  }
  CHECK(leaf.requires_grad());
  (leaf + 2).sum().backward();  // saves nothing
  CHECK(equal(leaf.grad(), ones({2})));
}

TEST_CASE("inference mode: nothing is tracked in it, also where gradients are turned on") {
  const Tensor p = ones({2}).requires_grad_();
  const InferenceMode on;
  const AutoGradMode grad(true);
  CHECK(GradMode::is_enabled());
  CHECK(!(p * 2).requires_grad());
  p.add_(1);
  const InferenceMode off(false);
  CHECK((p * 2).requires_grad());
  CHECK(!ones({2}).is_inference());
}

TEST_CASE("inference mode: its tensors outside of it") {
  const Tensor p = ones({3}).requires_grad_(), plain = ones({3});
  Tensor made, view, view_of_plain;
  {
    const InferenceMode on;
    made = ones({3});
    view = made.view({3});
    view_of_plain = plain.view({3});
    plain.add_(1);
    CHECK(!view_of_plain.is_inference());
  }
  CHECK_THROWS_AS(made.requires_grad_(), AutogradError);
  CHECK_THROWS_AS(made.add_(1), AutogradError);
  CHECK_THROWS_AS(view.add_(1), AutogradError);
  CHECK_THROWS_AS(made.view({3}).zero_(), AutogradError);
  CHECK_THROWS_AS(made.unsqueeze_(0), AutogradError);
  {
    const NoGradGuard off;
    CHECK_THROWS_AS(made.add_(1), AutogradError);
  }
  CHECK(equal(made, ones({3})));
  CHECK_THROWS_AS(made * p, AutogradError);  // it would be saved for backward
  CHECK((made + p).requires_grad());
  CHECK(!made.clone().is_inference());
  CHECK(made.detach().is_inference());
  CHECK(!(made + 1).is_inference());
  made.clone().add_(1).requires_grad_();
  view_of_plain.add_(1);
  made.data().add_(1);
  CHECK(equal(made, full({3}, 2.0)));
  plain.copy_(made);
  (p * 2).backward(made);
  CHECK(equal(p.grad(), full({3}, 4.0)));
}

TEST_CASE("inference mode: a view whose base changed before still has its history") {
  const Tensor w = ones({4}).requires_grad_();
  const Tensor base = w * 1, view = base.slice(0, 0, 2);
  base.mul_(2);
  const InferenceMode on;
  CHECK(!view.is_leaf());
  CHECK(view.grad_fn()->name() == "AsStridedViewBackward0");
}
