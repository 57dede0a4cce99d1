// Functions of torch.special that no other file has: the normal distribution's share below a
// number, its logarithm and its inverse; Bessel functions; entropy and the like.
#include "kernels/special.h"

#include <cmath>
#include <numbers>

#include "ops/formula.h"
#include "ops/formulas_samples.h"

namespace pellucid {
namespace {

constexpr double kRootHalf = 0.70710678118654752440, kRoot2Pi = 2.50662827463100050242;

struct Ndtr {
  static constexpr double kFlops = 14;
  template <class V> V value(V x) const { return V(0.5) * erfc(V(-kRootHalf) * x); }
  template <class V> V grad(V g, V x) const { return g * exp(V(-0.5) * x * x) * V(1 / kRoot2Pi); }
};
struct Entr {
  static constexpr double kFlops = 12;
  template <class V> V value(V x) const {
    const V other =
        select(x < V(0), -kernels::detail::infinity<V>(), x);  // 0 and NaN are themselves
    return select(x > V(0), -x * log(x), other);
  }
  template <class V> V grad(V g, V x) const { return -g * (V(1) + log(x)); }
};
struct LogNdtr {
  static constexpr double kFlops = 40;
  template <class V> V value(V x) const { return V(kernels::log_normal_share(x.v)); }
};
struct Ndtri {
  static constexpr double kFlops = 200;
  template <class V> V value(V x) const { return V(kernels::normal_quantile(x.v)); }
};
struct BesselI0 {
  static constexpr double kFlops = 60;
  template <class V> V value(V x) const { return V(kernels::bessel_i0(x.v)); }
};
struct BesselI1 {
  static constexpr double kFlops = 60;
  template <class V> V value(V x) const { return V(kernels::bessel_i1(x.v)); }
};

// Compositions compute in floating numbers.
Tensor floating(const Tensor& t) { return t.is_floating_point() ? t : t.to(get_default_dtype()); }

Tensor compose_xlog1py(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "other");
  const Tensor y = c.in(1).log1p();
  // A NaN of y stays where self is 0.
  return where(c.in(0).eq(0), where(y.isnan(), y, 0.0), c.in(0).mul(where(c.in(0).eq(0), 1.0, y)));
}

Tensor compose_mvlgamma(const Call& c) {
  check_defined(c, 0, "self");
  const int64_t p = c.integer(0);
  PELLUCID_CHECK(p >= 1, ValueError,
                 "mvlgamma: p has to be greater than or equal to 1, but got {}.", p);
  PELLUCID_CHECK(c.in(0).dtype() != kBool, TypeError,
                 "mvlgamma: takes numbers, found a bool tensor. Convert it first.");
  const Tensor x = floating(c.in(0));
  const Tensor halves = arange(p, x.dtype()).div(2);
  const auto n = static_cast<double>(p);
  return x.unsqueeze(-1).sub(halves).lgamma().sum({-1}).add(n * (n - 1) / 4 *
                                                            std::log(std::numbers::pi));
}

Tensor compose_sinc(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor x = floating(c.in(0)).mul(std::numbers::pi), zero = x.eq(0);
  // At 0 the series 1 - x^2 / 6, so that the derivatives there are right.
  return where(zero, x.square().div(-6).add(1), x.sin().div(x.masked_fill(zero, 1)));
}

}  // namespace

extern constinit const OpDef special_ndtr_op =
    unary<Ndtr>("special_ndtr(Tensor self) -> Tensor", "the share of normal variables below self",
                unary_samples);

extern constinit const OpDef special_log_ndtr_op = unary_float<LogNdtr>(
    "special_log_ndtr(Tensor self) -> Tensor",
    "the logarithm of special_ndtr, exact where that is near 0 or 1", Saved::InputsAndOutputs,
    [](const Vjp& v) -> Tensors {
      // density / share, as one power so that neither underflows
      const Tensor slope = v.in(0).square().mul(-0.5).sub(v.out()).exp().div(kRoot2Pi);
      return {mul(v.grad, slope)};
    },
    unary_samples);

extern constinit const OpDef special_ndtri_op = unary_float<Ndtri>(
    "special_ndtri(Tensor self) -> Tensor", "the inverse of special_ndtr", Saved::Output,
    [](const Vjp& v) -> Tensors {
      return {mul(v.grad, v.out().square().mul(0.5).exp().mul(kRoot2Pi))};
    },
    unary_samples_in<0.05, 0.95>);

extern constinit const OpDef i0_op = unary_float<BesselI0>(
    "i0|special_i0[_](Tensor self) -> Tensor", "the modified Bessel function of order 0",
    Saved::Inputs, [](const Vjp& v) -> Tensors { return {mul(v.grad, special_i1(v.in(0)))}; },
    unary_samples);

extern constinit const OpDef special_i1_op = unary_float<BesselI1>(
    "special_i1(Tensor self) -> Tensor", "the modified Bessel function of order 1",
    Saved::InputsAndOutputs,
    [](const Vjp& v) -> Tensors {
      const Tensor &x = v.in(0), zero = x.eq(0);
      const Tensor ratio = where(zero, 0.5, v.out().div(x.masked_fill(zero, 1)));
      return {mul(v.grad, i0(x).sub(ratio))};
    },
    unary_samples);

extern constinit const OpDef sinc_op = {
    .schema = "sinc|special_sinc[_](Tensor self) -> Tensor",
    .doc = "sin(pi x) / (pi x), 1 at 0",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {compose_sinc(c)}; },
    .samples =
        [](Samples& s) {
          unary_samples(s);
          s.add({zeros({2}, kFloat64)});
          s.error({"text"}, "must be a Tensor");
        },
};

extern constinit const OpDef special_entr_op = unary<Entr>(
    "special_entr(Tensor self) -> Tensor", "-x log x; 0 at 0 and -inf below", [](Samples& s) {
      unary_samples_in<0.2, 3.0>(s);
      s.add_no_grad({sample_randn({5})});
      s.add_no_grad({zeros({2}, kFloat64)});
      s.error({1.5}, "must be a Tensor");
    });

extern constinit const OpDef special_xlog1py_op = {
    .schema = "special_xlog1py(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    .doc = "self * log(1 + other); 0 where self is 0, unless other is NaN",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {compose_xlog1py(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}, 0.1), sample_uniform({3}, 0.1, 2.0)});
          s.add({sample_randn({2, 3}, 0.1), 0.5});
          s.add({2.5, sample_uniform({3}, -0.5, 2.0)});
          s.add_no_grad({zeros({2}, kFloat64), full({2}, -1.0, kFloat64)});
          s.error({sample_randn({2}), sample_randn({3})}, "do not broadcast");
        },
};

extern constinit const OpDef mvlgamma_op = {
    .schema = "mvlgamma|special_multigammaln[_](Tensor self, int p) -> Tensor",
    .doc = "The logarithm of the multivariate gamma function with p dimensions.",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {compose_mvlgamma(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_uniform({3, 4}, 1.5, 4.0), 3});
          s.add({sample_uniform({}, 1.5, 4.0), 1});
          s.error({sample_uniform({2}, 3.0, 4.0), 0}, "p has to be greater than or equal to 1");
          s.error({ones({2}, kBool), 2}, "takes numbers, found a bool");
        },
};

}  // namespace pellucid
