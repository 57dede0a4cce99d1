// Every allocation of a small training step fails in turn: a typed error, nothing lost, and the
// next step works.
#include <doctest/doctest.h>

#include "base/allocator.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("each allocation of a training step may fail") {
  manual_seed(5);
  const Tensor x = randn({8, 6}), target = randn({8, 2});
  const Tensor w1 = randn({6, 5}).requires_grad_(), w2 = randn({5, 2}).requires_grad_();
  const auto step = [&] {
    w1.zero_grad();
    w2.zero_grad();
    const Tensor h = relu(matmul(x, w1));
    mse_loss(matmul(h, w2), target).backward();
  };
  step();
  const Tensor expected = w1.grad().clone();
  w1.zero_grad();
  w2.zero_grad();
  const int64_t held = memory_stats().allocated;
  int failures = 0;
  for (int64_t n = 1;; ++n) {
    set_allocation_failure(n);
    bool failed = false;
    try {
      step();
    } catch (const OutOfMemoryError&) {
      failed = true;
      ++failures;
    }
    set_allocation_failure(0);
    w1.zero_grad();
    w2.zero_grad();
    CHECK(memory_stats().allocated == held);
    if (!failed) break;
    REQUIRE(n < 1000);
  }
  CHECK(failures > 10);
  step();
  CHECK(equal(w1.grad(), expected));
}
