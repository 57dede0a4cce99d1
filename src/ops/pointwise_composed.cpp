// Pointwise ops that are others in a line or two: steps, signs, powers of two, membership.
#include <cmath>
#include <numbers>

#include "ops/common.h"
#include "ops/formulas_samples.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

Tensor compose_heaviside(const Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "values");
  const Tensor &x = c.in(0), &values = c.in(1);
  PELLUCID_CHECK(x.dtype() == values.dtype(), TypeError,
                 "heaviside: self and values must have one dtype, found {} and {}.", x.dtype(),
                 values.dtype());
  const NoGradGuard off;  // a step: no gradient, as in PyTorch
  return where(x.eq(0), values, x.gt(0).to(x.dtype()));
}

Tensor compose_isin(const Call& c) {
  check_defined(c, 0, "elements");
  check_defined(c, 1, "test_elements");
  PELLUCID_CHECK(c.in(0).dtype() != kBool && c.in(1).dtype() != kBool, TypeError,
                 "isin: takes numbers, found {} and {}.", c.in(0).dtype(), c.in(1).dtype());
  const NoGradGuard off;
  const DType type = result_type(c);
  const Tensor elements = c.in(0).to(type), tests = c.in(1).reshape({-1}).to(type);
  const bool invert = c.flag(1);
  if (tests.numel() == 0) return full(elements.sizes(), invert, kBool);
  const Tensor order = std::get<0>(tests.sort());
  const Tensor flat = elements.reshape({-1}).contiguous();
  const Tensor place = searchsorted(order, flat).clamp_max(order.numel() - 1);
  const Tensor found = order.index_select(0, place).eq(flat).reshape(elements.sizes());
  return invert ? found.logical_not() : found;
}

}  // namespace

extern constinit const OpDef heaviside_op = {
    .schema = "heaviside[_](Tensor self, Tensor values) -> Tensor",
    .doc = "0 below 0, 1 above, values at 0",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors { return {compose_heaviside(c)}; },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, -1, 2).to(kFloat64), sample_randn({4})});
          s.add_no_grad({sample_ints({5}, -1, 2), sample_ints({}, 3, 4)});
          s.error({sample_randn({2}), sample_ints({2}, 0, 2)}, "must have one dtype");
          s.error({sample_randn({2}), sample_randn({3})}, "do not broadcast");
        },
};

extern constinit const OpDef logaddexp2_op = {
    .schema = "logaddexp2(Tensor self, Tensor other) -> Tensor",
    .doc = "log2(2^self + 2^other), without overflow",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 1, "other");
      PELLUCID_CHECK(is_floating(result_type(c)), TypeError,
                     "logaddexp2: takes floating tensors, found {} and {}.", c.in(0).dtype(),
                     c.in(1).dtype());
      return {logaddexp(c.in(0).mul(std::numbers::ln2), c.in(1).mul(std::numbers::ln2))
                  .div(std::numbers::ln2)};
    },
    .samples = binary_samples,
};

extern constinit const OpDef ldexp_op = {
    .schema = "ldexp[_].Tensor(Tensor self, Tensor other) -> Tensor",
    .doc = "self * 2^other",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      check_defined(c, 1, "other");
      return {c.in(0).mul(pow(2.0, c.in(1)))};
    },
    .samples =
        [](Samples& s) {
          binary_samples(s);
          s.add({sample_randn({2, 3}), sample_ints({3}, -3, 4)});
        },
};

extern constinit const OpDef angle_op = {
    .schema = "angle(Tensor self) -> Tensor",
    .doc = "0 for numbers from 0 up, pi below, NaN for NaN",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& given = c.in(0);
      const Tensor x = given.is_floating_point() ? given : given.to(get_default_dtype());
      const Tensor zero = x.mul(0).masked_fill(x.isinf(), 0);  // NaN stays
      return {zero.masked_fill(x.lt(0), std::numbers::pi)};
    },
    .samples =
        [](Samples& s) {
          unary_samples(s);
          s.add_no_grad({sample_ints({4}, -2, 3)});
          s.error({"text"}, "must be a Tensor");
        },
};

extern constinit const OpDef real_op = {
    .schema = "real|conj|resolve_conj|resolve_neg(Tensor(a) self) -> Tensor(a)",
    .doc = "self: there are no complex types",
    .kind = OpKind::View,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {c.in(0)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
        },
};

extern constinit const OpDef conj_physical_op = {
    .schema = "conj_physical[_](Tensor self) -> Tensor",
    .doc = "self: there are no complex types",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {c.in(0)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
        },
};

extern constinit const OpDef isreal_op = {
    .schema = "isreal(Tensor self) -> Tensor",
    .doc = "True everywhere: there are no complex types",
    .kind = OpKind::Pointwise,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      return {ones(c.in(0).sizes(), kBool)};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3})});
          s.add_no_grad({sample_ints({}, 0, 3)});
        },
};

extern constinit const OpDef isin_op = {
    .schema =
        "isin(Tensor|Scalar elements, Tensor|Scalar test_elements, *, bool assume_unique=False, "
        "bool invert=False) -> Tensor",
    .doc = "Whether each element is one of the test elements.",
    .kind = OpKind::Index,
    .compose = [](const Call& c) -> Tensors { return {compose_isin(c)}; },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 9), sample_ints({2, 2}, 0, 9)});
          s.add_no_grad({sample_ints({5}, 0, 4), 3}, {{"invert", true}});
          s.add_no_grad({3, sample_ints({5}, 0, 4)});
          s.add_no_grad({sample_ints({3}, 0, 4), sample_ints({0}, 0, 4)});
          s.error({ones({2}, kBool), sample_ints({2}, 0, 2)}, "takes numbers");
        },
};

}  // namespace pellucid
