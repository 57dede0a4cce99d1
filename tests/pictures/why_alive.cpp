// why_alive: each way of holding memory is found, and nothing else.
#include "pellucid/why_alive.h"

#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

namespace pellucid {
namespace {

TEST_CASE("why_alive: variables, views, gradients and saved tensors") {
  Tensor x = ones({3, 4}).requires_grad_();
  const Tensor h = exp(x);
  const Tensor view = h.view({12});
  const Tensor loss = (h * 2).sum();
  const WhyAlive why = why_alive(h, {{"h", h}, {"view", view}, {"loss", loss}, {"x", x}});
  CHECK(why.bytes == 48);
  REQUIRE(why.holders.size() == 3);
  CHECK(why.holders[0].path == std::vector<std::string>{"h"});
  // h's own node saves its result.
  CHECK(why.holders[1].kind == Holder::Kind::Saved);
  CHECK(why.holders[1].path == std::vector<std::string>{"h", "ExpBackward0", "saved result"});
  CHECK(why.holders[2].path == std::vector<std::string>{"view"});
  CHECK(why.holders[2].is_view);
  CHECK(why.to_string().find("h -> ExpBackward0 -> saved result") != std::string::npos);
  loss.backward();
  const Tensor grad = x.grad();
  const WhyAlive of_grad = why_alive(grad, {{"x", x}, {"loss", loss}});
  REQUIRE(of_grad.holders.size() == 1);
  CHECK(of_grad.holders[0].path == std::vector<std::string>{"x", "grad"});
  // backward freed what was saved.
  for (const Holder& holder : why_alive(h, {{"loss", loss}, {"h", h}}).holders)
    CHECK(holder.kind == Holder::Kind::Variable);
}

TEST_CASE("why_alive: the path from a loss, and nothing that was not named") {
  Tensor x = ones({5}).requires_grad_();
  Tensor hidden = sin(x);
  const Tensor loss = exp(hidden).sum();
  const WhyAlive why = why_alive(x, {{"loss", loss}});
  REQUIRE(why.holders.size() == 1);
  CHECK(why.holders[0].path.front() == "loss");
  CHECK(why.holders[0].path.back().starts_with("saved"));
  CHECK(why_alive(ones({2}), {{"loss", loss}}).holders.empty());
  CHECK_THROWS_AS(why_alive(Tensor(), {}), ValueError);
}

TEST_CASE("why_alive: variables without a history") {
  const Tensor wanted = ones({4});
  for (int i = 0; i < 20; ++i) {  // a leaf's node is made when it is asked for, and goes again
    const Tensor a = ones({2}).requires_grad_(), b = ones({3}).requires_grad_();
    CHECK(why_alive(wanted, {{"a", a}, {"b", b}, {"wanted", wanted}}).holders.size() == 1);
  }
}

}  // namespace
}  // namespace pellucid
