// What follows a convolution on each block of the result, against eager calls: the
// same bits for every kind of convolution, layout and dtype.
#include <doctest/doctest.h>

#include <cmath>

#include "convolutions.h"
#include "core/fuse.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/creation.h"
#include "pellucid/lazy.h"
#include "pellucid/operators.h"
#include "support.h"

namespace pellucid::test {
namespace {

// What a network has behind a convolution; `r` has the sizes of y, `channels` one value for each.
struct Follower {
  const char* name;
  Tensor (*f)(const Tensor& y, const Tensor& r, const Tensor& channels);
};

Tensor over_pixels(const Tensor& channels, const Tensor& y) {
  std::vector<int64_t> sizes(static_cast<size_t>(y.dim()), 1);
  sizes[1] = channels.numel();
  return channels.view(sizes);
}

const Follower kFollowers[] = {
    {"an activation", [](const Tensor& y, const Tensor&, const Tensor&) { return y.relu(); }},
    {"an activation in place",
     [](const Tensor& y, const Tensor&, const Tensor&) { return y.relu_(); }},
    {"changes in place of what was made",
     [](const Tensor& y, const Tensor& r, const Tensor&) {
       Tensor z = y.mul(0.5);
       z.add_(r).mul_(3);
       return z.tanh_();
     }},
    {"bias, activation, residual and scale",
     [](const Tensor& y, const Tensor& r, const Tensor& channels) {
       return ((y + over_pixels(channels, y)).sigmoid() + r) * 0.25;
     }},
    {"the result itself, too",
     [](const Tensor& y, const Tensor& r, const Tensor&) { return (y * r).relu() + y; }},
    {"batch norm, activation and residual",
     [](const Tensor& y, const Tensor& r, const Tensor& channels) {
       const Tensor variance = channels.abs() + 1;
       return (batch_norm(y, variance, channels, channels, variance, false, 0.1, 1e-5) + r).relu();
     }},
    {"batch norm in training, and activation",
     [](const Tensor& y, const Tensor& r, const Tensor& channels) {
       return batch_norm(y, channels, channels, {}, {}, true, 0.1, 1e-5).relu() + r;
     }},
};

struct Operands {
  Tensor x, w, r, channels;
};

Operands operands(const Convolution& c, bool last, bool infinite) {
  manual_seed(7);
  Operands o;
  o.x = randn(c.input).to(c.dtype);
  o.w = randn(c.weight).to(c.dtype);
  if (infinite) o.x.select(0, 0).select(0, 0).fill_(INFINITY);
  {
    const NoGradGuard off;
    const Tensor y = c.f(o.x, o.w);
    o.r = randn(y.sizes()).to(c.dtype);
    o.channels = randn({y.size(1)}).to(c.dtype);
  }
  if (last && o.x.dim() == 4) {
    o.x = o.x.contiguous(MemoryFormat::ChannelsLast);
    o.w = o.w.contiguous(MemoryFormat::ChannelsLast);
  }
  return o;
}

// The result, and the gradients of what went into it. The input comes from an activation, so that
// its backward follows the convolution's.
Tensors step(const Convolution& c, const Follower& follower, const Operands& o, bool backward) {
  if (!backward) {
    const NoGradGuard off;
    return {follower.f(c.f(o.x, o.w), o.r, o.channels)};
  }
  const Tensor x = o.x.detach().requires_grad_(), w = o.w.detach().requires_grad_();
  const Tensor y = follower.f(c.f(x.relu() * 2, w), o.r, o.channels);
  y.square().sum().backward();
  return {y.detach(), x.grad(), w.grad()};
}

TEST_CASE("convolutions: what follows on blocks of the result has the bits of eager calls") {
  const LazyGuard outermost(false);
  const FuseAll small;
  int64_t fused = 0;
  for (const Convolution& c : convolutions())
    for (const Follower& follower : kFollowers)
      for (int way = 0; way < 6; ++way) {
        // Where a sum is not finite, Winograd's algorithm begins again in another way.
        const bool last = way % 2 == 1, backward = way / 2 == 1, infinite = way / 2 == 2;
        if (last && c.input.size() != 4) continue;
        const std::string text =
            std::string(c.name) + ", " + follower.name + (last ? ", channels last" : "") +
            (backward ? ", with gradients" : "") + (infinite ? ", infinite" : "");
        INFO(text);
        const Operands o = operands(c, last, infinite);
        const Tensors eager = step(c, follower, o, backward);
        auto compiled =
            compile([&] { return step(c, follower, o, backward); }, CompileMode::Always);
        const int64_t before = detail::fused_calls;
        for (int round = 0; round < 3; ++round) {
          const Tensors again = compiled();
          REQUIRE(again.size() == eager.size());
          for (size_t i = 0; i < eager.size(); ++i) CHECK(same_bits(eager[i], again[i]));
        }
        fused += detail::fused_calls > before;
      }
  MESSAGE("something ran as a group in " << fused << " programs");
  CHECK(fused > 400);
}

TEST_CASE("convolutions: by tiles, what follows is in the convolution's group") {
  const LazyGuard outermost(false);
  // Only where Winograd's algorithm runs; the other ways make all of a result at once.
  const Convolution c = convolutions()[0];
  const Operands o = operands(c, false, false);
  const auto groups = [&](const Follower& follower, bool backward) {
    int64_t n = 0;
    Tensors kept;
    for (const auto& part : explain([&] { kept = step(c, follower, o, backward); }).parts)
      if (part.ops.size() > 1 && part.ops[0].starts_with("convolution")) ++n;
    return n;
  };
  const int64_t one = groups(kFollowers[0], false);
  for (const size_t i : {1, 2, 3, 4}) CHECK(groups(kFollowers[i], false) == one);
  CHECK(groups(kFollowers[0], true) == one);
}

}  // namespace
}  // namespace pellucid::test
