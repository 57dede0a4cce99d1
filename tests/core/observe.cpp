// OpObserver: what it sees, and that nobody sees it.
#include "core/observe.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "pellucid/pellucid.h"

using namespace pellucid;

TEST_CASE("observer: sees every op with its results, in place and composed too") {
  const Tensor x = tensor({1.0, 2.0}).requires_grad_();
  std::vector<std::string> seen;
  std::vector<double> sums;
  {
    const OpObserver observer([&](const Call& c) {
      seen.emplace_back(c.name());
      sums.push_back(c.out().sum().item<double>());  // its own ops are not observed
    });
    const Tensor y = x * 3;
    const NoGradGuard off;
    y.neg_();
    std::thread([&] { x + 1; }).join();  // another thread's ops are its own
  }
  x + 1;  // the observer is gone
  CHECK(seen == std::vector<std::string>{"mul", "neg"});
  CHECK(sums == std::vector<double>{9, -9});
  seen.clear();
  {
    const OpObserver observer([&](const Call& c) { seen.emplace_back(c.name()); });
    cross_entropy_loss(ones({2, 3}), tensor({0, 2}));
  }
  CHECK(seen.size() > 1);  // as the ops that it is written with
}

TEST_CASE("observer: the innermost sees, and an exception of it reaches the program") {
  int outer = 0, inner = 0;
  const Tensor x = ones({2});
  const OpObserver first([&](const Call&) { ++outer; });
  {
    const OpObserver second([&](const Call&) { ++inner; });
    x + 1;
  }
  x + 1;
  CHECK(outer == 1);
  CHECK(inner == 1);
  const OpObserver third([](const Call&) { throw ValueError("seen enough"); });
  CHECK_THROWS_WITH_AS(x + 1, "seen enough", ValueError);
  CHECK_THROWS_AS(x + 1, ValueError);  // it goes on observing
}
