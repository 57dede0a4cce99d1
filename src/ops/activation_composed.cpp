// Activations that are others in a line or two: gated halves, random slopes.
#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

Tensor compose_glu(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& x = c.in(0);
  PELLUCID_CHECK(x.dim() > 0, ShapeError, "glu: self must have dimensions, found a number.");
  const int64_t d = wrap_dim("glu", c.integer(0), x.dim()), size = x.size(d);
  PELLUCID_CHECK(size % 2 == 0, ShapeError,
                 "glu: dimension {} must be even to be halved, found {} (sizes {}).", d, size,
                 x.sizes());
  return x.narrow(d, 0, size / 2).mul(x.narrow(d, size / 2, size / 2).sigmoid());
}

Tensor compose_rrelu(const Call& c) {
  check_defined(c, 0, "self");
  const Tensor& x = c.in(0);
  check_floating(c, x, "self");
  const double lower = c.number(0), upper = c.number(1);
  PELLUCID_CHECK(lower <= upper, ValueError,
                 "rrelu: lower must not be above upper, found {} and {}.", lower, upper);
  if (!c.flag(2)) return leaky_relu(x, (lower + upper) / 2);
  Tensor slopes;
  {
    const NoGradGuard off;
    slopes = empty_like(x).uniform_(lower, upper);
  }
  return where(x.ge(0), x, x.mul(slopes));
}

}  // namespace

extern constinit const OpDef glu_op = {
    .schema = "glu(Tensor self, int dim=-1) -> Tensor",
    .doc = "The first half along dim times the sigmoid of the second.",
    .compose = [](const Call& c) -> Tensors { return {compose_glu(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4})});
          s.add({sample_randn({2, 4, 3}), 1});
          s.error({sample_randn({3})}, "must be even");
          s.error({sample_randn({})}, "must have dimensions");
          s.error({sample_randn({2, 4}), 2}, "out of range");
        },
};

extern constinit const OpDef rrelu_op = {
    .schema =
        "rrelu[_](Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool "
        "training=False) -> Tensor",
    .doc =
        "self above 0, a slope times self below: drawn from [lower, upper] for each element in "
        "training, else the middle.",
    .kind = OpKind::Random,
    .compose = [](const Call& c) -> Tensors { return {compose_rrelu(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}, 0.1)});
          s.add({sample_randn({3}, 0.1), 0.1, 0.5});
          s.add({sample_randn({3, 4}, 0.1), 0.25, 0.25, true});
          s.error({sample_randn({3}), 0.5, 0.1}, "lower must not be above upper");
          s.error({sample_ints({3}, 0, 3)}, "must be a floating tensor");
        },
};

}  // namespace pellucid
