// rotary: pairs of neighbouring values turned by angles that depend on the position.
#include "kernels/rotary.h"

#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

void infer_rotary(Call& c) {
  const Tensor& x = c.in(0);
  PELLUCID_CHECK(x.dim() == 3 || x.dim() == 4, ShapeError,
                 "rotary: self must be [B, L, D] or [B, L, H, D], but is {}.", x.sizes());
  PELLUCID_CHECK(x.size(-1) % 2 == 0, ShapeError,
                 "rotary: the last size must be even, because values are turned in pairs, but self "
                 "is {}.",
                 x.sizes());
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}}) {
    PELLUCID_CHECK(c.in(i).is_floating_point() && c.in(i).dtype() == x.dtype(), TypeError,
                   "rotary: self, cos and sin must have one floating dtype, but are {}, {} and {}.",
                   x.dtype(), c.in(1).dtype(), c.in(2).dtype());
    PELLUCID_CHECK(i == 0 || c.in(i).sizes() == IntArrayRef({x.size(1), x.size(-1) / 2}),
                   ShapeError,
                   "rotary: cos and sin must be [{}, {}] for self {}, but are {} and {}.",
                   x.size(1), x.size(-1) / 2, x.sizes(), c.in(1).sizes(), c.in(2).sizes());
  }
  c.make_output(x.sizes(), x.dtype());
}

template <class T> void run_typed(const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor y) {
  const bool heads = x.dim() == 4;
  const IntArrayRef strides = x.raw_strides();
  const kernels::RotaryShape shape{x.size(0),  x.size(1),  heads ? x.size(2) : 1, x.size(-1),
                                   strides[0], strides[1], heads ? strides[2] : 0};
  kernels::rotary<T>(shape, x.raw<T>(), cos.raw<T>(), sin.raw<T>(), y.raw<T>());
}

void run_rotary(Call& c) {
  const NoGradGuard off;
  const bool narrow = c.out().dtype() != kFloat32 && c.out().dtype() != kFloat64;
  const auto read = [&](size_t i) { return narrow ? c.in(i).to(kFloat32) : c.in(i); };
  Tensor x = read(0);
  if (x.raw_strides()[static_cast<size_t>(x.dim() - 1)] != 1) x = contiguous_values(x);
  const Tensor cos = contiguous_values(read(1)), sin = contiguous_values(read(2));
  const Tensor y = narrow ? empty(x.sizes(), kFloat32) : c.out();
  if (x.dtype() == kFloat64)
    run_typed<double>(x, cos, sin, y);
  else
    run_typed<float>(x, cos, sin, y);
  if (narrow) c.out().copy_(y);
}

/// The rotation back by the same angles; and, should anyone ask, the tables' gradients.
Tensors rotary_vjp(const Vjp& v) {
  Tensors out(3);
  if (v.needs(0)) out[0] = rotary(v.grad, v.in(1), -v.in(2));
  if (!v.needs(1) && !v.needs(2)) return out;
  const Tensor x = v.in(0).unflatten(-1, {-1, 2}), g = v.grad.unflatten(-1, {-1, 2});
  const Tensor x0 = x.select(-1, 0), x1 = x.select(-1, 1), g0 = g.select(-1, 0),
               g1 = g.select(-1, 1);
  const auto summed = [&](const Tensor& t) { return t.dim() == 4 ? t.sum({0, 2}) : t.sum(0); };
  if (v.needs(1)) out[1] = summed(g0 * x0 + g1 * x1);
  if (v.needs(2)) out[2] = summed(g1 * x0 - g0 * x1);
  return out;
}

}  // namespace

extern constinit const OpDef rotary_op = {
    .schema = "rotary(Tensor self, Tensor cos, Tensor sin) -> Tensor",
    .doc =
        "(x0 cos - x1 sin, x0 sin + x1 cos) for neighbouring values x0, x1 of the last dim; cos "
        "and sin are [positions, pairs].",
    .kind = OpKind::Opaque,
    .infer = infer_rotary,
    .cost =
        [](const Call& c) {
          const auto n = static_cast<double>(c.out().numel());
          const auto tables = static_cast<double>(c.in(1).nbytes() + c.in(2).nbytes());
          return Cost{3 * n, 2 * static_cast<double>(c.out().nbytes()) + tables};
        },
    .kernel = run_rotary,
    .saved = Saved::Inputs,
    .vjp = rotary_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4}), sample_randn({3, 2}), sample_randn({3, 2})});
          s.add({sample_randn({2, 3, 2, 6}), sample_randn({3, 3}), sample_randn({3, 3})});
          s.error({sample_randn({2, 4}), sample_randn({2, 2}), sample_randn({2, 2})},
                  "must be [B, L, D] or [B, L, H, D]");
          s.error({sample_randn({1, 2, 3}), sample_randn({2, 1}), sample_randn({2, 1})},
                  "must be even");
          s.error({sample_randn({1, 2, 4}), sample_randn({3, 2}), sample_randn({3, 2})},
                  "cos and sin must be [2, 2]");
          s.large([] {
            return Values{randn({4, 512, 12, 64}), randn({512, 32}), randn({512, 32})};
          });
        },
};

}  // namespace pellucid
