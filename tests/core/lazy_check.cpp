// PELLUCID_LAZY=check: captured calls also run at once, and the first that gives other bits is
// named.
#include <doctest/doctest.h>

#include "core/capture_check.h"
#include "core/fuse.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"

namespace pellucid {
namespace {

std::vector<std::string>& differences() {
  static std::vector<std::string> found;
  return found;
}

/// Checks captured calls while it lives, and keeps what is found.
struct Checked {
  Checked() {
    differences().clear();
    detail::checks_captures.store(true);
    before = detail::set_difference_handler(
        [](const std::string& message) { differences().push_back(message); });
  }
  ~Checked() {
    detail::checks_captures.store(false);
    detail::set_difference_handler(before);
  }
  Checked(const Checked&) = delete;
  detail::DifferenceHandler before;
};

int calls_of_wrong = 0;

// Right when it runs for the first time, wrong at one element from then on.
constinit const OpDef wrong_op = {
    .schema = "user_wrong(Tensor self) -> Tensor",
    .doc = "2 x, or not.",
    .kind = OpKind::Opaque,
    .infer = [](Call& c) { c.make_output(c.in(0).sizes(), kFloat64); },
    .cost = [](const Call&) { return Cost{}; },
    .kernel =
        [](Call& c) {
          const Tensor x = c.in(0).contiguous();
          for (int64_t i = 0; i < x.numel(); ++i) c.out().raw<double>()[i] = 2 * x.raw<double>()[i];
          if (calls_of_wrong++ > 0) c.out().raw<double>()[4] += 1;
        },
    .vjp = no_gradient};

TEST_CASE("lazy check: an op that gives other bits later is named, with its line and the element") {
  register_op(wrong_op);
  const LazyGuard outermost(false);
  const Tensor x = full({2, 3}, 1.5, kFloat64);
  calls_of_wrong = 0;
  const Checked checked;
  const LazyGuard lazy;
  const Tensor y = invoke("user_wrong", std::vector<Value>{x})[0].tensor() + 1;
  CHECK(is_pending(y));
  eval(y);
  REQUIRE(differences().size() == 2);  // and what was made of it
  CHECK(differences()[1].find("add(float64[2, 3], ") != std::string::npos);
  const std::string& message = differences()[0];
  INFO(message);
  CHECK(message.find("PELLUCID_LAZY=check: user_wrong(float64[2, 3])") == 0);
  CHECK(message.find(" at ") != std::string::npos);  // which line: tests/package/lines.cpp
  CHECK(message.find("output 0: element [1, 1] of float64[2, 3] is 4, run eagerly it is 3; 1 of 6 "
                     "elements differ") != std::string::npos);
}

TEST_CASE("lazy check: a right program has no differences") {
  const LazyGuard outermost(false);
  const int64_t least = std::exchange(detail::least_fused, 0);
  {
    const Checked checked;
    manual_seed(1);
    nn::Linear first(6, 8), second(8, 3);
    std::vector<Tensor> parameters = first->parameters();
    for (const Tensor& p : second->parameters()) parameters.push_back(p);
    optim::AdamW o(parameters, optim::AdamWOptions(0.01));
    const int64_t fused = detail::fused_calls.load();
    for (int step = 0; step < 3; ++step) {
      const LazyGuard lazy;
      const Tensor x = randn({5, 6}), y = randint(3, {5});
      o.zero_grad();
      const Tensor hidden = dropout(gelu(first->forward(x) * 2 + 1), 0.25, true);
      nn::functional::cross_entropy(second->forward(hidden), y).backward();
      o.step();
      const Tensor view = x.slice(1, 0, 2);
      view.mul_(3).add_(1);
      const Tensor unwritten = empty({100});
      CHECK(is_pending(unwritten.fill_(2)));
      CHECK(is_pending(x));
    }
    CHECK(detail::fused_calls.load() > fused);
    CHECK(differences().empty());
  }
  detail::least_fused = least;
}

TEST_CASE("lazy check: a change that nobody captured is found") {
  // Memory that is written behind the capture's back is what the check is for.
  const LazyGuard outermost(false);
  const Tensor x = ones({4});
  const Checked checked;
  const LazyGuard lazy;
  const Tensor y = x + 1;
  static_cast<float*>(x.impl().storage->data)[2] = 5;
  eval(y);
  REQUIRE(differences().size() == 1);
  CHECK(differences()[0].find("element [2] of float32[4] is 6, run eagerly it is 2") !=
        std::string::npos);
}

}  // namespace
}  // namespace pellucid
