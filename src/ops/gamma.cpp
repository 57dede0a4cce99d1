// The logarithm of the gamma function and its derivatives of every order.
#include "kernels/gamma.h"

#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

struct Lgamma {
  static constexpr double kFlops = 30;
  template <class V> V value(V x) const { return V(kernels::log_gamma(x.v)); }
};
struct Digamma {
  static constexpr double kFlops = 30;
  template <class V> V value(V x) const { return V(kernels::digamma(x.v)); }
};
struct Polygamma {
  static constexpr double kFlops = 60;
  int n;
  explicit Polygamma(const AttrReader& a) : n(static_cast<int>(a.integer(0))) {}
  template <class V> V value(V x) const {
    return V(n == 0 ? kernels::digamma(x.v) : kernels::polygamma(n, x.v));
  }
};

struct GammaSlope {
  static constexpr double kFlops = 200;
  template <class V> V value(V a, V x) const { return V(kernels::gamma_sample_slope(a.v, x.v)); }
};

void infer_polygamma(Call& c) {
  PELLUCID_CHECK(c.integer(0) >= 0 && c.integer(0) <= 100, ValueError,
                 "polygamma: n must be from 0 to 100, found {}.", c.integer(0));
  infer_pointwise<Result::Float>(c);
}

void positive_samples(Samples& s) { unary_samples_in<0.2, 5.0>(s); }

}  // namespace

extern constinit const OpDef lgamma_op = unary_float<Lgamma>(
    "lgamma|special_gammaln[_](Tensor self) -> Tensor", "log |gamma(self)|", Saved::Inputs,
    [](const Vjp& v) -> Tensors { return {mul(v.grad, digamma(v.in(0)))}; }, positive_samples);

extern constinit const OpDef digamma_op = unary_float<Digamma>(
    "digamma|special_digamma|special_psi[_](Tensor self) -> Tensor", "the derivative of lgamma",
    Saved::Inputs, [](const Vjp& v) -> Tensors { return {mul(v.grad, polygamma(1, v.in(0)))}; },
    positive_samples);

extern constinit const OpDef polygamma_op = {
    .schema = "polygamma|special_polygamma(int n, Tensor self) -> Tensor",
    .doc = "the n-th derivative of digamma",
    .kind = OpKind::Pointwise,
    .infer = infer_polygamma,
    .cost = formula_cost<Polygamma>,
    .kernel = run_formula<Polygamma, 1, kernels::FloatTypes, Result::Float>,
    .saved = Saved::Inputs,
    .vjp = [](const Vjp& v) -> Tensors {
      return {mul(v.grad, polygamma(v.integer(0) + 1, v.in(0)))};
    },
    .samples =
        [](Samples& s) {
          s.add({1, sample_uniform({3, 4}, 0.5, 5.0)});
          s.add({0, sample_uniform({2, 3}, 0.5, 5.0).t()});
          s.add({3, sample_uniform({4}, 1.0, 5.0)});
          s.error({-1, sample_uniform({2}, 0.5, 5.0)}, "n must be from 0 to 100, found -1");
        },
    .any_layout = true,
    .describes = true};

extern constinit const OpDef standard_gamma_grad_op =
    binary<GammaSlope, kernels::FloatTypes, Result::Float, Accept::Floating>(
        "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
        "How samples of the gamma distribution move with their concentrations `self`.", Saved::None,
        [](const Vjp&) -> Tensors {
          PELLUCID_CHECK(false, AutogradError,
                         "_standard_gamma_grad: samples of the gamma distribution have no second "
                         "derivative here.");
          return {};
        },
        [](Samples& s) {
          constexpr double kApproximate = 1e-3;  // PyTorch's own error
          s.add_no_grad({sample_uniform({3, 4}, 0.2, 5.0), sample_uniform({3, 4}, 0.1, 6.0)})
              .tolerance = kApproximate;
          s.add_no_grad({sample_uniform({3, 1}, 0.5, 8.0), sample_uniform({4}, 0.5, 8.0)})
              .tolerance = kApproximate;
          s.error({sample_ints({2}, 1, 3), sample_ints({2}, 1, 3)}, "takes floating tensors");
        });

}  // namespace pellucid
