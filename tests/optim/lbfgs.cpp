// L-BFGS on Rosenbrock's function against PyTorch 2.13, and what surrounds the step.
#include <doctest/doctest.h>

#include "pellucid/optim.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using optim::LBFGS;
using optim::LBFGSOptions;

namespace {

/// 100 (y - x^2)^2 + (1 - x)^2 from (-1.2, 1).
struct Rosenbrock {
  explicit Rosenbrock(const LBFGSOptions& options) : optimizer({at}, options) {}
  Tensor loss() const { return 100 * (at[1] - at[0].square()).square() + (1 - at[0]).square(); }
  double step() {
    return optimizer
        .step([&] {
          optimizer.zero_grad();
          const Tensor l = loss();
          l.backward();
          return l;
        })
        .item<double>();
  }
  Tensor at = tensor({-1.2, 1.0}, kFloat64).requires_grad_();
  LBFGS optimizer;
};

const optim::LBFGSParamState& state(const Rosenbrock& r) {
  return static_cast<const optim::LBFGSParamState&>(*r.optimizer.state().begin()->second);
}

}  // namespace

TEST_CASE("LBFGS: fixed steps are PyTorch's") {
  Rosenbrock r(LBFGSOptions(0.1).max_iter(8).history_size(4));
  CHECK(r.step() == doctest::Approx(24.2).epsilon(1e-12));
  CHECK(r.at[0].item<double>() == doctest::Approx(-1.0821440343881377).epsilon(1e-9));
  CHECK(r.at[1].item<double>() == doctest::Approx(1.051116024861293).epsilon(1e-9));
  CHECK(r.step() == doctest::Approx(5.773396896180147).epsilon(1e-9));
  CHECK(r.step() == doctest::Approx(4.453407974110844).epsilon(1e-9));
  CHECK(r.step() == doctest::Approx(4.175420777325273).epsilon(1e-9));
  CHECK(r.at[1].item<double>() == doctest::Approx(1.0436995386253256).epsilon(1e-9));
  CHECK(state(r).func_evals() == 32);
  CHECK(state(r).n_iter() == 32);
  CHECK(state(r).old_dirs().size() == 4);
}

TEST_CASE("LBFGS: the line search takes PyTorch's steps and finds the minimum") {
  Rosenbrock r(LBFGSOptions(1).max_iter(8).history_size(4).line_search_fn("strong_wolfe"));
  const double x[] = {-0.8738186979046676, -0.0009583032827902294, 0.4982220627255766,
                      0.9341552784010508};
  const int64_t evaluations[] = {10, 21, 31, 41}, iterations[] = {8, 16, 22, 29};
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    r.step();
    CHECK(r.at[0].item<double>() == doctest::Approx(x[i]).epsilon(1e-7));
    CHECK(state(r).func_evals() == evaluations[i]);
    CHECK(state(r).n_iter() == iterations[i]);
  }
  for (int i = 0; i < 8; ++i) r.step();
  CHECK(r.loss().item<double>() < 1e-10);
  const Tensor at = r.at.detach().clone();
  r.step();  // nothing left to gain
  CHECK(r.at.detach().allclose(at, 0, 1e-6));
}

TEST_CASE("LBFGS: a saved optimiser goes on as the one that was saved") {
  const LBFGSOptions options =
      LBFGSOptions(1).max_iter(3).max_eval(4).history_size(4).line_search_fn("strong_wolfe");
  Rosenbrock a(options), b(LBFGSOptions(0.5));
  a.step();
  a.step();
  {
    const NoGradGuard off;
    b.at.copy_(a.at);
  }
  b.optimizer.load_state_dict(a.optimizer.state_dict());
  for (int i = 0; i < 3; ++i) {
    CHECK(a.step() == b.step());
    CHECK(equal(a.at, b.at));
  }
  const auto& loaded = static_cast<LBFGSOptions&>(b.optimizer.param_groups()[0].options());
  CHECK(loaded.max_eval() == 4);
  CHECK(loaded.line_search_fn().value() == std::string("strong_wolfe"));
}

TEST_CASE("LBFGS: wrong use is refused") {
  Rosenbrock r(LBFGSOptions(1));
  CHECK_THROWS_WITH_AS(r.optimizer.step(nullptr), doctest::Contains("a closure is needed"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Rosenbrock(LBFGSOptions(1).line_search_fn("armijo")),
                       doctest::Contains("but is \"armijo\""), ValueError);
  CHECK_THROWS_AS(Rosenbrock(LBFGSOptions(1).history_size(0)), ValueError);
  const Tensor p = ones({2}).requires_grad_(), q = ones({2}).requires_grad_();
  const std::vector<optim::OptimizerParamGroup> two{{{p}}, {{q}}};
  CHECK_THROWS_WITH_AS(LBFGS(two, LBFGSOptions(1)), doctest::Contains("there are 2 groups"),
                       ValueError);
}
